/* dist.c - a lazy distribution, and the store that keeps distributions of held places.
 *
 * A retry at a place costs no model work because the place still has its distribution. The logits
 * are copied once, from the model into the store; everything else is computed when it is asked for.
 * The store has a budget: past it the oldest are dropped, and a place that needs its own again asks
 * the model with the same batch plan. Buffers are reused, so a run that settles as it goes touches
 * the same few again and again and stays in the processor's cache. */
#include "dist.h"
#include "base.h"
#include "expv.h"

#include <math.h>

struct retrace_keep {
    int vocab;
    size_t each, budget, used; /* bytes */
    retrace_dist *oldest, *newest;
    retrace_dist *spare; /* dropped, linked by `newer`, buffers kept */
};

rt_keep *rt_keep_new(int vocab, size_t budget) {
    rt_keep *k = retrace_calloc(1, sizeof *k);
    if (!k) return NULL;
    k->vocab = vocab;
    k->each = (size_t)vocab * sizeof(float) + sizeof(retrace_dist);
    k->budget = budget;
    return k;
}

static void release(rt_keep *k, retrace_dist *d) {
    k->used -= k->each;
    retrace_free(d->logits);
    retrace_free(d);
}

void rt_keep_free(rt_keep *k) {
    if (!k) return;
    while (k->spare) {
        retrace_dist *d = k->spare;
        k->spare = d->newer;
        release(k, d);
    }
    retrace_free(k);
}

static void detach(rt_keep *k, retrace_dist *d) {
    *(d->older ? &d->older->newer : &k->oldest) = d->newer;
    *(d->newer ? &d->newer->older : &k->newest) = d->older;
    d->older = d->newer = NULL;
}

static void attach(rt_keep *k, retrace_dist *d) {
    d->older = k->newest;
    *(k->newest ? &k->newest->newer : &k->oldest) = d;
    k->newest = d;
}

void rt_keep_drop(retrace_dist *d) {
    if (!d) return;
    rt_keep *k = d->keep;
    detach(k, d);
    *d->owner = NULL;
    d->newer = k->spare;
    k->spare = d;
}

static retrace_dist *fresh(rt_keep *k) {
    retrace_dist *d = retrace_calloc(1, sizeof *d);
    float *logits = retrace_alloc((size_t)k->vocab * sizeof *logits);
    if (!d || !logits) {
        retrace_free(d);
        retrace_free(logits);
        return NULL;
    }
    d->logits = logits;
    k->used += k->each;
    return d;
}

/* Makes a spare out of the oldest one nobody needs right now. */
static void drop_oldest(rt_keep *k) {
    for (retrace_dist *d = k->oldest; d; d = d->newer) {
        if (!d->pinned) {
            rt_keep_drop(d);
            return;
        }
    }
}

retrace_dist *rt_keep_take(rt_keep *k, retrace_dist **owner) {
    if (!k->spare && k->used + k->each > k->budget) drop_oldest(k);
    retrace_dist *d = k->spare;
    if (d) {
        k->spare = d->newer;
    } else {
        d = fresh(k);
        if (!d) return NULL;
    }
    *d = (retrace_dist){.n = k->vocab, .logits = d->logits, .pinned = 1, .owner = owner, .keep = k};
    attach(k, d);
    *owner = d;
    return d;
}

void rt_keep_pin(retrace_dist *d, int on) {
    if (!d) return;
    d->pinned = (unsigned char)on;
    if (on && d->keep->newest != d) {
        detach(d->keep, d);
        attach(d->keep, d);
    }
}

/* ==== What is computed on demand ==== */

double rt_dist_max(retrace_dist *d) {
    if (!d->have_max) d->max = (double)rt_max(d->logits, d->n);
    d->have_max = 1;
    return d->max;
}

double rt_dist_lse(retrace_dist *d) {
    if (!d->have_lse) {
        double max = rt_dist_max(d);
        d->lse = max + log(rt_exp_sum(d->logits, d->n, max, 1, NULL));
        d->have_lse = 1;
    }
    return d->lse;
}

int retrace_dist_size(const retrace_dist *d) {
    return d->n;
}

const float *retrace_dist_logits(const retrace_dist *d) {
    return d->logits;
}

double retrace_dist_logp(retrace_dist *d, retrace_token id) {
    return (double)d->logits[id] - rt_dist_lse(d);
}

double retrace_dist_entropy(retrace_dist *d) {
    if (!d->have_entropy) {
        d->entropy = rt_entropy(d->logits, d->n, rt_dist_lse(d));
        d->have_entropy = 1;
    }
    return d->entropy;
}

int retrace_dist_top(retrace_dist *d, int k, retrace_candidate *out) {
    if (k > d->n) k = d->n;
    if (k <= 0) return 0;
    int32_t *ids = retrace_alloc((size_t)k * sizeof *ids);
    if (!ids) return 0;
    int n = rt_top(d->logits, d->n, k, ids);
    for (int i = 0; i < n; i++) out[i] = (retrace_candidate){ids[i], retrace_dist_logp(d, ids[i])};
    retrace_free(ids);
    return n;
}
