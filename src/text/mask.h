/* mask.h - which tokens may follow a state of a matcher. */
#ifndef RT_MASK_H
#define RT_MASK_H

#include "earley.h"
#include "vocab.h"

/* *bits: one bit per token, lowest first, set for those whose whole text may follow `at`, and for
 * the end tokens when the text is complete there. Kept with the state, and valid until the matcher
 * is used again. */
int rt_mask(rt_earley *m, rt_earley_state *at, rt_vocab *v, const uint64_t **bits,
            retrace_error *err);

/* 1 when the token may follow, 0 when not, or a failure. */
int rt_mask_admits(rt_earley *m, rt_earley_state *at, const retrace_model *model, retrace_token id,
                   retrace_error *err);

#endif
