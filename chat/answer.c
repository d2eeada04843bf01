/* answer.c - from the messages to a prompt, from the prompt to an answer that stands among them.
 *
 * A long prompt is read in pieces, so that Ctrl-C works meanwhile and the screen can say how far it
 * is. Pieces end where the model's own batches end: so what was read is taken over whole, and the
 * answer is the same as without. Try k of turn n draws by its own number (options.head): the same
 * seed and the same conversation give the same answers, another turn or try gives others. */
#define _POSIX_C_SOURCE 200809L
#include "chat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct prompt {
    retrace_token *v;
    int n;
    int *singles;
    int n_singles;
    int64_t evaluated; /* rows that reading it in pieces cost */
} prompt;

typedef struct writing {
    chat_talk *t;
    chat_view *view;
    cli_buf notes; /* lines to be told below the answer */
} writing;

/* ==== The prompt ==== */

static retrace_message *messages_of(const chat_talk *t, int n, int *first, int *count) {
    int system = chat_turns_system(t), from = system, skip = t->left_out;
    retrace_message *m = cli_alloc((size_t)(n + 1) * sizeof *m);
    *count = 0;
    if (skip > 0)
        for (from = system; from < n; from++) {
            if (strcmp(t->v[from].role, "user") != 0) continue;
            if (skip-- == 0) break;
        }
    *first = from;
    for (int i = 0; i < n; i++) {
        const chat_turn *u = &t->v[i];
        if (i >= system && i < from) continue;
        m[(*count)++] = (retrace_message){.role = u->role,
                                          .content = cli_buf_text(&u->content),
                                          .tokens = u->ids,
                                          .n_tokens = u->ids ? u->n_ids : 0};
    }
    return m;
}

static int room_of(const chat_talk *t) {
    retrace_model_info info;
    retrace_model_facts(t->model, &info);
    int most = info.n_ctx / 4;
    int64_t asked = t->plan->options.max_tokens;
    return asked >= 0 && asked < most ? (int)asked : most;
}

static void tell_left_out(chat_talk *t, int first, int dropped, int used) {
    char a[32], b[32];
    retrace_model_info info;
    int turns = 0;
    for (int i = first; i < first + dropped; i++) turns += strcmp(t->v[i].role, "user") == 0;
    if (turns == 0) return;
    t->left_out += turns;
    retrace_model_facts(t->model, &info);
    cli_say("context: %d turn%s left out, %s of %s tokens used", t->left_out,
            t->left_out == 1 ? "" : "s", chat_number(a, used), chat_number(b, info.n_ctx));
}

/* Of the first n messages. */
static int make_prompt(chat_talk *t, int n, prompt *p) {
    retrace_error err;
    int first, count, dropped = 0;
    retrace_message *m = messages_of(t, n, &first, &count);
    int rc = retrace_chat_fit(t->model, m, count, room_of(t), &p->v, &p->n, &dropped, &err);
    if (rc == RETRACE_OK)
        rc = retrace_chat_singles(t->model, m, count, dropped, &p->singles, &p->n_singles, &err);
    free(m);
    if (rc) return cli_report_chat(t->model, &err, NULL);
    if (dropped) tell_left_out(t, first, dropped, p->n);
    return CLI_OK;
}

static void free_prompt(prompt *p) {
    retrace_free(p->v);
    retrace_free(p->singles);
}

static int held_of(const chat_talk *t, const prompt *p) {
    int n = t->n_held < p->n ? t->n_held : p->n, i = 0;
    while (i < n && t->held[i] == p->v[i]) i++;
    return i;
}

/* CLI_OK when it was read, or Ctrl-C came: see cli_interrupted. */
static int read_prompt(chat_talk *t, chat_view *v, prompt *p) {
    char a[32], b[32];
    retrace_error err;
    int held = held_of(t, p), to = (held / t->batch + 1) * t->batch;
    for (; to < p->n && !cli_interrupted(); to += t->batch) {
        chat_view_status(v, "reading %s of %s tokens", chat_number(a, to), chat_number(b, p->n));
        retrace_query q = {.tokens = p->v,
                           .n = to,
                           .n_prompt = p->n,
                           .singles = p->singles,
                           .n_singles = p->n_singles,
                           .slot = t->plan->options.slot,
                           .alone = t->plan->options.alone};
        t->n_held = 0;
        if (retrace_model_eval(t->model, &q, 1, &err)) return cli_report(&err, NULL);
        p->evaluated += q.evaluated;
    }
    return CLI_OK;
}

/* ==== While it is written ==== */

static void take_rewind(writing *w, const retrace_event *e) {
    chat_talk *t = w->t;
    if (!chat_is_rewind(e) || e->to >= t->head.n) return;
    cli_buf text = {0};
    cli_taken_text(&t->head, e->to, &text);
    t->taken = cli_realloc(t->taken, (size_t)(t->n_taken + 1) * sizeof *t->taken);
    chat_taken *k = &t->taken[t->n_taken++];
    *k = (chat_taken){.text = text.s, .pos = e->to, .tokens = t->head.n - e->to};
    k->rule = cli_copy(e->rule, strlen(e->rule));
    k->why = cli_copy(e->why ? e->why : "", e->why ? strlen(e->why) : 0);
    if (!cli_verbose) return;
    cli_puts(&w->notes, "rewind: ");
    chat_tell_rewind(k, &w->notes);
    cli_puts(&w->notes, "\n");
}

static int each(void *ud, const retrace_event *e) {
    writing *w = ud;
    chat_talk *t = w->t;
    if (e->kind == RETRACE_ERASE && e->rule) take_rewind(w, e);
    if (e->kind == RETRACE_NOTE)
        cli_printf(&w->notes, "%s: %s\n", e->rule ? e->rule : "note", e->why ? e->why : "");
    if (e->kind == RETRACE_SETTLE && e->text.n && isnan(t->first_s))
        t->first_s = cli_clock() - t->begun;
    if (!t->failed) t->failed = chat_view_event(w->view, e);
    cli_taken_event(&t->head, t->model, e);
    return cli_interrupted() || t->failed;
}

static void tell_notes(writing *w) {
    for (char *s = w->notes.s, *end; s && *s && !cli_quiet; s = end + 1) {
        end = strchr(s, '\n');
        *end = '\0';
        cli_say("%s", s);
    }
    cli_buf_free(&w->notes);
}

/* ==== When it has ended ==== */

static void tell_finish(const chat_talk *t) {
    const retrace_stats *s = &t->last;
    switch (t->finish) {
    case RETRACE_FINISH_LENGTH:
        cli_say("the answer ends here, after %lld tokens (finish length)", (long long)s->kept);
        break;
    case RETRACE_FINISH_STUCK:
        cli_say("stuck: nothing acceptable is left after token %lld", (long long)s->kept);
        break;
    case RETRACE_FINISH_BUDGET:
        cli_say("gave up after %lld rewinds and %lld evaluated tokens (finish budget)",
                (long long)s->rewinds, (long long)s->evaluated);
        break;
    case RETRACE_FINISH_CANCELLED: cli_say("stopped"); break;
    default: break;
    }
}

/* What the model holds: the prompt, and behind it the answer. */
static void note_prompt(chat_talk *t, const prompt *p) {
    t->held = cli_realloc(t->held, (size_t)(p->n + 1) * sizeof *t->held);
    memcpy(t->held, p->v, (size_t)p->n * sizeof *t->held);
    t->n_held = t->n_prompt = p->n;
}

static void note_answer(chat_talk *t) {
    int n;
    const retrace_token *ids = retrace_run_tokens(t->run, &n);
    t->held = cli_realloc(t->held, (size_t)(t->n_prompt + n + 1) * sizeof *t->held);
    if (n) memcpy(t->held + t->n_prompt, ids, (size_t)n * sizeof *t->held);
    t->n_held = t->n_prompt + n;
}

static void count(chat_talk *t, int64_t pieces) {
    retrace_run_stats(t->run, &t->last);
    t->last.prompt_evaluated += pieces;
    t->finish = retrace_run_finished(t->run);
    t->answers++;
    t->sum_kept += t->last.kept;
    t->sum_evaluated += t->last.evaluated;
    t->sum_prompt += t->last.prompt;
    t->sum_prompt_new += t->last.prompt_evaluated;
    t->sum_erased += t->last.erased;
    t->sum_rewinds += t->last.rewinds;
    t->sum_seconds += t->seconds;
}

/* The answer becomes the message behind the user's at `at`; one that was stopped before anything
 * settled is none. */
static int take_answer(chat_talk *t, int at) {
    retrace_error err;
    retrace_message *m;
    if (retrace_run_message(t->run, &m, &err)) return cli_report(&err, NULL);
    chat_turns_cut(t, at + 1);
    if (m->content.n || t->finish != RETRACE_FINISH_CANCELLED) {
        chat_turn_add(t, "assistant", m->content);
        chat_turn *u = &t->v[t->n - 1];
        u->finish = t->finish;
        u->n_ids = m->n_tokens;
        if (m->tokens) {
            u->ids = cli_alloc((size_t)(m->n_tokens + 1) * sizeof *u->ids);
            if (m->n_tokens) memcpy(u->ids, m->tokens, (size_t)m->n_tokens * sizeof *u->ids);
        }
    }
    retrace_free(m);
    return CLI_OK;
}

static void begin(chat_talk *t) {
    chat_talk_drop_taken(t);
    cli_run_begins();
    t->begun = cli_clock();
    t->first_s = NAN;
}

static void end(chat_talk *t) {
    t->seconds = cli_clock() - t->begun;
    if (!t->person) cli_run_ends();
    cli_interrupt_forget();
}

/* A pipe gets every answer as a line, or lines. */
static void end_line(chat_talk *t, chat_view *v) {
    retrace_text text = retrace_run_text(t->run);
    if (t->failed) return; /* it was told */
    int code = chat_view_end(v);
    if (!code && !isatty(STDOUT_FILENO) && !(text.n && text.s[text.n - 1] == '\n')) {
        putchar('\n');
        code = cli_flush();
    }
    t->failed = code;
}

/* Lets the run end, and takes its answer. */
static int write_answer(chat_talk *t, chat_view *v, const prompt *p, int at, retrace_text so_far) {
    retrace_error err;
    writing w = {.t = t, .view = v};
    chat_view_begin(v, so_far);
    int rc = retrace_run_finish(t->run, each, &w, &err), code = CLI_OK;
    end_line(t, v);
    end(t);
    tell_notes(&w);
    if (rc < 0) {
        code = cli_report(&err, NULL);
        chat_turns_cut(t, at + 1);
        chat_talk_forget(t);
        t->n_held = 0;
        return code;
    }
    count(t, p->evaluated);
    note_answer(t);
    code = take_answer(t, at);
    if (!t->failed) tell_finish(t);
    return t->failed ? t->failed : code;
}

/* ==== From outside ==== */

static int head_of(const chat_talk *t, int at) {
    unsigned turn = (unsigned)chat_turns_count(t) - 1;
    return (int)((turn + 65536u * (unsigned)t->v[at].tries) & 0x7fffffffu);
}

static int make_run(chat_talk *t, const prompt *p, int at, retrace_run **run) {
    retrace_error err;
    retrace_options o = t->plan->options;
    o.head = head_of(t, at);
    o.singles = p->singles;
    o.n_singles = p->n_singles;
    return retrace_run_new(run, t->model, &o, p->v, p->n, &err) ? cli_report(&err, NULL) : CLI_OK;
}

static void keep_run(chat_talk *t, retrace_run *run) {
    chat_talk_forget(t);
    t->run = run;
    t->run_plan = t->plan;
}

/* Nothing has been answered: the model failed while the prompt was read (`failed`, told), or
 * Ctrl-C came. */
static int unanswered(chat_talk *t, chat_view *v, int at, int failed) {
    int code = chat_view_end(v);
    end(t);
    if (!t->failed) t->failed = code;
    chat_turns_cut(t, at + 1);
    chat_talk_forget(t);
    if (!failed) cli_say("stopped");
    return t->failed ? t->failed : failed;
}

int chat_answer_new(chat_talk *t, chat_view *v, int at) {
    prompt p = {0};
    retrace_run *run = NULL;
    int left_out = t->left_out, code = make_prompt(t, at + 1, &p);
    if (!code) code = make_run(t, &p, at, &run);
    if (code) {
        t->left_out = left_out;
        return free_prompt(&p), code;
    }
    begin(t);
    keep_run(t, run);
    chat_turns_cut(t, at + 1);
    t->v[at].tries++;
    code = read_prompt(t, v, &p);
    if (code || cli_interrupted()) {
        code = unanswered(t, v, at, code);
    } else {
        note_prompt(t, &p);
        code = write_answer(t, v, &p, at, (retrace_text){"", 0});
    }
    free_prompt(&p);
    return code;
}

/* The text of the run's first `to` tokens. */
static void text_before(const chat_talk *t, int to, cli_buf *b) {
    int n;
    const retrace_token *ids = retrace_run_tokens(t->run, &n);
    for (int i = 0; i < to && i < n; i++) {
        retrace_text piece = retrace_piece(t->model, ids[i]);
        cli_put(b, piece.s, piece.n);
    }
}

static int64_t most_behind(const chat_talk *t, int to) {
    int64_t most = t->run_plan->options.max_tokens;
    return most < 0 ? -1 : most > to ? most - to : 0;
}

int chat_answer_again(chat_talk *t, chat_view *v, int at, int to) {
    retrace_error err;
    cli_buf so_far = {0};
    prompt p = {0};
    text_before(t, to, &so_far);
    if (retrace_run_reopen(t->run, to, most_behind(t, to), NULL, &err)) {
        cli_buf_free(&so_far);
        return cli_report(&err, NULL);
    }
    begin(t);
    t->v[at].tries++;
    int code = write_answer(t, v, &p, at, cli_buf_text(&so_far));
    cli_buf_free(&so_far);
    return code;
}

/* Puts the tokens one by one, as they were written: the rules see them, and read so they are what
 * the model held. RETRACE_DONE: the rules do not let them stand. */
static int put_tokens(retrace_run *run, const retrace_token *ids, int to, retrace_error *err) {
    int n = 0;
    retrace_run_cancel(run);
    if (retrace_run_finish(run, NULL, NULL, err)) return err->code;
    for (int i = 0; i < to && !cli_interrupted(); i++) {
        retrace_choice then = {.kind = RETRACE_CHOOSE_TOKEN, .token = ids[i]};
        int rc = retrace_run_reopen(run, i, 1, &then, err);
        if (rc == RETRACE_OK) rc = retrace_run_finish(run, NULL, NULL, err);
        if (rc) return rc;
        const retrace_token *now = retrace_run_tokens(run, &n);
        if (n != i + 1 || now[i] != ids[i]) return RETRACE_DONE;
    }
    return cli_interrupted() ? RETRACE_ECANCEL : RETRACE_OK;
}

int chat_answer_behind(chat_talk *t, chat_view *v, int at, int to) {
    prompt p = {0};
    retrace_error err = {0};
    retrace_run *run = NULL;
    int code = make_prompt(t, at + 1, &p);
    if (!code) code = make_run(t, &p, at, &run);
    if (code) return free_prompt(&p), code;
    begin(t);
    code = read_prompt(t, v, &p);
    int rc = code ? RETRACE_EMODEL : put_tokens(run, t->v[at + 1].ids, to, &err);
    if (rc) {
        retrace_run_free(run);
        free_prompt(&p);
        chat_view_end(v);
        end(t);
        if (code) return code;
        if (rc == RETRACE_ECANCEL) return cli_say("stopped"), CLI_OK;
        if (rc < 0) return cli_report(&err, "/back");
        return cli_fail(CLI_USAGE, "/back: the rules do not let stand what would be kept");
    }
    keep_run(t, run);
    note_prompt(t, &p);
    free_prompt(&p);
    return chat_answer_again(t, v, at, to);
}
