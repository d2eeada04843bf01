/* vocab.h - the texts of a model's tokens as a tree of bytes.
 *
 * Built when it is first asked for and kept with the model. Only tokens that have text in an answer
 * are in it; those that end an answer are listed beside it. */
#ifndef RT_VOCAB_H
#define RT_VOCAB_H

#include "retrace_ext.h"

/* A beginning of some token. Nodes lie in the order of their texts, each before what it begins. */
typedef struct rt_vocab_node {
    uint32_t next;  /* the node after all that begin like this one */
    uint32_t first; /* its tokens: ids[first] .. ids[first of the following node - 1] */
    uint16_t depth; /* bytes of the beginning, 1.. */
    unsigned char byte;
} rt_vocab_node;

enum { RT_VOCAB_DEPTH = UINT16_MAX }; /* longer tokens are never admitted */

typedef struct retrace_vocab {
    const retrace_model *model;
    int built;
    uint64_t digest; /* equal vocabularies have the same */
    rt_vocab_node *nodes;
    uint32_t n_nodes; /* one more follows, for its `first` */
    retrace_token *ids;
    int n_ids, depth;
    retrace_token *ends;
    int n_ends;
} rt_vocab;

rt_vocab *rt_vocab_new(const retrace_model *m); /* empty; NULL: out of memory */
void rt_vocab_free(rt_vocab *v);

/* RETRACE_OK when it is there. */
int rt_vocab_build(rt_vocab *v, retrace_error *err);

/* The text of a token that may stand in a constrained answer; empty: it may not. */
retrace_text rt_vocab_text(const retrace_model *m, retrace_token id);

#endif
