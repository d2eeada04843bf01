/* engine.c - what happens to a token once it has been drawn: judge, erase, settle, end.
 *
 * Judging goes in text order. A stop text that completes inside the newest token sets a limit: only
 * hits that complete before it count. Of the rules' proposals the one that goes back furthest is
 * taken, bans proposed for that same place are united, the rest is dropped. When nobody objects and
 * the answer is about to end, it is judged once more as the reader will see it, because a word edge
 * may be decided by the end itself.
 *
 * Settling: text leaves when no rule, whatever follows, can still reach it. The mark is a fixed
 * point, because what could be erased from behind the mark may, by its own state there, reach
 * further back. */
#include "run.h"
#include "text/utf8.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ==== Views and marks ==== */

static void free_mark(const rt_watch *w, char *mark) {
    if (w->rule->type->mark_free) w->rule->type->mark_free(w->rule->self, mark + w->mark_at);
}

static int copy_mark(const rt_watch *w, char *to, const char *from, retrace_error *err) {
    const retrace_rule_type *type = w->rule->type;
    memcpy(to + w->mark_at, from + w->mark_at, type->mark_size);
    return type->mark_copy ? type->mark_copy(w->rule->self, to + w->mark_at, from + w->mark_at, err)
                           : RETRACE_OK;
}

static void free_node_marks(retrace_run *run, rt_node *node) {
    for (int i = 0; node->marked && i < run->n_watch; i++) free_mark(&run->watch[i], node->mark);
    node->marked = 0;
}

void rt_free_marks(retrace_run *run) {
    for (int i = 0; i < run->trace.n; i++) free_node_marks(run, rt_trace_node(&run->trace, i));
}

/* All rules' marks, or none. */
static int copy_marks(retrace_run *run, char *to, const char *from, retrace_error *err) {
    for (int i = 0; i < run->n_watch; i++) {
        int rc = copy_mark(&run->watch[i], to, from, err);
        if (rc == RETRACE_OK) continue;
        while (i-- > 0) free_mark(&run->watch[i], to);
        return rc;
    }
    return RETRACE_OK;
}

int rt_start_marks(retrace_run *run, retrace_error *err) {
    rt_node *root = rt_trace_node(&run->trace, 0);
    root->marked = 1;
    for (int i = 0; i < run->n_watch; i++) {
        const rt_watch *w = &run->watch[i];
        retrace_view v;
        rt_view(run, 0, i, RETRACE_GOING, &v);
        if (!w->rule->type->start) continue;
        int rc = w->rule->type->start(w->rule->self, &v, root->mark + w->mark_at, err);
        if (rc) return rc;
    }
    return RETRACE_OK;
}

/* ==== Events ==== */

retrace_event *rt_event(retrace_run *run, retrace_event_kind kind, const char *why) {
    if (rt_grow(&run->events, &run->cap_events, run->n_events + 1, sizeof *run->events))
        return NULL;
    rt_said *said = &run->events[run->n_events++];
    size_t n = why ? rt_utf8_cut(why, strlen(why), sizeof said->why - 1) : 0;
    if (n) memcpy(said->why, why, n);
    said->why[n] = '\0';
    said->event = (retrace_event){.kind = kind, .text = {"", 0}, .logprob = NAN, .id = -1};
    return &said->event;
}

int rt_tell_push(retrace_run *run, int drawn, retrace_error *err) {
    const rt_node *node = rt_head(run);
    retrace_event *e = rt_event(run, RETRACE_PUSH, NULL);
    if (!e) return rt_nomem(err);
    e->node = node->id;
    e->parent = node->parent;
    e->pos = node->depth - 1;
    e->id = node->token;
    e->text = retrace_piece(run->model, node->token);
    e->logprob = node->logp;
    e->drawn = drawn;
    e->top = node->top;
    e->n_top = node->n_top;
    return RETRACE_OK;
}

/* ==== Moving the head ==== */

static int note_probability(retrace_run *run, const rt_node *parent, rt_node *node,
                            retrace_error *err) {
    if (run->o.logprobs < 0 || !parent->dist || !isnan(node->logp)) return RETRACE_OK;
    node->logp = retrace_dist_logp(parent->dist, node->token);
    int k = (int)run->o.logprobs;
    if (k == 0) return RETRACE_OK;
    node->top = retrace_alloc((size_t)k * sizeof *node->top);
    if (!node->top) return rt_nomem(err);
    node->n_top = retrace_dist_top(parent->dist, k, node->top);
    return node->n_top ? RETRACE_OK : rt_nomem(err);
}

static int make_room(retrace_run *run, retrace_error *err) {
    int rc =
        rt_grow(&run->tokens, &run->cap_tokens, run->n_prompt + run->n + 1, sizeof *run->tokens);
    if (rc == RETRACE_OK) rc = rt_grow(&run->path, &run->cap_path, run->n + 2, sizeof *run->path);
    if (rc == RETRACE_OK) rc = rt_grow(&run->ends, &run->cap_ends, run->n + 1, sizeof *run->ends);
    return rc ? rt_nomem(err) : RETRACE_OK;
}

int rt_enter(retrace_run *run, retrace_token token, retrace_error *err) {
    rt_node *parent = rt_head(run);
    rt_node *node = rt_trace_child(&run->trace, parent, token);
    if (make_room(run, err)) return RETRACE_ENOMEM;
    if (!node) node = rt_trace_add(&run->trace, parent, token);
    if (!node) return rt_nomem(err);
    int rc = note_probability(run, parent, node, err);
    if (rc) return rc;
    retrace_text piece = retrace_piece(run->model, token);
    if (rt_buf_add(&run->text, piece.s, piece.n)) return rt_nomem(err);
    run->tokens[run->n_prompt + run->n] = token;
    run->ends[run->n++] = run->text.n;
    run->path[run->n] = node->id;
    run->reviewed = 0;
    return RETRACE_OK;
}

int retrace_run_push(retrace_run *run, retrace_token id, retrace_error *err) {
    assert(!run->pushed);
    rt_keep_pin(rt_head(run)->dist, 0);
    int rc = rt_enter(run, id, err);
    if (rc) return rc;
    rt_node *node = rt_head(run);
    run->pushed = 1;
    if (run->drawn.node < 0 && run->drawn.id == id) run->drawn.node = node->id;
    node->span = -1;
    if (run->force.by != RT_FORCE_BEST) { /* a best try keeps what was known of its draw */
        retrace_free(node->sampled);
        node->sampled = NULL;
    }
    if (rt_exact(run)) rt_exact_pushed(run);
    return RETRACE_OK;
}

static int tell_newest(retrace_run *run, retrace_error *err) {
    return rt_tell_push(run, run->drawn.node == run->path[run->n], err);
}

static void cut(retrace_run *run, int to) {
    run->untold = 0;
    run->n = to;
    run->text.n = to > 0 ? run->ends[to - 1] : 0;
    run->reviewed = 0;
}

int rt_erase(retrace_run *run, int to, const char *rule, const char *why, int n_old,
             retrace_error *err) {
    if (run->untold) {
        int rc = tell_newest(run, err);
        if (rc) return rc;
    }
    retrace_event *e = rt_event(run, RETRACE_ERASE, why);
    if (!e) return rt_nomem(err);
    run->stats.erased += run->n - to;
    rt_keep_pin(rt_head(run)->dist, 0);
    cut(run, to);
    const rt_node *node = rt_head(run);
    e->node = node->id;
    e->to = to;
    e->rule = rule;
    e->n_ban = node->n_bans - n_old;
    e->ban = e->n_ban ? node->bans + n_old : NULL;
    return RETRACE_OK;
}

/* ==== Judging ==== */

/* A hit at a place that was opened by `allow` passes and is counted; not twice when the ending has
 * it judged again. */
static int let_through(retrace_run *run, int to, int again) {
    rt_node *node = rt_trace_node(&run->trace, run->path[to]);
    if (!node->exempt) return 0;
    if (!again || node->exempt == 1) run->stats.accepted++;
    node->exempt = 2;
    return 1;
}

/* Proposals that do not count: of a rule about its own forced text, of a soft one that is spent
 * there. */
static int ignored(const retrace_run *run, const rt_watch *w, int n) {
    int rule = (int)(w - run->watch);
    const rt_node *node = rt_trace_node(&run->trace, run->path[n]);
    if (node->span >= 0 && node->span_rule == rule) return 1;
    return w->proposal.max_retries > 0 && rt_soft_spent(run, rule, w->proposal.to);
}

/* What a person kept when the run was taken up again stays: who would go back behind it goes back
 * to its end, where the token that led on is banned. */
static void respect_floor(const retrace_run *run, rt_watch *w) {
    retrace_proposal *p = &w->proposal;
    if (p->to < 0 || p->to >= run->floor) return;
    p->to = run->floor;
    p->n_ban = 0;
    p->n_force = 0;
    rt_proposal_plain(p);
}

/* Does the proposal of w count? Going back behind what has settled is the rule's mistake. */
static int accept_proposal(retrace_run *run, rt_watch *w, int n, int again, retrace_error *err) {
    respect_floor(run, w);
    int to = w->proposal.to, inside = to >= 0 && to < run->n;
    if (run->floor > 0 && run->floor == run->n) return RETRACE_OK; /* nothing may be taken back */
    if (inside && (ignored(run, w, n) || let_through(run, to, again))) return RETRACE_OK;
    if (!inside || to < run->settled)
        return retrace_fail(err, RETRACE_EUSAGE, "rule '%s' would erase to %d, outside %d to %d",
                            w->rule->type->name, to, run->settled, run->n - 1);
    if (w->proposal.n_force == 0) rt_proposal_plain(&w->proposal);
    if (w->proposal.force) rt_force_once(run, (int)(w - run->watch), &w->proposal);
    w->proposes = 1;
    return RETRACE_OK;
}

/* Asks one rule about the place n tokens in, with its mark in `marks`. */
static int ask_rule(retrace_run *run, int i, int n, retrace_ending ending, size_t limit,
                    char *marks, retrace_error *err) {
    rt_watch *w = &run->watch[i];
    const retrace_rule_type *type = w->rule->type;
    retrace_view v;
    w->proposes = 0;
    if (!type->judge) return RETRACE_OK;
    rt_view(run, n, i, ending, &v);
    v.limit = limit;
    rt_proposal_clear(&w->proposal);
    int rc = type->judge(w->rule->self, &v, marks + w->mark_at, &w->proposal, err);
    if (run->starved) return rt_nomem(err); /* a draw in there was none */
    if (rc != RETRACE_DONE) return rc;
    size_t end = w->proposal.end ? w->proposal.end : retrace_view_length(&v);
    if (limit != SIZE_MAX && end >= limit) return RETRACE_OK;
    return accept_proposal(run, w, n, marks == run->scratch, err);
}

/* Asks all. What they leave in the marks stays at the newest place, or is thrown away for an
 * ending. */
static int ask_rules(retrace_run *run, int n, retrace_ending ending, size_t limit, int keep,
                     retrace_error *err) {
    if (run->n_watch == 0) return RETRACE_OK;
    rt_node *node = rt_trace_node(&run->trace, run->path[n]);
    rt_node *from = n > 0 ? rt_trace_node(&run->trace, run->path[n - 1]) : node;
    if (keep) free_node_marks(run, node);
    char *marks = keep ? node->mark : run->scratch;
    int rc = copy_marks(run, marks, from->mark, err);
    if (rc) return rc;
    if (keep) node->marked = 1;
    for (int i = 0; rc == RETRACE_OK && i < run->n_watch; i++)
        rc = ask_rule(run, i, n, ending, limit, marks, err);
    for (int i = 0; !keep && i < run->n_watch; i++) free_mark(&run->watch[i], marks);
    return rc;
}

/* The rule whose proposal is taken; NULL: none proposes. */
static rt_watch *furthest(retrace_run *run) {
    rt_watch *best = NULL;
    for (int i = 0; i < run->n_watch; i++) {
        rt_watch *w = &run->watch[i];
        if (w->proposes && (!best || w->proposal.to < best->proposal.to)) best = w;
    }
    return best;
}

static int add_bans(retrace_run *run, rt_node *node, const retrace_proposal *p,
                    retrace_error *err) {
    int rc = RETRACE_OK, soft = p->max_retries > 0;
    if (p->no_ban) return RETRACE_OK;
    if (p->n_ban == 0 && !p->force)
        rc = rt_node_ban(node, run->tokens[run->n_prompt + p->to], soft);
    for (int i = 0; rc >= 0 && i < p->n_ban; i++) rc = rt_node_ban(node, p->ban[i], soft);
    return rc < 0 ? rt_nomem(err) : RETRACE_OK;
}

/* Counts a proposal that is carried out and bans what it asks for. */
static int apply_proposal(retrace_run *run, rt_watch *w, retrace_error *err) {
    rt_node *node = rt_trace_node(&run->trace, run->path[w->proposal.to]);
    w->hits++;
    if (w->proposal.max_retries > 0) {
        rt_try *t = rt_node_try(node, (int)(w - run->watch));
        if (!t) return rt_nomem(err);
        t->tries++;
        t->banned |= !w->proposal.no_ban && !w->proposal.force;
    }
    return add_bans(run, node, &w->proposal, err);
}

/* Goes back as `best` proposes, with the bans of all that would go to the same place. */
static int carry_out(retrace_run *run, rt_watch *best, retrace_error *err) {
    if (run->stats.rewinds >= run->o.max_rewinds)
        return rt_give_up(run, RETRACE_FINISH_BUDGET, "max_rewinds", err);
    int to = best->proposal.to, begin = rt_back_to(run, to), rc = RETRACE_OK;
    int n_old = rt_trace_node(&run->trace, run->path[begin])->n_bans;
    retrace_token led = run->tokens[run->n_prompt + to];
    for (int i = 0; rc == RETRACE_OK && i < run->n_watch; i++) {
        rt_watch *w = &run->watch[i];
        if (!w->proposes || w->proposal.to != to || (w != best && w->proposal.force)) continue;
        rc = apply_proposal(run, w, err);
    }
    if (rc) return rc;
    if (best->proposal.max_retries > 0) rt_soft_uncount(run, begin);
    best->erased += run->n - begin;
    run->stats.rewinds++;
    rc = rt_back(run, to, best->rule->type->name, best->proposal.why, n_old, err);
    if (rc == RETRACE_OK && best->proposal.force && begin == to)
        rc = rt_force_begin(run, best, led, err);
    return rc;
}

/* Carries out the best proposal: RETRACE_DONE when there was one. */
static int go_back(retrace_run *run, retrace_error *err) {
    rt_watch *best;
    while ((best = furthest(run)) != NULL) {
        int carry = 1, rc = RETRACE_OK;
        if (rt_exact(run)) {
            rc = rt_exact_reject(run, best, err);
            return rc ? rc : RETRACE_DONE;
        }
        if (best->proposal.max_retries > 0) rc = rt_soft_decide(run, best, &carry, err);
        if (rc) return rc;
        if (!carry) continue;
        rc = carry_out(run, best, err);
        return rc ? rc : RETRACE_DONE;
    }
    return RETRACE_OK;
}

/* Judges the answer as it would be read if it ended after n tokens and `length` bytes. */
static int judge_ending(retrace_run *run, int n, size_t length, retrace_ending ending,
                        retrace_error *err) {
    size_t *end = n > 0 ? &run->ends[n - 1] : NULL, keep = end ? *end : 0;
    if (end) *end = length;
    int rc = ask_rules(run, n, ending, SIZE_MAX, 0, err);
    if (end) *end = keep;
    return rc;
}

/* How many tokens stay: all before the one that holds the stop's first byte, and that one if it
 * begins before. A control token that is the stop goes itself. */
static int stop_cut(const retrace_run *run, const rt_stop *stop) {
    if (stop->end == SIZE_MAX) return run->n - 1;
    int n = 0;
    while (run->ends[n] <= stop->start) n++;
    return n + ((n > 0 ? run->ends[n - 1] : 0) < stop->start);
}

static int end_by_stop(retrace_run *run, const rt_stop *stop, retrace_error *err) {
    size_t kept = run->floor > 0 ? run->ends[run->floor - 1] : 0;
    size_t start = stop->start > kept ? stop->start : kept;
    int n = stop_cut(run, stop);
    if (n < run->floor) n = run->floor;
    int rc = judge_ending(run, n, start, RETRACE_ENDING_STOP, err);
    if (rc == RETRACE_OK) rc = go_back(run, err);
    if (rc) return rc;
    if (n < run->n)
        rc = rt_erase(run, n, "stop", stop->text.s,
                      rt_trace_node(&run->trace, run->path[n])->n_bans, err);
    if (n > 0) run->ends[n - 1] = start;
    run->text.n = start;
    return rc ? rc : rt_end(run, RETRACE_FINISH_STOP, err);
}

/* The newest token ends the answer and all have agreed: it is no part of it. */
static int end_by_token(retrace_run *run, retrace_error *err) {
    cut(run, run->n - 1);
    return rt_end(run, RETRACE_FINISH_END, err);
}

static int end_by_length(retrace_run *run, retrace_ending ending, retrace_error *err) {
    int rc = judge_ending(run, run->n, run->text.n, ending, err);
    if (rc == RETRACE_OK) rc = go_back(run, err);
    return rc ? rc : rt_end(run, RETRACE_FINISH_LENGTH, err);
}

/* Nobody objects to the newest token: does the answer end with it? */
static int end_or_settle(retrace_run *run, int found, const rt_stop *stop, int ends,
                         retrace_error *err) {
    if (found) return end_by_stop(run, stop, err);
    if (ends) return end_by_token(run, err);
    if (run->n >= run->o.max_tokens) return end_by_length(run, RETRACE_ENDING_LENGTH, err);
    if (run->n_prompt + run->n >= run->model->facts.n_ctx)
        return end_by_length(run, RETRACE_ENDING_CONTEXT, err);
    return rt_settle(run, err);
}

static int newest_ends(const retrace_run *run) {
    return retrace_token_ends(run->model, run->tokens[run->n_prompt + run->n - 1]);
}

/* The stop text or token that completes with the newest token. */
static int find_stop(const retrace_run *run, rt_stop *stop) {
    return rt_stop_token(run, run->tokens[run->n_prompt + run->n - 1], stop) ||
           rt_stop_find(run, run->n > 1 ? run->ends[run->n - 2] : 0, stop);
}

/* As go_back. Proposals made here may wait: what follows is done again then. */
static int go_back_or_wait(retrace_run *run, int kind, retrace_error *err) {
    run->may_wait = run->cancelled ? 0 : kind;
    int rc = go_back(run, err);
    run->may_wait = 0;
    return rc;
}

/* The newest token has been judged: goes back, or finds out whether the answer ends. */
static int act(retrace_run *run, int found, const rt_stop *stop, retrace_error *err) {
    int ends = newest_ends(run), rc = go_back_or_wait(run, 1, err);
    return rc ? rc : end_or_settle(run, found && !ends, stop, ends, err);
}

int rt_judge(retrace_run *run, retrace_error *err) {
    if (run->n == 0) return end_or_settle(run, 0, NULL, 0, err);
    rt_stop stop;
    int ends = newest_ends(run), found = find_stop(run, &stop);
    int rc = ask_rules(run, run->n, ends ? RETRACE_ENDING_END : RETRACE_GOING,
                       found ? stop.end : SIZE_MAX, 1, err);
    /* An end token that stands leaves no trace: it is no part of the answer. */
    run->untold = ends;
    if (rc == RETRACE_OK && !ends) rc = tell_newest(run, err);
    if (rc == RETRACE_OK) rc = act(run, found, &stop, err);
    return rc == RETRACE_DONE ? RETRACE_OK : rc;
}

int rt_stands(retrace_run *run, retrace_error *err) {
    int rc = end_or_settle(run, 0, NULL, 0, err);
    return rc == RETRACE_DONE ? RETRACE_OK : rc;
}

int rt_resume(retrace_run *run, retrace_error *err) {
    int kind = run->waits, rc;
    rt_stop stop;
    run->waits = 0;
    rt_keep_pin(rt_trace_node(&run->trace, run->path[run->asked_at])->dist, 0);
    if (kind == 1) {
        int found = find_stop(run, &stop);
        rc = act(run, found, &stop, err);
    } else {
        rc = go_back_or_wait(run, kind, err);
    }
    rt_force_done(run);
    return rc == RETRACE_DONE ? RETRACE_OK : rc;
}

int rt_review(retrace_run *run, retrace_error *err) {
    rt_node *node = rt_head(run);
    int any = 0;
    for (int i = 0; i < run->n_watch; i++) {
        rt_watch *w = &run->watch[i];
        w->proposes = 0;
        if (!w->rule->type->review) continue;
        retrace_view v;
        rt_view(run, run->n, i, RETRACE_GOING, &v);
        v.next = node->dist;
        rt_proposal_clear(&w->proposal);
        int rc =
            w->rule->type->review(w->rule->self, &v, node->mark + w->mark_at, &w->proposal, err);
        if (run->starved) return rt_nomem(err);
        if (rc == RETRACE_DONE) rc = accept_proposal(run, w, run->n, 0, err);
        if (rc) return rc;
        any |= w->proposes;
    }
    int rc = any ? go_back_or_wait(run, 2, err) : RETRACE_OK;
    return rc == RETRACE_DONE ? RETRACE_OK : rc;
}

int rt_cut_clean(retrace_run *run, retrace_error *err) {
    for (;;) {
        int rc = judge_ending(run, run->n, run->text.n, RETRACE_ENDING_LENGTH, err);
        for (int i = 0; i < run->n_watch; i++)
            run->watch[i].proposes &= run->watch[i].proposal.max_retries == 0;
        const rt_watch *best = rc == RETRACE_OK ? furthest(run) : NULL;
        if (!best) return rc;
        const rt_node *node = rt_trace_node(&run->trace, run->path[best->proposal.to]);
        rc = rt_erase(run, best->proposal.to, best->rule->type->name, best->proposal.why,
                      node->n_bans, err);
        if (rc) return rc;
    }
}

/* ==== Settling ==== */

/* The token that holds this byte of the text, or n when it lies behind them. */
static int token_at(const retrace_run *run, size_t byte, int n) {
    while (n > 0 && (n > 1 ? run->ends[n - 2] : 0) > byte) n--;
    return n > 0 && run->ends[n - 1] > byte ? n - 1 : n;
}

/* Forced text goes as a whole: inside of it nothing settles. */
static int span_begin(const retrace_run *run, int n) {
    int whole = run->force.by >= 0 || run->force.by == RT_FORCE_HAND;
    if (n == run->n) return whole ? run->force.to : n;
    const rt_node *next = rt_trace_node(&run->trace, run->path[n + 1]);
    return next->span >= 0 && next->span < n ? next->span : n;
}

/* The least position that may still be erased from behind place n. */
static int reach(retrace_run *run, int n) {
    size_t length = n > 0 ? run->ends[n - 1] : 0;
    const rt_node *node = rt_trace_node(&run->trace, run->path[n]);
    int least = token_at(run, length - rt_utf8_tail(run->text.s, length), n);
    int stop = token_at(run, rt_stop_begun(run, length), n);
    if (stop < least) least = stop;
    int forced = span_begin(run, n);
    if (forced < least) least = forced;
    for (int i = 0; i < run->n_watch; i++) {
        const rt_watch *w = &run->watch[i];
        if (!w->rule->type->horizon) continue;
        retrace_view v;
        rt_view(run, n, i, RETRACE_GOING, &v);
        if (n < run->n) v.next = node->dist;
        int to = w->rule->type->horizon(w->rule->self, &v, node->mark + w->mark_at);
        if (to < least) least = to;
    }
    return least < 0 ? 0 : least;
}

/* Distributions of places that cannot become the head again make room for new ones. Walks the
 * branch without recursion: it may be as long as the answer. */
static void drop_branch(retrace_run *run, int top) {
    for (int id = top;;) {
        rt_node *node = rt_trace_node(&run->trace, id);
        rt_keep_drop(node->dist);
        id = node->child;
        while (id < 0) {
            if (node->id == top) return;
            id = node->sibling;
            node = rt_trace_node(&run->trace, node->parent);
        }
    }
}

static void drop_settled(retrace_run *run, int from, int to) {
    for (int i = from; i < to; i++) {
        rt_node *node = rt_trace_node(&run->trace, run->path[i]);
        rt_keep_drop(node->dist);
        for (int child = node->child; child >= 0;) {
            if (child != run->path[i + 1]) drop_branch(run, child);
            child = rt_trace_node(&run->trace, child)->sibling;
        }
    }
}

/* An episode whose first place lies on another branch than what has settled is over. */
static void leave_episode(retrace_run *run) {
    if (run->stuck_depth < 0) return;
    const rt_node *node = rt_trace_node(&run->trace, run->stuck_node);
    while (node->depth > run->settled) node = rt_trace_node(&run->trace, node->parent);
    if (node->id != run->path[run->settled]) run->stuck_depth = -1;
}

static int settle_to(retrace_run *run, int to, retrace_error *err) {
    size_t bytes = to > 0 ? run->ends[to - 1] : 0;
    if (to == run->settled && bytes == run->settled_bytes) return RETRACE_OK;
    retrace_event *e = rt_event(run, RETRACE_SETTLE, NULL);
    if (!e) return rt_nomem(err);
    e->to = to;
    if (bytes > run->settled_bytes)
        e->text = (retrace_text){run->text.s + run->settled_bytes, bytes - run->settled_bytes};
    drop_settled(run, run->settled, to);
    run->settled = to;
    run->settled_bytes = bytes;
    leave_episode(run);
    return RETRACE_OK;
}

/* The fixed point. */
static int settle_point(retrace_run *run) {
    int s = run->n, r;
    if (run->o.hold == RETRACE_HOLD_ALL) return run->settled;
    while ((r = reach(run, s)) < s) s = r;
    return s < run->floor ? run->floor : s;
}

static void note_held(retrace_run *run, int settled) {
    int64_t held = (int64_t)(run->text.n - (settled > 0 ? run->ends[settled - 1] : 0));
    if (held > run->stats.held_max_bytes) run->stats.held_max_bytes = held;
}

int rt_settle(retrace_run *run, retrace_error *err) {
    int s = settle_point(run);
    note_held(run, s);
    return s > run->settled ? settle_to(run, s, err) : RETRACE_OK;
}

/* ==== Ending ==== */

int rt_end(retrace_run *run, retrace_finish finish, retrace_error *err) {
    rt_keep_pin(rt_head(run)->dist, 0);
    note_held(run, settle_point(run));
    int rc = settle_to(run, run->n, err);
    if (rc) return rc;
    retrace_event *e = rt_event(run, RETRACE_END, NULL);
    if (!e) return rt_nomem(err);
    run->finish = finish;
    e->finish = finish;
    e->text = (retrace_text){run->text.n ? run->text.s : "", run->text.n};
    return RETRACE_OK;
}

int rt_give_up(retrace_run *run, retrace_finish finish, const char *why, retrace_error *err) {
    int rc = RETRACE_OK;
    if (run->n > run->settled) {
        const rt_node *node = rt_trace_node(&run->trace, run->path[run->settled]);
        rc = rt_erase(run, run->settled, retrace_finish_name(finish), why, node->n_bans, err);
    }
    return rc ? rc : rt_end(run, finish, err);
}
