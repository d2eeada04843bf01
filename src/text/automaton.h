/* automaton.h - finds any of many words in one pass (Aho and Corasick, 1975).
 *
 * The words' common beginnings form a tree. A node stands for the longest end of what was read that
 * begins a word; `fail` leads to the next shorter one, `hits` to the longest word that ends here.
 * Edges are characters, not bytes: a node is never inside a character.
 *
 * The children of a node stand side by side, in the order of their characters, and a lone child
 * stands right behind its parent: the rest of a word that nothing else begins like is read as it
 * lies in memory. The root and nodes with many children also have a *row*: where each ASCII
 * character leads, fails included. */
#ifndef RT_AUTOMATON_H
#define RT_AUTOMATON_H

#include "retrace_ext.h"

/* What a word is, kept beside it. */
enum {
    RT_WORD_STARTS = 1, /* its first character is a letter, digit or mark */
    RT_WORD_ENDS = 2    /* its last one is */
};

/* A word to build from: valid UTF-8, not empty. */
typedef struct rt_word {
    const char *s;
    uint32_t n; /* at most RT_WORD_MAX bytes */
    uint32_t id;
    int flags;
    uint64_t head; /* the build's: the first eight bytes as a number */
} rt_word;

enum { RT_WORD_MAX = 65535 };

/* A word found. Index 0 is none. */
typedef struct rt_term {
    uint32_t id;
    uint32_t next;  /* the next shorter word that ends where this one does */
    uint16_t depth; /* bytes */
    uint16_t flags;
} rt_term;

typedef struct rt_node {
    uint32_t first, n; /* its children */
    uint32_t fail;
    uint32_t hits;  /* index in terms */
    uint32_t label; /* the character that leads here, with RT_LABEL_STARTS */
    uint16_t depth; /* bytes on the way here */
    uint16_t row;   /* index in rows, or RT_NO_ROW */
} rt_node;

enum { RT_NO_ROW = UINT16_MAX };

/* Node 0 is the root; it has row 0. */
typedef struct rt_automaton {
    rt_node *nodes;
    rt_term *terms;
    uint32_t (*rows)[128];
    uint32_t n_nodes, n_terms, n_rows;
} rt_automaton;

enum {
    RT_LABEL_CHARACTER = 0x1FFFFF,
    RT_LABEL_STARTS =
        0x200000 /* the first character on the way to this node is a letter, digit or mark */
};

/* Builds one from n words, which are sorted in place and not needed afterwards. Of equal words the
 * one that came first counts. EUSAGE when there is more text than 32 bits can number. */
int rt_automaton_new(rt_automaton **out, rt_word *words, uint32_t n, retrace_error *err);
void rt_automaton_free(rt_automaton *a);

/* The child of q by a character; 0: none. */
static inline uint32_t rt_automaton_child(const rt_automaton *a, uint32_t q, uint32_t cp) {
    uint32_t first = a->nodes[q].first, n = a->nodes[q].n;
    while (n > 4) {
        uint32_t half = n / 2;
        if ((a->nodes[first + half].label & RT_LABEL_CHARACTER) <= cp) first += half;
        n -= half;
    }
    for (uint32_t c = first; c < first + n; c++) {
        if ((a->nodes[c].label & RT_LABEL_CHARACTER) == cp) return c;
    }
    return 0;
}

/* The node after reading a character at q. */
static inline uint32_t rt_automaton_step(const rt_automaton *a, uint32_t q, uint32_t cp) {
    for (;;) {
        uint32_t row = a->nodes[q].row;
        if (cp < 128 && row != RT_NO_ROW) return a->rows[row][cp];
        uint32_t child = rt_automaton_child(a, q, cp);
        if (child || q == 0) return child;
        q = a->nodes[q].fail;
    }
}

/* Is the way to q a whole word? */
static inline int rt_automaton_is_word(const rt_automaton *a, uint32_t q) {
    return a->nodes[q].hits && a->terms[a->nodes[q].hits].depth == a->nodes[q].depth;
}

#endif
