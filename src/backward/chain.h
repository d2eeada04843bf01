/* chain.h - what kinds of bigram chains have in common; see retrace.h, "Bigram chains".
 *
 * A kind's own struct begins with struct retrace_bigram. Rows of the start state's tokens (the
 * document start and all tokens that end an answer) are the kind's business; pi and its sum over
 * those are filled when it is made. */
#ifndef RT_CHAIN_H
#define RT_CHAIN_H

#include "retrace_ext.h"

struct retrace_bigram {
    retrace_bigram_info facts; /* strings and the anchor are the chain's own copies */
    double *pi;
    /* As retrace_bigram_row and _column; ids are checked already. */
    int (*row)(const retrace_bigram *b, retrace_token v, double *logp, retrace_error *err);
    int (*column)(const retrace_bigram *b, retrace_token w, double *logp, retrace_error *err);
    /* n_state numbers about a token, of which like tokens have like ones; for feature.c. */
    void (*state)(const retrace_bigram *b, retrace_token v, float *out);
    int n_state;
    _Atomic(float *) features;        /* feature.c's; NULL: nobody has needed them yet */
    void (*close)(retrace_bigram *b); /* what is the kind's own; not the struct itself */
};

/* 1 when the token is part of the start state: the model's document start, or an end token. */
int rt_chain_starts(const retrace_model *m, retrace_token v);
/* Checks an anchor and resolves n -1: *out (retrace_free; NULL when empty) and *n. */
int rt_chain_anchor(const retrace_model *m, retrace_anchor given, retrace_token **out, int *n,
                    retrace_error *err);
/* Entropy of pi in nats, and pi summed over the start state. */
void rt_chain_sums(retrace_bigram *b, const retrace_model *m);

/* A chain of `size` bytes, zero but for its facts, with own copies of strings and anchor; NULL when
 * out of memory. For kinds: retrace_bigram_close releases it, pi included. */
retrace_bigram *rt_chain_new(size_t size, const retrace_bigram_info *facts);
/* The facts that come from the model and the anchor; strings are the model's, the anchor as given.
 */
retrace_bigram_info rt_chain_facts(const retrace_model *m, const char *kind,
                                   const retrace_token *anchor, int n_anchor);

#endif
