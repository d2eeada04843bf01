/* llama_factors.c - hidden states and the output matrix of a model; see llama_factors.h.
 *
 * The states come from a context of their own that tells embeddings: after the last norm, so that
 * the logits are their products with the rows of the output matrix. The anchor is fed once for a
 * batch, and every token of it follows the anchor in a sequence of its own. The memory is emptied
 * before each batch, so the same batch finds the same cells and gives the same bits.
 *
 * Whether logits are plain products is read off the file: some models cap or scale them, or add a
 * bias. */
#include "llama_factors.h"

#include "base.h"
#include "llama_expand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_STATES = 8 }; /* sequences side by side where each has a running state */

struct rt_factorer {
    const char *path;
    const rt_llama *parent;
    rt_work *work;
    int n_threads;
    rt_llama_facts facts;
    rt_llama *l; /* NULL: none has been made */
    int n_ctx;   /* tokens of an anchor and one behind it that fit in l */
    int n_batch; /* rows of l */
};

rt_factorer *rt_factorer_new(const char *path, const rt_llama *l, rt_work *work, int n_threads) {
    rt_factorer *f = retrace_calloc(1, sizeof *f);
    if (!f) return NULL;
    f->path = path;
    f->parent = l;
    f->work = work;
    f->n_threads = n_threads;
    rt_llama_facts_of(l, &f->facts);
    return f;
}

void rt_factorer_free(rt_factorer *f) {
    if (!f) return;
    rt_llama_close(f->l);
    retrace_free(f);
}

/* ==== Which models ==== */

/* The value of the architecture's key `rest`; 0: there is none. */
static double number_of(const rt_factorer *f, const char *rest) {
    char arch[64], key[160], text[64];
    if (rt_llama_meta(f->parent, "general.architecture", arch, sizeof arch) < 0) return 0;
    snprintf(key, sizeof key, "%s.%s", arch, rest);
    if (rt_llama_meta(f->parent, key, text, sizeof text) < 0) return 0;
    return strtod(text, NULL);
}

static int refuse(const rt_factorer *f, const char *why, retrace_error *err) {
    return retrace_fail(err, RETRACE_EMODEL,
                        "the logits of '%s' are no plain product of a state and a matrix: %s",
                        f->path, why);
}

static const char *matrix_name(const rt_factorer *f, int64_t *columns, int64_t *rows) {
    static const char *const names[] = {"output.weight", "token_embd.weight"};
    for (int i = 0; i < 2; i++) {
        if (rt_tensor_shape(f->path, names[i], columns, rows)) return names[i];
    }
    return NULL;
}

int rt_factorer_dim(rt_factorer *f, int *dim, retrace_error *err) {
    int64_t columns = 0, rows = 0;
    double scale = number_of(f, "logit_scale");
    if (number_of(f, "final_logit_softcapping") != 0)
        return refuse(f, "a soft cap bounds them", err);
    if (scale != 0 && scale != 1) return refuse(f, "they are scaled", err);
    if (rt_tensor_shape(f->path, "output.bias", &columns, &rows))
        return refuse(f, "a bias is added", err);
    if (!matrix_name(f, &columns, &rows)) return refuse(f, "the file has no output matrix", err);
    if (rows != f->facts.vocab || columns != f->facts.n_embd)
        return refuse(f, "the output matrix is of another shape", err);
    *dim = (int)columns;
    return RETRACE_OK;
}

/* ==== States ==== */

static void drop_context(rt_factorer *f) {
    rt_llama_close(f->l);
    f->l = NULL;
}

/* Has a context for anchors of this length. */
static int want_context(rt_factorer *f, int n_anchor, retrace_error *err) {
    if (f->l && n_anchor < f->n_ctx) return RETRACE_OK;
    drop_context(f);
    f->n_ctx = n_anchor + 1;
    rt_llama_params p = {.n_ctx = n_anchor + RT_STATES_BATCH,
                         .n_batch = RT_STATES_BATCH + 1,
                         .n_seq = f->facts.recurrent ? FEW_STATES : RT_STATES_BATCH,
                         .n_threads = f->n_threads,
                         .one_cache = 1,
                         .embeddings = 1};
    int rc = rt_llama_share(&f->l, f->parent, &p, err);
    if (rc < 0) return rc;
    rt_llama_facts own;
    rt_llama_facts_of(f->l, &own);
    f->n_batch = own.n_batch;
    return RETRACE_OK;
}

/* The hidden state of a row, or its logits. */
static int read_row(rt_factorer *f, int row, int logits, float *to, retrace_error *err) {
    const float *x = logits ? rt_llama_row(f->l, row) : rt_llama_state(f->l, row);
    size_t n = (size_t)(logits ? f->facts.vocab : f->facts.n_embd);
    if (!x) return retrace_fail(err, RETRACE_EMODEL, "the model gave no hidden state");
    memcpy(to, x, n * sizeof *x);
    return RETRACE_OK;
}

/* Empties the memory and feeds the anchor; the state after it when `want`. *row is that row. */
static int feed_anchor(rt_factorer *f, const retrace_token *anchor, int n, int want, int *row,
                       retrace_error *err) {
    int rc = RETRACE_OK;
    rt_llama_empty(f->l);
    for (int at = 0; at < n && rc == RETRACE_OK; at += f->n_batch) {
        for (int i = at; i < n && i < at + f->n_batch; i++)
            *row = rt_llama_put(f->l, anchor[i], i, 0, want && i == n - 1);
        rc = rt_llama_decode(f->l, err);
    }
    return rc;
}

static int feed_tokens(rt_factorer *f, int n_anchor, const retrace_token *tokens, int n,
                       retrace_error *err) {
    for (int i = 1; i < n && n_anchor > 0; i++) {
        if (!rt_llama_copy(f->l, 0, i))
            return retrace_fail(err, RETRACE_EMODEL, "the model's memory cannot be copied");
    }
    for (int i = 0; i < n; i++) rt_llama_put(f->l, tokens[i], n_anchor, i, 1);
    return rt_llama_decode(f->l, err);
}

/* States, or logits, to `to`. Some models have one or the other only, so they are made by
 * themselves. */
static int make(rt_factorer *f, const retrace_token *anchor, int n_anchor,
                const retrace_token *tokens, int n, int logits, float *to, retrace_error *err) {
    int row = 0, rc = RETRACE_OK, step = f->facts.recurrent ? FEW_STATES : RT_STATES_BATCH;
    size_t width = (size_t)(logits ? f->facts.vocab : f->facts.n_embd);
    rt_llama_set_embeddings(f->l, !logits);
    if (!tokens) {
        rc = feed_anchor(f, anchor, n_anchor, 1, &row, err);
        return rc == RETRACE_OK ? read_row(f, row, logits, to, err) : rc;
    }
    for (int at = 0; at < n && rc == RETRACE_OK; at += step) {
        int some = n - at < step ? n - at : step;
        rc = feed_anchor(f, anchor, n_anchor, 0, &row, err);
        if (rc == RETRACE_OK) rc = feed_tokens(f, n_anchor, tokens + at, some, err);
        for (int i = 0; i < some && rc == RETRACE_OK; i++)
            rc = read_row(f, i, logits, to + (size_t)(at + i) * width, err);
    }
    return rc;
}

static int check_ids(const rt_factorer *f, const retrace_token *v, int n, retrace_error *err) {
    for (int i = 0; i < n; i++) {
        if (v[i] < 0 || v[i] >= f->facts.vocab)
            return retrace_fail(err, RETRACE_EUSAGE, "token %d is outside the vocabulary of %d",
                                (int)v[i], f->facts.vocab);
    }
    return RETRACE_OK;
}

static int check(const rt_factorer *f, const retrace_token *anchor, int n_anchor,
                 const retrace_token *tokens, int n, retrace_error *err) {
    if (n < 1 || n > RT_STATES_BATCH || n_anchor < 0 || (!tokens && (n != 1 || n_anchor < 1)))
        return retrace_fail(err, RETRACE_EUSAGE, "%d states after an anchor of %d tokens", n,
                            n_anchor);
    if (n_anchor >= f->facts.n_ctx)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "an anchor of %d tokens is longer than ctx_size %d", n_anchor,
                            f->facts.n_ctx);
    int rc = check_ids(f, anchor, n_anchor, err);
    return rc == RETRACE_OK && tokens ? check_ids(f, tokens, n, err) : rc;
}

int rt_factorer_states(rt_factorer *f, const retrace_token *anchor, int n_anchor,
                       const retrace_token *tokens, int n, float *states, float *logits,
                       retrace_error *err) {
    int rc = check(f, anchor, n_anchor, tokens, n, err);
    if (rc == RETRACE_OK) rc = want_context(f, n_anchor, err);
    if (rc < 0) return rc;
    rc = make(f, anchor, n_anchor, tokens, n, 0, states, err);
    if (rc == RETRACE_OK && logits) rc = make(f, anchor, n_anchor, tokens, n, 1, logits, err);
    if (rc < 0) rt_llama_clear(f->l);
    return rc;
}

/* ==== The matrix ==== */

int rt_factorer_output(rt_factorer *f, float *w, retrace_error *err) {
    int64_t columns = 0, rows = 0;
    const char *name = matrix_name(f, &columns, &rows);
    if (!name) return refuse(f, "the file has no output matrix", err);
    return rt_tensor(f->path, name, w, (size_t)f->facts.vocab * (size_t)f->facts.n_embd, err);
}

int rt_factorer_multiply(rt_factorer *f, const float *w, const float *states, int n, float *x,
                         retrace_error *err) {
    drop_context(f); /* products come after the states, and together they take room */
    return rt_work_multiply(f->work, w, f->facts.vocab, f->facts.n_embd, states, n, x, err);
}
