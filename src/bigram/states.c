/* states.c - the first stage of a build: the output matrix and the state after every token.
 *
 * Some rows are compared first: the logits that come of the factors as the table will hold them, in
 * half precision, against the model's own. Where a bias, a scale or a cap has been overlooked they
 * differ grossly. Rounding alone moved rows of SmolLM2-135M by .001 to .002 in total variation. A
 * model whose weights are quantised rounds its activations as well, each way of computing in its
 * own manner: .017 to .032 (Q4_1). The bounds are several times that, and far below an error. */
#include "build.h"

#include "../backward/half.h"
#include "../base.h"
#include "../expv.h"

#include <math.h>
#include <string.h>

enum { N_COMPARED = 8 };

static const double most_exact = .02, most_quantised = .15;

/* ==== Memory ==== */

static int take_memory(rt_build *b) {
    size_t vocab = (size_t)b->t.facts.vocab, dim = (size_t)b->t.facts.dim;
    rt_factored *parts = &b->t.parts;
    if (dim > SIZE_MAX / 8 / (vocab + 1)) return rt_nomem(b->err);
    b->w = retrace_alloc(vocab * dim * sizeof *b->w);
    parts->states = retrace_calloc((vocab + 1) * dim, sizeof *parts->states);
    parts->starts = retrace_calloc(vocab, sizeof *parts->starts);
    if (!b->w || !parts->states || !parts->starts) return rt_nomem(b->err);
    /* Without a known document start every row is the token's own and the last one is nobody's. */
    for (size_t v = 0; b->t.facts.start >= 0 && v < vocab; v++)
        parts->starts[v] = (uint8_t)rt_chain_starts(b->m, (retrace_token)v);
    return RETRACE_OK;
}

/* W as the table will hold it. */
static int take_output(rt_build *b) {
    int vocab = b->t.facts.vocab, dim = b->t.facts.dim;
    int rc = b->factors->output(b->m, b->w, b->err);
    if (rc) return rc;
    uint16_t *half = retrace_alloc((size_t)dim * sizeof *half);
    if (!half) return rt_nomem(b->err);
    for (int v = 0; rc == RETRACE_OK && v < vocab; v++) {
        float *row = b->w + (size_t)v * (size_t)dim;
        rc = rt_build_pack(b, row, 1, v, "a weight", half);
        if (rc == RETRACE_OK) rt_half_unpack(half, dim, row);
    }
    retrace_free(half);
    return rc;
}

/* ==== Comparing ==== */

typedef struct compared {
    retrace_token tokens[N_COMPARED];
    int n;
    float *states, *own, *product; /* n rows each */
    uint16_t *half;
    double *p, *q; /* one row */
} compared;

static int compared_new(const rt_build *b, compared *c) {
    size_t vocab = (size_t)b->t.facts.vocab, dim = (size_t)b->t.facts.dim;
    int n = b->factors->states_batch < N_COMPARED ? b->factors->states_batch : N_COMPARED;
    if (n > b->t.facts.vocab) n = b->t.facts.vocab;
    *c = (compared){.n = n};
    for (int i = 0; i < n; i++) c->tokens[i] = (retrace_token)((size_t)i * vocab / (size_t)n);
    c->states = retrace_alloc((size_t)n * dim * sizeof(float));
    c->half = retrace_alloc((size_t)n * dim * sizeof(uint16_t));
    c->own = retrace_alloc((size_t)n * vocab * sizeof(float));
    c->product = retrace_alloc((size_t)n * vocab * sizeof(float));
    c->p = retrace_alloc(vocab * sizeof(double));
    c->q = retrace_alloc(vocab * sizeof(double));
    return c->states && c->half && c->own && c->product && c->p && c->q ? RETRACE_OK
                                                                        : rt_nomem(b->err);
}

static void compared_free(compared *c) {
    retrace_free(c->states);
    retrace_free(c->half);
    retrace_free(c->own);
    retrace_free(c->product);
    retrace_free(c->p);
    retrace_free(c->q);
}

/* Total variation of the laws of two rows of logits; NAN when one is no law. */
static double distance(const float *x, const float *y, int n, double *p, double *q) {
    double sum = 0, max_x = (double)rt_max(x, n), max_y = (double)rt_max(y, n);
    if (rt_any_bad(x, n) || rt_any_bad(y, n) || isinf(max_x) || isinf(max_y)) return NAN;
    double all_p = rt_exp_sum(x, n, max_x, 1, p), all_q = rt_exp_sum(y, n, max_y, 1, q);
    for (int i = 0; i < n; i++) sum += fabs(p[i] / all_p - q[i] / all_q);
    return sum / 2;
}

static int compare(rt_build *b, compared *c) {
    int dim = b->t.facts.dim, vocab = b->t.facts.vocab;
    double most = strcmp(b->t.weights, "f32") == 0 ? most_exact : most_quantised;
    int rc = b->factors->states(b->m, b->t.anchor, b->t.facts.n_anchor, c->tokens, c->n, c->states,
                                c->own, b->err);
    for (int i = 0; rc == RETRACE_OK && i < c->n; i++) {
        float *row = c->states + (size_t)i * (size_t)dim;
        rc = rt_build_pack(b, row, 1, c->tokens[i], "the state", c->half);
        if (rc == RETRACE_OK) rt_half_unpack(c->half, dim, row);
    }
    if (rc == RETRACE_OK)
        rc = b->factors->multiply(b->m, b->w, c->states, c->n, c->product, b->err);
    for (int i = 0; rc == RETRACE_OK && i < c->n; i++) {
        size_t at = (size_t)i * (size_t)vocab;
        double off = distance(c->own + at, c->product + at, vocab, c->p, c->q);
        if (!(off <= most))
            rc = retrace_fail(b->err, RETRACE_EMODEL,
                              "model '%s': its logits are not W h: row of token %d is off by %.3g",
                              b->m->facts.name, (int)c->tokens[i], off);
    }
    return rc;
}

static int compare_some(rt_build *b) {
    compared c;
    int rc = compared_new(b, &c);
    if (rc == RETRACE_OK) rc = compare(b, &c);
    compared_free(&c);
    return rc;
}

/* ==== States ==== */

/* The state after the document start alone. */
static int take_start(rt_build *b, float *states) {
    const retrace_token start = b->t.facts.start;
    if (start < 0) return RETRACE_OK;
    int rc = b->factors->states(b->m, &start, 1, NULL, 1, states, NULL, b->err);
    if (rc) return rc;
    size_t at = (size_t)b->t.facts.vocab * (size_t)b->t.facts.dim;
    return rt_build_pack(b, states, 1, start, "the state", b->t.parts.states + at);
}

/* Rows first.. of one block, at most `batch` at a time; blocks begin at fixed places, so which
 * tokens are asked about together does not depend on where a build was interrupted. */
static int make_block(rt_build *b, int first, int n, retrace_token *tokens, float *states) {
    int batch = b->factors->states_batch, rc = RETRACE_OK;
    uint16_t *rows = b->t.parts.states + (size_t)first * (size_t)b->t.facts.dim;
    for (int at = 0; rc == RETRACE_OK && at < n; at += batch) {
        int count = n - at < batch ? n - at : batch;
        for (int i = 0; i < count; i++) tokens[i] = first + at + i;
        rc = b->factors->states(b->m, b->t.anchor, b->t.facts.n_anchor, tokens, count, states, NULL,
                                b->err);
        if (rc == RETRACE_OK)
            rc = rt_build_pack(b, states, count, first + at, "the state",
                               rows + (size_t)at * (size_t)b->t.facts.dim);
        if (rc == RETRACE_OK && at + count < n) rc = rt_build_tell_states(b, first + at + count);
    }
    return rc;
}

static int take_states(rt_build *b, retrace_token *tokens, float *states) {
    int rc = take_start(b, states);
    for (int i = 0; rc == RETRACE_OK && i < rt_part_blocks(&b->part); i++) {
        int n, first = rt_part_rows(&b->part, i, &n);
        uint16_t *rows = b->t.parts.states + (size_t)first * (size_t)b->t.facts.dim;
        rc = rt_part_read_block(&b->part, i, rows);
        if (rc == RETRACE_DONE) {
            rc = make_block(b, first, n, tokens, states);
            if (rc == RETRACE_OK) rc = rt_part_write_block(&b->part, i, rows);
        }
        if (rc == RETRACE_OK) rc = rt_build_tell_states(b, first + n);
    }
    return rc;
}

int rt_build_states(rt_build *b) {
    int batch = b->factors->states_batch, rc = take_memory(b);
    if (batch > b->part.each) batch = b->part.each;
    if (rc == RETRACE_OK) rc = rt_build_tell_states(b, 0);
    if (rc == RETRACE_OK) rc = take_output(b);
    if (rc == RETRACE_OK) rc = compare_some(b);
    if (rc) return rc;
    retrace_token *tokens = retrace_alloc((size_t)batch * sizeof *tokens);
    float *states = retrace_alloc((size_t)batch * (size_t)b->t.facts.dim * sizeof *states);
    rc = tokens && states ? take_states(b, tokens, states) : rt_nomem(b->err);
    retrace_free(tokens);
    retrace_free(states);
    return rc;
}
