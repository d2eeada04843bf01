/* learn.h - from some tokens' numbers to a guess at all tokens', by which tokens are alike. */
#ifndef RT_LEARN_H
#define RT_LEARN_H

#include "feature.h"

/* What is known: y[k] of token index[k], n of them. */
typedef struct rt_lesson {
    const float *features; /* RT_FEATURES numbers for each of `rows` tokens */
    int rows;
    const int *index;
    const double *y;
    int n;
} rt_lesson;

/* For all rows: the guess at y, as a difference from its mean, and at most how large the variance
 * of the guess's error is. Deterministic. */
int rt_learn(const rt_lesson *l, double *guess, double *spread, retrace_error *err);

#endif
