/* llama_work.h - work on ggml's threads: this library starts none of its own. */
#ifndef RT_LLAMA_WORK_H
#define RT_LLAMA_WORK_H

#include "retrace_ext.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rt_work rt_work;

/* Part of the work. */
typedef void rt_work_fn(void *ud, int part);

int rt_work_new(rt_work **out, int n_threads, retrace_error *err);
void rt_work_free(rt_work *w);
/* Calls fn for the parts 0 .. n - 1, several at once, in any order; returns when all are done. */
int rt_work_run(rt_work *w, int n, rt_work_fn *fn, void *ud, retrace_error *err);
/* x = states times the transpose of w, by ggml: w rows x dim, states n x dim, x n x rows. */
int rt_work_multiply(rt_work *k, const float *w, int rows, int dim, const float *states, int n,
                     float *x, retrace_error *err);

#ifdef __cplusplus
}
#endif
#endif
