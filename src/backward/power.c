/* power.c - the stationary law of a chain too large to solve, from products with it.
 *
 * P is written as K + eps t + E: K the entries that are kept, eps what is missing in each row, t
 * one law for the tails of all rows, E the error of that. With t the mean of the tails weighted by
 * pi, pi E = 0: the truncated chain gives the exact pi P. For the residual r = pi P - pi the
 * correction d that solves d (I - P) = r is nearly r + r Q + r Q^2 + ..., Q = K + eps t, which
 * needs no exact product. What it misses is d E, small because tails of different rows differ
 * little on average.
 *
 * In a pass every logit costs one exponential in float, within 2e-7. Four rows are added up in
 * float, these sums in double. */
#include "power.h"
#include "../base.h"
#include "../expv.h"
#include "../twice.h"

#include <math.h>
#include <string.h>

/* DEPTH corrections are combined; a series ends when its terms are `small` times the first one, or
 * after TERMS. */
enum { DEPTH = 3, TERMS = 200 };
static const double small = 1e-3;

/* The numbers of the state that come after its vectors. */
enum {
    CHANGE,    /* of the last pi that was not taken back */
    CORRECTED, /* 1: pi comes from a correction */
    COMBINED,  /* corrections remembered */
    PLAIN,     /* plain steps still to make */
    STRETCH,   /* how many after the next correction that fails */
    RATE,
    BEGUN, /* 1 after the first pass */
    N_NUMBERS
};

struct rt_power {
    int n, keep;
    int first;     /* this pass keeps entries */
    double *state; /* what follows, in one piece */
    double *pi;
    double *image;       /* pi P of the last pi that was not taken back */
    double *was[DEPTH];  /* earlier pi, the newest first */
    double *step[DEPTH]; /* and their corrections */
    double *number;
    int32_t *ids; /* kept entries, `keep` of each row, of which `kept` are there */
    float *entry;
    int *kept;
    double *eps, *tail;
    double *sum;            /* pi P, as it is being added up */
    double *x, *y, *change; /* room */
};

/* ==== Memory ==== */

enum { N_VECTORS = 2 + 2 * DEPTH };

static size_t state_size(const rt_power *p) {
    return N_VECTORS * (size_t)p->n + N_NUMBERS;
}

static int make_room(rt_power *p) {
    size_t n = (size_t)p->n, entries = n * (size_t)p->keep;
    p->state = retrace_calloc(state_size(p), sizeof *p->state);
    p->ids = retrace_alloc(entries * sizeof *p->ids);
    p->entry = retrace_alloc(entries * sizeof *p->entry);
    p->kept = retrace_calloc(n, sizeof *p->kept);
    p->eps = retrace_calloc(6 * n, sizeof *p->eps);
    if (!p->state || !p->ids || !p->entry || !p->kept || !p->eps) return RETRACE_ENOMEM;
    double **vector[N_VECTORS] = {&p->pi, &p->image};
    for (int i = 0; i < DEPTH; i++) {
        vector[2 + i] = &p->was[i];
        vector[2 + DEPTH + i] = &p->step[i];
    }
    for (int i = 0; i < N_VECTORS; i++) *vector[i] = p->state + (size_t)i * n;
    p->number = p->state + N_VECTORS * n;
    p->tail = p->eps + n;
    p->sum = p->eps + 2 * n;
    p->x = p->eps + 3 * n;
    p->y = p->eps + 4 * n;
    p->change = p->eps + 5 * n;
    return RETRACE_OK;
}

int rt_power_new(rt_power **out, int n, int keep, retrace_error *err) {
    rt_power *p = retrace_calloc(1, sizeof *p);
    if (!p) return rt_nomem(err);
    p->n = n;
    p->keep = keep < n ? keep : n;
    if (make_room(p)) {
        rt_power_free(p);
        return rt_nomem(err);
    }
    for (int i = 0; i < n; i++) p->pi[i] = 1.0 / n;
    p->number[STRETCH] = 1;
    *out = p;
    return RETRACE_OK;
}

void rt_power_free(rt_power *p) {
    if (!p) return;
    retrace_free(p->state);
    retrace_free(p->ids);
    retrace_free(p->entry);
    retrace_free(p->kept);
    retrace_free(p->eps);
    retrace_free(p);
}

double *rt_power_pi(rt_power *p) {
    return p->pi;
}

double *rt_power_state(rt_power *p, size_t *n) {
    *n = state_size(p);
    return p->state;
}

double rt_power_rate(const rt_power *p) {
    return p->number[RATE];
}

/* ==== Rows ==== */

/* exp(t) for t <= 1 or so, as in expv.c: t = k ln 2 + r, the Taylor polynomial of degree 6 of r,
 * 2^k from its bits. */
static inline float exp_one(float t) {
    const float shifter = 0x1.8p23f, ln2_hi = 0x1.62e4p-1f, ln2_lo = 0x1.7f7d1cp-20f;
    float some = t > -87.0f ? 1.0f : 0.0f;
    t = t > -87.0f ? t : -87.0f;
    float k = t * 0x1.715476p0f + shifter;
    uint32_t bits;
    memcpy(&bits, &k, sizeof bits);
    k -= shifter;
    float r = (t - k * ln2_hi) - k * ln2_lo, r2 = r * r;
    float a = r2 * (0.5f + r * (1.0f / 6)), b = 1.0f / 24 + r * (1.0f / 120);
    float poly = 1.0f + (r + (a + (r2 * r2) * (b + r2 * (1.0f / 720))));
    bits = (bits + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return poly * (power * some);
}

enum { LANES = 16 };

TWICE static double exp_sum(const float *x, int n, float shift) {
    double acc[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) acc[j] += (double)exp_one(x[i + j] - shift);
    }
    for (int j = 0; i < n; i++, j++) acc[j] += (double)exp_one(x[i] - shift);
    return rt_sum(acc, LANES);
}

enum { ROWS = 4 };

/* Where a few rows of a block are, and what to add of them. */
typedef struct some_rows {
    const float *x[ROWS];
    float shift[ROWS], weight[ROWS];
} some_rows;

/* sum += the weighted exponentials, n of each row. Those of one place are added up in float first.
 */
TWICE static void add_exp(const some_rows *r, int n, double *sum) {
    const float *x0 = r->x[0], *x1 = r->x[1], *x2 = r->x[2], *x3 = r->x[3];
    float s0 = r->shift[0], s1 = r->shift[1], s2 = r->shift[2], s3 = r->shift[3];
    float w0 = r->weight[0], w1 = r->weight[1], w2 = r->weight[2], w3 = r->weight[3];
    for (int i = 0; i < n; i++) {
        float a = w0 * exp_one(x0[i] - s0) + w1 * exp_one(x1[i] - s1);
        float b = w2 * exp_one(x2[i] - s2) + w3 * exp_one(x3[i] - s3);
        sum[i] += (double)(a + b);
    }
}

/* What is lost when a normaliser is rounded to a float. */
static double rounded(double log_norm, float *shift) {
    *shift = (float)log_norm;
    return exp((double)*shift - log_norm);
}

/* ==== The largest entries of a row ==== */

enum { EVERY = 16, SAMPLE = 8192, FOUND = 4096, SPAN = 32 };

TWICE static int any_above(const float *x, int n, float least) {
    unsigned any = 0;
    for (int j = 0; j < n; j++) any |= x[j] >= least ? 1u : 0u;
    return any != 0;
}

/* A value that about k of x reach, or rather some more: by every 16th of them. */
static float guess(const float *x, int n, int k) {
    float sample[SAMPLE];
    int32_t top[SAMPLE];
    int m = 0;
    for (int i = 0; i < n && m < SAMPLE; i += EVERY) sample[m++] = x[i];
    int found = rt_top(sample, m, k / EVERY + 2, top);
    return found ? sample[top[found - 1]] : -INFINITY;
}

/* The ids of those that reach `least`, in order; -1 when there are more than FOUND. */
static int find(const float *x, int n, float least, int32_t *ids) {
    int found = 0;
    for (int i = 0; i < n; i += SPAN) {
        int end = n - i < SPAN ? n : i + SPAN;
        if (!any_above(x + i, end - i, least)) continue;
        if (found + SPAN > FOUND) return -1;
        for (int j = i; j < end; j++) {
            if (x[j] >= least) ids[found++] = j;
        }
    }
    return found;
}

/* At most k ids of large entries of x, for large k most often some less: the largest of all that
 * reach a guessed value. rt_top would cost more than all else in the first pass. */
static int largest(const float *x, int n, int k, int32_t *ids) {
    int32_t found[FOUND], top[FOUND];
    float value[FOUND];
    int m = n > EVERY * SAMPLE || k < 4 * EVERY || n < 16 * k || k > FOUND / 4
                ? -1
                : find(x, n, guess(x, n, k), found);
    if (m < 0) return rt_top(x, n, k, ids);
    for (int i = 0; i < m; i++) value[i] = x[found[i]];
    m = rt_top(value, m, k, top);
    for (int i = 0; i < m; i++) ids[i] = found[top[i]];
    return m;
}

static void keep_row(rt_power *p, int v, const float *x, double log_norm) {
    int32_t *ids = p->ids + (size_t)v * (size_t)p->keep;
    float *entry = p->entry + (size_t)v * (size_t)p->keep, shift;
    double factor = rounded(log_norm, &shift), sum = 0;
    p->kept[v] = largest(x, p->n, p->keep, ids);
    for (int i = 0; i < p->kept[v]; i++) {
        entry[i] = (float)(factor * (double)exp_one(x[ids[i]] - shift));
        sum += (double)entry[i];
    }
    p->eps[v] = sum < 1 && p->kept[v] < p->n ? 1 - sum : 0;
}

int rt_power_keep(rt_power *p, int from, int n_rows, const float *logits, double *log_norm,
                  retrace_error *err) {
    for (int i = 0; p->first && i < n_rows; i++) {
        const float *x = logits + (size_t)i * (size_t)p->n;
        float max = rt_max(x, p->n);
        if (rt_any_bad(x, p->n) || max == -INFINITY)
            return retrace_fail(err, RETRACE_EMODEL, "row %d of the chain is no distribution",
                                from + i);
        log_norm[i] = (double)max + log(exp_sum(x, p->n, max));
        keep_row(p, from + i, x, log_norm[i]);
    }
    return RETRACE_OK;
}

/* The rows of a block from its row i on; beyond its end the last one, with weight 0. */
static some_rows pick_rows(const rt_power *p, int from, int n_rows, const float *logits,
                           const double *log_norm, int i) {
    some_rows r;
    for (int k = 0; k < ROWS; k++) {
        int row = i + k < n_rows ? i + k : n_rows - 1;
        double factor = rounded(log_norm[row], &r.shift[k]);
        r.x[k] = logits + (size_t)row * (size_t)p->n;
        r.weight[k] = i + k < n_rows ? (float)(p->pi[from + row] * factor) : 0;
    }
    return r;
}

void rt_power_add(rt_power *p, int from, int n_rows, const float *logits, const double *log_norm,
                  int column, int n_columns) {
    for (int i = 0; i < n_rows; i += ROWS) {
        some_rows r = pick_rows(p, from, n_rows, logits, log_norm, i);
        for (int k = 0; k < ROWS; k++) r.x[k] += column;
        add_exp(&r, n_columns, p->sum + column);
    }
}

void rt_power_begin(rt_power *p, int first) {
    p->first = first;
    memset(p->sum, 0, (size_t)p->n * sizeof *p->sum);
}

int rt_power_rows(rt_power *p, int from, int n_rows, const float *logits, double *log_norm,
                  retrace_error *err) {
    int rc = rt_power_keep(p, from, n_rows, logits, log_norm, err);
    if (rc == RETRACE_OK) rt_power_add(p, from, n_rows, logits, log_norm, 0, p->n);
    return rc;
}

/* ==== The truncated chain ==== */

static double size_of(const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += fabs(x[i]);
    return sum;
}

/* out = x K; returns x eps. */
static double times_kept(const rt_power *p, const double *x, double *out) {
    double missing = 0;
    memset(out, 0, (size_t)p->n * sizeof *out);
    for (int v = 0; v < p->n; v++) {
        const int32_t *ids = p->ids + (size_t)v * (size_t)p->keep;
        const float *entry = p->entry + (size_t)v * (size_t)p->keep;
        for (int i = 0; i < p->kept[v]; i++) out[ids[i]] += x[v] * (double)entry[i];
        missing += x[v] * p->eps[v];
    }
    return missing;
}

/* out = x Q. */
static void times(const rt_power *p, const double *x, double *out) {
    double missing = times_kept(p, x, out);
    for (int j = 0; j < p->n; j++) out[j] += missing * p->tail[j];
}

/* The mean of the tails weighted by pi: what is in pi P and not in pi K. */
static void set_tail(rt_power *p) {
    double sum = 0;
    times_kept(p, p->pi, p->y);
    for (int j = 0; j < p->n; j++) {
        p->tail[j] = p->sum[j] > p->y[j] ? p->sum[j] - p->y[j] : 0;
        sum += p->tail[j];
    }
    for (int j = 0; j < p->n; j++) p->tail[j] = sum > 0 ? p->tail[j] / sum : 1.0 / p->n;
}

/* p->change = r + r Q + r Q^2 + ... for r in p->x. The first two series go on for longer, to see
 * how terms shrink in the end. */
static void add_series(rt_power *p) {
    double begun = size_of(p->x, p->n), size = begun, middle = begun;
    double least = p->number[COMBINED] > 0 ? small : small * small * small;
    int k, at = 0;
    memcpy(p->change, p->x, (size_t)p->n * sizeof *p->x);
    for (k = 0; k < TERMS && size > least * begun; k++) {
        times(p, p->x, p->y);
        for (int j = 0; j < p->n; j++) p->change[j] += p->y[j];
        double *t = p->x;
        p->x = p->y;
        p->y = t;
        if (size > small * small * begun) at = k, middle = size;
        size = size_of(p->x, p->n);
    }
    if (least < small && k > at && middle > 0) p->number[RATE] = pow(size / middle, 1.0 / (k - at));
}

/* ==== Corrections combined ==== */

/* In the metric where errors count in proportion to what they are errors of. */
static double product(const rt_power *p, const double *a, const double *b, const double *back) {
    double sum = 0;
    for (int i = 0; i < p->n; i++) {
        double x = p->change[i] - a[i], y = back ? p->change[i] - b[i] : p->change[i];
        sum += x * y / (p->sum[i] + 1e-12);
    }
    return sum;
}

/* Solves the m x m normal equations; what is nearly dependent gets 0. */
static void solve(double a[DEPTH][DEPTH + 1], int m, double *x) {
    int used[DEPTH];
    double least[DEPTH];
    for (int k = 0; k < m; k++) least[k] = 1e-10 * a[k][k];
    for (int k = 0; k < m; k++) {
        used[k] = a[k][k] > least[k];
        for (int i = 0; used[k] && i < m; i++) {
            double factor = i == k ? 0 : a[i][k] / a[k][k];
            for (int j = k; j <= m; j++) a[i][j] -= factor * a[k][j];
        }
    }
    for (int k = 0; k < m; k++) x[k] = used[k] ? a[k][m] / a[k][k] : 0;
}

/* The weights x of earlier corrections for which change - sum of x[k] (change - step[k]) is least.
 */
static int weigh(const rt_power *p, double *x) {
    double a[DEPTH][DEPTH + 1];
    int m = (int)p->number[COMBINED];
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < m; j++) a[i][j] = product(p, p->step[i], p->step[j], p->step[j]);
        a[i][m] = product(p, p->step[i], NULL, NULL);
    }
    solve(a, m, x);
    return m;
}

static void remember(rt_power *p) {
    size_t bytes = (size_t)p->n * sizeof *p->pi;
    for (int k = DEPTH - 1; k > 0; k--) {
        memcpy(p->was[k], p->was[k - 1], bytes);
        memcpy(p->step[k], p->step[k - 1], bytes);
    }
    memcpy(p->was[0], p->pi, bytes);
    memcpy(p->step[0], p->change, bytes);
    if (p->number[COMBINED] < DEPTH) p->number[COMBINED]++;
}

/* ==== Moving on ==== */

/* Mass 1. */
static void scale(double *x, int n) {
    double sum = rt_sum(x, n);
    for (int i = 0; i < n; i++) x[i] /= sum;
}

/* Moves pi by the series, which leads to the law of the truncated chain with this tail, and from
 * the second time on by what the earlier ones say besides. An entry that this would make negative
 * takes a plain step. */
static void correct(rt_power *p) {
    double weight[DEPTH];
    for (int i = 0; i < p->n; i++) p->x[i] = p->sum[i] - p->pi[i];
    add_series(p);
    for (int i = 0; i < p->n; i++) p->y[i] = p->pi[i] + p->change[i];
    int m = weigh(p, weight);
    for (int k = 0; k < m; k++) {
        for (int i = 0; i < p->n; i++)
            p->y[i] -= weight[k] * ((p->pi[i] + p->change[i]) - (p->was[k][i] + p->step[k][i]));
    }
    if (p->number[BEGUN] > 0) remember(p);
    for (int i = 0; i < p->n; i++) p->pi[i] = p->y[i] > 0 ? p->y[i] : p->sum[i];
    scale(p->pi, p->n);
    p->number[CORRECTED] = 1;
}

/* The last correction made things worse: back to a plain step from where it began. */
static void take_back(rt_power *p) {
    memcpy(p->pi, p->image, (size_t)p->n * sizeof *p->pi);
    p->number[CORRECTED] = p->number[COMBINED] = 0;
    p->number[PLAIN] = p->number[STRETCH];
    p->number[STRETCH] *= 2;
}

/* Half a step, which also settles what only goes round. */
static void go_plainly(rt_power *p) {
    for (int i = 0; i < p->n; i++) p->pi[i] = (p->pi[i] + p->sum[i]) / 2;
    p->number[PLAIN]--;
    p->number[CORRECTED] = 0;
}

int rt_power_end(rt_power *p, double *change, retrace_error *err) {
    scale(p->sum, p->n);
    *change = 0;
    for (int i = 0; i < p->n; i++) *change += fabs(p->sum[i] - p->pi[i]);
    if (!isfinite(*change))
        return retrace_fail(err, RETRACE_EMODEL, "the rows of the chain are no distributions");
    if (p->number[CORRECTED] > 0 && *change > p->number[CHANGE]) {
        take_back(p);
        return RETRACE_OK;
    }
    p->number[CHANGE] = *change;
    memcpy(p->image, p->sum, (size_t)p->n * sizeof *p->sum);
    if (p->number[PLAIN] > 0) {
        go_plainly(p);
    } else {
        set_tail(p);
        correct(p);
    }
    p->number[BEGUN] = 1;
    return RETRACE_OK;
}
