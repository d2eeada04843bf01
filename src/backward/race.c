/* race.c - an exact draw from the posterior, without evaluating all of it.
 *
 * With exponential waiting times E(v) the largest score(v) / E(v) is a draw in proportion to the
 * scores. A score is a product of a prior and factors below 1, so what is known of it, u(v), is an
 * upper bound. The candidate with the largest u(v) / E(v) gets more factors; when the largest is
 * complete, nobody can overtake it (A* sampling, Maddison, Tarlow and Minka 2014). At another
 * temperature the keys are u^(1/temp) / E; at 0 there is no chance in it. */
#include "../base.h"
#include "backward.h"

#include <math.h>

static int above(const rt_race *r, int a, int b) {
    return r->key[a] > r->key[b] || (r->key[a] == r->key[b] && a < b);
}

static void sift_down(rt_race *r, int i) {
    for (;;) {
        int child = 2 * i + 1, moved = r->heap[i];
        if (child >= r->n) return;
        if (child + 1 < r->n && above(r, r->heap[child + 1], r->heap[child])) child++;
        if (!above(r, r->heap[child], moved)) return;
        r->heap[i] = r->heap[child];
        r->heap[child] = moved;
        i = child;
    }
}

static void push(rt_race *r, int index) {
    int i = r->n++;
    for (; i > 0 && above(r, index, r->heap[(i - 1) / 2]); i = (i - 1) / 2)
        r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = index;
}

static int pop(rt_race *r) {
    int top = r->heap[0];
    r->heap[0] = r->heap[--r->n];
    sift_down(r, 0);
    return top;
}

static void set_key(rt_race *r, const rt_setup *s, const rt_posterior *p, int index) {
    double u = p->log_u[index];
    r->key[index] = s->o.temp > 0 ? u / s->o.temp - r->log_wait[index] : u;
}

void rt_race_free(rt_race *r) {
    retrace_free(r->heap);
    retrace_free(r->key);
    retrace_free(r->log_wait);
    *r = (rt_race){0};
}

int rt_race_new(rt_race *r, const rt_setup *s, const rt_posterior *p, int sample,
                retrace_error *err) {
    size_t n = (size_t)s->vocab + 1;
    r->heap = retrace_alloc(n * sizeof *r->heap);
    r->key = retrace_alloc(n * sizeof *r->key);
    r->log_wait = retrace_alloc(n * sizeof *r->log_wait);
    if (!r->heap || !r->key || !r->log_wait) return rt_nomem(err);
    r->step = 1;
    for (int i = 0; i <= s->vocab; i++) {
        if (p->log_u[i] == -INFINITY) continue;
        r->log_wait[i] = log(rt_posterior_wait(p, s, i, 2 + (uint64_t)sample));
        set_key(r, s, p, i);
        push(r, i);
    }
    return RETRACE_OK;
}

/* Few at first: the front is often decided by a handful. */
static int how_many(rt_race *r, const rt_setup *s) {
    int n = r->step;
    if (r->step < s->o.batch_size) r->step *= 2;
    return n < s->o.batch_size ? n : (int)s->o.batch_size;
}

/* A question begins at the first token again, so the known depth is doubled: all questions about a
 * candidate together cost at most twice the last one. */
static int deeper(const rt_posterior *p, int index) {
    int depth = 2 * p->depth[index];
    return depth < p->n ? depth : p->n;
}

int rt_race_next(rt_race *r, const rt_setup *s, const rt_posterior *p, rt_ask *a, int *winner,
                 retrace_error *err) {
    *winner = -1;
    if (r->n > 0 && p->depth[r->heap[0]] == p->n) {
        *winner = r->heap[0];
        return RETRACE_OK;
    }
    for (int left = how_many(r, s); left > 0 && r->n > 0; left--) {
        if (p->depth[r->heap[0]] == p->n) break;
        int index = pop(r);
        int rc = rt_ask_add(a, s, p, index, deeper(p, index), err);
        if (rc) return rc;
    }
    return RETRACE_OK;
}

void rt_race_took(rt_race *r, const rt_setup *s, const rt_posterior *p, const int *index, int n) {
    for (int i = 0; i < n; i++) {
        set_key(r, s, p, index[i]);
        if (p->log_u[index[i]] > -INFINITY) push(r, index[i]);
    }
}
