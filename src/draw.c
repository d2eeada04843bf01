/* draw.c - one draw of the next token.
 *
 * Penalties, bias, bans and rules shape the distribution, sampler.c truncates it, and chance, keyed
 * by what the draw is for, picks. All of it is computed from the trace at every draw; there is no
 * state that a rewind would have to put right. */
#include "expv.h"
#include "run.h"

/* Draws at one place after which it counts as exhausted. */
enum { MOST_DRAWS = 256 };

int rt_choose(retrace_run *run, rt_attempts *attempts, uint64_t purpose, int pos, const double *p,
              const retrace_token *ids, int n, retrace_error *err) {
    if (rt_grow(&attempts->v, &attempts->cap, pos + 1, sizeof *attempts->v)) return rt_nomem(err);
    int attempt = attempts->v[pos]++;
    if (run->o.choose) {
        int i = run->o.choose(run->o.choose_ud, p, ids, n, purpose, pos, attempt);
        if (i >= 0) return i > n ? n : i;
    }
    double u = rt_uniform((uint64_t)run->o.seed, (uint64_t)run->o.head, purpose, (uint64_t)pos,
                          (uint64_t)attempt);
    return rt_pick(p, n, u);
}

/* ==== Shaping ==== */

/* llama.cpp's rule: a penalty above 1 makes a logit smaller whatever its sign. Once per token. */
static int penalise_repeats(retrace_run *run, retrace_error *err) {
    int all = run->n_prompt + run->n;
    int n =
        run->o.repeat_last_n < 0 || run->o.repeat_last_n > all ? all : (int)run->o.repeat_last_n;
    struct retrace_shape *s = &run->sampler.shape;
    for (int i = all - n; i < all; i++) {
        retrace_token id = run->tokens[i];
        double logit = rt_shape_logit(s, id);
        if (logit != (double)s->dist->logits[id]) continue; /* this one has been here */
        logit = logit > 0 ? logit / run->o.repeat_penalty : logit * run->o.repeat_penalty;
        if (rt_shape_put(s, id, logit, err)) return RETRACE_ENOMEM;
    }
    return RETRACE_OK;
}

static int penalise_kept(retrace_run *run, retrace_error *err) {
    const retrace_token *kept = run->tokens + run->n_prompt;
    for (int i = 0; i < run->n; i++) {
        if (rt_shape_count(&run->sampler.shape, kept[i], run->o.frequency_penalty,
                           run->o.presence_penalty, err))
            return RETRACE_ENOMEM;
    }
    return RETRACE_OK;
}

static int ban_ends(retrace_run *run, retrace_error *err) {
    for (int i = 0; i < run->n_end_tokens; i++) {
        if (retrace_shape_ban(&run->sampler.shape, run->end_tokens[i], err)) return RETRACE_ENOMEM;
    }
    return RETRACE_OK;
}

static int shape_by_rules(retrace_run *run, retrace_error *err) {
    for (int i = 0; i < run->n_watch; i++) {
        const rt_watch *w = &run->watch[i];
        if (!w->rule->type->shape) continue;
        retrace_view v;
        rt_view(run, run->n, i, RETRACE_GOING, &v);
        v.next = rt_head(run)->dist;
        int rc = w->rule->type->shape(w->rule->self, &v, rt_head(run)->mark + w->mark_at,
                                      &run->sampler.shape, err);
        if (rc) return rc;
    }
    return RETRACE_OK;
}

int rt_shape(retrace_run *run, retrace_dist *d, retrace_error *err) {
    struct retrace_shape *s = &run->sampler.shape;
    const rt_node *node = rt_head(run);
    int rc = RETRACE_OK;
    rt_shape_begin(s, d);
    if (run->o.repeat_penalty != 1 && run->o.repeat_last_n != 0) rc = penalise_repeats(run, err);
    if (rc == RETRACE_OK && (run->o.presence_penalty != 0 || run->o.frequency_penalty != 0))
        rc = penalise_kept(run, err);
    for (int i = 0; rc == RETRACE_OK && i < run->o.n_bias; i++)
        rc = retrace_shape_add(s, run->bias[i].id, run->bias[i].bias, err);
    if (rc == RETRACE_OK) rc = ban_ends(run, err);
    for (int i = 0; rc == RETRACE_OK && i < node->n_bans; i++)
        rc = retrace_shape_ban(s, node->bans[i], err);
    return rc ? rc : shape_by_rules(run, err);
}

/* ==== The draw ==== */

rt_sampling rt_sampling_of(const retrace_run *run) {
    return (rt_sampling){.top_k = (int)(run->o.top_k > INT32_MAX ? 0 : run->o.top_k),
                         .top_p = run->o.top_p,
                         .min_p = run->o.min_p,
                         .typical = run->o.typical,
                         .temp = run->o.temp};
}

/* RETRACE_DONE when too little is left at the head. */
static int exhausted(retrace_run *run, retrace_error *err) {
    const rt_node *node = rt_head(run);
    if (node->draws >= MOST_DRAWS) return RETRACE_DONE;
    if (node->n_bans == 0) return RETRACE_OK;
    double live;
    int rc = rt_live(run, run->n, NULL, 0, &live, err);
    if (rc) return rc;
    return live < run->o.stuck_mass || live <= 0 ? RETRACE_DONE : RETRACE_OK;
}

static int admits(void *ud, retrace_token id) {
    retrace_run *run = ud;
    return rt_admits(run, run->n, id);
}

/* The weights of the draw at the head under the whole mask. */
static int weigh_masked(retrace_run *run, const double **weights, const retrace_token **ids, int *n,
                        retrace_error *err) {
    rt_sampling how = rt_sampling_of(run);
    retrace_dist *masked;
    int rc = rt_masked(run, run->n, &masked, err);
    if (rc == RETRACE_OK) rc = rt_shape(run, masked, err);
    return rc ? rc : rt_sampler_weigh(&run->sampler, &how, weights, ids, n, err);
}

/* The weights of the draw at the head. With a constraint the candidates are asked about one by one,
 * as many as the truncation looks at; when that takes too long, or the truncation needs the mass of
 * them all, the whole mask is made. Without a truncation the token is asked about once drawn. */
static int weigh(retrace_run *run, const double **weights, const retrace_token **ids, int *n,
                 retrace_error *err) {
    rt_sampling how = rt_sampling_of(run);
    int rc = rt_shape(run, rt_head(run)->dist, err);
    if (rc) return rc;
    if (rt_constrained(run)) {
        how.admits = admits;
        how.ud = run;
    }
    rc = rt_sampler_weigh(&run->sampler, &how, weights, ids, n, err);
    return rc == RETRACE_DONE ? weigh_masked(run, weights, ids, n, err) : rc;
}

static int choose_token(retrace_run *run, const retrace_token *ids, int n, retrace_error *err) {
    return rt_choose(run, &run->attempts, 0, run->n, run->sampler.weights, ids, n, err);
}

/* Draws until the token is admitted: the conditional law is the law under the mask. After a few
 * refusals, or when no weight is left (what remains may have been too small to be a number beside
 * what was refused), the mask is made. An index, n or more when there is none, or negative. */
static int choose_admitted(retrace_run *run, const retrace_token *ids, int n, retrace_error *err) {
    enum { FEW = 8 };
    double *weights = run->sampler.weights;
    const double *again;
    if (ids || !rt_constrained(run)) return choose_token(run, ids, n, err);
    for (int refused = 0; refused < FEW && rt_sum(weights, n) > 0; refused++) {
        int i = choose_token(run, NULL, n, err);
        if (i < 0 || i >= n || rt_admits(run, run->n, i)) return i;
        weights[i] = 0;
    }
    int rc = weigh_masked(run, &again, &ids, &n, err);
    if (rc) return rc;
    return n > 0 ? choose_token(run, NULL, n, err) : INT32_MAX;
}

/* Until something can be drawn: soft bans give way. */
static int draw_local(retrace_run *run, retrace_token *id, retrace_error *err) {
    rt_node *node = rt_head(run);
    const double *weights;
    const retrace_token *ids;
    for (;;) {
        int n = 0, i = 0, rc = exhausted(run, err);
        if (rc == RETRACE_OK) rc = weigh(run, &weights, &ids, &n, err);
        if (rc == RETRACE_OK && n > 0) i = choose_admitted(run, ids, n, err);
        if (rc < 0 || i < 0) return rc < 0 ? rc : i;
        if (rc == RETRACE_OK && i < n) {
            *id = ids ? ids[i] : i;
            run->drawn.at = i;
            run->drawn.n = n;
            return RETRACE_OK;
        }
        if (!rt_soft_lift(node)) return RETRACE_DONE;
    }
}

int retrace_run_draw(retrace_run *run, retrace_token *id, retrace_error *err) {
    int rc = rt_exact(run) ? rt_exact_draw(run, id, err) : draw_local(run, id, err);
    if (rc) return rc;
    double logit = rt_shape_logit(&run->sampler.shape, *id) * run->sampler.shape.scale;
    rt_head(run)->draws++;
    run->drawn.id = *id;
    run->drawn.node = -1;
    run->drawn.logit = run->o.temp > 0 ? logit / run->o.temp : logit;
    return RETRACE_OK;
}
