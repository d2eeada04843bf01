/* retry.c - soft proposals and forced text: what a place remembers of the rules that went back to
 * it.
 *
 * A soft rule goes back to one place a limited number of times. What it erased there is remembered
 * with its own measure; when it has to give up, the best try is put back and it is spent there, for
 * good: the memory hangs on the place, so that holds exactly while what precedes stands.
 *
 * Soft rules may use three quarters of the run's budgets, and these only as far as the answer has
 * come: no part of it is guarded at the cost of a later one, and hard rules always have the rest.
 *
 * A forced text is one: the tokens it was put there as make a span, and whoever erases one of them
 * takes the whole text back to the place where it begins. There its proposer is denied a second
 * try, and the token that had led on is banned instead. */
#include "run.h"

#include <string.h>

/* ==== Soft ==== */

void rt_proposal_clear(retrace_proposal *p) {
    retrace_free(p->force);
    *p = (retrace_proposal){0};
}

void rt_proposal_plain(retrace_proposal *p) {
    retrace_free(p->force);
    p->force = NULL;
    p->n_force = 0;
}

/* Remembers the standing tokens from the place on, if no earlier try was at least as good. */
static int record(retrace_run *run, const rt_watch *w, rt_try *t, retrace_error *err) {
    int n = run->n - w->proposal.to;
    if (t->best && !(w->proposal.measure > t->measure)) return RETRACE_OK;
    retrace_token *tokens = retrace_realloc(t->best, (size_t)n * sizeof *tokens);
    if (!tokens) return rt_nomem(err);
    memcpy(tokens, run->tokens + run->n_prompt + w->proposal.to, (size_t)n * sizeof *tokens);
    t->best = tokens;
    t->n_best = n;
    t->measure = w->proposal.measure;
    return RETRACE_OK;
}

static int hard_objects(const retrace_run *run) {
    for (int i = 0; i < run->n_watch; i++) {
        if (run->watch[i].proposes && run->watch[i].proposal.max_retries == 0) return 1;
    }
    return 0;
}

static int in_pace(int64_t used, int64_t budget, int64_t n, int64_t max_tokens) {
    return (double)used < 0.75 * (double)budget * (double)(n + 1) / (double)(max_tokens + 1);
}

/* Would enough be left to draw from behind the proposal's bans? Bans of earlier soft proposals are
 * among those that stand. RETRACE_DONE: no, or this has to wait: what is decided does not depend on
 * what the store has kept. */
static int leaves_enough(retrace_run *run, const retrace_proposal *p, retrace_error *err) {
    rt_node *node = rt_trace_node(&run->trace, run->path[p->to]);
    retrace_token bans[RETRACE_MAX_BAN];
    int n = 0;
    double live;
    if (p->no_ban || p->force) return RETRACE_OK;
    if (!node->dist && run->may_wait) {
        run->waits = run->may_wait;
        run->asked_at = p->to;
        return RETRACE_DONE;
    }
    for (; n < p->n_ban; n++) bans[n] = p->ban[n];
    if (n == 0) bans[n++] = run->tokens[run->n_prompt + p->to];
    int rc = rt_live(run, p->to, bans, n, &live, err);
    if (rc) return rc;
    if (!node->dist) return RETRACE_OK;
    return live < run->o.stuck_mass || live <= 0 ? RETRACE_DONE : RETRACE_OK;
}

static int may_retry(retrace_run *run, const retrace_proposal *p, const rt_try *t,
                     retrace_error *err) {
    if (t->tries >= p->max_retries) return RETRACE_DONE;
    if (!in_pace(run->stats.rewinds, run->o.max_rewinds, p->to, run->o.max_tokens) ||
        !in_pace(run->stats.evaluated, run->o.max_evaluated, p->to, run->o.max_tokens))
        return RETRACE_DONE;
    return leaves_enough(run, p, err);
}

/* Is another try better than the one that stands? Nobody's forced text is broken for it. */
static int better(const retrace_run *run, const rt_watch *w, const rt_try *t, int eligible) {
    const rt_node *first = rt_trace_node(&run->trace, run->path[w->proposal.to + 1]);
    if (!t->best || run->stats.rewinds >= run->o.max_rewinds) return 0;
    if (first->span >= 0 || run->force.by >= 0 || run->force.by == RT_FORCE_HAND) return 0;
    int n = run->n - w->proposal.to;
    int same = n == t->n_best && memcmp(t->best, run->tokens + run->n_prompt + w->proposal.to,
                                        (size_t)n * sizeof *t->best) == 0;
    return !same && (!eligible || t->measure > w->proposal.measure);
}

void rt_soft_uncount(retrace_run *run, int to) {
    for (int i = to; i < run->n; i++) {
        rt_node *node = rt_trace_node(&run->trace, run->path[i]);
        if (node->draws > 0) node->draws--;
    }
}

static int put_back(retrace_run *run, rt_watch *w, const rt_try *t, retrace_error *err) {
    int to = w->proposal.to;
    retrace_token *tokens = retrace_alloc((size_t)t->n_best * sizeof *tokens);
    if (!tokens) return rt_nomem(err);
    memcpy(tokens, t->best, (size_t)t->n_best * sizeof *tokens);
    const rt_node *node = rt_trace_node(&run->trace, run->path[to]);
    w->erased += run->n - to;
    run->stats.rewinds++;
    rt_soft_uncount(run, to);
    int rc = rt_erase(run, to, w->rule->type->name, "the best try is put back", node->n_bans, err);
    rt_force_set(run, tokens, t->n_best, RT_FORCE_BEST);
    return rc ? rc : RETRACE_DONE;
}

/* The rule gives up at that place. RETRACE_OK: what stands stays as far as it is concerned. */
static int spend(retrace_run *run, rt_watch *w, rt_try *t, int eligible, retrace_error *err) {
    t->spent = 1;
    w->hits++;
    w->accepted++;
    run->stats.accepted++;
    if (better(run, w, t, eligible)) return put_back(run, w, t, err);
    w->proposes = 0;
    rt_proposal_clear(&w->proposal);
    return RETRACE_OK;
}

int rt_soft_decide(retrace_run *run, rt_watch *w, int *carry_out, retrace_error *err) {
    rt_node *node = rt_trace_node(&run->trace, run->path[w->proposal.to]);
    rt_try *t = rt_node_try(node, (int)(w - run->watch));
    if (!t) return rt_nomem(err);
    int eligible = !hard_objects(run);
    int rc = eligible ? record(run, w, t, err) : RETRACE_OK;
    if (rc == RETRACE_OK) rc = may_retry(run, &w->proposal, t, err);
    *carry_out = rc == RETRACE_OK;
    if (run->waits) return rc;
    return rc == RETRACE_DONE ? spend(run, w, t, eligible, err) : rc;
}

int rt_soft_spent(const retrace_run *run, int rule, int to) {
    const rt_try *t = rt_node_tried(rt_trace_node(&run->trace, run->path[to]), rule);
    return t && t->spent;
}

/* Hard bans alone exhaust a place. */
int rt_soft_lift(rt_node *node) {
    if (node->n_soft == 0) return 0;
    rt_node_lift(node);
    for (rt_try *t = node->tries; t; t = t->next) t->spent |= t->banned;
    return 1;
}

/* ==== Forced text ==== */

void rt_force_set(retrace_run *run, retrace_token *tokens, int n, int by) {
    retrace_free(run->force.v);
    run->force = (rt_force){.v = tokens, .n = n, .by = by, .to = run->n};
}

void rt_force_drop(retrace_run *run) {
    rt_force_set(run, NULL, 0, RT_FORCE_NONE);
}

void rt_force_done(retrace_run *run) {
    if (run->force.n && run->force.at == run->force.n && !run->waits) rt_force_drop(run);
}

/* A proposal with a force that has been made here before is a plain one. */
void rt_force_once(const retrace_run *run, int rule, retrace_proposal *p) {
    const rt_try *t = rt_node_tried(rt_trace_node(&run->trace, run->path[p->to]), rule);
    if (t && t->forced) rt_proposal_plain(p);
}

/* Notes on the place what the force of rule w there would be replaced by. */
int rt_force_begin(retrace_run *run, rt_watch *w, retrace_token instead, retrace_error *err) {
    rt_try *t = rt_node_try(rt_head(run), (int)(w - run->watch));
    if (!t) return rt_nomem(err);
    t->forced = 1;
    t->instead = instead;
    t->ban_soft = w->proposal.max_retries > 0;
    rt_force_set(run, w->proposal.force, w->proposal.n_force, t->rule);
    w->proposal.force = NULL;
    return RETRACE_OK;
}

/* Bans what led on from place `to` before the rule's text was put there. */
static int ban_instead(retrace_run *run, int to, int rule, retrace_error *err) {
    rt_node *node = rt_trace_node(&run->trace, run->path[to]);
    rt_try *t = rt_node_tried(node, rule);
    t->banned |= t->ban_soft;
    return rt_node_ban(node, t->instead, t->ban_soft) < 0 ? rt_nomem(err) : RETRACE_OK;
}

static const char refused[] = "what was put here cannot stand; a token is drawn instead";

/* Does the erase take back a text that a person is putting there? */
static int by_hand(const retrace_run *run, int to) {
    return run->force.by == RT_FORCE_HAND && to >= run->force.to;
}

static int note(retrace_run *run, const char *name, const char *why, retrace_error *err) {
    retrace_event *e = rt_event(run, RETRACE_NOTE, why);
    if (!e) return rt_nomem(err);
    e->rule = name;
    e->node = run->path[run->n];
    return RETRACE_OK;
}

int rt_back_to(const retrace_run *run, int to) {
    const rt_node *first = rt_trace_node(&run->trace, run->path[to + 1]);
    if (by_hand(run, to)) return run->force.to;
    return first->span >= 0 ? first->span : to;
}

int rt_back(retrace_run *run, int to, const char *rule, const char *why, int n_old,
            retrace_error *err) {
    const rt_node *first = rt_trace_node(&run->trace, run->path[to + 1]);
    int begin = rt_back_to(run, to), rc = RETRACE_OK;
    int hand = by_hand(run, to), rewound = hand && run->force.rewound;
    run->ask_again |= hand && !rewound;
    if (first->span >= 0 && !by_hand(run, to)) rc = ban_instead(run, begin, first->span_rule, err);
    rt_force_drop(run);
    if (rc == RETRACE_OK) rc = rt_erase(run, begin, rule, why, n_old, err);
    return rc == RETRACE_OK && rewound ? note(run, "rewind", refused, err) : rc;
}

/* The next token cannot stand where it should go: nothing of the text stays. */
static int withdraw(retrace_run *run, retrace_error *err) {
    static const char why[] = "the forced text cannot stand here";
    rt_force f = run->force;
    rt_node *node = rt_trace_node(&run->trace, run->path[f.to]);
    const char *name = f.by >= 0   ? run->watch[f.by].rule->type->name
                       : f.rewound ? "rewind"
                                   : "guide";
    int n_old = node->n_bans;
    rt_force_drop(run);
    if (f.by == RT_FORCE_BEST) return RETRACE_OK; /* the rest is drawn */
    run->ask_again |= f.by == RT_FORCE_HAND && !f.rewound;
    int rc = f.by >= 0 ? ban_instead(run, f.to, f.by, err) : RETRACE_OK;
    if (rc == RETRACE_OK && run->n > f.to)
        rc = rt_erase(run, f.to, name, why, n_old, err);
    else if (rc == RETRACE_OK)
        return note(run, name, f.rewound ? refused : why, err);
    return rc == RETRACE_OK && f.rewound ? note(run, name, refused, err) : rc;
}

/* A best try is one that a soft rule itself has banned. */
static int cannot_stand(retrace_run *run, retrace_token id) {
    int banned = run->force.by == RT_FORCE_BEST ? rt_node_banned_hard(rt_head(run), id)
                                                : rt_node_banned(rt_head(run), id);
    return banned || !rt_admits(run, run->n, id);
}

int rt_force_push(retrace_run *run, retrace_error *err) {
    rt_force *f = &run->force;
    retrace_token id = f->v[f->at];
    if (cannot_stand(run, id)) return withdraw(run, err);
    run->drawn.id = run->drawn.node = -1;
    int rc = retrace_run_push(run, id, err);
    if (rc) return rc;
    rt_node *node = rt_head(run);
    if (f->by >= 0) {
        node->span = f->to;
        node->span_rule = f->by;
    }
    f->at++;
    rc = rt_judge(run, err);
    rt_force_done(run);
    return rc;
}
