/* rounds.c - what the candidates evaluated first tell about the others.
 *
 * The heuristic `mixed` spends its budget in rounds. Each draws some candidates as the sample is
 * drawn, with keys of its own, and evaluates them; then log score - log g, what the first proposal
 * g does not know, is learned from all that are known, and guessed for the others, whose proposal
 * becomes g times that. So a round looks where the last ones found something. A part of
 * the proposal stays as it was before, for what nobody has met yet.
 *
 * What the rounds evaluated is known: it counts in Z as it is. The sample that ends the step
 * estimates the sum of the others. Given the rounds that is unbiased, for the keys of the sample
 * are independent of theirs, whatever the proposal. A round's size depends on the budget alone. */
#include "../base.h"
#include "backward.h"
#include "learn.h"

#include <math.h>
#include <string.h>

/* A round has the budget / PARTS, but at most MOST. Less than one candidate for EACH tokens teaches
 * too little: then there are no rounds. */
enum { ROUNDS = 6, PARTS = 12, MOST = 128, EACH = 2000 };

/* Of the proposal stays as it was: in a round, where a mistake costs little, and in the sample. */
static const double KEPT = 0.1, KEPT_LAST = 0.5;
static const double CLIP = 12;  /* a guess says at most exp(this), or 1 over it */
static const double FLOOR = 30; /* scores below exp(-this) times the largest are as good as 0 */

static int learns(const rt_posterior *p, const rt_setup *s) {
    int estimates = s->o.mode == RETRACE_PRIORITY || s->o.mode == RETRACE_EXACT;
    int known = p->n == 1 && !s->o.shared_table;
    return estimates && s->o.heuristic == RETRACE_MIXED && !(s->o.threshold > 0) && !known;
}

int rt_round_size(const rt_posterior *p, const rt_setup *s) {
    if (!learns(p, s) || p->round == ROUNDS) return 0;
    int n = 0;
    for (int i = 0; i <= s->vocab; i++) n += p->log_b[i] > -INFINITY;
    int all = rt_posterior_budget(p, s, n), each = all / PARTS;
    if (all == n || each < 1 || each < s->vocab / EACH) return 0;
    return each < MOST ? each : MOST;
}

/* What is learned from: y[k] of candidate chosen[k]. 0: all scores are 0. */
static int gather(const rt_posterior *p, double *y) {
    double max = -INFINITY;
    for (int k = 0; k < p->n_known; k++) {
        int i = p->chosen[k];
        y[k] = p->log_u[i] - p->log_base[i];
        max = fmax(max, y[k]);
    }
    for (int k = 0; k < p->n_known; k++) y[k] = fmax(y[k], max - FLOOR);
    return max > -INFINITY;
}

/* log_g of those that are not known: some of what it was, the rest that times the guess. It sums to
 * 1. */
static void propose(rt_posterior *p, const rt_setup *s, double *guess, double kept) {
    int n = s->vocab + 1;
    for (int i = 0; i < n; i++) {
        double much = fmin(fmax(guess[i], -CLIP), CLIP);
        guess[i] = p->known[i] ? -INFINITY : p->log_base[i] + much;
        p->log_g[i] = p->known[i] ? -INFINITY : p->log_base[i];
    }
    double with = rt_log_sum(guess, n), plain = rt_log_sum(p->log_g, n);
    for (int i = 0; i < n && with > -INFINITY; i++)
        p->log_g[i] = log((1 - kept) * exp(guess[i] - with) + kept * exp(p->log_g[i] - plain));
}

/* Where a candidate stands among the features: the start with a token that stands for it. */
static int row_of(const rt_setup *s, int index) {
    return index < s->vocab ? index : s->start_row;
}

/* The best proposal of the sample is the root of the mean square of a score: for a guess of mean m
 * and variance v of the logarithm exp(m + v). Rounds look where the guess is large. */
static int guess_all(const rt_posterior *p, const rt_setup *s, double *guess, retrace_error *err) {
    size_t known = (size_t)p->n_known;
    double *y = retrace_alloc(known * sizeof *y);
    double *spread = retrace_alloc((size_t)s->vocab * sizeof *spread);
    int *row = retrace_alloc(known * sizeof *row), last = rt_round_size(p, s) == 0;
    rt_lesson l = {NULL, s->vocab, row, y, p->n_known};
    int rc = y && spread && row ? RETRACE_OK : rt_nomem(err);
    if (rc == RETRACE_OK) rc = rt_features(s->chain, &l.features, err);
    if (rc == RETRACE_OK && gather(p, y)) {
        for (int k = 0; k < p->n_known; k++) row[k] = row_of(s, p->chosen[k]);
        rc = rt_learn(&l, guess, spread, err);
        for (int v = 0; v < s->vocab && last && rc == RETRACE_OK; v++) guess[v] += spread[v];
        if (s->start_row >= 0) guess[s->vocab] = guess[s->start_row];
    }
    retrace_free(y);
    retrace_free(spread);
    retrace_free(row);
    return rc;
}

static int keep_base(rt_posterior *p, int n, retrace_error *err) {
    if (p->log_base) return RETRACE_OK;
    p->log_base = retrace_alloc((size_t)n * sizeof *p->log_base);
    if (!p->log_base) return rt_nomem(err);
    memcpy(p->log_base, p->log_g, (size_t)n * sizeof *p->log_base);
    return RETRACE_OK;
}

/* The candidates just evaluated are known from now on. The first round tells nothing about what a
 * proposal that was learned leaves out. */
static void take(rt_posterior *p) {
    if (p->round == 0) p->log_heavy = -INFINITY;
    for (int k = p->n_known; k < p->n_chosen; k++) {
        int i = p->chosen[k];
        p->known[i] = 1;
        if (p->round > 0) p->log_heavy = fmax(p->log_heavy, p->log_u[i] - p->log_g[i]);
    }
    p->n_known = p->n_chosen;
    p->round++;
}

int rt_round_learn(rt_posterior *p, const rt_setup *s, retrace_error *err) {
    int n = s->vocab + 1;
    double *guess = retrace_calloc((size_t)n, sizeof *guess);
    int rc = guess ? keep_base(p, n, err) : rt_nomem(err);
    if (rc == RETRACE_OK) {
        take(p);
        rc = guess_all(p, s, guess, err);
    }
    if (rc == RETRACE_OK) propose(p, s, guess, rt_round_size(p, s) > 0 ? KEPT : KEPT_LAST);
    retrace_free(guess);
    return rc;
}

double rt_round_surprise(const rt_posterior *p, const rt_setup *s) {
    double most = -INFINITY, top = -INFINITY, plain = 0;
    for (int k = 0; k < p->n_chosen; k++)
        most = fmax(most, p->log_u[p->chosen[k]] - p->log_base[p->chosen[k]]);
    for (int i = 0; i <= s->vocab; i++)
        if (!p->known[i]) top = fmax(top, p->log_base[i]);
    for (int i = 0; i <= s->vocab && top > -INFINITY; i++)
        if (!p->known[i]) plain += exp(p->log_base[i] - top);
    return p->log_kappa + most + top + log(plain / KEPT_LAST);
}
