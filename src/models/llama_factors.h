/* llama_factors.h - hidden states and the output matrix of a model, for tables of bigrams. */
#ifndef RT_LLAMA_FACTORS_H
#define RT_LLAMA_FACTORS_H

#include "llama_shim.h"
#include "llama_work.h"

/* Where the states and products are computed; made when they are first asked for. */
typedef struct rt_factorer rt_factorer;

enum { RT_STATES_BATCH = 255 };

/* Borrows path, l and work. NULL when out of memory. */
rt_factorer *rt_factorer_new(const char *path, const rt_llama *l, rt_work *work, int n_threads);
void rt_factorer_free(rt_factorer *f);

/* As in retrace_factors. */
int rt_factorer_dim(rt_factorer *f, int *dim, retrace_error *err);
int rt_factorer_states(rt_factorer *f, const retrace_token *anchor, int n_anchor,
                       const retrace_token *tokens, int n, float *states, float *logits,
                       retrace_error *err);
int rt_factorer_output(rt_factorer *f, float *w, retrace_error *err);
int rt_factorer_multiply(rt_factorer *f, const float *w, const float *states, int n, float *x,
                         retrace_error *err);

#endif
