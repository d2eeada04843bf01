/* factored.h - a bigram chain kept as hidden states and an output matrix.
 *
 *     ln P(w | a, v) = W_w . h_v - L_v
 *
 * with both factors in half precision: the row of a token costs one product with W, the column of
 * one costs a product with H. */
#ifndef RT_FACTORED_H
#define RT_FACTORED_H

#include "chain.h"

/* All arrays come from retrace_alloc. */
typedef struct rt_factored {
    uint16_t *states; /* vocab + 1 rows of dim halves: after [a, v]; the last after D alone */
    uint16_t *output; /* W: vocab rows of dim halves */
    double *log_norm; /* L, vocab + 1 */
    double *pi;       /* vocab */
    uint8_t *starts;  /* vocab: 1 where the row is the last one, for tokens of the start state */
} rt_factored;

/* Facts (with strings and anchor) are copied; vocab and dim are taken from them. The arrays are the
 * chain's on success. */
int rt_factored_new(retrace_bigram **out, const retrace_bigram_info *facts, rt_factored parts,
                    retrace_error *err);
/* What a chain of kind "factored" consists of, borrowed: for writing it to a file. */
const rt_factored *rt_factored_parts(const retrace_bigram *b);

#endif
