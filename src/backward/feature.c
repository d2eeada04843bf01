/* feature.c - which tokens are alike, from what the chain says follows them.
 *
 * A token's state is what its kind of chain has: the hidden state, or the square roots of its row.
 * States are centred and brought to length 1; what is kept of them is their part in the space of
 * the RT_FEATURES directions in which they differ most (principal components), again at length 1.
 * The rest is mostly noise, and costs time. The directions are found by subspace iteration over an
 * evenly spaced part of the tokens: only the space matters, not its axes, so few iterations will
 * do. All sums run in a fixed order. */
#include "feature.h"
#include "../base.h"
#include "../twice.h"

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

enum { MOST_ROWS = 4096, MOST_NUMBERS = 1 << 22, ITERATIONS = 5 };

/* States of n tokens, `size` numbers each. */
typedef struct sample {
    int n, size;
    float *rows, *mean;
    float *axes;  /* size x RT_FEATURES */
    float *next;  /* the same */
    float *state; /* one token's */
} sample;

static int reserve(sample *s, const retrace_bigram *b) {
    size_t most = MOST_NUMBERS / (size_t)b->n_state, size = (size_t)b->n_state;
    s->size = b->n_state;
    s->n = b->facts.vocab < MOST_ROWS ? b->facts.vocab : MOST_ROWS;
    if (most < (size_t)s->n) s->n = most > RT_FEATURES ? (int)most : RT_FEATURES;
    s->rows = retrace_alloc((size_t)s->n * size * sizeof(float));
    s->mean = retrace_calloc(size, sizeof(float));
    s->axes = retrace_alloc(size * RT_FEATURES * sizeof(float));
    s->next = retrace_alloc(size * RT_FEATURES * sizeof(float));
    s->state = retrace_alloc(size * sizeof(float));
    return s->rows && s->mean && s->axes && s->next && s->state;
}

static void release(sample *s) {
    retrace_free(s->rows);
    retrace_free(s->mean);
    retrace_free(s->axes);
    retrace_free(s->next);
    retrace_free(s->state);
}

static void to_length_one(float *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    float by = sum > 1e-20 ? (float)(1 / sqrt(sum)) : 0;
    for (int i = 0; i < n; i++) x[i] *= by;
}

static void centre(const sample *s, float *x) {
    for (int i = 0; i < s->size; i++) x[i] -= s->mean[i];
    to_length_one(x, s->size);
}

static void take_rows(sample *s, const retrace_bigram *b) {
    size_t size = (size_t)s->size;
    for (int r = 0; r < s->n; r++) {
        float *row = s->rows + (size_t)r * size;
        b->state(b, (retrace_token)((int64_t)r * b->facts.vocab / s->n), row);
        for (size_t i = 0; i < size; i++) s->mean[i] += row[i] / (float)s->n;
    }
    for (int r = 0; r < s->n; r++) centre(s, s->rows + (size_t)r * size);
}

/* ==== Directions ==== */

/* out = x A, A of size x RT_FEATURES. */
TWICE static void project(const float *x, const float *axes, int size, float *out) {
    float sum[RT_FEATURES] = {0};
    for (int i = 0; i < size; i++) {
        const float *a = axes + (size_t)i * RT_FEATURES;
        for (int k = 0; k < RT_FEATURES; k++) sum[k] += x[i] * a[k];
    }
    memcpy(out, sum, sizeof sum);
}

/* m += x' y */
TWICE static void add_product(float *m, const float *x, const float *y, int size) {
    for (int i = 0; i < size; i++) {
        float *row = m + (size_t)i * RT_FEATURES;
        for (int k = 0; k < RT_FEATURES; k++) row[k] += x[i] * y[k];
    }
}

/* Makes the axes orthonormal, one after the other; one that depends on those before it becomes 0.
 */
static void straighten(float *axes, int size) {
    double dot[RT_FEATURES];
    for (int k = 0; k < RT_FEATURES; k++) {
        double before = 0, after = 0;
        for (int i = 0; i < size; i++)
            before += pow((double)axes[(size_t)i * RT_FEATURES + (size_t)k], 2);
        /* Twice: the first time leaves what rounding adds. */
        for (int pass = 0; pass < 2; pass++) {
            memset(dot, 0, sizeof dot);
            for (int i = 0; i < size; i++) {
                const float *a = axes + (size_t)i * RT_FEATURES;
                for (int j = 0; j < k; j++) dot[j] += (double)a[j] * (double)a[k];
            }
            for (int i = 0; i < size; i++) {
                float *a = axes + (size_t)i * RT_FEATURES;
                for (int j = 0; j < k; j++) a[k] -= (float)dot[j] * a[j];
            }
        }
        for (int i = 0; i < size; i++)
            after += pow((double)axes[(size_t)i * RT_FEATURES + (size_t)k], 2);
        float by = after > 1e-8 * before && after > 0 ? (float)(1 / sqrt(after)) : 0;
        for (int i = 0; i < size; i++) axes[(size_t)i * RT_FEATURES + (size_t)k] *= by;
    }
}

static void find_axes(sample *s) {
    size_t all = (size_t)s->size * RT_FEATURES;
    float along[RT_FEATURES];
    for (size_t i = 0; i < all; i++) s->axes[i] = (float)(rt_uniform(1, 0, 0, i, 0) - 0.5);
    straighten(s->axes, s->size);
    for (int turn = 0; turn < ITERATIONS; turn++) {
        memset(s->next, 0, all * sizeof *s->next);
        for (int r = 0; r < s->n; r++) {
            const float *row = s->rows + (size_t)r * (size_t)s->size;
            project(row, s->axes, s->size, along);
            add_product(s->next, row, along, s->size);
        }
        straighten(s->next, s->size);
        memcpy(s->axes, s->next, all * sizeof *s->axes);
    }
}

/* ==== All tokens ==== */

static int make(const retrace_bigram *b, float *out) {
    sample s = {0};
    int ok = reserve(&s, b);
    if (ok) {
        take_rows(&s, b);
        find_axes(&s);
    }
    for (retrace_token v = 0; ok && v < b->facts.vocab; v++) {
        float *row = out + (size_t)v * RT_FEATURES;
        b->state(b, v, s.state);
        centre(&s, s.state);
        project(s.state, s.axes, s.size, row);
        to_length_one(row, RT_FEATURES);
    }
    release(&s);
    return ok;
}

/* Two threads that come first at once both compute the same numbers; one of them is thrown away. */
int rt_features(const retrace_bigram *b, const float **out, retrace_error *err) {
    _Atomic(float *) *kept = &((retrace_bigram *)(uintptr_t)b)->features;
    float *other = atomic_load(kept), *own;
    *out = other;
    if (other) return RETRACE_OK;
    own = retrace_alloc((size_t)b->facts.vocab * RT_FEATURES * sizeof *own);
    if (!own || !make(b, own)) {
        retrace_free(own);
        return rt_nomem(err);
    }
    int first = atomic_compare_exchange_strong(kept, &other, own);
    *out = first ? own : other;
    if (!first) retrace_free(own);
    return RETRACE_OK;
}
