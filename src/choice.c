/* choice.c - a person's moves: the question, and its answers.
 *
 * A driver asks; the run then waits, handing out the question until it is answered. What a person
 * puts somewhere is forced: no chance, however improbable, but judged like any token. Going back
 * bans nothing, and asks again at the place gone back to. */
#include "run.h"

#include <math.h>

/* The most probable tokens that may come next: more than k are looked at while bans hide some. */
static int list(retrace_run *run, int k, retrace_error *err) {
    const rt_node *head = rt_head(run);
    retrace_dist *d = head->dist;
    int rc = rt_constrained(run) ? rt_masked(run, run->n, &d, err) : RETRACE_OK;
    if (rc) return rc;
    if (rt_dist_max(d) == -INFINITY) return RETRACE_DONE; /* nothing is admitted */
    int most = k + head->n_bans, kept = 0;
    if (rt_grow(&run->menu, &run->cap_menu, most, sizeof *run->menu)) return rt_nomem(err);
    int n = retrace_dist_top(d, most, run->menu);
    if (n == 0) return rt_nomem(err);
    for (int i = 0; i < n && kept < k; i++) {
        retrace_candidate c = run->menu[i];
        c.logp = retrace_dist_logp(head->dist, c.id);
        if (c.logp == -INFINITY || rt_node_banned(head, c.id) || !rt_admits(run, run->n, c.id))
            continue;
        run->menu[kept++] = c;
    }
    run->n_menu = kept;
    return kept ? RETRACE_OK : RETRACE_DONE;
}

int retrace_run_ask(retrace_run *run, int k, retrace_error *err) {
    run->ask_again = 0;
    run->asked_for = k < 1 ? 1 : k > run->model->facts.vocab ? run->model->facts.vocab : k;
    int rc = list(run, run->asked_for, err);
    run->choosing = rc == RETRACE_OK;
    return rc;
}

retrace_dist *retrace_run_dist(retrace_run *run) {
    return rt_head(run)->dist;
}

void rt_choice_hand(const retrace_run *run, retrace_need *need) {
    need->kind = RETRACE_NEED_CHOICE;
    need->candidates = run->menu;
    need->n_candidates = run->n_menu;
    need->pos = run->n;
    need->node = run->path[run->n];
}

/* ==== Answers ==== */

static int put_tokens(retrace_run *run, retrace_token *tokens, int n) {
    rt_force_set(run, tokens, n, RT_FORCE_HAND);
    run->choosing = 0;
    return RETRACE_OK;
}

static int put_token(retrace_run *run, retrace_token id, retrace_error *err) {
    if (id < 0 || id >= run->model->facts.vocab)
        return retrace_fail(err, RETRACE_EUSAGE, "token %d is outside the vocabulary of %d",
                            (int)id, run->model->facts.vocab);
    if (rt_node_banned(rt_head(run), id))
        return retrace_fail(err, RETRACE_EUSAGE, "token %d is banned here", (int)id);
    retrace_token *tokens = retrace_alloc(sizeof *tokens);
    if (!tokens) return rt_nomem(err);
    *tokens = id;
    return put_tokens(run, tokens, 1);
}

static int put_text(retrace_run *run, retrace_text text, retrace_error *err) {
    retrace_token *tokens;
    int n;
    if (text.n == 0) return retrace_fail(err, RETRACE_EUSAGE, "the text is empty");
    int rc = rt_check_text(text, "text", err);
    if (rc == RETRACE_OK) rc = rt_spell(run->model, text, &tokens, &n, err);
    if (rc == RETRACE_DONE)
        return retrace_fail(err, RETRACE_EUSAGE, "no tokens of the model spell this text");
    return rc ? rc : put_tokens(run, tokens, n);
}

static int back(retrace_run *run, int to, retrace_error *err) {
    if (to < run->settled || to >= run->n)
        return retrace_fail(err, RETRACE_EUSAGE, "cannot go back to %d: not within %d to %d", to,
                            run->settled, run->n - 1);
    int rc = rt_erase(run, to, "guide", "a step back",
                      rt_trace_node(&run->trace, run->path[to])->n_bans, err);
    run->choosing = 0;
    run->ask_again = 1;
    return rc;
}

int retrace_run_choose(retrace_run *run, const retrace_choice *choice, retrace_error *err) {
    rt_clear(err);
    if (!run->choosing || run->finish)
        return retrace_fail(err, RETRACE_EUSAGE, "there is no choice to make now");
    switch (choice->kind) {
    case RETRACE_CHOOSE_TOKEN: return put_token(run, choice->token, err);
    case RETRACE_CHOOSE_TEXT: return put_text(run, choice->text, err);
    case RETRACE_CHOOSE_BACK: return back(run, choice->to, err);
    case RETRACE_CHOOSE_DRAW: break;
    }
    run->choosing = 0;
    run->draw_one = 1;
    return RETRACE_OK;
}

int rt_choice_step(retrace_run *run, retrace_error *err) {
    if (run->draw_one) {
        retrace_token id;
        run->draw_one = 0;
        int rc = retrace_run_draw(run, &id, err);
        return rc ? rc : retrace_run_push(run, id, err);
    }
    if (run->ask_again) return retrace_run_ask(run, run->asked_for, err);
    return run->driver->step(run->driver_self, run, err);
}
