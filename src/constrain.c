/* constrain.c - what constraints admit at a place, and how much of the model's mass is left there.
 *
 * A constraint is a mask that acts before every truncation. Computing it for a whole vocabulary may
 * be dear, so a draw asks about single tokens first, and for the whole mask only when that does not
 * settle the matter (see draw.c). Masked logits are a copy: the place keeps the model's own. */
#include "expv.h"
#include "run.h"

#include <math.h>
#include <string.h>

int rt_constrained(const retrace_run *run) {
    for (int i = 0; i < run->n_watch; i++) {
        if (run->watch[i].rule->type->mask) return 1;
    }
    return 0;
}

static const char *mark_of(const retrace_run *run, int n, const rt_watch *w) {
    return rt_trace_node(&run->trace, run->path[n])->mark + w->mark_at;
}

int rt_admits(retrace_run *run, int n, retrace_token id) {
    for (int i = 0; i < run->n_watch; i++) {
        const rt_watch *w = &run->watch[i];
        if (!w->rule->type->admits) continue;
        retrace_view v;
        rt_view(run, n, i, RETRACE_GOING, &v);
        if (!w->rule->type->admits(w->rule->self, &v, mark_of(run, n, w), id)) return 0;
    }
    return 1;
}

/* ==== The whole mask ==== */

static int make_room(retrace_run *run, retrace_error *err) {
    retrace_dist *d = &run->masked;
    if (d->logits) return RETRACE_OK;
    d->n = run->model->facts.vocab;
    d->logits = retrace_alloc((size_t)d->n * sizeof *d->logits);
    return d->logits ? RETRACE_OK : rt_nomem(err);
}

static void apply(float *logits, int n, const uint64_t *bits) {
    for (int i = 0; i < n; i++) {
        if (!(bits[i >> 6] >> (i & 63) & 1)) logits[i] = -INFINITY;
    }
}

int rt_masked(retrace_run *run, int n, retrace_dist **out, retrace_error *err) {
    rt_node *node = rt_trace_node(&run->trace, run->path[n]);
    retrace_dist *d = &run->masked;
    *out = d;
    if (run->masked_node == node->id) return RETRACE_OK;
    if (make_room(run, err)) return RETRACE_ENOMEM;
    run->masked_node = -1;
    memcpy(d->logits, node->dist->logits, (size_t)d->n * sizeof *d->logits);
    for (int i = 0; i < run->n_watch; i++) {
        const rt_watch *w = &run->watch[i];
        if (!w->rule->type->mask) continue;
        retrace_view v;
        const uint64_t *bits;
        rt_view(run, n, i, RETRACE_GOING, &v);
        int rc = w->rule->type->mask(w->rule->self, &v, mark_of(run, n, w), &bits, err);
        if (rc) return rc;
        apply(d->logits, d->n, bits);
    }
    d->have_max = d->have_lse = d->have_entropy = 0;
    run->masked_node = node->id;
    return RETRACE_OK;
}

int rt_mask_weights(retrace_run *run, int n, double *weights, int n_weights, retrace_error *err) {
    retrace_dist *d;
    int rc = rt_masked(run, n, &d, err);
    for (int i = 0; rc == RETRACE_OK && i < n_weights; i++) {
        if (d->logits[i] == -INFINITY) weights[i] = 0;
    }
    return rc;
}

/* ==== What is left ==== */

int rt_live(retrace_run *run, int n, const retrace_token *more, int n_more, double *live,
            retrace_error *err) {
    const rt_node *node = rt_trace_node(&run->trace, run->path[n]);
    retrace_dist *d = node->dist;
    *live = 1;
    if (!d || node->n_bans + n_more == 0) return RETRACE_OK;
    if (rt_constrained(run)) {
        int rc = rt_masked(run, n, &d, err);
        if (rc) return rc;
        *live = 0;
        if (rt_dist_max(d) == -INFINITY) return RETRACE_OK;
    }
    int all = node->n_bans + n_more;
    if (rt_grow(&run->banned, &run->cap_banned, all, sizeof *run->banned)) return rt_nomem(err);
    for (int i = 0; i < all; i++)
        run->banned[i] = i < node->n_bans ? node->bans[i] : more[i - node->n_bans];
    return rt_sampler_live(&run->sampler, d, run->banned, all, live, err);
}
