/* law.c - the second stage of a build: the normalisers and the law that the chain settles to.
 *
 * Rows are made anew in each pass, from the factors as the table will hold them, so that the law is
 * that of the table and its rows sum to 1. What decides how the search goes on is kept after each
 * pass; a build that goes on from there takes the same steps as without the interruption. */
#include "build.h"

#include "../backward/half.h"
#include "../backward/power.h"
#include "../base.h"
#include "../expv.h"

#include <math.h>
#include <string.h>

/* Rows made at once, of a large vocabulary and of a small one, which is soon done: progress is told
 * after each block. Columns of them that one thread adds up. */
enum { ROWS = 256, FEW_ROWS = 128, SMALL = 4096, COLUMNS = 2048 };

static const double enough = 1e-6;

typedef struct maker {
    rt_build *b;
    rt_power *power;
    float *states, *logits; /* ROWS rows each */
    double *before;         /* pi, as the pass began */
    rt_part_law last;       /* after the last pass */
    double expected;        /* passes in all; 0: not known yet */
} maker;

static int make_rows(maker *k, int first, int n) {
    const rt_build *b = k->b;
    const rt_factored *parts = &b->t.parts;
    size_t dim = (size_t)b->t.facts.dim, vocab = (size_t)b->t.facts.vocab;
    for (int i = 0; i < n; i++) {
        size_t row = parts->starts[first + i] ? vocab : (size_t)(first + i);
        rt_half_unpack(parts->states + row * dim, (int)dim, k->states + (size_t)i * dim);
    }
    return b->factors->multiply(b->m, b->w, k->states, n, k->logits, b->err);
}

/* ==== A block of rows, by several threads ==== */

typedef struct block {
    maker *k;
    int first, n;
    int rc[ROWS];
} block;

static void keep_row(void *ud, int i) {
    block *s = ud;
    int row = s->first + i, vocab = s->k->b->t.facts.vocab;
    s->rc[i] = rt_power_keep(s->k->power, row, 1, s->k->logits + (size_t)i * (size_t)vocab,
                             s->k->b->t.parts.log_norm + row, NULL);
}

static void add_columns(void *ud, int i) {
    const block *s = ud;
    int from = i * COLUMNS, left = s->k->b->t.facts.vocab - from;
    rt_power_add(s->k->power, s->first, s->n, s->k->logits, s->k->b->t.parts.log_norm + s->first,
                 from, left < COLUMNS ? left : COLUMNS);
}

static int spread(const rt_build *b, int n, void (*fn)(void *ud, int part), void *ud) {
    if (b->factors->together) return b->factors->together(b->m, n, fn, ud, b->err);
    for (int i = 0; i < n; i++) fn(ud, i);
    return RETRACE_OK;
}

static int add_rows(maker *k, int first_pass, int first, int n) {
    const rt_build *b = k->b;
    block s = {.k = k, .first = first, .n = n};
    int rc = first_pass ? spread(b, n, keep_row, &s) : RETRACE_OK;
    for (int i = 0; rc == RETRACE_OK && first_pass && i < n; i++) {
        if (s.rc[i])
            rc = retrace_fail(b->err, s.rc[i], "model '%s' gives no distribution after token %d",
                              b->m->facts.name, first + i);
    }
    if (rc) return rc;
    return spread(b, (b->t.facts.vocab + COLUMNS - 1) / COLUMNS, add_columns, &s);
}

/* ==== Passes ==== */

/* One pass; *change is known after it. */
static int make_pass(maker *k, int pass, int first, double *change) {
    rt_build *b = k->b;
    int vocab = b->t.facts.vocab, rc = RETRACE_OK;
    double known = pass > 1 ? k->last.change : NAN;
    memcpy(k->before, rt_power_pi(k->power), (size_t)vocab * sizeof *k->before);
    rt_power_begin(k->power, first);
    int rows = vocab < SMALL ? FEW_ROWS : ROWS;
    for (int at = 0; rc == RETRACE_OK && at < vocab; at += rows) {
        int n = vocab - at < rows ? vocab - at : rows;
        rc = make_rows(k, at, n);
        if (rc == RETRACE_OK) rc = add_rows(k, first, at, n);
        if (rc == RETRACE_OK)
            rc =
                rt_build_tell_law(b, pass - 1 + (double)(at + n) / vocab, k->expected, pass, known);
    }
    return rc ? rc : rt_power_end(k->power, change, b->err);
}

/* By the last change and the one before. */
static void foresee(maker *k, int pass, double before, double change) {
    double rate = before > 0 ? change / before : 0;
    if (!(rate > 0 && rate < 1) || !(change > 0)) return;
    k->expected = pass + fmin(fmax(ceil(log(enough / change) / log(rate)), 1), RT_BUILD_PASSES);
}

/* The last row is the one of the tokens that start a document. */
static void set_last_norm(rt_build *b) {
    retrace_token start = b->t.facts.start;
    double nobody = log((double)b->t.facts.vocab);
    b->t.parts.log_norm[b->t.facts.vocab] = start >= 0 ? b->t.parts.log_norm[start] : nobody;
}

static int set_facts(maker *k, int pass, double change) {
    rt_build *b = k->b;
    struct retrace_bigram sums = {.facts = b->t.facts, .pi = b->t.parts.pi};
    double sum = rt_sum(k->before, b->t.facts.vocab);
    if (!(fabs(sum - 1) < 1e-9))
        return retrace_fail(b->err, RETRACE_EMODEL, "model '%s': the law of its chain sums to %g",
                            b->m->facts.name, sum);
    memcpy(b->t.parts.pi, k->before, (size_t)b->t.facts.vocab * sizeof *k->before);
    rt_chain_sums(&sums, b->m);
    b->t.facts.entropy = sums.facts.entropy;
    b->t.facts.start_pi = sums.facts.start_pi;
    b->t.facts.iterations = pass;
    b->t.facts.residual = change;
    b->t.facts.rate = rt_power_rate(k->power);
    set_last_norm(b);
    return RETRACE_OK;
}

/* Goes on from k->last. The first pass of all, or of this process, learns about the chain. */
static int settle(maker *k) {
    rt_build *b = k->b;
    int begun = k->last.pass + 1;
    for (int pass = begun; pass <= RT_BUILD_PASSES; pass++) {
        double change, before = k->last.change;
        int rc = make_pass(k, pass, pass == begun, &change);
        if (rc) return rc;
        k->last.pass = pass;
        k->last.change = change;
        if (change < enough) return set_facts(k, pass, change);
        foresee(k, pass, before, change);
        rc = rt_part_write_law(&b->part, &k->last);
        if (rc) return rc;
    }
    return retrace_fail(b->err, RETRACE_EMODEL,
                        "model '%s': after %d products with the whole chain its law still moves by "
                        "%.3g",
                        b->m->facts.name, RT_BUILD_PASSES, k->last.change);
}

static int make_law(maker *k) {
    rt_part_law kept;
    k->last = (rt_part_law){.change = NAN};
    k->last.state = rt_power_state(k->power, &k->last.n);
    kept = k->last;
    kept.state = retrace_alloc(kept.n * sizeof *kept.state);
    if (!kept.state) return rt_nomem(k->b->err);
    int rc = rt_part_read_law(&k->b->part, &kept);
    if (rc == RETRACE_OK) {
        memcpy(k->last.state, kept.state, kept.n * sizeof *kept.state);
        k->last.pass = kept.pass;
        k->last.change = kept.change;
    }
    retrace_free(kept.state);
    return rc < 0 ? rc : settle(k);
}

/* Entries of a row that are kept for cheap steps. */
static int entries_kept(int vocab) {
    int n = vocab / 64;
    return n < 16 ? 16 : n > 128 ? 128 : n;
}

/* The output matrix, back in halves. */
static int keep_output(rt_build *b) {
    int vocab = b->t.facts.vocab, dim = b->t.facts.dim;
    b->t.parts.output = retrace_alloc((size_t)vocab * (size_t)dim * sizeof *b->t.parts.output);
    if (!b->t.parts.output) return rt_nomem(b->err);
    return rt_build_pack(b, b->w, vocab, 0, "a weight", b->t.parts.output);
}

int rt_build_law(rt_build *b) {
    size_t vocab = (size_t)b->t.facts.vocab, dim = (size_t)b->t.facts.dim;
    int keep = entries_kept(b->t.facts.vocab);
    maker k = {.b = b};
    b->t.parts.log_norm = retrace_calloc(vocab + 1, sizeof(double));
    b->t.parts.pi = retrace_alloc(vocab * sizeof(double));
    k.states = retrace_alloc(ROWS * dim * sizeof(float));
    k.logits = retrace_alloc(ROWS * vocab * sizeof(float));
    k.before = retrace_alloc(vocab * sizeof(double));
    int rc = RETRACE_OK;
    if (!b->t.parts.log_norm || !b->t.parts.pi || !k.states || !k.logits || !k.before)
        rc = rt_nomem(b->err);
    if (rc == RETRACE_OK) rc = rt_power_new(&k.power, b->t.facts.vocab, keep, b->err);
    if (rc == RETRACE_OK) rc = make_law(&k);
    rt_power_free(k.power);
    retrace_free(k.states);
    retrace_free(k.logits);
    retrace_free(k.before);
    return rc ? rc : keep_output(b);
}
