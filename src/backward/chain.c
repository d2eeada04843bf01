/* chain.c - bigram chains of any kind: who may ask for what, and whose chain it is.
 *
 * A kind (dense.c, factored.c) answers for rows and columns; here are the checks that all share,
 * the facts with their own copies of strings, and the comparison of a chain with a model. */
#include "chain.h"
#include "../base.h"

#include <math.h>
#include <string.h>

/* ==== Making and releasing ==== */

static int copy_strings(retrace_bigram_info *f) {
    const retrace_token *anchor = f->anchor;
    f->kind = rt_copy(f->kind, strlen(f->kind));
    f->model = rt_copy(f->model, strlen(f->model));
    f->weights = rt_copy(f->weights, strlen(f->weights));
    retrace_token *own = f->n_anchor ? retrace_alloc((size_t)f->n_anchor * sizeof *own) : NULL;
    if (own) memcpy(own, anchor, (size_t)f->n_anchor * sizeof *own);
    f->anchor = own;
    return f->kind && f->model && f->weights && (own || !f->n_anchor);
}

retrace_bigram *rt_chain_new(size_t size, const retrace_bigram_info *facts) {
    retrace_bigram *b = retrace_calloc(1, size);
    if (!b) return NULL;
    b->facts = *facts;
    if (copy_strings(&b->facts)) return b;
    retrace_bigram_close(b);
    return NULL;
}

void retrace_bigram_close(retrace_bigram *b) {
    if (!b) return;
    if (b->close) b->close(b);
    retrace_free(b->features);
    retrace_free(b->pi);
    retrace_free((void *)(uintptr_t)b->facts.kind);
    retrace_free((void *)(uintptr_t)b->facts.model);
    retrace_free((void *)(uintptr_t)b->facts.weights);
    retrace_free((void *)(uintptr_t)b->facts.anchor);
    retrace_free(b);
}

retrace_bigram_info rt_chain_facts(const retrace_model *m, const char *kind,
                                   const retrace_token *anchor, int n_anchor) {
    return (retrace_bigram_info){.kind = kind,
                                 .model = m->facts.name,
                                 .weights = m->facts.weights,
                                 .model_hash = m->facts.hash,
                                 .vocab_hash = m->facts.vocab_hash,
                                 .vocab = m->facts.vocab,
                                 .anchor = anchor,
                                 .n_anchor = n_anchor,
                                 .start = m->facts.start};
}

/* ==== The start state and the anchor ==== */

int rt_chain_starts(const retrace_model *m, retrace_token v) {
    return v >= 0 && (v == m->facts.start || retrace_token_ends(m, v));
}

static int check_anchor(const retrace_model *m, const retrace_token *anchor, int n,
                        retrace_error *err) {
    if (n >= m->facts.n_ctx)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "an anchor of %d tokens leaves no room in a context of %d", n,
                            m->facts.n_ctx);
    for (int i = 0; i < n; i++) {
        if (anchor[i] < 0 || anchor[i] >= m->facts.vocab)
            return retrace_fail(err, RETRACE_EUSAGE,
                                "anchor: token %d is outside the vocabulary of %d", (int)anchor[i],
                                m->facts.vocab);
    }
    return RETRACE_OK;
}

int rt_chain_anchor(const retrace_model *m, retrace_anchor given, retrace_token **out, int *n,
                    retrace_error *err) {
    const retrace_token *from = given.n < 0 ? &m->facts.start : given.tokens;
    int count = given.n < 0 ? m->facts.start >= 0 : given.n;
    *out = NULL;
    *n = 0;
    int rc = check_anchor(m, from, count, err);
    if (rc || count == 0) return rc;
    if (!(*out = retrace_alloc((size_t)count * sizeof **out))) return rt_nomem(err);
    memcpy(*out, from, (size_t)count * sizeof **out);
    *n = count;
    return RETRACE_OK;
}

void rt_chain_sums(retrace_bigram *b, const retrace_model *m) {
    double entropy = 0, start = 0;
    for (int v = 0; v < b->facts.vocab; v++) {
        if (b->pi[v] > 0) entropy -= b->pi[v] * log(b->pi[v]);
        if (rt_chain_starts(m, v)) start += b->pi[v];
    }
    b->facts.entropy = entropy > 0 ? entropy : 0;
    b->facts.start_pi = start;
}

/* ==== What is public ==== */

void retrace_bigram_facts(const retrace_bigram *b, retrace_bigram_info *out) {
    *out = b->facts;
}

const double *retrace_bigram_pi(const retrace_bigram *b) {
    return b->pi;
}

static int check_id(const retrace_bigram *b, retrace_token v, retrace_error *err) {
    rt_clear(err);
    if (v >= 0 && v < b->facts.vocab) return RETRACE_OK;
    return retrace_fail(err, RETRACE_EUSAGE, "token %d is outside the chain's vocabulary of %d",
                        (int)v, b->facts.vocab);
}

int retrace_bigram_row(const retrace_bigram *b, retrace_token v, double *logp, retrace_error *err) {
    int rc = check_id(b, v, err);
    return rc ? rc : b->row(b, v, logp, err);
}

int retrace_bigram_column(const retrace_bigram *b, retrace_token w, double *logp,
                          retrace_error *err) {
    int rc = check_id(b, w, err);
    return rc ? rc : b->column(b, w, logp, err);
}

/* The names say whose; equal names with other data are told apart by what follows. */
int retrace_bigram_fits(const retrace_bigram *b, const retrace_model *m, int shared,
                        retrace_error *err) {
    const retrace_bigram_info *f = &b->facts;
    rt_clear(err);
    if (f->vocab != m->facts.vocab)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "the table was made from '%s' of %d tokens; this model is '%s' of %d",
                            f->model, f->vocab, m->facts.name, m->facts.vocab);
    if (f->vocab_hash != m->facts.vocab_hash)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "the table was made from '%s', with another tokenizer; this model is "
                            "'%s'",
                            f->model, m->facts.name);
    if (f->start != m->facts.start)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "the table was made from '%s' with document start %d; this model is "
                            "'%s' with %d",
                            f->model, (int)f->start, m->facts.name, (int)m->facts.start);
    if (shared) return RETRACE_OK;
    if (f->model_hash != m->facts.hash)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "the table was made from '%s', another model; this model is '%s'",
                            f->model, m->facts.name);
    if (strcmp(f->weights, m->facts.weights) != 0)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "the table was made from '%s' with weights %s; this model has weights "
                            "%s",
                            f->model, f->weights, m->facts.weights);
    return RETRACE_OK;
}
