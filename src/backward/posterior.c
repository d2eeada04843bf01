/* posterior.c - which candidates before a suffix are evaluated, and what they tell about all.
 *
 * Priority sampling: candidate v has the key g(v) / E_v, E_v exponential; the n largest are
 * evaluated. Let kappa be the next key. Given the others, v is among the n when E_v < g(v) / kappa,
 * which has the chance q(v) = 1 - exp(-g(v) / kappa); so score(v) / q(v), and 0 for those left out,
 * is unbiased for every v, and so is their sum Z. The estimates of two candidates are uncorrelated,
 * so the variance of Z can be estimated without bias too (outcome.c). n must not depend on these
 * keys: it is given beforehand, or found by a pilot with keys of its own.
 *
 * Candidates of earlier rounds (rounds.c) are known whatever the keys are, so nothing is estimated
 * there: all this is about the others, given the rounds. */
#include "../base.h"
#include "../expv.h"
#include "backward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_BUDGET = 512, PILOT = 64 };

/* ==== Life ==== */

int rt_posterior_new(rt_posterior **out, retrace_token v, const retrace_token *tail, int n_tail,
                     retrace_error *err) {
    rt_posterior *p = retrace_calloc(1, sizeof *p);
    int own = v != RETRACE_START;
    if (!p) return rt_nomem(err);
    p->n = n_tail + own;
    p->suffix = retrace_alloc((size_t)(p->n ? p->n : 1) * sizeof *p->suffix);
    if (!p->suffix) {
        rt_posterior_free(p);
        return rt_nomem(err);
    }
    if (own) p->suffix[0] = v;
    memcpy(p->suffix + own, tail, (size_t)n_tail * sizeof *tail);
    p->digest = rt_digest(0, (const char *)p->suffix, (size_t)p->n * sizeof *p->suffix);
    p->log_self = NAN;
    *out = p;
    return RETRACE_OK;
}

void rt_posterior_drop(rt_posterior *p) {
    retrace_free(p->log_prior);
    retrace_free(p->log_b);
    retrace_free(p->log_u);
    retrace_free(p->log_g);
    retrace_free(p->log_base);
    retrace_free(p->depth);
    retrace_free(p->chosen);
    retrace_free(p->known);
    p->log_prior = p->log_b = p->log_u = p->log_g = p->log_base = NULL;
    p->depth = p->chosen = NULL;
    p->known = NULL;
}

void rt_posterior_free(rt_posterior *p) {
    if (!p) return;
    rt_posterior_drop(p);
    retrace_free(p->suffix);
    retrace_free(p->items);
    retrace_free(p->top);
    retrace_free(p);
}

void rt_posterior_forget(rt_posterior *p) {
    rt_posterior_drop(p);
    retrace_free(p->items);
    p->items = NULL;
    p->n_items = p->n_chosen = p->n_known = p->round = p->wanted = p->touched = 0;
    p->phase = RT_NEW;
}

size_t rt_posterior_size(const rt_posterior *p, int vocab) {
    size_t each = 5 * sizeof(double) + 2 * sizeof(int) + 1;
    return (size_t)p->n_items * sizeof *p->items + (p->log_u ? ((size_t)vocab + 1) * each : 0);
}

/* ==== Candidates ==== */

static int is_candidate(const rt_setup *s, retrace_token v) {
    int flags = s->model->vocab[v].flags;
    return !(flags & (RETRACE_TOKEN_CONTROL | RETRACE_TOKEN_UNUSED)) &&
           !rt_chain_starts(s->model, v);
}

static int reserve(rt_posterior *p, int n) {
    p->log_prior = retrace_alloc((size_t)n * sizeof(double));
    p->log_b = retrace_alloc((size_t)n * sizeof(double));
    p->log_u = retrace_alloc((size_t)n * sizeof(double));
    p->log_g = retrace_alloc((size_t)n * sizeof(double));
    p->depth = retrace_calloc((size_t)n, sizeof(int));
    p->chosen = retrace_alloc((size_t)n * sizeof(int));
    p->known = retrace_calloc((size_t)n, 1);
    return p->log_prior && p->log_b && p->log_u && p->log_g && p->depth && p->chosen && p->known;
}

int rt_posterior_open(rt_posterior *p, const rt_setup *s, retrace_error *err) {
    int n = s->vocab + 1, start = s->vocab;
    if (!reserve(p, n)) return rt_nomem(err);
    const double *pi = retrace_bigram_pi(s->chain);
    int rc = retrace_bigram_column(s->chain, p->suffix[0], p->log_b, err);
    if (rc) return rc;
    int starts = s->o.start && s->start_row >= 0;
    p->log_prior[start] = starts ? log(s->chain->facts.start_pi) : -INFINITY;
    p->log_b[start] = starts ? p->log_b[s->start_row] : -INFINITY;
    for (int v = 0; v < s->vocab; v++)
        p->log_prior[v] = is_candidate(s, v) ? log(pi[v]) : -INFINITY;
    for (int i = 0; i < n; i++) {
        if (p->log_prior[i] == -INFINITY) p->log_b[i] = -INFINITY;
        p->log_b[i] += p->log_b[i] == -INFINITY ? 0 : p->log_prior[i];
        p->log_u[i] = s->o.shared_table ? p->log_prior[i] : p->log_b[i];
        p->depth[i] = s->o.shared_table ? 0 : 1;
        /* What the chain holds impossible is so for the model it was made from, but another
         * model's chain only says in what order to look: then it is improbable. */
        if (s->o.shared_table && p->log_prior[i] > -INFINITY && p->log_b[i] == -INFINITY)
            p->log_b[i] = p->log_prior[i] - 700;
        p->log_g[i] = p->log_b[i];
    }
    p->phase = RT_GUESSING;
    return RETRACE_OK;
}

/* All scores are known from the chain alone. */
static int is_free(const rt_posterior *p, const rt_setup *s) {
    return p->n == 1 && !s->o.shared_table;
}

static int takes_all(const rt_posterior *p, const rt_setup *s) {
    const retrace_backward_options *o = &s->o;
    if (o->mode == RETRACE_EXHAUSTIVE) return 1;
    if (o->mode == RETRACE_TOPK || o->mode == RETRACE_COMPAT) return 0;
    return is_free(p, s) || (o->threshold == 1 && o->budget == 0) || o->budget > s->vocab;
}

int rt_posterior_asks(const rt_posterior *p, const rt_setup *s) {
    int fixed = s->o.mode == RETRACE_TOPK || s->o.heuristic == RETRACE_BIGRAM ||
                (s->o.mode == RETRACE_COMPAT && s->o.heuristic == RETRACE_MIXED);
    return !fixed && !takes_all(p, s);
}

/* ==== The proposal ==== */

double rt_log_sum(const double *x, int n) {
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    if (max == -INFINITY) return max;
    for (int i = 0; i < n; i++) sum += exp(x[i] - max);
    return max + log(sum);
}

/* ln of the guessed probability of every token; of both guesses the sum. */
static void add_guess(const float *logits, int vocab, double *sum) {
    double max = (double)rt_max(logits, vocab), norm = rt_exp_sum(logits, vocab, max, 1, NULL);
    for (int v = 0; v < vocab; v++) sum[v] += exp((double)logits[v] - max) / norm;
}

/* b h, where h = (q + a little)^(1/2) stands for the factors that b lacks. Nothing is guessed about
 * the start, which gets the mean h. */
static void guided(const rt_posterior *p, int vocab, double *q) {
    double top = rt_log_sum(p->log_b, vocab), mean = 0;
    for (int v = 0; v < vocab; v++) {
        double h = sqrt(q[v] + 1e-7);
        mean += top > -INFINITY ? exp(p->log_b[v] - top) * h : 0;
        q[v] = p->log_b[v] + log(h);
    }
    q[vocab] = p->log_b[vocab] + (mean > 0 ? log(mean) : 0);
}

/* Another model's chain may hold improbable what this model does not: a tenth of the proposal is
 * the prior alone, so that nothing has hardly a chance and then an enormous weight. */
static void hedge(rt_posterior *p, int n) {
    double guided_sum = rt_log_sum(p->log_g, n), prior_sum = rt_log_sum(p->log_prior, n);
    for (int i = 0; i < n && guided_sum > -INFINITY; i++)
        p->log_g[i] =
            log(0.9 * exp(p->log_g[i] - guided_sum) + 0.1 * exp(p->log_prior[i] - prior_sum));
}

static int guide(rt_posterior *p, const rt_setup *s, const rt_guess *guess, retrace_error *err) {
    int n = s->vocab + 1;
    double *q = retrace_calloc((size_t)n, sizeof *q);
    if (!q) return rt_nomem(err);
    for (int k = 0; k < guess->n; k++) add_guess(guess->q[k].next, s->vocab, q);
    if (s->o.mode == RETRACE_COMPAT) {
        for (int i = 0; i < n; i++) p->log_g[i] = p->log_b[i] > -INFINITY ? log(q[i]) : -INFINITY;
    } else {
        guided(p, s->vocab, q);
        double plain = rt_log_sum(p->log_b, n), with = rt_log_sum(q, n);
        for (int i = 0; i < n && plain > -INFINITY; i++) {
            double a = exp(p->log_b[i] - plain), b = exp(q[i] - with);
            p->log_g[i] = s->o.heuristic == RETRACE_MIXED ? log(a / 2 + b / 2) : q[i];
        }
    }
    retrace_free(q);
    return RETRACE_OK;
}

int rt_posterior_propose(rt_posterior *p, const rt_setup *s, const rt_guess *guess,
                         retrace_error *err) {
    int n = s->vocab + 1;
    if (s->o.mode == RETRACE_COMPAT && s->o.heuristic == RETRACE_BIGRAM)
        for (int i = 0; i < n; i++) p->log_g[i] -= p->log_b[i] > -INFINITY ? p->log_prior[i] : 0;
    int rc = guess ? guide(p, s, guess, err) : RETRACE_OK;
    if (rc == RETRACE_OK && s->o.shared_table && s->o.mode == RETRACE_PRIORITY) hedge(p, n);
    return rc;
}

/* ==== The choice ==== */

typedef struct ranked {
    double key;
    int index;
} ranked;

/* Falling keys; of equal ones the lower index first. */
static int by_key(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

double rt_posterior_wait(const rt_posterior *p, const rt_setup *s, int index, uint64_t purpose) {
    double u = rt_uniform((uint64_t)s->o.seed, purpose, p->digest, (uint64_t)index, 0);
    return u > 0 ? -log1p(-u) : 0x1p-60;
}

/* Candidates that may be evaluated, by their keys. */
static int rank(const rt_posterior *p, const rt_setup *s, ranked *out) {
    int n = 0, drawn = s->o.mode == RETRACE_PRIORITY || s->o.mode == RETRACE_EXACT;
    const double *order = s->o.mode == RETRACE_TOPK ? p->log_b : p->log_g;
    uint64_t purpose = p->phase == RT_PILOT   ? 1
                       : p->phase == RT_ROUND ? UINT64_MAX - (uint64_t)p->round
                                              : 0;
    for (int i = 0; i <= s->vocab; i++) {
        if (p->log_b[i] == -INFINITY || p->known[i]) continue;
        double wait = drawn ? rt_posterior_wait(p, s, i, purpose) : 1;
        out[n++] = (ranked){order[i] - log(wait), i};
    }
    qsort(out, (size_t)n, sizeof *out, by_key);
    return n;
}

int rt_posterior_budget(const rt_posterior *p, const rt_setup *s, int n) {
    if (takes_all(p, s) || s->o.mode == RETRACE_COMPAT) return n;
    int64_t most = s->o.budget ? s->o.budget : p->wanted ? n : DEFAULT_BUDGET;
    if (p->wanted && p->wanted < most) most = p->wanted;
    return most < n ? (int)most : n;
}

/* How many are to be evaluated now, of the n that are left. */
static int how_many(const rt_posterior *p, const rt_setup *s, int n) {
    if (p->phase == RT_ROUND) return rt_round_size(p, s);
    if (p->phase == RT_PILOT) return n < PILOT ? n : PILOT;
    return rt_posterior_budget(p, s, n + p->n_known) - p->n_known;
}

int rt_posterior_choose(rt_posterior *p, const rt_setup *s, retrace_error *err) {
    ranked *r = retrace_alloc((size_t)(s->vocab + 1) * sizeof *r);
    if (!r) return rt_nomem(err);
    int n = rank(p, s, r), most = how_many(p, s, n);
    for (int i = 0; i < n; i++) p->chosen[p->n_known + i] = r[i].index;
    p->n_chosen = p->n_known + most;
    p->log_kappa = most < n ? r[most].key : -INFINITY;
    p->complete = most == n;
    /* compat takes its order piece by piece */
    if (s->o.mode == RETRACE_COMPAT) {
        p->n_chosen = 0;
        p->wanted = n;
        p->complete = 0;
    }
    retrace_free(r);
    return RETRACE_OK;
}

int rt_posterior_more(rt_posterior *p, const rt_setup *s) {
    int64_t all = s->o.budget && s->o.budget < p->wanted ? s->o.budget : p->wanted;
    double sum = -INFINITY, share = s->o.threshold > 0 ? s->o.threshold : 0.9;
    for (int i = 0; i < p->n_chosen; i++) {
        double x = p->log_u[p->chosen[i]], max = x > sum ? x : sum;
        if (max > -INFINITY) sum = max + log(exp(x - max) + exp(sum - max));
    }
    p->complete = p->n_chosen == p->wanted;
    if (p->n_chosen == all || sum - p->log_self > log(share)) return RETRACE_DONE;
    int64_t n = p->n_chosen + s->o.batch_size;
    p->n_chosen = (int)(n < all ? n : all);
    return RETRACE_OK;
}

double rt_posterior_log_chance(const rt_posterior *p, const rt_setup *s, int index) {
    int drawn = s->o.mode == RETRACE_PRIORITY || s->o.mode == RETRACE_EXACT;
    if (!drawn || p->log_kappa == -INFINITY || p->known[index]) return 0;
    return log(-expm1(-exp(p->log_g[index] - p->log_kappa)));
}

/* ==== The pilot ==== */

/* The share of Z that is expected to be evaluated when the first key left out is exp(log_kappa),
 * by the pilot's scores. */
static double expected_cover(const rt_posterior *p, const double *w, double log_kappa) {
    double sum = 0, all = 0;
    for (int k = 0; k < p->n_chosen; k++) {
        sum += w[k] * -expm1(-exp(p->log_g[p->chosen[k]] - log_kappa));
        all += w[k];
    }
    return sum / all;
}

static double expected_count(const rt_posterior *p, int n, double log_kappa) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += -expm1(-exp(p->log_g[i] - log_kappa));
    return sum;
}

/* The largest kappa that is expected to cover the share asked for. */
static double find_kappa(const rt_posterior *p, const rt_setup *s, const double *w) {
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i <= s->vocab; i++) {
        if (p->log_g[i] == -INFINITY) continue;
        low = fmin(low, p->log_g[i] - 20);
        high = fmax(high, p->log_g[i] + 20);
    }
    for (int k = 0; k < 60; k++) {
        double middle = (low + high) / 2;
        if (expected_cover(p, w, middle) >= s->o.threshold)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int rt_posterior_measure(rt_posterior *p, const rt_setup *s, retrace_error *err) {
    double *w = retrace_alloc((size_t)(p->n_chosen ? p->n_chosen : 1) * sizeof *w), max = -INFINITY;
    if (!w) return rt_nomem(err);
    for (int k = 0; k < p->n_chosen; k++) {
        w[k] = p->log_u[p->chosen[k]] - rt_posterior_log_chance(p, s, p->chosen[k]);
        max = fmax(max, w[k]);
    }
    p->wanted = s->vocab + 1;
    if (max > -INFINITY) {
        for (int k = 0; k < p->n_chosen; k++) w[k] = exp(w[k] - max);
        double count = ceil(expected_count(p, s->vocab + 1, find_kappa(p, s, w)));
        if (count < p->wanted) p->wanted = count < 1 ? 1 : (int)count;
    }
    retrace_free(w);
    return RETRACE_OK;
}
