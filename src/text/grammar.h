/* grammar.h - a context-free grammar over bytes, and what builds one.
 *
 * A grammar is a list of productions, each a row of elements: a symbol, or a set of bytes. Those
 * who read a notation (gbnf.c) push elements on the builder's stack and turn the top of it into
 * productions. Characters become sequences of byte sets, so a text may be fed in pieces that end
 * inside a character.
 *
 * The builder remembers the first failure; calls after it do nothing. */
#ifndef RT_GRAMMAR_H
#define RT_GRAMMAR_H

#include "retrace_ext.h"

typedef struct rt_byteset {
    uint64_t bits[4];
} rt_byteset;

static inline int rt_byteset_has(const rt_byteset *s, unsigned char byte) {
    return (int)(s->bits[byte >> 6] >> (byte & 63) & 1);
}

enum {
    RT_GRAMMAR_END = -1,           /* ends a production; below it: byte sets */
    RT_GRAMMAR_MAX_BODY = 1 << 21, /* elements of all productions */
    RT_GRAMMAR_MAX_SETS = 4096     /* different sets of bytes */
};

/* Set k as an element, and back. Symbols are elements from 0 on. */
static inline int32_t rt_grammar_set(int k) {
    return -2 - k;
}
static inline int rt_grammar_set_of(int32_t element) {
    return -2 - element;
}

/* Symbol s has the productions starts[first[s]] .. starts[first[s + 1] - 1]: places in `body`. */
typedef struct rt_grammar {
    int32_t *body, *starts, *first;
    int n_body, n_productions, n_symbols, n_sets;
    int start;                 /* the symbol nobody uses; its one production is the root */
    unsigned char *nullable;   /* by symbol: may be empty */
    unsigned char *productive; /* by symbol: can be finished */
    rt_byteset *sets;
    int n_classes; /* bytes of one class are in the same sets */
    unsigned char class_of[256];
} rt_grammar;

void rt_grammar_free(rt_grammar *g);

typedef struct rt_production {
    int32_t symbol, at;
} rt_production;

typedef struct rt_builder {
    int32_t *stack; /* elements that are not part of a production yet */
    int n_stack, cap_stack;
    int32_t *body;
    int n_body, cap_body;
    rt_production *productions;
    int n_productions, cap_productions;
    rt_byteset *sets;
    int n_sets, cap_sets;
    int32_t *slots; /* a hash table of the sets: number + 1 */
    int n_symbols;
    const char *what; /* begins every message */
    retrace_error *err;
    int rc; /* the first failure */
} rt_builder;

/* What a character may be: first..last, in any order, overlapping or not. */
typedef struct rt_span {
    uint32_t first, last;
} rt_span;

void rt_builder_init(rt_builder *b, const char *what, retrace_error *err);
void rt_builder_free(rt_builder *b);

int32_t rt_builder_symbol(rt_builder *b);
void rt_builder_push(rt_builder *b, int32_t element);
void rt_builder_push_byte(rt_builder *b, unsigned char byte);
void rt_builder_push_char(rt_builder *b, uint32_t cp);
/* One of the characters in the spans (sorts and joins them), or with `negated` one of the others.
 * 0 when there is none, and nothing is pushed. */
int rt_builder_push_class(rt_builder *b, rt_span *spans, int n, int negated);
/* symbol ::= the elements from `mark` on, which leave the stack. */
void rt_builder_emit(rt_builder *b, int32_t symbol, int mark);
/* The elements from `mark` on become one that stands for them `min` to `max` times (-1: any). */
void rt_builder_repeat(rt_builder *b, int mark, int min, int max);

/* Puts it together. RETRACE_OK, or the first failure. */
int rt_builder_finish(rt_builder *b, int32_t root, rt_grammar **out);

#endif
