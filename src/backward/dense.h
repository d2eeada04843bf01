/* dense.h - a bigram chain whose rows are all kept; see retrace_bigram_of. */
#ifndef RT_DENSE_H
#define RT_DENSE_H

#include "chain.h"

/* The most tokens that a dense chain is made for. */
enum { RT_DENSE_MOST = 4096 };

/* A chain from its facts (copied, with strings and anchor), facts.vocab^2 numbers ln P(w | a, v),
 * row by row, and pi. Both arrays come from retrace_alloc and are the chain's on success. */
int rt_dense_new(retrace_bigram **out, const retrace_bigram_info *facts, double *logp, double *pi,
                 retrace_error *err);

#endif
