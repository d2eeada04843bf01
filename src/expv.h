/* expv.h - exponentials, sums and selections over whole vocabularies. */
#ifndef RT_EXPV_H
#define RT_EXPV_H

#include <stdint.h>

/* Sum of exp((x[i] - shift) * scale); the terms go to out unless it is NULL. Within 1e-15 of
 * libm's, the same bits on every machine; terms below 1e-307 are 0. x may hold -INFINITY, not NaN.
 * Meant for shift = max(x), scale > 0. */
double rt_exp_sum(const float *x, int n, double shift, double scale, double *out);

/* ln of the sum of exp(x[i]), what makes probabilities of logits. x as above. */
double rt_log_norm(const float *x, int n);

/* Sum of p in a fixed order. */
double rt_sum(const double *p, int n);

/* The entropy, in nats, of logits x whose log-sum-exp is lse. x may hold -INFINITY. */
double rt_entropy(const float *x, int n, double lse);

/* The largest of x; -INFINITY when n is 0. */
float rt_max(const float *x, int n);

/* 1 when some x is NaN or +INFINITY. */
int rt_any_bad(const float *x, int n);

/* The first index whose running sum of p exceeds u * (sum of p), or n when that sum is 0. */
int rt_pick(const double *p, int n, double u);

/* The ids of the k largest of x (ties: lower id first), in falling order; returns how many, leaving
 * out -INFINITY. ids has room for k. */
int rt_top(const float *x, int n, int k, int32_t *ids);

#endif
