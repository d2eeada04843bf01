/* naive.h - the phrases in a text by the plainest means: the whole text is taken apart at once,
 * every phrase is tried at every place. Shares no code with the library; the Unicode tables are
 * utf8proc's. */
#ifndef TEST_NAIVE_H
#define TEST_NAIVE_H

#include <stddef.h>

/* A phrase or a text. */
typedef struct naive_bytes {
    const char *s;
    size_t n;
} naive_bytes;

typedef struct naive_rules {
    int fold, quotes, space, nfc;
    int edge_left, edge_right;
} naive_rules;

typedef struct naive_hit {
    int phrase; /* of equal ones the first */
    long start, end;
} naive_hit;

enum { NAIVE_MAX = 4096 }; /* hits; characters and units of a text */

typedef struct naive naive;

naive *naive_new(naive_rules rules, const naive_bytes *phrases, int n);
void naive_free(naive *v);

/* Hits in `text`, positions counted from byte `zero` of it; those that end at or before it are left
 * out. ended 0: those that are certain whatever follows; 1: those that become certain because the
 * text ends. In rising order of start, end, phrase. Returns how many. */
int naive_find(naive *v, naive_bytes text, long zero, int ended, naive_hit out[NAIVE_MAX]);

/* The units of phrase p as text: room for 4 bytes each; *n_units of them, ends[i] bytes up to unit
 * i. */
size_t naive_spelt(const naive *v, int p, char *out, size_t *ends, int *n_units);

/* Has this character a unit that some phrase has too? */
int naive_matters(naive *v, int cp);

#endif
