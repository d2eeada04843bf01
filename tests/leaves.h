/* leaves.h - every text that backward sampling of up to `depth` tokens before a suffix can end in:
 * what it is worth (f), how probable it is where all steps are exhaustive (q), and what samples of
 * the library's counted for. */
#ifndef TEST_LEAVES_H
#define TEST_LEAVES_H

#include "enumerate.h"

enum { MOST_LEAVES = 4096 };

typedef struct leaves {
    const world *w;
    int depth, n_suffix;
    int dead; /* 1: some texts that nothing can precede are among what can be drawn; no leaves */
    int n;
    long double f[MOST_LEAVES], q[MOST_LEAVES], total; /* total: of f */
    double seen[MOST_LEAVES], weight[MOST_LEAVES], squares[MOST_LEAVES];
} leaves;

void leaves_of(leaves *l, const world *w, int depth, const retrace_token *s, int n);
/* Counts a sample at its leaf, once and by its weight. One that is blocked counts for nothing. */
void leaves_count(leaves *l, const retrace_token *suffix, const retrace_backward_sample *s);

#endif
