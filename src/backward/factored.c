/* factored.c - a bigram chain kept as hidden states and an output matrix.
 *
 * A product of one float vector with a matrix of halves gives a whole row or column of logits; what
 * is left is one subtraction in double for each token. */
#include "factored.h"
#include "half.h"
#include "../base.h"

typedef struct factored {
    retrace_bigram base; /* first: a retrace_bigram * is a factored * */
    rt_factored parts;
} factored;

/* The vector x (dim halves) as floats and its products with `rows` rows of m: *out, for the caller
 * to free, begins with the products. */
static int multiply(const retrace_bigram *b, const uint16_t *m, int rows, const uint16_t *x,
                    float **out, retrace_error *err) {
    int dim = b->facts.dim;
    *out = retrace_alloc(((size_t)rows + (size_t)dim) * sizeof **out);
    if (!*out) return rt_nomem(err);
    rt_half_unpack(x, dim, *out + rows);
    rt_half_times(m, rows, dim, *out + rows, *out);
    return RETRACE_OK;
}

static size_t row_of(const retrace_bigram *b, retrace_token v) {
    return (size_t)(((const factored *)b)->parts.starts[v] ? b->facts.vocab : v);
}

static int factored_row(const retrace_bigram *b, retrace_token v, double *logp,
                        retrace_error *err) {
    const rt_factored *f = &((const factored *)b)->parts;
    size_t at = row_of(b, v);
    float *x;
    int n = b->facts.vocab;
    int rc = multiply(b, f->output, n, f->states + at * (size_t)b->facts.dim, &x, err);
    if (rc) return rc;
    for (int w = 0; w < n; w++) logp[w] = (double)x[w] - f->log_norm[at];
    retrace_free(x);
    return RETRACE_OK;
}

static int factored_column(const retrace_bigram *b, retrace_token w, double *logp,
                           retrace_error *err) {
    const rt_factored *f = &((const factored *)b)->parts;
    float *x;
    int n = b->facts.vocab;
    int rc = multiply(b, f->states, n + 1, f->output + (size_t)w * (size_t)b->facts.dim, &x, err);
    if (rc) return rc;
    for (retrace_token v = 0; v < n; v++)
        logp[v] = (double)x[row_of(b, v)] - f->log_norm[row_of(b, v)];
    retrace_free(x);
    return RETRACE_OK;
}

static void factored_state(const retrace_bigram *b, retrace_token v, float *out) {
    const rt_factored *f = &((const factored *)b)->parts;
    rt_half_unpack(f->states + row_of(b, v) * (size_t)b->facts.dim, b->facts.dim, out);
}

static void factored_close(retrace_bigram *b) {
    rt_factored *f = &((factored *)b)->parts;
    retrace_free(f->states);
    retrace_free(f->output);
    retrace_free(f->log_norm);
    retrace_free(f->starts);
}

int rt_factored_new(retrace_bigram **out, const retrace_bigram_info *facts, rt_factored parts,
                    retrace_error *err) {
    retrace_bigram *b = rt_chain_new(sizeof(factored), facts);
    if (!b) return rt_nomem(err);
    ((factored *)b)->parts = parts;
    b->pi = parts.pi;
    b->row = factored_row;
    b->column = factored_column;
    b->state = factored_state;
    b->n_state = facts->dim;
    b->close = factored_close;
    *out = b;
    return RETRACE_OK;
}

const rt_factored *rt_factored_parts(const retrace_bigram *b) {
    return &((const factored *)b)->parts;
}
