/* outcome.c - what the evaluated candidates tell about all.
 *
 * Z is the sum of score / q, where q is the chance that the candidate was evaluated; the sum of
 * score^2 (1 - q) / q^2 estimates its variance. The interval is wider than that says: few
 * candidates may carry the error, and one that would have carried more may have been missed. The
 * most that a missed one is likely to add is taken from those that were met: its score over g as
 * large as any, its estimate that times kappa. The larger of this and of the largest term is added
 * once more, and the quantile is Student's for as many degrees of freedom as the terms are worth
 * (Satterthwaite). All on the logarithm, for the estimate is skewed: often a little low, seldom
 * much too high.
 *
 * Where so few candidates tell of the error that this would not hold either, no interval is stated:
 * what was evaluated is all that is certain.
 *
 * After rounds (rounds.c) the sample alone tells too little of what they all missed: what would
 * have told of it is often known by then. But each round was drawn by a proposal that did not know
 * it yet, and shows how much more than its proposal a candidate may be worth. So the most that the
 * rounds met is taken for what the sample may have missed, and the interval is a wider one. None is
 * stated where a candidate of which nothing was learned could be a surprise, as those met were to
 * the first proposal. */
#include "../base.h"
#include "backward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int take_items(rt_posterior *p, const rt_setup *s, retrace_error *err) {
    char *is = retrace_calloc((size_t)s->vocab + 1, 1);
    p->items = retrace_alloc((size_t)(p->n_chosen ? p->n_chosen : 1) * sizeof *p->items);
    if (!is || !p->items) {
        retrace_free(is);
        return rt_nomem(err);
    }
    for (int k = 0; k < p->n_chosen; k++) is[p->chosen[k]] = 1;
    p->n_items = 0;
    for (int i = 0; i <= s->vocab; i++)
        if (is[i])
            p->items[p->n_items++] =
                (rt_item){i, p->log_prior[i], p->log_u[i], rt_posterior_log_chance(p, s, i)};
    retrace_free(is);
    return RETRACE_OK;
}

/* ==== Z ==== */

/* ln of the sum of exp(log_score - log_in), or of exp(log_score) alone. */
static double log_total(const rt_posterior *p, int estimate) {
    double max = -INFINITY, sum = 0;
    for (int k = 0; k < p->n_items; k++)
        max = fmax(max, p->items[k].log_score - (estimate ? p->items[k].log_in : 0));
    if (max == -INFINITY) return max;
    for (int k = 0; k < p->n_items; k++)
        sum += exp(p->items[k].log_score - (estimate ? p->items[k].log_in : 0) - max);
    return max + log(sum);
}

/* The 97.5 % quantile of Student's t, by its expansion around the normal one. */
static double student(double freedom) {
    static const double z = 1.959963984540054;
    double f = freedom < 1 ? 1 : freedom, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
    return z + (z3 + z) / (4 * f) + (5 * z5 + 16 * z3 + 3 * z) / (96 * f * f) +
           (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * f * f * f);
}

/* What the candidates say about the error of Z, relative to Z. */
typedef struct errors {
    double sum, squares; /* of score^2 (1 - q) / q^2, and of their squares */
    double largest;
    double missed; /* the estimate of one that may have been missed */
    int n;         /* candidates whose being evaluated was chance, not an earlier round's */
    int n_tail;    /* those of them that were rather left out than evaluated */
} errors;

static errors gather(const rt_posterior *p) {
    errors e = {0};
    double ratio = -INFINITY;
    for (int k = 0; k < p->n_items; k++) {
        const rt_item *i = &p->items[k];
        if (p->known[i->index]) continue;
        e.n++;
        double left_out = -expm1(i->log_in), w = exp(i->log_score - p->log_z - i->log_in);
        double x = w * w * left_out;
        e.sum += x;
        e.squares += x * x;
        e.largest = fmax(e.largest, x);
        e.n_tail += left_out > 0.5;
        ratio = fmax(ratio, i->log_score - p->log_g[i->index]);
    }
    e.missed = exp(p->log_kappa + ratio - p->log_z);
    return e;
}

/* Half of the interval's width, or infinity where none is stated. The bounds here and below were
 * found on random chains, light-tailed and heavy: beyond them fewer than 93 % of intervals held Z.
 */
static double half_width(const errors *e) {
    double extra = fmax(e->largest, e->missed * e->missed);
    double sum = e->sum + extra, squares = e->squares + extra * extra;
    double freedom = squares > 0 ? sum * sum / squares : 1;
    int told = e->n >= 64 && e->n_tail >= 10 && e->missed < 0.1 && freedom >= 5;
    return told ? student(freedom) * sqrt(sum) : INFINITY;
}

/* The same after rounds; all that was evaluated tells. */
static double half_after_rounds(const rt_posterior *p, const rt_setup *s, const errors *e) {
    double missed = fmax(e->missed, exp(p->log_kappa + p->log_heavy - p->log_z));
    double half = 3 * sqrt(e->sum + e->largest + missed * missed);
    int told = p->n_items >= 64 && missed < 0.1 && rt_round_surprise(p, s) - p->log_z < log(0.5);
    return told ? fmax(half, 0.1) : INFINITY;
}

static void measure_error(rt_posterior *p, const rt_setup *s) {
    errors e = gather(p);
    double half = p->n_known ? half_after_rounds(p, s, &e) : half_width(&e);
    double certain = log_total(p, 0);
    p->se = sqrt(e.sum);
    p->reliable = half < INFINITY;
    p->log_z_low = p->reliable ? fmax(p->log_z - half, certain) : certain;
    p->log_z_high = p->reliable ? p->log_z + half : INFINITY;
}

/* Without chances nothing is known about the rest, but that its scores are at most b. */
static void bound_rest(rt_posterior *p, const rt_setup *s) {
    double rest = 0;
    for (int i = 0; i <= s->vocab; i++) rest += exp(p->log_b[i] - p->log_z);
    for (int k = 0; k < p->n_items; k++) rest -= exp(p->log_b[p->items[k].index] - p->log_z);
    p->coverage = s->o.shared_table ? NAN : 1 / (1 + fmax(rest, 0));
    p->log_z_high = s->o.shared_table ? INFINITY : p->log_z + log1p(fmax(rest, 0));
    p->se = NAN;
    p->reliable = 0;
}

/* ==== The list ==== */

static int by_score(const void *a, const void *b) {
    const rt_item *x = a, *y = b;
    if (x->log_score != y->log_score) return x->log_score < y->log_score ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

rt_item *rt_posterior_sorted(const rt_posterior *p) {
    size_t size = (size_t)p->n_items * sizeof *p->items;
    rt_item *sorted = retrace_alloc(size);
    if (!sorted) return NULL;
    memcpy(sorted, p->items, size);
    qsort(sorted, (size_t)p->n_items, sizeof *sorted, by_score);
    return sorted;
}

retrace_preceding rt_posterior_shown(const rt_posterior *p, const rt_setup *s, const rt_item *i) {
    /* A winner of the race may be worth more than all that Z was estimated from. */
    double share = fmin(i->log_score - p->log_z, 0);
    return (retrace_preceding){i->index == s->vocab ? RETRACE_START : i->index, share, i->log_prior,
                               i->log_score - i->log_prior};
}

static int make_list(rt_posterior *p, const rt_setup *s, retrace_error *err) {
    int64_t n = s->o.top < p->n_items ? s->o.top : p->n_items;
    if (n == 0 || p->top) return RETRACE_OK;
    rt_item *sorted = rt_posterior_sorted(p);
    p->top = retrace_alloc((size_t)n * sizeof *p->top);
    if (!sorted || !p->top) {
        retrace_free(sorted);
        return rt_nomem(err);
    }
    for (int k = 0; k < n && sorted[k].log_score > -INFINITY; k++)
        p->top[p->n_top++] = rt_posterior_shown(p, s, &sorted[k]);
    retrace_free(sorted);
    return RETRACE_OK;
}

int rt_posterior_conclude(rt_posterior *p, const rt_setup *s, retrace_error *err) {
    int rc = take_items(p, s, err);
    if (rc) return rc;
    int estimates = s->o.mode == RETRACE_PRIORITY || s->o.mode == RETRACE_EXACT;
    p->log_z = p->log_z_low = p->log_z_high = log_total(p, 1);
    p->nothing = p->log_z == -INFINITY;
    p->reliable = 1;
    p->coverage = 1;
    p->se = 0;
    if (p->nothing && !p->complete) {
        p->log_z_high = INFINITY;
        p->reliable = 0;
        p->coverage = p->se = NAN;
    } else if (!p->complete && estimates) {
        p->coverage = fmin(exp(log_total(p, 0) - p->log_z), 1);
        measure_error(p, s);
    } else if (!p->complete) {
        bound_rest(p, s);
    }
    if (!p->nothing) rc = make_list(p, s, err);
    if (s->o.mode != RETRACE_EXACT) rt_posterior_drop(p);
    p->phase = RT_READY;
    return rc;
}
