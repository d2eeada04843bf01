/* feature.h - a few numbers for every token that say which tokens are alike. */
#ifndef RT_FEATURE_H
#define RT_FEATURE_H

#include "chain.h"

enum { RT_FEATURES = 64 };

/* RT_FEATURES numbers for each token of the chain, which keeps them: the first call computes them.
 * Rows have length 1, or 0 where nothing is known; the product of two says how alike the tokens
 * are. Safe from several threads. */
int rt_features(const retrace_bigram *b, const float **out, retrace_error *err);

#endif
