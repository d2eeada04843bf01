/* llama_passing.h - many short questions of which nothing is kept. */
#ifndef RT_LLAMA_PASSING_H
#define RT_LLAMA_PASSING_H

#include "llama_shim.h"
#include "llama_work.h"

/* Where such questions are answered: a context of their own, made when it is first needed. */
typedef struct rt_passing rt_passing;

/* Borrows l, its model and work. NULL when out of memory. */
rt_passing *rt_passing_new(const rt_llama *l, rt_work *work, int n_threads);
void rt_passing_free(rt_passing *p);

/* Answers the questions of q whose slot is RETRACE_PASSING and leaves the others alone. Sets
 * `evaluated`. After an error p can be used again. */
int rt_passing_eval(rt_passing *p, retrace_query *q, int n, retrace_error *err);

#endif
