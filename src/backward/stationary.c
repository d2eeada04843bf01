/* stationary.c - the law that a small chain settles to, by eliminations without subtraction.
 *
 * The states are sorted into classes that reach each other (Tarjan 1972, with a stack of its own).
 * Classes that nothing leaves are *closed*; each has one law, and the chance of ending up in it
 * says how much it counts. Both come from one elimination: state k is taken out of the chain, and
 * every way that led through it becomes a direct one,
 *
 *     a[i][j] += a[i][k] a[k][j] / s,    s = the sum of a[k][j] over the states that are left.
 *
 * Nothing is ever subtracted, so every entry of the result is right to almost all digits, however
 * small it is (Grassmann, Taksar and Heyman 1985; O'Cinneide 1993). States are taken out in blocks
 * that stay in the processor's cache. */
#include "stationary.h"
#include "../base.h"
#include "../twice.h"

#include <math.h>
#include <string.h>

/* ==== Elimination ==== */

enum { BLOCK = 48, TILE = 512 };

/* out[0..n) += x * row[0..n). */
TWICE static void add_times(double *out, double x, const double *row, int n) {
    for (int j = 0; j < n; j++) out[j] += x * row[j];
}

/* The same for rows of a, stride n: out += sum of x[k] row_k, k from hi - 1 down to lo. */
static void add_rows(const double *a, size_t n, const double *x, int lo, int hi, int from, int to,
                     double *out) {
    for (int k = hi - 1; k >= lo; k--) {
        if (x[k] > 0) add_times(out + from, x[k], a + (size_t)k * n + from, to - from);
    }
}

/* Makes the way out of state k, which becomes a law over the states below it; its sum before that
 * goes to the diagonal. */
static int scale_row(double *row, int k, retrace_error *err) {
    double sum = 0;
    for (int j = 0; j < k; j++) sum += row[j];
    if (!(sum >= 0x1p-1000))
        return retrace_fail(err, RETRACE_EMODEL,
                            "the chain's probabilities lie too far apart to solve it");
    for (int j = 0; j < k; j++) row[j] /= sum;
    row[k] = sum;
    return RETRACE_OK;
}

/* Takes out states hi - 1 .. lo: first within the block's rows and columns, then everywhere else.
 */
static int take_block(double *a, size_t n, int lo, int hi, retrace_error *err) {
    for (int k = hi - 1; k >= lo; k--) {
        double *row = a + (size_t)k * n;
        int rc = scale_row(row, k, err);
        if (rc) return rc;
        for (int i = lo; i < k; i++)
            add_times(a + (size_t)i * n, a[(size_t)i * n + (size_t)k], row, k);
        for (int i = 0; i < lo; i++) {
            double *other = a + (size_t)i * n;
            if (other[k] > 0) add_times(other + lo, other[k], row + lo, k - lo);
        }
    }
    for (int from = 0; from < lo; from += TILE) {
        int to = from + TILE < lo ? from + TILE : lo;
        for (int i = 0; i < lo; i++) {
            double *row = a + (size_t)i * n;
            add_rows(a, n, row, lo, hi, from, to, row);
        }
    }
    return RETRACE_OK;
}

/* Takes out states n - 1 .. stop of the n x n matrix a. */
static int eliminate(double *a, int n, int stop, retrace_error *err) {
    int rc = RETRACE_OK;
    for (int hi = n; rc == RETRACE_OK && hi > stop; hi -= BLOCK)
        rc = take_block(a, (size_t)n, hi - BLOCK > stop ? hi - BLOCK : stop, hi, err);
    return rc;
}

/* The law of an irreducible chain after eliminate(a, n, 1), up to a factor: how often each state is
 * met between two visits of the first. */
static void put_back(const double *a, int n, double *law) {
    law[0] = 1;
    for (int k = 1; k < n; k++) {
        double in = 0;
        for (int i = 0; i < k; i++) in += law[i] * a[(size_t)i * (size_t)n + (size_t)k];
        law[k] = in / a[(size_t)k * (size_t)n + (size_t)k];
        double large = law[k] > 0x1p500 ? law[k] : 1;
        for (int i = 0; large > 1 && i <= k; i++) law[i] /= large;
    }
}

/* ==== Classes ==== */

typedef struct classes {
    const double *p;
    int n;
    int *of;          /* the class of each state; -1: not known yet */
    int *order, *low; /* when a state was met, from 1; the earliest one that it reaches */
    int *path, *next; /* the states being walked, and where each one goes on */
    int *open;        /* states met whose class is not complete */
    int n_path, n_open, n_met;
    int n_classes;
    int *closed; /* by class: the number of the closed class, or -1 */
    int n_closed;
    int *list; /* states of one kind */
} classes;

static void enter(classes *c, int v) {
    c->order[v] = c->low[v] = ++c->n_met;
    c->next[v] = 0;
    c->path[c->n_path++] = v;
    c->open[c->n_open++] = v;
}

/* All of v's ways have been walked. */
static void leave(classes *c, int v) {
    c->n_path--;
    if (c->n_path) {
        int from = c->path[c->n_path - 1];
        if (c->low[v] < c->low[from]) c->low[from] = c->low[v];
    }
    if (c->low[v] != c->order[v]) return;
    int w;
    do {
        w = c->open[--c->n_open];
        c->of[w] = c->n_classes;
    } while (w != v);
    c->n_classes++;
}

static void walk(classes *c, int root) {
    enter(c, root);
    while (c->n_path) {
        int v = c->path[c->n_path - 1];
        const double *row = c->p + (size_t)v * (size_t)c->n;
        int w = c->next[v];
        while (w < c->n && !(row[w] > 0 && c->of[w] < 0)) w++;
        c->next[v] = w + 1;
        if (w == c->n)
            leave(c, v);
        else if (!c->order[w])
            enter(c, w);
        else if (c->order[w] < c->low[v])
            c->low[v] = c->order[w];
    }
}

static void find_closed(classes *c) {
    for (int i = 0; i < c->n_classes; i++) c->closed[i] = 0;
    for (int v = 0; v < c->n; v++) {
        const double *row = c->p + (size_t)v * (size_t)c->n;
        for (int w = 0; w < c->n; w++) {
            if (row[w] > 0 && c->of[w] != c->of[v]) c->closed[c->of[v]] = -1;
        }
    }
    for (int i = 0; i < c->n_classes; i++) {
        if (c->closed[i] == 0) c->closed[i] = c->n_closed++;
    }
}

static int find_classes(classes *c, const double *p, int n) {
    int *room = retrace_calloc(8 * (size_t)n, sizeof *room);
    *c = (classes){.p = p, .n = n, .of = room};
    if (!room) return RETRACE_ENOMEM;
    c->order = room + n;
    c->low = room + 2 * (size_t)n;
    c->path = room + 3 * (size_t)n;
    c->next = room + 4 * (size_t)n;
    c->open = room + 5 * (size_t)n;
    c->closed = room + 6 * (size_t)n;
    c->list = room + 7 * (size_t)n;
    for (int v = 0; v < n; v++) c->of[v] = -1;
    for (int v = 0; v < n; v++) {
        if (c->of[v] < 0) walk(c, v);
    }
    find_closed(c);
    return RETRACE_OK;
}

/* The states of closed class `number`, or with -1 those of no closed class, to c->list. */
static int members(classes *c, int number) {
    int n = 0;
    for (int v = 0; v < c->n; v++) {
        if (c->closed[c->of[v]] == number) c->list[n++] = v;
    }
    return n;
}

/* ==== The law ==== */

/* weight[0..n_closed): the chance of ending up in each closed class. In the matrix a closed class
 * is one state, and the row of the first of them is `first`. */
static int find_weights(classes *c, const double *first, double *weight, double *a,
                        retrace_error *err) {
    int open = members(c, -1), head = c->n_closed, n = head + open;
    memset(a, 0, (size_t)n * (size_t)n * sizeof *a);
    for (int i = -1; i < open; i++) {
        double *row = i < 0 ? a : a + (size_t)(head + i) * (size_t)n;
        const double *from = i < 0 ? first : c->p + (size_t)c->list[i] * (size_t)c->n;
        for (int w = 0; w < c->n; w++) {
            int class = c->closed[c->of[w]];
            if (class >= 0) row[class] += from[w];
        }
        for (int j = 0; j < open; j++) row[head + j] = from[c->list[j]];
    }
    int rc = eliminate(a, n, head, err);
    memcpy(weight, a, (size_t)head * sizeof *weight);
    return rc;
}

static int solve_class(classes *c, int number, double weight, double *pi, double *a, double *law,
                       retrace_error *err) {
    int n = members(c, number);
    double sum = 0;
    for (int i = 0; i < n; i++) {
        const double *row = c->p + (size_t)c->list[i] * (size_t)c->n;
        for (int j = 0; j < n; j++) a[(size_t)i * (size_t)n + (size_t)j] = row[c->list[j]];
    }
    int rc = eliminate(a, n, 1, err);
    if (rc) return rc;
    put_back(a, n, law);
    for (int i = 0; i < n; i++) sum += law[i];
    for (int i = 0; i < n; i++) pi[c->list[i]] = weight * (law[i] / sum);
    return RETRACE_OK;
}

static int solve(classes *c, const double *first, double *pi, double *a, double *room,
                 retrace_error *err) {
    double *weight = room, *law = room + c->n, sum = 0;
    int rc = find_weights(c, first, weight, a, err);
    memset(pi, 0, (size_t)c->n * sizeof *pi);
    for (int i = 0; i < c->n_closed; i++) sum += weight[i];
    for (int i = 0; rc == RETRACE_OK && i < c->n_closed; i++) {
        if (weight[i] > 0) rc = solve_class(c, i, weight[i] / sum, pi, a, law, err);
    }
    return rc;
}

int rt_stationary(const double *p, int n, const double *first, double *pi, retrace_error *err) {
    classes c = {0};
    double *a = retrace_alloc((size_t)n * (size_t)n * sizeof *a);
    double *room = retrace_alloc(2 * (size_t)n * sizeof *room);
    int rc =
        !a || !room || find_classes(&c, p, n) ? rt_nomem(err) : solve(&c, first, pi, a, room, err);
    retrace_free(c.of);
    retrace_free(a);
    retrace_free(room);
    return rc;
}
