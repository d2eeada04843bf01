/* build.c - makes a table and puts it at its path.
 *
 * The part is opened first of all: so a folder that cannot be written is found out before hours of
 * work, and the lock on it keeps other builds of the same path away. Models of few tokens that tell
 * no hidden states get a table of all rows; that takes no time worth keeping. */
#include "build.h"

#include "../backward/dense.h"
#include "../backward/half.h"
#include "../base.h"
#include "disk.h"
#include "table.h"

#include <math.h>
#include <string.h>

/* ==== How far ==== */

/* Passes that are expected as long as nothing is known, and what is kept for writing. */
static const double passes_foreseen = 8, before_write = .99;

/* What evaluating all tokens costs, in passes: by multiplications. */
static double states_cost(const rt_build *b) {
    double pass = (double)b->t.facts.vocab * b->t.facts.dim;
    return b->m->facts.n_params > 0 ? (double)b->m->facts.n_params / pass : passes_foreseen;
}

static int tell(rt_build *b, retrace_build_stage stage, double share, int iteration,
                double change) {
    if (!(share <= 1)) share = 1;
    if (share > b->share) b->share = share;
    const retrace_build_progress p = {stage, b->share, iteration, change};
    if (!b->each || !b->each(b->ud, &p)) return RETRACE_OK;
    return retrace_fail(b->err, RETRACE_ECANCEL, "building '%s' was cancelled", b->path);
}

int rt_build_tell_states(rt_build *b, int done) {
    double cost = states_cost(b), part = (double)done / b->t.facts.vocab;
    return tell(b, RETRACE_BUILD_STATES, before_write * part * cost / (cost + passes_foreseen), 0,
                NAN);
}

int rt_build_tell_law(rt_build *b, double done, double expected, int iteration, double change) {
    double cost = states_cost(b), passes = expected > 0 ? expected : passes_foreseen;
    if (passes < done) passes = done;
    return tell(b, RETRACE_BUILD_LAW, before_write * (cost + done) / (cost + passes), iteration,
                change);
}

/* ==== What stages share ==== */

int rt_build_pack(rt_build *b, const float *x, int rows, int first, const char *what,
                  uint16_t *out) {
    int dim = b->t.facts.dim;
    for (int i = 0; i < rows; i++) {
        const float *row = x + (size_t)i * (size_t)dim;
        uint16_t *to = out + (size_t)i * (size_t)dim;
        rt_half_pack(row, dim, to);
        for (int k = 0; k < dim; k++) {
            if ((to[k] & 0x7C00) == 0x7C00)
                return retrace_fail(b->err, RETRACE_EMODEL,
                                    "model '%s': %s of token %d is %g, beyond half precision",
                                    b->m->facts.name, what, first + i, (double)row[k]);
        }
    }
    return RETRACE_OK;
}

/* A copy of at most RT_TABLE_MAX_NAME bytes, cut at a whole character. */
static char *copy_name(const char *s) {
    size_t n = strlen(s);
    if (n > RT_TABLE_MAX_NAME) n = RT_TABLE_MAX_NAME - rt_utf8_tail(s, RT_TABLE_MAX_NAME);
    return rt_copy(s, rt_utf8_check(s, n));
}

/* What is known from the start: whose table this will be. */
static int set_facts(rt_build *b, retrace_anchor anchor) {
    rt_table *t = &b->t;
    int n = 0, rc = rt_chain_anchor(b->m, anchor, &t->anchor, &n, b->err);
    if (rc) return rc;
    if (n > RT_TABLE_MAX_ANCHOR)
        return retrace_fail(b->err, RETRACE_EUSAGE,
                            "an anchor of %d tokens; a table has at most %d", n,
                            RT_TABLE_MAX_ANCHOR);
    if (b->m->facts.vocab > RT_TABLE_MAX_VOCAB)
        return retrace_fail(b->err, RETRACE_EMODEL, "model '%s': %d tokens; a table has at most %d",
                            b->m->facts.name, b->m->facts.vocab, RT_TABLE_MAX_VOCAB);
    t->model = copy_name(b->m->facts.name);
    t->weights = copy_name(b->m->facts.weights);
    if (!t->model || !t->weights) return rt_nomem(b->err);
    t->facts = rt_chain_facts(b->m, b->factors ? "factored" : "dense", t->anchor, n);
    t->facts.model = t->model;
    t->facts.weights = t->weights;
    return RETRACE_OK;
}

static int write_table(rt_build *b) {
    int rc = tell(b, RETRACE_BUILD_WRITE, before_write, 0, b->t.facts.residual);
    if (rc == RETRACE_OK) rc = rt_table_write(&b->t, b->path, b->err);
    /* The table is there: too late to stop. */
    if (rc == RETRACE_OK) tell(b, RETRACE_BUILD_WRITE, 1, 0, b->t.facts.residual);
    return rc;
}

/* ==== Factored ==== */

static int check_dim(rt_build *b) {
    int dim = 0, rc = b->factors->dim(b->m, &dim, b->err);
    if (rc) return rc;
    if (dim < 1 || dim > RT_TABLE_MAX_DIM || b->factors->states_batch < 1)
        return retrace_fail(b->err, RETRACE_EMODEL,
                            "model '%s': hidden states of %d numbers, %d at once", b->m->facts.name,
                            dim, b->factors->states_batch);
    b->t.facts.dim = dim;
    return RETRACE_OK;
}

static int build_factored(rt_build *b, int restart) {
    int rc = check_dim(b);
    if (rc == RETRACE_OK)
        rc =
            rt_part_open(&b->part, b->path, &b->t.facts, b->factors->states_batch, restart, b->err);
    if (rc == RETRACE_OK) rc = rt_build_states(b);
    if (rc == RETRACE_OK) rc = rt_build_law(b);
    if (rc == RETRACE_OK) rc = write_table(b);
    return rc;
}

/* ==== Dense ==== */

/* The rows of a chain in memory. */
static int take_rows(rt_build *b, const retrace_bigram *chain) {
    size_t vocab = (size_t)b->t.facts.vocab;
    b->t.rows = retrace_alloc(vocab * vocab * sizeof *b->t.rows);
    b->t.parts.pi = retrace_alloc(vocab * sizeof *b->t.parts.pi);
    if (!b->t.rows || !b->t.parts.pi) return rt_nomem(b->err);
    memcpy(b->t.parts.pi, retrace_bigram_pi(chain), vocab * sizeof *b->t.parts.pi);
    int rc = RETRACE_OK;
    for (size_t v = 0; rc == RETRACE_OK && v < vocab; v++)
        rc = retrace_bigram_row(chain, (retrace_token)v, b->t.rows + v * vocab, b->err);
    return rc;
}

static int make_dense(rt_build *b) {
    retrace_bigram *chain = NULL;
    retrace_bigram_info facts;
    int rc = tell(b, RETRACE_BUILD_STATES, 0, 0, NAN);
    const retrace_anchor anchor = {b->t.anchor, b->t.facts.n_anchor};
    if (rc == RETRACE_OK) rc = retrace_bigram_of(&chain, b->m, anchor, b->err);
    if (rc) return rc;
    retrace_bigram_facts(chain, &facts);
    b->t.facts.iterations = facts.iterations;
    b->t.facts.residual = facts.residual;
    b->t.facts.rate = facts.rate;
    b->t.facts.entropy = facts.entropy;
    b->t.facts.start_pi = facts.start_pi;
    rc = take_rows(b, chain);
    retrace_bigram_close(chain);
    return rc;
}

static int build_dense(rt_build *b) {
    if (b->m->facts.vocab > RT_DENSE_MOST)
        return retrace_fail(b->err, RETRACE_EMODEL,
                            "model '%s' tells no hidden states, and a table of all rows is for at "
                            "most %d tokens, not %d",
                            b->m->facts.name, RT_DENSE_MOST, b->m->facts.vocab);
    int rc = rt_part_open(&b->part, b->path, &b->t.facts, 0, 1, b->err);
    if (rc == RETRACE_OK) rc = make_dense(b);
    return rc ? rc : write_table(b);
}

/* ==== The build ==== */

int retrace_bigram_build(const char *path, retrace_model *m, retrace_anchor anchor, int restart,
                         retrace_build_fn *each, void *ud, retrace_error *err) {
    rt_build b = {.m = m,
                  .factors = m->type->factors,
                  .path = path,
                  .err = err,
                  .each = each,
                  .ud = ud,
                  .part = {.fd = -1}};
    rt_clear(err);
    int rc = rt_check_order(err);
    if (rc == RETRACE_OK) rc = rt_disk_check_target(path, err);
    if (rc == RETRACE_OK) rc = set_facts(&b, anchor);
    if (rc == RETRACE_OK) rc = b.factors ? build_factored(&b, restart) : build_dense(&b);
    rt_part_close(&b.part, rc == RETRACE_OK || b.part.kept == 0);
    rt_table_free(&b.t);
    retrace_free(b.w);
    return rc;
}
