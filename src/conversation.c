/* conversation.c - turns of a conversation: what of it fits, and one turn from messages to
 * messages.
 *
 * An answer is kept as its text and the tokens in which it was written. Given back, they stand in
 * the next prompt as they are, so that it begins with the very sequence that the model holds. A
 * conversation that has grown too long loses its oldest turns; where the cut lies is searched for,
 * because only the prompt itself tells how long it is. */
#include "model.h"
#include "run.h"

#include <string.h>

/* ==== What fits ==== */

typedef struct prompt {
    retrace_token *v;
    int n;
} prompt;

typedef struct fit {
    const retrace_model *m;
    const retrace_message *messages;
    int n;
    retrace_message *some; /* the system messages, and those from a turn on */
    int n_system;
    int *turns; /* where each turn begins */
    int n_turns;
    int room;
    int in_steps; /* turns go in steps that depend on nothing behind them */
    int *at;      /* of each of `some` with tokens: where they begin in the prompt */
    prompt last;  /* of the probe before, and the turn that it began with */
    int last_turn;
} fit;

static int is_role(const retrace_message *message, const char *role) {
    return message->role && strcmp(message->role, role) == 0;
}

/* What is not the user's and follows nothing of the user's belongs to the first turn. */
static int find_turns(fit *f, retrace_error *err) {
    while (f->n_system < f->n && is_role(&f->messages[f->n_system], "system")) f->n_system++;
    f->some = retrace_calloc((size_t)f->n, sizeof *f->some);
    f->turns = retrace_calloc((size_t)f->n, sizeof *f->turns);
    f->at = retrace_calloc((size_t)f->n, sizeof *f->at);
    if (!f->some || !f->turns || !f->at) return rt_nomem(err);
    if (f->n_system) memcpy(f->some, f->messages, (size_t)f->n_system * sizeof *f->some);
    for (int i = f->n_system; i < f->n; i++) {
        if (i == f->n_system || is_role(&f->messages[i], "user")) f->turns[f->n_turns++] = i;
    }
    return RETRACE_OK;
}

static int first_of(const fit *f, int turn) {
    return turn < f->n_turns ? f->turns[turn] : f->n_system;
}

/* The prompt that begins with that turn. */
static int probe(fit *f, int turn, retrace_error *err) {
    int from = first_of(f, turn), rest = f->n - from;
    retrace_free(f->last.v);
    f->last = (prompt){0};
    memcpy(f->some + f->n_system, f->messages + from, (size_t)rest * sizeof *f->some);
    f->last_turn = turn;
    return rt_chat(f->m, f->some, f->n_system + rest, f->at, &f->last.v, &f->last.n, err);
}

static int fits(const fit *f, int n_ctx) {
    return f->last.n <= n_ctx - f->room;
}

/* About how much the messages from i on weigh, in bytes. */
static double weight(const fit *f, int i) {
    double bytes = 0;
    for (; i < f->n; i++) bytes += (double)f->messages[i].content.n + 16;
    return bytes;
}

/* The turn from which on about `n_tokens` are left of what the last probe has. */
static int guess(const fit *f, int n_tokens) {
    double aim = weight(f, f->turns[f->last_turn]) * n_tokens / (f->last.n ? f->last.n : 1);
    double bytes = 0;
    int turn = f->n_turns;
    for (int i = f->n; turn > 0 && bytes <= aim; turn--) {
        while (i > f->turns[turn - 1]) bytes += (double)f->messages[--i].content.n + 16;
    }
    return turn + (bytes > aim);
}

/* Leaves out as few turns as bring the prompt below `aim`, or all but the last one. It is known
 * that with all of them it is too long. Guesses come first, halving after that. */
static int leave_out(fit *f, int aim, retrace_error *err) {
    int low = 0, high = f->n_turns - 1, tries = 0, rc = RETRACE_OK; /* low: too long */
    int turn = guess(f, aim - f->room);
    while (high - low > 1 && rc == RETRACE_OK) {
        if (tries >= 4 || turn <= low || turn >= high) turn = low + (high - low) / 2;
        rc = probe(f, turn, err);
        if (fits(f, aim))
            high = turn--;
        else
            low = turn++;
        tries++;
    }
    if (rc == RETRACE_OK && f->last_turn != high) rc = probe(f, high, err);
    return rc;
}

/* How many tokens a message is, about: of itself alone, so that it is the same in every call. */
static int tokens_of(const retrace_model *m, const retrace_message *message) {
    enum { AROUND = 4 };
    retrace_token *v = NULL;
    int n = message->n_tokens;
    if (message->tokens) return n + AROUND;
    if (retrace_tokenize(m, message->content, 0, &v, &n, NULL) < 0) n = (int)message->content.n;
    retrace_free(v);
    return n + AROUND;
}

/* Joins turns to groups of about a quarter of what the system messages leave, counted from the
 * first turn: where a group begins depends on nothing behind it. So a conversation that grows is
 * cut at the same place until the next group must go. The last turn stays one by itself. */
static void group_turns(fit *f) {
    int64_t step = (int64_t)f->m->facts.n_ctx * 3 / 4, in = 0;
    int kept = 0;
    for (int i = 0; i < f->n_system; i++) step -= tokens_of(f->m, &f->messages[i]);
    step /= 3;
    for (int i = 0; i < f->n_turns; i++) {
        int begin = f->turns[i], end = i + 1 < f->n_turns ? f->turns[i + 1] : begin;
        if (i == 0 || in >= step || i == f->n_turns - 1) {
            f->turns[kept++] = begin;
            in = in >= step ? 0 : in;
        }
        for (int k = begin; k < end; k++) in += tokens_of(f->m, &f->messages[k]);
    }
    f->n_turns = kept;
}

static int make_fit(fit *f, retrace_error *err) {
    int n_ctx = f->m->facts.n_ctx;
    int rc = find_turns(f, err);
    if (rc == RETRACE_OK) rc = probe(f, 0, err);
    if (rc < 0 || fits(f, n_ctx)) return rc;
    if (f->in_steps) group_turns(f);
    if (f->n_turns > 1) rc = leave_out(f, f->in_steps ? n_ctx : n_ctx - n_ctx / 4, err);
    if (rc < 0 || fits(f, n_ctx)) return rc;
    return retrace_fail(err, RETRACE_EUSAGE,
                        "the last message makes a prompt of %d tokens: with room for %d it does "
                        "not fit a context of %d",
                        f->last.n, f->room, n_ctx);
}

static void free_fit(fit *f) {
    retrace_free(f->last.v);
    retrace_free(f->some);
    retrace_free(f->turns);
    retrace_free(f->at);
}

/* Pairs of places of the answers in the last prompt. */
static int find_singles(const fit *f, int **out, int *n_pairs, retrace_error *err) {
    int n_some = f->n - first_of(f, f->last_turn) + f->n_system;
    int *pairs = retrace_alloc(((size_t)n_some * 2 + 1) * sizeof *pairs), n = 0;
    if (!pairs) return rt_nomem(err);
    for (int i = 0; i < n_some; i++) {
        if (!f->some[i].tokens) continue; /* an empty answer ended a batch, too */
        pairs[2 * n] = f->at[i];
        pairs[2 * n++ + 1] = f->at[i] + f->some[i].n_tokens;
    }
    *out = pairs;
    *n_pairs = n;
    return RETRACE_OK;
}

/* singles may be NULL. */
static int fit_all(fit *f, prompt *out, int *dropped, int **singles, int *n_singles,
                   retrace_error *err) {
    if (f->n < 1) return retrace_fail(err, RETRACE_EUSAGE, "there are no messages");
    if (f->room < 0)
        return retrace_fail(err, RETRACE_EUSAGE, "room for %d tokens is none", f->room);
    int rc = make_fit(f, err);
    if (rc == RETRACE_OK && singles) rc = find_singles(f, singles, n_singles, err);
    if (rc < 0) return rc;
    *out = f->last;
    f->last.v = NULL;
    if (dropped) *dropped = first_of(f, f->last_turn) - f->n_system;
    return RETRACE_OK;
}

int retrace_chat_fit(const retrace_model *m, const retrace_message *messages, int n_messages,
                     int room, retrace_token **out, int *n, int *dropped, retrace_error *err) {
    rt_clear(err);
    fit f = {.m = m, .messages = messages, .n = n_messages, .room = room};
    prompt made = {0};
    int rc = fit_all(&f, &made, dropped, NULL, NULL, err);
    free_fit(&f);
    if (rc < 0) return rc;
    *out = made.v;
    *n = made.n;
    return RETRACE_OK;
}

int retrace_chat_singles(const retrace_model *m, const retrace_message *messages, int n_messages,
                         int dropped, int **out, int *n_pairs, retrace_error *err) {
    rt_clear(err);
    fit f = {.m = m, .messages = messages, .n = n_messages};
    if (n_messages < 1) return retrace_fail(err, RETRACE_EUSAGE, "there are no messages");
    int rc = find_turns(&f, err), turn = 0;
    while (turn < f.n_turns && f.turns[turn] < f.n_system + dropped) turn++;
    if (rc == RETRACE_OK && dropped != first_of(&f, turn) - f.n_system)
        rc = retrace_fail(err, RETRACE_EUSAGE, "no turn begins behind %d messages", dropped);
    if (rc == RETRACE_OK) rc = probe(&f, turn, err);
    if (rc == RETRACE_OK) rc = find_singles(&f, out, n_pairs, err);
    free_fit(&f);
    return rc;
}

/* ==== An answer as a message ==== */

/* The answer's tokens that stand in its text, and in *at how much they spell: control tokens have
 * no text, and a stop text may have cut the last one. */
static int keep_tokens(const retrace_run *run, retrace_token *to, size_t *at) {
    int n, kept = 0;
    const retrace_token *tokens = retrace_run_tokens(run, &n);
    retrace_text text = retrace_run_text(run);
    *at = 0;
    for (int i = 0; i < n; i++) {
        retrace_text piece = retrace_piece(run->model, tokens[i]);
        if (piece.n == 0) continue;
        if (piece.n > text.n - *at || memcmp(text.s + *at, piece.s, piece.n) != 0) break;
        *at += piece.n;
        to[kept++] = tokens[i];
    }
    return kept;
}

/* The tokens of the answer's text; *out is the caller's. RETRACE_DONE: none spell all of it. */
static int said(const retrace_run *run, retrace_token **out, int *n, retrace_error *err) {
    retrace_text text = retrace_run_text(run);
    retrace_token *rest = NULL;
    int n_all, n_rest = 0, cap = 0;
    size_t at = 0;
    retrace_run_tokens(run, &n_all);
    *out = NULL;
    int rc = rt_grow(out, &cap, n_all + 1, sizeof **out) ? rt_nomem(err) : RETRACE_OK;
    if (rc == RETRACE_OK) {
        *n = keep_tokens(run, *out, &at);
        rc = rt_spell(run->model, (retrace_text){text.s + at, text.n - at}, &rest, &n_rest, err);
    }
    if (rc == RETRACE_OK && rt_grow(out, &cap, *n + n_rest, sizeof **out)) rc = rt_nomem(err);
    if (rc == RETRACE_OK && n_rest) memcpy(*out + *n, rest, (size_t)n_rest * sizeof **out);
    if (rc == RETRACE_OK) *n += n_rest;
    retrace_free(rest);
    if (rc) retrace_free(*out);
    return rc;
}

/* ==== Messages in one block ==== */

static size_t size_of(const retrace_message *m) {
    return (m->tokens ? (size_t)m->n_tokens * sizeof *m->tokens : 0) + strlen(m->role) +
           m->content.n + 2;
}

/* Where the next tokens and bytes of the block go. */
typedef struct places {
    retrace_token *tokens;
    char *bytes;
} places;

static char *put_bytes(places *at, const char *s, size_t n) {
    char *to = at->bytes;
    if (n) memcpy(to, s, n);
    to[n] = '\0';
    at->bytes += n + 1;
    return to;
}

static retrace_message copy_message(const retrace_message *from, places *at) {
    retrace_message to = *from;
    if (from->tokens) {
        to.tokens = at->tokens;
        if (from->n_tokens)
            memcpy(at->tokens, from->tokens, (size_t)from->n_tokens * sizeof *at->tokens);
        at->tokens += from->n_tokens;
    }
    to.role = put_bytes(at, from->role, strlen(from->role));
    to.content.s = put_bytes(at, from->content.s, from->content.n);
    return to;
}

/* A block that begins with `head` zeroed bytes, and behind them copies of n messages and of one
 * more, unless it is NULL. */
static void *copy_messages(size_t head, const retrace_message *messages, int n,
                           const retrace_message *more, retrace_message **copies) {
    size_t total = head + ((size_t)n + 1) * sizeof *messages, n_tokens = 0;
    for (int i = 0; i < n + (more != NULL); i++) {
        const retrace_message *from = i < n ? &messages[i] : more;
        total += size_of(from);
        if (from->tokens) n_tokens += (size_t)from->n_tokens;
    }
    char *block = retrace_calloc(1, total);
    if (!block) return NULL;
    *copies = (retrace_message *)(void *)(block + head);
    places at = {.tokens = (retrace_token *)(void *)(*copies + n + 1)};
    at.bytes = (char *)(at.tokens + n_tokens);
    for (int i = 0; i < n + (more != NULL); i++)
        (*copies)[i] = copy_message(i < n ? &messages[i] : more, &at);
    return block;
}

/* Makes the answer a message, and a block as above. */
static int close_turn(const retrace_run *run, size_t head, const retrace_message *messages, int n,
                      void **block, retrace_message **copies, retrace_error *err) {
    retrace_message answer = {.role = "assistant", .content = retrace_run_text(run)};
    retrace_token *tokens = NULL;
    int rc = said(run, &tokens, &answer.n_tokens, err);
    if (rc < 0) return rc;
    if (rc == RETRACE_OK) answer.tokens = tokens;
    if (rc == RETRACE_DONE) answer.n_tokens = 0;
    *block = copy_messages(head, messages, n, &answer, copies);
    if (answer.tokens) retrace_free(tokens);
    return *block ? RETRACE_OK : rt_nomem(err);
}

int retrace_run_message(const retrace_run *run, retrace_message **out, retrace_error *err) {
    void *block = NULL;
    rt_clear(err);
    return close_turn(run, 0, NULL, 0, &block, out, err);
}

/* ==== A turn ==== */

static int room_for(const retrace_model *m, const retrace_options *o) {
    int most = m->facts.n_ctx / 4;
    return o->max_tokens >= 0 && o->max_tokens < most ? (int)o->max_tokens : most;
}

static int close_reply(retrace_reply **out, const retrace_run *run, const retrace_message *messages,
                       int n, int dropped, retrace_error *err) {
    void *block = NULL;
    retrace_message *copies = NULL;
    int rc = close_turn(run, sizeof **out, messages, n, &block, &copies, err);
    if (rc < 0) return rc;
    retrace_reply *reply = block;
    *reply = (retrace_reply){.messages = copies,
                             .n_messages = n + 1,
                             .dropped = dropped,
                             .finish = retrace_run_finished(run)};
    retrace_run_stats(run, &reply->stats);
    *out = reply;
    return RETRACE_OK;
}

/* Writes the answer and closes the turn. */
static int write_answer(retrace_reply **out, retrace_model *m, const retrace_options *o,
                        const fit *f, const prompt *made, int dropped, retrace_event_fn *each,
                        void *ud, retrace_error *err) {
    retrace_run *run = NULL;
    int rc = retrace_run_new(&run, m, o, made->v, made->n, err);
    if (rc == RETRACE_OK) rc = retrace_run_finish(run, each, ud, err);
    if (rc == RETRACE_OK) rc = close_reply(out, run, f->messages, f->n, dropped, err);
    retrace_run_free(run);
    return rc;
}

int retrace_answer(retrace_reply **out, retrace_model *m, const retrace_options *o,
                   const retrace_message *messages, int n_messages, retrace_event_fn *each,
                   void *ud, retrace_error *err) {
    fit f = {.m = m, .messages = messages, .n = n_messages, .in_steps = 1};
    retrace_options with = *o;
    prompt made = {0};
    int *singles = NULL, dropped = 0;
    rt_clear(err);
    f.room = room_for(m, o);
    int rc = fit_all(&f, &made, &dropped, &singles, &with.n_singles, err);
    with.singles = singles;
    if (rc == RETRACE_OK) rc = write_answer(out, m, &with, &f, &made, dropped, each, ud, err);
    retrace_free(made.v);
    retrace_free(singles);
    free_fit(&f);
    return rc;
}
