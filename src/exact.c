/* exact.c - resampling that keeps the model's own law.
 *
 * Banning the token where a rejected text began takes away every text that begins with it, the good
 * ones too. Here only the rejected text itself goes: its place is dead, every place knows what
 * share of its own law is still *live*, draws go in proportion to that, and each rejection starts
 * again from the prompt. So at any moment a draw from the root follows the base law (penalties,
 * bias, temperature, truncation) given what has been rejected so far, and what is accepted in the
 * end follows the base law given that no rule objects, whatever the number of restarts. What was
 * learned may only be used by a fresh start, and by all of its draws: a place's live mass and the
 * weights that its draws use change together.
 *
 * live = sum over the children visited of p x live, plus `rest`: what the children never visited
 * have. rest is a sum over them, made when the weights are at hand, not 1 minus something: it is
 * right however little is left.
 *
 * At temperature 0 the law is a point: the best token that is not dead, place by place.
 *
 * Sources: rejection with removed mass as in ASAp (Park et al. 2024); live mass and restarts at no
 * model cost are what the trace makes possible. */
#include "expv.h"
#include "run.h"

#include <math.h>
#include <string.h>

int rt_exact(const retrace_run *run) {
    return run->o.resample == RETRACE_RESAMPLE_EXACT;
}

int rt_exact_check(const retrace_run *run, retrace_error *err) {
    if (strcmp(run->driver->name, "sample") != 0)
        return retrace_fail(err, RETRACE_EUSAGE, "resample exact: not with the driver '%s'",
                            run->driver->name);
    if (run->o.on_stuck != RETRACE_STUCK_FAIL)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "resample exact: only with on_stuck fail: it never returns a text from "
                            "another law");
    for (int i = 0; i < run->n_watch; i++) {
        const retrace_rule *rule = run->watch[i].rule;
        if (!rule->type->certain || !rule->type->certain(rule->self))
            return retrace_fail(err, RETRACE_EUSAGE,
                                "resample exact: rule '%s' is not certain with these settings: "
                                "whether it objects must depend on the text alone",
                                rule->type->name);
    }
    return RETRACE_OK;
}

/* ==== Drawing ==== */

/* The weight of a token, for those that are in the draw. */
static double *weight_of(retrace_run *run, const retrace_token *ids, int n, retrace_token id) {
    double *weights = run->sampler.weights;
    if (!ids) return &weights[id];
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (ids[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && ids[lo] == id ? &weights[lo] : NULL;
}

/* Takes away what constraints are known to refuse here. */
static int take_refused(retrace_run *run, int at, const retrace_token *ids, int n,
                        retrace_error *err) {
    retrace_dist *d;
    int rc = rt_masked(run, at, &d, err);
    for (int i = 0; rc == RETRACE_OK && i < n; i++) {
        if (d->logits[ids ? ids[i] : i] == -INFINITY) run->sampler.weights[i] = 0;
    }
    return rc;
}

/* The first visit to a child fixes its share of the place. */
static void weigh_children(retrace_run *run, const rt_node *node, const retrace_token *ids, int n) {
    for (int id = node->child; id >= 0;) {
        rt_node *child = rt_trace_node(&run->trace, id);
        double *w = weight_of(run, ids, n, child->token);
        if (w) *w *= child->live;
        id = child->sibling;
    }
}

/* The share of children that have never been visited, but for one. The weights of those that have
 * are put to 0 for the sum: they are not needed any more. */
static double unvisited(retrace_run *run, const rt_node *node, const retrace_token *ids, int n,
                        double total, int but) {
    double *weights = run->sampler.weights, sum = 0;
    for (int id = node->child; id >= 0;) {
        const rt_node *child = rt_trace_node(&run->trace, id);
        double *w = weight_of(run, ids, n, child->token);
        if (w) *w = 0;
        id = child->sibling;
    }
    for (int i = 0; i < n; i++) sum += i == but ? 0 : weights[i];
    return sum / total;
}

static double sum_of(const double *v, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += v[i];
    return sum;
}

static int draw_live(retrace_run *run, const retrace_token *ids, int n, int *at,
                     retrace_error *err) {
    rt_node *node = rt_head(run);
    double *weights = run->sampler.weights;
    run->exact.total = sum_of(weights, n);
    int rc = node->refused ? take_refused(run, run->n, ids, n, err) : RETRACE_OK;
    if (rc) return rc;
    weigh_children(run, node, ids, n);
    if (!(rt_sum(weights, n) > 0)) return RETRACE_DONE;
    int i = rt_choose(run, &run->attempts, 0, run->n, weights, ids, n, err);
    if (i < 0 || i >= n) return i < 0 ? i : RETRACE_DONE;
    const rt_node *child = rt_trace_child(&run->trace, node, ids ? ids[i] : i);
    run->exact.p = child ? child->p : weights[i] / run->exact.total;
    node->rest = unvisited(run, node, ids, n, run->exact.total, i);
    *at = i;
    return RETRACE_OK;
}

static int ban_dead(retrace_run *run, retrace_error *err) {
    int rc = RETRACE_OK;
    for (int id = rt_head(run)->child; rc == RETRACE_OK && id >= 0;) {
        const rt_node *child = rt_trace_node(&run->trace, id);
        if (!(child->live > 0)) rc = retrace_shape_ban(&run->sampler.shape, child->token, err);
        id = child->sibling;
    }
    return rc;
}

static int greedy(const retrace_run *run) {
    return !(run->o.temp > 0);
}

/* At temperature 0 what constraints refuse is dead from the start. */
static int shape(retrace_run *run, retrace_error *err) {
    retrace_dist *d = rt_head(run)->dist;
    int rc = RETRACE_OK;
    if (greedy(run) && rt_constrained(run)) rc = rt_masked(run, run->n, &d, err);
    if (rc == RETRACE_OK) rc = rt_shape(run, d, err);
    return rc == RETRACE_OK && greedy(run) ? ban_dead(run, err) : rc;
}

int rt_exact_draw(retrace_run *run, retrace_token *id, retrace_error *err) {
    rt_sampling how = rt_sampling_of(run);
    const double *weights;
    const retrace_token *ids;
    int n, at = 0, rc = shape(run, err);
    if (rc == RETRACE_OK) rc = rt_sampler_weigh(&run->sampler, &how, &weights, &ids, &n, err);
    if (rc) return rc;
    if (n == 0) return RETRACE_DONE;
    run->exact.ids = ids;
    run->exact.n = n;
    run->exact.p = 1;
    if (greedy(run)) /* one candidate, and still a draw, so that a trace can be replayed */
        at = rt_choose(run, &run->attempts, 0, run->n, weights, ids, n, err);
    else
        rc = draw_live(run, ids, n, &at, err);
    if (rc || at < 0 || at >= n) return rc ? rc : at < 0 ? at : RETRACE_DONE;
    *id = ids ? ids[at] : at;
    return RETRACE_OK;
}

void rt_exact_pushed(retrace_run *run) {
    rt_head(run)->p = run->exact.p;
}

/* ==== Rejecting ==== */

/* A constraint refused the newest token: all that it refuses there is dead, not that one alone. The
 * weights of the draw still lie in the sampler, those of visited children at 0. */
static int learn_refused(retrace_run *run, retrace_error *err) {
    rt_node *parent = rt_trace_node(&run->trace, run->path[run->n - 1]);
    const rt_node *leaf = rt_head(run);
    if (parent->refused || greedy(run)) return RETRACE_OK;
    int rc = take_refused(run, run->n - 1, run->exact.ids, run->exact.n, err);
    if (rc) return rc;
    double *w = weight_of(run, run->exact.ids, run->exact.n, leaf->token);
    if (w) *w = 0; /* it has been visited now */
    parent->rest = sum_of(run->sampler.weights, run->exact.n) / run->exact.total;
    parent->refused = 1;
    return RETRACE_OK;
}

/* At temperature 0 a place is dead when a draw finds nothing there. */
static void update(retrace_run *run) {
    rt_head(run)->live = 0;
    if (greedy(run)) return;
    for (int n = run->n - 1; n >= 0; n--) {
        rt_node *node = rt_trace_node(&run->trace, run->path[n]);
        node->live = node->rest;
        for (int id = node->child; id >= 0;) {
            const rt_node *child = rt_trace_node(&run->trace, id);
            node->live += child->p * child->live;
            id = child->sibling;
        }
    }
}

static int restart(retrace_run *run, const char *rule, const char *why, retrace_error *err) {
    update(run);
    if (!(rt_trace_node(&run->trace, 0)->live > 0))
        return rt_give_up(run, RETRACE_FINISH_STUCK, "every answer is rejected", err);
    if (run->stats.rewinds >= run->o.max_rewinds)
        return rt_give_up(run, RETRACE_FINISH_BUDGET, "max_rewinds", err);
    run->stats.rewinds++;
    const rt_node *root = rt_trace_node(&run->trace, 0);
    return rt_erase(run, 0, rule, why, root->n_bans, err);
}

int rt_exact_reject(retrace_run *run, rt_watch *w, retrace_error *err) {
    int rc = w->rule->type->mask && run->pushed ? learn_refused(run, err) : RETRACE_OK;
    w->hits++;
    w->erased += run->n;
    return rc ? rc : restart(run, w->rule->type->name, w->proposal.why, err);
}

int rt_exact_dead_end(retrace_run *run, retrace_error *err) {
    if (run->n > 0) return restart(run, "stuck", "nothing is left here", err);
    return rt_give_up(run, RETRACE_FINISH_STUCK, "every answer is rejected", err);
}
