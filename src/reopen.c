/* reopen.c - taking up a run that has ended, from any place of its answer.
 *
 * The tree still has all that was learned: bans, marks, tries, what was drawn. So going back is
 * moving the head, and all that is begun anew is what counts work. What a person keeps is the
 * *floor*: whatever follows, none of it is taken back (see respect_floor in engine.c). What is put
 * at its end is forced like a person's answer to a question. Everything that may fail comes first.
 */
#include "run.h"

#include <string.h>

static const int64_t MOST_TOKENS = 1000000000; /* as of options.max_tokens */

/* The text of the newest token may have been cut by a stop text: makes it whole, as it was when it
 * was pushed. The room is there still. */
static void make_whole(retrace_run *run) {
    if (run->n == 0) return;
    size_t begin = run->n > 1 ? run->ends[run->n - 2] : 0;
    retrace_text piece = retrace_piece(run->model, run->tokens[run->n_prompt + run->n - 1]);
    if (piece.n) memcpy(run->text.s + begin, piece.s, piece.n);
    run->text.n = run->ends[run->n - 1] = begin + piece.n;
}

static int check(const retrace_run *run, int to, int64_t max_tokens, retrace_error *err) {
    if (!run->finish || run->next_event < run->n_events)
        return retrace_fail(err, RETRACE_EUSAGE, "the run goes on still");
    if (run->finish == RETRACE_FINISH_ERROR)
        return retrace_fail(err, RETRACE_EUSAGE, "the run has failed and cannot be taken up again");
    if (rt_exact(run))
        return retrace_fail(err, RETRACE_EUSAGE,
                            "resample exact: an answer is of its law only as a whole, so none is "
                            "taken up again");
    if (max_tokens > MOST_TOKENS)
        return retrace_fail(err, RETRACE_EUSAGE, "max_tokens: more than %lld",
                            (long long)MOST_TOKENS);
    if (to < 0 || to > run->n)
        return retrace_fail(err, RETRACE_EUSAGE, "cannot go back to %d: not within 0 to %d", to,
                            run->n);
    return RETRACE_OK;
}

/* May a person put the token behind the first `to`? */
static int check_token(retrace_run *run, int to, retrace_token id, retrace_error *err) {
    retrace_text name = retrace_token_name(run->model, id);
    if (id < 0 || id >= run->model->facts.vocab)
        return retrace_fail(err, RETRACE_EUSAGE, "token %d is outside the vocabulary of %d",
                            (int)id, run->model->facts.vocab);
    if (rt_node_banned(rt_trace_node(&run->trace, run->path[to]), id))
        return retrace_fail(err, RETRACE_EUSAGE, "token %d ('%.*s') is banned at %d", (int)id,
                            (int)name.n, name.s, to);
    if (!rt_admits(run, to, id))
        return retrace_fail(err, RETRACE_EUSAGE, "token %d is not admitted at %d by a constraint",
                            (int)id, to);
    return RETRACE_OK;
}

/* The tokens to be put; *out stays NULL when one is to be drawn. */
static int tokens_of(retrace_run *run, int to, const retrace_choice *then, retrace_token **out,
                     int *n, retrace_error *err) {
    int rc;
    if (!then || then->kind == RETRACE_CHOOSE_DRAW) return RETRACE_OK;
    if (then->kind == RETRACE_CHOOSE_BACK)
        return retrace_fail(err, RETRACE_EUSAGE, "a step back is nothing to put there");
    if (then->kind == RETRACE_CHOOSE_TEXT) {
        if (then->text.n == 0) return retrace_fail(err, RETRACE_EUSAGE, "the text is empty");
        rc = rt_check_text(then->text, "text", err);
        if (rc == RETRACE_OK) rc = rt_spell(run->model, then->text, out, n, err);
        if (rc == RETRACE_DONE)
            return retrace_fail(err, RETRACE_EUSAGE, "no tokens of the model spell this text");
        return rc;
    }
    rc = check_token(run, to, then->token, err);
    if (rc) return rc;
    *out = retrace_alloc(sizeof **out);
    if (!*out) return rt_nomem(err);
    **out = then->token;
    *n = 1;
    return RETRACE_OK;
}

static int check_fit(const retrace_run *run, int to, int64_t max_tokens, int n,
                     retrace_error *err) {
    if (n > max_tokens)
        return retrace_fail(err, RETRACE_EUSAGE, "max_tokens of %lld leaves no room for %d tokens",
                            (long long)max_tokens, n);
    if (n > run->model->facts.n_ctx - run->n_prompt - to)
        return retrace_fail(err, RETRACE_EUSAGE, "%d tokens do not fit a context of %d behind %d",
                            n, run->model->facts.n_ctx, run->n_prompt + to);
    return RETRACE_OK;
}

/* Tells what is taken back and takes it. */
static int take_back(retrace_run *run, int to, retrace_error *err) {
    run->next_event = run->n_events = 0;
    if (to == run->n) return make_whole(run), RETRACE_OK;
    return rt_erase(run, to, "rewind", "taken up again",
                    rt_trace_node(&run->trace, run->path[to])->n_bans, err);
}

static void begin_anew(retrace_run *run, int64_t max_tokens) {
    run->stats = (retrace_stats){.prompt = run->stats.prompt};
    for (int i = 0; i < run->n_watch; i++)
        run->watch[i].hits = run->watch[i].erased = run->watch[i].accepted = 0;
    for (int i = 0; i < run->trace.n; i++) rt_trace_node(&run->trace, i)->draws = 0;
    run->o.max_tokens = run->n + max_tokens;
    run->o.hold = run->given_hold;
    rt_set_budgets(run);
    run->floor = run->settled = run->n;
    run->settled_bytes = run->text.n;
    run->stuck_depth = -1;
    run->drawn.id = run->drawn.node = -1;
    run->asked = run->waits = run->choosing = run->ask_again = run->draw_one = 0;
    run->pushed = run->reviewed = run->cancelled = 0;
    run->finish = RETRACE_FINISH_NONE;
    run->resumed = 1;
}

int retrace_run_reopen(retrace_run *run, int to, int64_t max_tokens, const retrace_choice *then,
                       retrace_error *err) {
    rt_clear(err);
    retrace_token *tokens = NULL;
    int n = 0, rc = check(run, to, max_tokens, err);
    if (max_tokens < 0) max_tokens = run->given_tokens;
    if (rc == RETRACE_OK) rc = tokens_of(run, to, then, &tokens, &n, err);
    if (rc == RETRACE_OK) rc = check_fit(run, to, max_tokens, n, err);
    if (rc == RETRACE_OK) rc = take_back(run, to, err);
    if (rc) {
        retrace_free(tokens);
        return rc;
    }
    begin_anew(run, max_tokens);
    rt_force_drop(run);
    if (tokens) rt_force_set(run, tokens, n, RT_FORCE_HAND);
    run->force.rewound = tokens != NULL;
    return RETRACE_OK;
}

int retrace_run_set_hold(retrace_run *run, int hold, retrace_error *err) {
    rt_clear(err);
    if (hold != RETRACE_HOLD_MINIMAL && hold != RETRACE_HOLD_ALL)
        return retrace_fail(err, RETRACE_EUSAGE, "hold: there is no %d", hold);
    if (!run->driver->holds && !rt_exact(run)) run->given_hold = hold;
    return RETRACE_OK;
}

const retrace_token *retrace_run_bans(const retrace_run *run, int pos, int *n) {
    int length;
    retrace_run_tokens(run, &length);
    *n = 0;
    if (pos < 0 || pos > length) return NULL;
    const rt_node *node = rt_trace_node(&run->trace, run->path[pos]);
    *n = node->n_bans;
    return node->n_bans ? node->bans : NULL;
}
