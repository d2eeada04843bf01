/* dense.c - the bigram chain of a small vocabulary: all rows in memory, solved directly.
 *
 * The model is asked for every row, some at a time; ln P = logit - log-sum-exp in double is also
 * what it answers for single tokens. Tokens of the start state share one row, the law of a
 * document's first token. */
#include "dense.h"
#include "stationary.h"
#include "../base.h"
#include "../expv.h"

#include <math.h>
#include <string.h>

typedef struct dense {
    retrace_bigram base; /* first: a retrace_bigram * is a dense * */
    double *logp;        /* row by row */
} dense;

static int dense_row(const retrace_bigram *b, retrace_token v, double *logp, retrace_error *err) {
    (void)err;
    size_t n = (size_t)b->facts.vocab;
    memcpy(logp, ((const dense *)b)->logp + (size_t)v * n, n * sizeof *logp);
    return RETRACE_OK;
}

static int dense_column(const retrace_bigram *b, retrace_token w, double *logp,
                        retrace_error *err) {
    (void)err;
    size_t n = (size_t)b->facts.vocab;
    for (size_t v = 0; v < n; v++) logp[v] = ((const dense *)b)->logp[v * n + (size_t)w];
    return RETRACE_OK;
}

/* Square roots: then the distance of two states is that of two laws (Hellinger's). */
static void dense_state(const retrace_bigram *b, retrace_token v, float *out) {
    size_t n = (size_t)b->facts.vocab;
    const double *row = ((const dense *)b)->logp + (size_t)v * n;
    for (size_t w = 0; w < n; w++) out[w] = (float)exp(row[w] / 2);
}

static void dense_close(retrace_bigram *b) {
    retrace_free(((dense *)b)->logp);
}

int rt_dense_new(retrace_bigram **out, const retrace_bigram_info *facts, double *logp, double *pi,
                 retrace_error *err) {
    retrace_bigram *b = rt_chain_new(sizeof(dense), facts);
    if (!b) return rt_nomem(err);
    ((dense *)b)->logp = logp;
    b->pi = pi;
    b->row = dense_row;
    b->column = dense_column;
    b->state = dense_state;
    b->n_state = facts->vocab;
    b->close = dense_close;
    *out = b;
    return RETRACE_OK;
}

/* ==== From a model ==== */

enum { BATCH = 64 };

/* What is being made. */
typedef struct maker {
    retrace_model *m;
    int n; /* tokens */
    retrace_token *anchor;
    int n_anchor;
    retrace_token *tokens; /* BATCH sequences of n_anchor + 1 */
    float *next;           /* BATCH rows of logits */
    double *logp, *p;      /* the chain, by logarithm and plain */
    double *first;         /* the law of a document's first token, plain */
    double *pi;
} maker;

static int make_room(maker *k) {
    size_t n = (size_t)k->n;
    k->tokens = retrace_alloc(BATCH * ((size_t)k->n_anchor + 1) * sizeof *k->tokens);
    k->next = retrace_alloc(BATCH * n * sizeof *k->next);
    k->logp = retrace_alloc(n * n * sizeof *k->logp);
    k->p = retrace_alloc(n * n * sizeof *k->p);
    k->first = retrace_alloc(n * sizeof *k->first);
    k->pi = retrace_alloc(n * sizeof *k->pi);
    return k->tokens && k->next && k->logp && k->p && k->first && k->pi;
}

static void release(maker *k) {
    retrace_free(k->anchor);
    retrace_free(k->tokens);
    retrace_free(k->next);
    retrace_free(k->logp);
    retrace_free(k->p);
    retrace_free(k->first);
    retrace_free(k->pi);
}

static void normalise(const maker *k, const float *logits, double *logp) {
    double lse = rt_log_norm(logits, k->n);
    for (int w = 0; w < k->n; w++) logp[w] = (double)logits[w] - lse;
}

/* Rows of the n tokens, each after the anchor. */
static int ask_rows(maker *k, const retrace_token *ids, int n, retrace_error *err) {
    retrace_query q[BATCH] = {0};
    for (int i = 0; i < n; i++) {
        retrace_token *t = k->tokens + (size_t)i * ((size_t)k->n_anchor + 1);
        if (k->n_anchor) memcpy(t, k->anchor, (size_t)k->n_anchor * sizeof *t);
        t[k->n_anchor] = ids[i];
        q[i] = (retrace_query){.tokens = t,
                               .n = k->n_anchor + 1,
                               .n_prompt = k->n_anchor + 1,
                               .next = k->next + (size_t)i * (size_t)k->n,
                               .slot = RETRACE_PASSING};
    }
    int rc = retrace_model_eval(k->m, q, n, err);
    for (int i = 0; rc == RETRACE_OK && i < n; i++)
        normalise(k, q[i].next, k->logp + (size_t)ids[i] * (size_t)k->n);
    return rc;
}

/* Its logarithms go to the row of every token of the start state. */
static int ask_first(maker *k, double *logp, retrace_error *err) {
    retrace_token start = k->m->facts.start;
    int n = start >= 0;
    if (!n && !k->m->empty_prompt)
        return retrace_fail(err, RETRACE_EMODEL,
                            "the model '%s' has no token that begins a document", k->m->facts.name);
    retrace_query q = {
        .tokens = &start, .n = n, .n_prompt = n, .next = k->next, .slot = RETRACE_PASSING};
    int rc = retrace_model_eval(k->m, &q, 1, err);
    if (rc == RETRACE_OK) normalise(k, k->next, logp);
    return rc;
}

static int ask_all(maker *k, retrace_error *err) {
    retrace_token ids[BATCH];
    int n = 0;
    int rc = ask_first(k, k->first, err);
    for (retrace_token v = 0; rc == RETRACE_OK && v < k->n; v++) {
        if (rt_chain_starts(k->m, v))
            memcpy(k->logp + (size_t)v * (size_t)k->n, k->first, (size_t)k->n * sizeof *k->first);
        else
            ids[n++] = v;
        if (n < BATCH) continue;
        rc = ask_rows(k, ids, n, err);
        n = 0;
    }
    return rc == RETRACE_OK && n ? ask_rows(k, ids, n, err) : rc;
}

static double residual(const maker *k, double *image) {
    double sum = 0;
    memset(image, 0, (size_t)k->n * sizeof *image);
    for (int v = 0; v < k->n; v++) {
        const double *row = k->p + (size_t)v * (size_t)k->n;
        for (int w = 0; w < k->n; w++) image[w] += k->pi[v] * row[w];
    }
    for (int w = 0; w < k->n; w++) sum += fabs(image[w] - k->pi[w]);
    return sum;
}

static int make(maker *k, retrace_bigram **out, retrace_error *err) {
    if (!make_room(k)) return rt_nomem(err);
    int rc = ask_all(k, err);
    if (rc) return rc;
    for (size_t i = 0, all = (size_t)k->n * (size_t)k->n; i < all; i++) k->p[i] = exp(k->logp[i]);
    for (int w = 0; w < k->n; w++) k->first[w] = exp(k->first[w]);
    rc = rt_stationary(k->p, k->n, k->first, k->pi, err);
    if (rc) return rc;
    retrace_bigram_info facts = rt_chain_facts(k->m, "dense", k->anchor, k->n_anchor);
    facts.residual = residual(k, k->first);
    rc = rt_dense_new(out, &facts, k->logp, k->pi, err);
    if (rc) return rc;
    k->logp = k->pi = NULL;
    rt_chain_sums(*out, k->m);
    return RETRACE_OK;
}

int retrace_bigram_of(retrace_bigram **out, retrace_model *m, retrace_anchor anchor,
                      retrace_error *err) {
    rt_clear(err);
    if (m->facts.vocab > RT_DENSE_MOST)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "a vocabulary of %d is too large for a dense chain: at most %d",
                            m->facts.vocab, RT_DENSE_MOST);
    maker k = {.m = m, .n = m->facts.vocab};
    int rc = rt_chain_anchor(m, anchor, &k.anchor, &k.n_anchor, err);
    if (rc == RETRACE_OK) rc = make(&k, out, err);
    release(&k);
    return rc;
}
