/* draw.c - one of the evaluated candidates is drawn.
 *
 * The weight of a candidate is score^(1/temp) / q: over the chance of being evaluated it is
 * score^(1/temp) on average, so the draw follows the tempered posterior as far as its sum over a
 * sample follows the whole sum, and log_q = log score / temp - log Z_temp makes weights that are
 * right on average whatever was evaluated. */
#include "../base.h"
#include "../expv.h"
#include "backward.h"

#include <math.h>
#include <stdlib.h>

static const uint64_t DRAW = 0x64726177; /* what the draws of steps are for */

static int by_index(const void *a, const void *b) {
    const rt_item *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

/* Leaves in the draw the items of falling score until their share of Z reaches top_p. */
static int keep_top(const rt_posterior *p, double top_p, double *w, retrace_error *err) {
    rt_item *sorted = rt_posterior_sorted(p);
    if (!sorted) return rt_nomem(err);
    double sum = 0;
    for (int k = 0; k < p->n_items; k++) {
        const rt_item *i = &sorted[k];
        const rt_item *at = bsearch(i, p->items, (size_t)p->n_items, sizeof *i, by_index);
        if (k > 0 && sum >= top_p) w[at - p->items] = 0;
        sum += exp(i->log_score - i->log_in - p->log_z);
    }
    retrace_free(sorted);
    return RETRACE_OK;
}

/* Weights over exp(*log_scale). */
static void weigh(const rt_posterior *p, double temp, double *w, double *log_scale) {
    double max = -INFINITY;
    for (int k = 0; k < p->n_items; k++) {
        const rt_item *i = &p->items[k];
        w[k] = i->log_score == -INFINITY ? -INFINITY : i->log_score / temp - i->log_in;
        max = fmax(max, w[k]);
    }
    for (int k = 0; k < p->n_items; k++) w[k] = max > -INFINITY ? exp(w[k] - max) : 0;
    *log_scale = max;
}

/* Temperature 0: the largest score, the lower index of equal ones. */
static void only_best(const rt_posterior *p, double *w, double *log_scale) {
    int best = 0;
    for (int k = 0; k < p->n_items; k++) {
        w[k] = 0;
        if (p->items[k].log_score > p->items[best].log_score) best = k;
    }
    w[best] = 1;
    *log_scale = 0;
}

static int weights(const rt_posterior *p, const rt_setup *s, double *w, double *log_z,
                   retrace_error *err) {
    double scale;
    if (s->o.temp > 0)
        weigh(p, s->o.temp, w, &scale);
    else
        only_best(p, w, &scale);
    int rc = s->o.top_p < 1 ? keep_top(p, s->o.top_p, w, err) : RETRACE_OK;
    *log_z = scale + log(rt_sum(w, p->n_items));
    return rc;
}

static void fill(const rt_posterior *p, const rt_setup *s, const rt_item *i, double log_z_temp,
                 retrace_backward_step *out) {
    *out = (retrace_backward_step){
        .drawn = rt_posterior_shown(p, s, i),
        .log_q = s->o.temp > 0 ? i->log_score / s->o.temp - log_z_temp : 0,
        .log_z = p->log_z,
        .log_z_low = p->log_z_low,
        .log_z_high = p->log_z_high,
        .se = p->se,
        .reliable = p->reliable,
        .coverage = p->coverage,
        .evaluated = s->o.mode == RETRACE_EXACT && !p->complete ? p->touched : p->n_items,
        .exact = p->complete || s->o.mode == RETRACE_EXACT,
        .shared = p->uses > 0,
        .top = p->top,
        .n_top = p->n_top,
    };
}

int rt_backward_draw(const rt_posterior *p, const rt_setup *s, int sample, int step, int winner,
                     retrace_backward_step *out, retrace_error *err) {
    double *w = retrace_alloc((size_t)(p->n_items + 1) * sizeof *w), log_z;
    if (!w) return rt_nomem(err);
    int rc = weights(p, s, w, &log_z, err);
    if (rc == RETRACE_OK && winner < 0) {
        double u = rt_uniform((uint64_t)s->o.seed, (uint64_t)sample, DRAW, (uint64_t)step, 0);
        fill(p, s, &p->items[rt_pick(w, p->n_items, u)], log_z, out);
    } else if (rc == RETRACE_OK) {
        rt_item won = {winner, p->log_prior[winner], p->log_u[winner], 0};
        fill(p, s, &won, log_z, out);
    }
    retrace_free(w);
    return rc;
}
