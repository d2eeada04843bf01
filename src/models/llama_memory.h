/* llama_memory.h - what libllama's memory holds, and the questions that are answered from it. */
#ifndef RT_LLAMA_MEMORY_H
#define RT_LLAMA_MEMORY_H

#include "llama_shim.h"

typedef struct rt_memory rt_memory;

typedef struct rt_memory_params {
    int n_slots;
    int batch_size;     /* tokens of a prompt that are fed at once */
    int deterministic;  /* 1: every question is decoded by itself */
    int every;          /* tokens between snapshots; 0: none are taken */
    size_t snap_budget; /* bytes of snapshots of one slot */
} rt_memory_params;

/* Borrows l, whose sequences 0 .. n_slots - 1 are its own from here on. */
int rt_memory_new(rt_memory **out, rt_llama *l, const rt_memory_params *p, retrace_error *err);
void rt_memory_free(rt_memory *m);

/* Answers the questions of q that are not passing and leaves the others alone. Sets `evaluated`.
 * After an error everything is forgotten. */
int rt_memory_eval(rt_memory *m, retrace_query *q, int n, retrace_error *err);

#endif
