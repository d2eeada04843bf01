/* build.h - what the stages of a build share. */
#ifndef RT_BUILD_H
#define RT_BUILD_H

#include "part.h"

enum { RT_BUILD_PASSES = 200 }; /* at most */

typedef struct rt_build {
    retrace_model *m;
    const retrace_factors *factors;
    const char *path;
    retrace_error *err;
    retrace_build_fn *each; /* may be NULL */
    void *ud;
    rt_part part;
    rt_table t;   /* what is being made */
    float *w;     /* the output matrix, already rounded to halves */
    double share; /* that was told last */
} rt_build;

/* Fills the states and the output matrix, or finds that this model has no such factors. */
int rt_build_states(rt_build *b);
/* Fills the normalisers, pi and what is known about it. */
int rt_build_law(rt_build *b);

/* How far the work is; RETRACE_ECANCEL when it should stop. `done`: rows of the states, and then
 * passes, of which `expected` will be made. */
int rt_build_tell_states(rt_build *b, int done);
int rt_build_tell_law(rt_build *b, double done, double expected, int iteration, double change);

/* Floats to halves; EMODEL, with the row's number counted from `first`, when one does not fit. */
int rt_build_pack(rt_build *b, const float *x, int rows, int first, const char *what,
                  uint16_t *out);

#endif
