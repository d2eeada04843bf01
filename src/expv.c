/* expv.c - exponentials, sums and selections over whole vocabularies.
 *
 * These loops are all that the core does for every token of the vocabulary, so they are written for
 * the compiler's vectoriser: fixed numbers of independent accumulators, no branches. The order of
 * additions is part of the code, and contraction into fused operations is off (C11 mode), so
 * results have the same bits with any instruction set. On x86-64 the loops are compiled a second
 * time for AVX2 and the loader picks. */
#include "expv.h"
#include "twice.h"

#include <math.h>
#include <string.h>

enum { LANES = 8 };

/* exp(t) for t <= 0: t = k ln 2 + r with |r| <= ln 2 / 2, the Taylor polynomial of degree 12 of r
 * (error below 2e-16), times 2^k built from its bits. Adding 1.5 * 2^52 rounds to an integer and
 * leaves it in the low bits. */
static inline double exp_one(double t) {
    const double shifter = 0x1.8p52, ln2_hi = 0x1.62e42fefa0000p-1, ln2_lo = 0x1.cf79abc9e3b3ap-40;
    double keep = t > -708.0 ? 1.0 : 0.0;
    t = t > -708.0 ? t : -708.0;
    double k = t * 0x1.71547652b82fep0 + shifter;
    uint64_t bits;
    memcpy(&bits, &k, sizeof bits);
    k -= shifter;
    double r = (t - k * ln2_hi) - k * ln2_lo;
    double r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
    double a = (1.0 + r) + r2 * (1.0 / 2 + r * (1.0 / 6));
    double b = (1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040));
    double c = (1.0 / 40320 + r * (1.0 / 362880)) + r2 * (1.0 / 3628800 + r * (1.0 / 39916800));
    double poly = (a + r4 * b) + r8 * (c + r4 * (1.0 / 479001600));
    bits = (bits + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return poly * power * keep;
}

static double fold_lanes(const double *acc) {
    return ((acc[0] + acc[1]) + (acc[2] + acc[3])) + ((acc[4] + acc[5]) + (acc[6] + acc[7]));
}

TWICE static double exp_sum_only(const float *x, int n, double shift, double scale) {
    double acc[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) acc[j] += exp_one(((double)x[i + j] - shift) * scale);
    }
    for (int j = 0; i < n; i++, j++) acc[j] += exp_one(((double)x[i] - shift) * scale);
    return fold_lanes(acc);
}

TWICE static void exp_each(const float *x, int n, double shift, double scale, double *out) {
    for (int i = 0; i < n; i++) out[i] = exp_one(((double)x[i] - shift) * scale);
}

double rt_exp_sum(const float *x, int n, double shift, double scale, double *out) {
    if (!out) return exp_sum_only(x, n, shift, scale);
    exp_each(x, n, shift, scale, out);
    return rt_sum(out, n);
}

TWICE double rt_sum(const double *p, int n) {
    double acc[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) acc[j] += p[i + j];
    }
    for (int j = 0; i < n; i++, j++) acc[j] += p[i];
    return fold_lanes(acc);
}

/* Below -708 the term is nothing, as in exp_one. */
static inline double entropy_one(double logp) {
    logp = logp > -708.0 ? logp : -708.0;
    return -logp * exp_one(logp);
}

TWICE double rt_entropy(const float *x, int n, double lse) {
    double acc[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) acc[j] += entropy_one((double)x[i + j] - lse);
    }
    for (int j = 0; i < n; i++, j++) acc[j] += entropy_one((double)x[i] - lse);
    return fold_lanes(acc);
}

TWICE float rt_max(const float *x, int n) {
    float acc[16];
    for (int j = 0; j < 16; j++) acc[j] = -INFINITY;
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        for (int j = 0; j < 16; j++) acc[j] = x[i + j] > acc[j] ? x[i + j] : acc[j];
    }
    for (; i < n; i++) acc[0] = x[i] > acc[0] ? x[i] : acc[0];
    for (int j = 1; j < 16; j++) acc[0] = acc[j] > acc[0] ? acc[j] : acc[0];
    return acc[0];
}

double rt_log_norm(const float *x, int n) {
    double max = (double)rt_max(x, n);
    return max + log(rt_exp_sum(x, n, max, 1, NULL));
}

TWICE int rt_any_bad(const float *x, int n) {
    unsigned bad = 0;
    for (int i = 0; i < n; i++) bad |= x[i] < INFINITY ? 0u : 1u;
    return bad != 0;
}

/* Walks blocks of 256 by their sums, then the block that holds the target item by item. */
int rt_pick(const double *p, int n, double u) {
    enum { BLOCK = 256 };
    double total = 0;
    for (int i = 0; i < n; i += BLOCK) total += rt_sum(p + i, n - i < BLOCK ? n - i : BLOCK);
    if (!(total > 0)) return n;
    double target = u * total, sum = 0;
    int last = n;
    for (int i = 0; i < n; i += BLOCK) {
        int len = n - i < BLOCK ? n - i : BLOCK;
        double after = sum + rt_sum(p + i, len);
        if (after > target || i + BLOCK >= n) {
            for (int j = i; j < i + len; j++) {
                sum += p[j];
                if (p[j] > 0) last = j;
                if (sum > target && p[j] > 0) return j;
            }
            sum = after;
        } else {
            for (int j = i + len - 1; j >= i; j--) {
                if (p[j] > 0) {
                    last = j;
                    break;
                }
            }
        }
        sum = after;
    }
    return last; /* rounding left the target beyond the last item: the last one that has mass */
}

/* ==== The k largest ==== */

/* 1 when a comes before b: larger, or as large with a lower id. */
static inline int before(const float *x, int32_t a, int32_t b) {
    return x[a] > x[b] || (x[a] == x[b] && a < b);
}

/* The heap's root is the one that comes last. */
static void sift(const float *x, int32_t *heap, int n, int at) {
    for (;;) {
        int child = 2 * at + 1;
        if (child >= n) return;
        if (child + 1 < n && before(x, heap[child], heap[child + 1])) child++;
        if (!before(x, heap[at], heap[child])) return;
        int32_t t = heap[at];
        heap[at] = heap[child];
        heap[child] = t;
        at = child;
    }
}

TWICE static int block_above(const float *x, float least) {
    unsigned any = 0;
    for (int j = 0; j < 32; j++) any |= x[j] > least ? 1u : 0u;
    return any != 0;
}

/* Later ids lose ties, so only strictly larger values enter a full heap; blocks without one are
 * skipped by one vector comparison. */
static void scan(const float *x, int n, int k, int32_t *heap, int from) {
    int i = from;
    while (i < n) {
        if (i + 32 <= n && !block_above(x + i, x[heap[0]])) {
            i += 32;
            continue;
        }
        int end = i + 32 < n ? i + 32 : n;
        for (; i < end; i++) {
            if (x[i] > x[heap[0]]) {
                heap[0] = i;
                sift(x, heap, k, 0);
            }
        }
    }
}

int rt_top(const float *x, int n, int k, int32_t *ids) {
    if (k > n) k = n;
    if (k <= 0) return 0;
    for (int i = 0; i < k; i++) ids[i] = i;
    for (int i = k / 2 - 1; i >= 0; i--) sift(x, ids, k, i);
    scan(x, n, k, ids, k);
    for (int end = k - 1; end > 0; end--) { /* heap sort: the last in order goes to the back */
        int32_t t = ids[0];
        ids[0] = ids[end];
        ids[end] = t;
        sift(x, ids, end, 0);
    }
    while (k > 0 && x[ids[k - 1]] == -INFINITY) k--;
    return k;
}
