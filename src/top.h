/* top.h - the most probable tokens of a place. */
#ifndef RT_TOP_H
#define RT_TOP_H

#include "retrace_ext.h"

/* Where the most probable tokens of the place before token t go; t == n: after the last one. */
static inline retrace_candidate *rt_top_at(const retrace_query *q, int t) {
    return q->top + (size_t)(q->logp ? t - q->from : 0) * (size_t)q->n_top;
}

/* The k most probable tokens of a row of logits, falling (ties: lower id first); norm: the log of
 * the sum of exp(logits). Fewer where fewer have any probability: the rest of out stays as it is.
 * Takes no memory, and may be called from any thread. */
void rt_top_of(const float *logits, int n, double norm, int k, retrace_candidate *out);

#endif
