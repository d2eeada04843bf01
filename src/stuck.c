/* stuck.c - what to do at a place where nothing acceptable is left.
 *
 * The ladder steps back 1, 2, 4, ... tokens, each time banning the token that led on, so that every
 * step excludes something for good and the run ends. An episode lasts until the run gets past the
 * deepest place where it was stuck. What has settled is never touched; when there is nothing left
 * to step back over, the policy decides: give up, return what stood where the episode began, or go
 * on from there and let that one hit through. */
#include "run.h"

static const char exhausted[] = "nothing acceptable is left here";

/* Takes the head to any place of the tree, over the nearest common ancestor. */
static int go_to(retrace_run *run, const rt_node *target, const char *why, retrace_error *err) {
    const rt_node *node = target;
    while (node->depth > run->n || run->path[node->depth] != node->id)
        node = rt_trace_node(&run->trace, node->parent);
    int rc = RETRACE_OK;
    if (node->depth < run->n) rc = rt_erase(run, node->depth, "stuck", why, node->n_bans, err);
    while (rc == RETRACE_OK && run->n < target->depth) {
        const rt_node *next = target;
        while (next->depth > run->n + 1) next = rt_trace_node(&run->trace, next->parent);
        rc = rt_enter(run, next->token, err);
        if (rc == RETRACE_OK) rc = rt_tell_push(run, 0, err);
    }
    return rc;
}

static int stop(retrace_run *run, retrace_error *err) {
    int rc = go_to(run, rt_trace_node(&run->trace, run->stuck_node), "stop", err);
    if (rc == RETRACE_OK) rc = rt_cut_clean(run, err);
    return rc ? rc : rt_end(run, RETRACE_FINISH_STUCK, err);
}

static int allow(retrace_run *run, retrace_error *err) {
    rt_node *node = rt_trace_node(&run->trace, run->stuck_node);
    if (node->exempt) return rt_give_up(run, RETRACE_FINISH_STUCK, exhausted, err);
    int rc = go_to(run, node, "allow", err);
    if (rc) return rc;
    retrace_event *e = rt_event(run, RETRACE_NOTE, "allow: the next hit here is let through");
    if (!e) return rt_nomem(err);
    e->node = node->id;
    e->rule = "stuck";
    node->n_bans = node->n_soft = 0;
    node->draws = 0;
    node->exempt = 1;
    run->stuck_depth = -1;
    return RETRACE_OK;
}

static int by_policy(retrace_run *run, retrace_error *err) {
    if (run->o.on_stuck == RETRACE_STUCK_STOP) return stop(run, err);
    if (run->o.on_stuck == RETRACE_STUCK_ALLOW) return allow(run, err);
    return rt_give_up(run, RETRACE_FINISH_STUCK, exhausted, err);
}

int rt_stuck(retrace_run *run, retrace_error *err) {
    if (rt_exact(run)) return rt_exact_dead_end(run, err);
    if (run->n > run->stuck_depth) {
        run->stuck_depth = run->n;
        run->stuck_node = run->path[run->n];
        run->stuck_step = 1;
    } else if (run->stuck_step < 1 << 28) {
        run->stuck_step *= 2;
    }
    int room = run->n - run->settled;
    if (room == 0) return by_policy(run, err);
    if (run->stats.rewinds >= run->o.max_rewinds)
        return rt_give_up(run, RETRACE_FINISH_BUDGET, "max_rewinds", err);
    int to = run->n - (run->stuck_step < room ? run->stuck_step : room);
    int n_old = rt_trace_node(&run->trace, run->path[rt_back_to(run, to)])->n_bans;
    rt_node *node = rt_trace_node(&run->trace, run->path[to]);
    if (rt_node_ban(node, run->tokens[run->n_prompt + to], 0) < 0) return rt_nomem(err);
    run->stats.rewinds++;
    return rt_back(run, to, "stuck", exhausted, n_old, err);
}
