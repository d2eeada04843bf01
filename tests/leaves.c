/* leaves.c - every text that sampling can end in; see leaves.h. */
#include "helper.h"

#include "leaves.h"

#include <math.h>

static long double posterior(const world *w, retrace_token v, const retrace_token *x, int n) {
    return world_score(w, v, x, n) / world_z(w, x, n);
}

static void add_leaf(leaves *l, const retrace_token *x, int n, int started, long double q) {
    assert_true(l->n < COUNT(l->f));
    l->f[l->n] = world_f(l->w, x, n, started);
    l->q[l->n] = q;
    l->total += l->f[l->n++];
}

/* x: the last n tokens of a buffer with room before it. In the order of `visit`. */
static void grow(leaves *l, retrace_token *x, int n, long double q) {
    if (n == l->n_suffix + l->depth) {
        add_leaf(l, x, n, 0, q);
        return;
    }
    if (l->dead && !(world_z(l->w, x, n) > 0)) return;
    add_leaf(l, x, n, 1, q * posterior(l->w, RETRACE_START, x, n));
    for (retrace_token v = 0; v < l->w->vocab; v++) {
        if (!world_candidate(l->w, v)) continue;
        x[-1] = v;
        long double p = q > 0 ? posterior(l->w, v, x, n) : 0;
        if (p > 0) grow(l, x - 1, n + 1, q * p);
    }
}

void leaves_of(leaves *l, const world *w, int depth, const retrace_token *s, int n) {
    retrace_token text[MOST_TEXT];
    memset(l, 0, sizeof *l);
    l->w = w, l->depth = depth, l->n_suffix = n;
    l->dead = world_dead(w, s, n, depth);
    memcpy(text + MOST_TEXT - n, s, (size_t)n * sizeof *s);
    grow(l, text + MOST_TEXT - n, n, 1);
}

/* Counts a sample at its leaf: the walk of `grow` again. Returns 1 when it was found. */
static int visit(leaves *l, retrace_token *x, int n, const retrace_backward_sample *s, int *at) {
    int same = n == s->n && memcmp(x, s->tokens, (size_t)n * sizeof *x) == 0;
    int whole = n == l->n_suffix + l->depth;
    if (same && s->started == !whole) {
        l->seen[*at]++;
        l->weight[*at] += exp(s->log_w);
        l->squares[*at] += exp(2 * s->log_w);
        return 1;
    }
    if (!whole && l->dead && !(world_z(l->w, x, n) > 0)) return 0;
    ++*at;
    if (whole) return 0;
    for (retrace_token v = 0; v < l->w->vocab; v++) {
        if (!world_candidate(l->w, v)) continue;
        x[-1] = v;
        if (world_score(l->w, v, x, n) > 0 && visit(l, x - 1, n + 1, s, at)) return 1;
    }
    return 0;
}

void leaves_count(leaves *l, const retrace_token *suffix, const retrace_backward_sample *s) {
    retrace_token text[MOST_TEXT];
    int at = 0, n = l->n_suffix;
    if (s->blocked) return;
    memcpy(text + MOST_TEXT - n, suffix, (size_t)n * sizeof *suffix);
    if (!visit(l, text + MOST_TEXT - n, n, s, &at)) fail_msg("a text that cannot be was drawn");
}
