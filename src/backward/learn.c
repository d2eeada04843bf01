/* learn.c - from some tokens' numbers to a guess at all tokens', by which tokens are alike.
 *
 * Kernel ridge regression, which is the mean of a Gaussian process: with the kernel k of two
 * tokens' features, K that of the known tokens and y their numbers, the guess at v is
 *
 *     sum over i of k(v, i) a_i,    a = (K + RIDGE I)^-1 (y - mean)
 *
 * where the mean is the one that this model of y holds the likeliest. Features have length 1, so
 * the kernel is one of the cosine c: k = (1 + (1 - c) / (2 WIDTH))^-2, 1 for tokens that are alike
 * and of a long tail. K is positive definite, so its Cholesky factor exists.
 *
 * The variance of what the guess may be wrong by would cost n^2 for every token; it is at most what
 * is left when only the nearest of the known ones counts, which costs nothing. */
#include "learn.h"
#include "../base.h"
#include "../twice.h"

#include <math.h>

enum { BLOCK = 64 }; /* known tokens taken together */

static const float WIDTH = 1.0f;
static const double RIDGE = 0.2;

static inline float kernel(float c, float by) {
    float x = 1 + (1 - c) * by;
    return 1 / (x * x);
}

/* ==== The weights of the known tokens ==== */

static double cosine(const float *a, const float *b) {
    double sum = 0;
    for (int k = 0; k < RT_FEATURES; k++) sum += (double)a[k] * (double)b[k];
    return sum;
}

static void fill_kernel(const float *features, const int *index, int n, double *m) {
    float by = 1 / (2 * WIDTH);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) {
            const float *a = features + (size_t)index[i] * RT_FEATURES;
            const float *b = features + (size_t)index[j] * RT_FEATURES;
            m[(size_t)i * (size_t)n + (size_t)j] = (double)kernel((float)cosine(a, b), by);
        }
        m[(size_t)i * (size_t)n + (size_t)i] += RIDGE;
    }
}

/* The lower triangle of m becomes its Cholesky factor. */
static void factor(double *m, int n) {
    for (int i = 0; i < n; i++) {
        double *row = m + (size_t)i * (size_t)n;
        for (int j = 0; j <= i; j++) {
            const double *other = m + (size_t)j * (size_t)n;
            double sum = row[j];
            for (int k = 0; k < j; k++) sum -= row[k] * other[k];
            row[j] = i == j ? sqrt(sum) : sum / other[j];
        }
    }
}

/* x becomes the solution of (L L') x = x. */
static void solve(const double *l, int n, double *x) {
    for (int i = 0; i < n; i++) {
        const double *row = l + (size_t)i * (size_t)n;
        for (int k = 0; k < i; k++) x[i] -= row[k] * x[k];
        x[i] /= row[i];
    }
    for (int i = n - 1; i >= 0; i--) {
        const double *row = l + (size_t)i * (size_t)n;
        x[i] /= row[i];
        for (int k = 0; k < i; k++) x[k] -= row[k] * x[i];
    }
}

/* a, and what a variance of 1 of the process stands for. */
static int find_weights(const rt_lesson *l, double *a, double *scale) {
    size_t n = (size_t)l->n;
    double *m = retrace_alloc(n * n * sizeof *m), *one = retrace_alloc(n * sizeof *one);
    double above = 0, below = 0;
    int ok = m && one;
    if (ok) {
        fill_kernel(l->features, l->index, l->n, m);
        factor(m, l->n);
        for (size_t i = 0; i < n; i++) {
            a[i] = l->y[i];
            one[i] = 1;
        }
        solve(m, l->n, a);
        solve(m, l->n, one);
        for (size_t i = 0; i < n; i++) {
            above += a[i];
            below += one[i];
        }
        double mean = above / below;
        *scale = 0;
        for (size_t i = 0; i < n; i++) {
            a[i] -= mean * one[i];
            *scale += a[i] * (l->y[i] - mean) / (double)n;
        }
    }
    retrace_free(m);
    retrace_free(one);
    return ok;
}

/* ==== All tokens ==== */

/* The known tokens, in blocks: RT_FEATURES rows of BLOCK features, and the weights of these. */
typedef struct block {
    float of[RT_FEATURES][BLOCK], weight[BLOCK];
} block;

/* What is left of the last block are copies of the first one without weight. */
static void put_blocks(const rt_lesson *l, const double *a, block *out, int n_blocks) {
    for (int i = 0; i < n_blocks * BLOCK; i++) {
        block *b = &out[i / BLOCK];
        size_t row = (size_t)l->index[i < l->n ? i : 0] * RT_FEATURES;
        b->weight[i % BLOCK] = i < l->n ? (float)a[i] : 0;
        for (int k = 0; k < RT_FEATURES; k++) b->of[k][i % BLOCK] = l->features[row + (size_t)k];
    }
}

/* The guess for one token, and the largest of its cosines with those known. */
TWICE static double apply(const block *b, int n_blocks, const float *x, float by, float *nearest) {
    float sum[BLOCK] = {0}, most[BLOCK];
    double all = 0;
    for (int j = 0; j < BLOCK; j++) most[j] = -1;
    for (int i = 0; i < n_blocks; i++) {
        float c[BLOCK] = {0};
        for (int k = 0; k < RT_FEATURES; k++) {
            for (int j = 0; j < BLOCK; j++) c[j] += x[k] * b[i].of[k][j];
        }
        for (int j = 0; j < BLOCK; j++) {
            sum[j] += b[i].weight[j] * kernel(c[j], by);
            most[j] = c[j] > most[j] ? c[j] : most[j];
        }
    }
    *nearest = -1;
    for (int j = 0; j < BLOCK; j++) {
        all += (double)sum[j];
        *nearest = most[j] > *nearest ? most[j] : *nearest;
    }
    return all;
}

int rt_learn(const rt_lesson *l, double *guess, double *spread, retrace_error *err) {
    int n_blocks = (l->n + BLOCK - 1) / BLOCK;
    double *a = retrace_alloc((size_t)l->n * sizeof *a), scale;
    block *b = retrace_calloc((size_t)n_blocks, sizeof *b);
    int ok = a && b && find_weights(l, a, &scale);
    if (ok) put_blocks(l, a, b, n_blocks);
    float nearest, by = 1 / (2 * WIDTH);
    for (int v = 0; ok && v < l->rows; v++) {
        guess[v] = apply(b, n_blocks, l->features + (size_t)v * RT_FEATURES, by, &nearest);
        double k = (double)kernel(nearest, by);
        spread[v] = scale * (1 - k * k / (1 + RIDGE));
    }
    retrace_free(a);
    retrace_free(b);
    return ok ? RETRACE_OK : rt_nomem(err);
}
