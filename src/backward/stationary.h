/* stationary.h - the law that a small chain settles to, exactly. */
#ifndef RT_STATIONARY_H
#define RT_STATIONARY_H

#include "retrace_ext.h"

/* pi[0..n) from the n x n matrix of transition probabilities p, row by row, each row's sum 1:
 * the long-run frequency of each state when the first one is drawn from `first` (n
 * probabilities). Exists and is unique for every chain: with several closed classes each counts by
 * the chance of ending up in it; periods average out. Closed classes are solved by the elimination
 * of Grassmann, Taksar and Heyman (1985), which subtracts nothing. O(n^3) time, one n x n
 * temporary. EMODEL: probabilities so small that products of two vanish in a double. */
int rt_stationary(const double *p, int n, const double *first, double *pi, retrace_error *err);

#endif
