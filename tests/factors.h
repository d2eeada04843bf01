/* factors.h - a made-up model whose logits are W h, and files to compare: what the tests of tables
 * share. Included once by each test program, after helper.h.
 *
 * States and W are a function of a seed, the anchor and the token; nothing is evaluated. */
#ifndef RT_FACTORS_H
#define RT_FACTORS_H

#include "backward/chain.h"

#include <math.h>
#include <sys/stat.h>

typedef struct made_up {
    retrace_model base;
    retrace_backend_type type;
    retrace_factors factors;
    retrace_token_info *vocab;
    uint64_t seed;
    int dim;
    float bias;    /* of logits that are no plain product */
    float scale;   /* of the states */
    int rows;      /* states that were asked for */
    int fail_at;   /* the call of states that fails; 0: none */
    int n_calls;   /* of states */
    int n_product; /* rows of logits that were made */
} made_up;

static uint64_t mix_up(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* About normal, the same for the same key. */
static float normal(uint64_t key) {
    double sum = -6;
    for (uint64_t i = 0; i < 12; i++)
        sum += (double)(mix_up(key * 12 + i + 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53;
    return (float)sum;
}

static int made_up_dim(retrace_model *m, int *dim, retrace_error *err) {
    *dim = ((made_up *)m)->dim;
    if (*dim > 0) return RETRACE_OK;
    return retrace_fail(err, RETRACE_EMODEL, "its logits are capped");
}

static int made_up_output(retrace_model *m, float *w, retrace_error *err) {
    made_up *u = (made_up *)m;
    (void)err;
    for (int i = 0; i < m->facts.vocab * u->dim; i++)
        w[i] = normal(u->seed ^ mix_up((uint64_t)i + 1));
    return RETRACE_OK;
}

static int made_up_multiply(retrace_model *m, const float *w, const float *states, int n, float *x,
                            retrace_error *err) {
    made_up *u = (made_up *)m;
    (void)err;
    u->n_product += n;
    for (int i = 0; i < n; i++) {
        for (int v = 0; v < m->facts.vocab; v++) {
            float sum = 0;
            for (int k = 0; k < u->dim; k++) sum += w[v * u->dim + k] * states[i * u->dim + k];
            x[i * m->facts.vocab + v] = sum;
        }
    }
    return RETRACE_OK;
}

/* In an order of its own. */
static int made_up_together(retrace_model *m, int n, void (*fn)(void *ud, int part), void *ud,
                            retrace_error *err) {
    (void)m, (void)err;
    for (int i = n; i-- > 0;) fn(ud, i);
    return RETRACE_OK;
}

static void made_up_state(const made_up *u, uint64_t key, float *out) {
    for (int k = 0; k < u->dim; k++)
        out[k] = u->scale * normal(key + (uint64_t)k) / sqrtf((float)u->dim);
}

static int made_up_states(retrace_model *m, const retrace_token *anchor, int n_anchor,
                          const retrace_token *tokens, int n, float *states, float *logits,
                          retrace_error *err) {
    made_up *u = (made_up *)m;
    uint64_t key = u->seed;
    assert_true(n <= u->factors.states_batch && (tokens || (n == 1 && n_anchor > 0)));
    for (int i = 0; i < n_anchor; i++) key = mix_up(key + (uint64_t)anchor[i] + 1);
    if (++u->n_calls == u->fail_at) return retrace_fail(err, RETRACE_EMODEL, "the model fails");
    u->rows += n;
    for (int i = 0; i < n; i++)
        made_up_state(u, tokens ? mix_up(key * 3 + (uint64_t)tokens[i]) : key, states + i * u->dim);
    if (!logits) return RETRACE_OK;
    float *w = retrace_alloc((size_t)m->facts.vocab * (size_t)u->dim * sizeof *w);
    if (!w) return retrace_fail(err, RETRACE_ENOMEM, "out of memory");
    made_up_output(m, w, err);
    made_up_multiply(m, w, states, n, logits, err);
    for (int v = 0; v < n * m->facts.vocab; v += 2) logits[v] += u->bias;
    retrace_free(w);
    return RETRACE_OK;
}

/* Token 1 starts documents, it and token `vocab - 1` end them. */
UNUSED_OK static made_up *made_up_new(int vocab, int dim, uint64_t seed) {
    made_up *u = calloc(1, sizeof *u);
    assert_non_null(u);
    u->vocab = calloc((size_t)vocab, sizeof *u->vocab);
    assert_non_null(u->vocab);
    for (int i = 0; i < vocab; i++) u->vocab[i] = (retrace_token_info){"x", 1, 0};
    u->vocab[1].flags = u->vocab[vocab - 1].flags = RETRACE_TOKEN_END;
    u->seed = mix_up(seed + 1);
    u->dim = dim;
    u->scale = 2;
    u->factors = (retrace_factors){.dim = made_up_dim,
                                   .states = made_up_states,
                                   .states_batch = 100,
                                   .output = made_up_output,
                                   .multiply = made_up_multiply,
                                   .together = seed % 2 ? made_up_together : NULL};
    u->type = (retrace_backend_type){.abi = RETRACE_ABI, .scheme = "made-up"};
    u->type.factors = &u->factors;
    u->base = (retrace_model){.type = &u->type,
                              .facts = {.name = "made up",
                                        .backend = "made-up",
                                        .vocab = vocab,
                                        .n_ctx = 64,
                                        .n_params = 100000,
                                        .bos = -1,
                                        .start = 1,
                                        .weights = "f32",
                                        .hash = seed + 100,
                                        .vocab_hash = 7},
                              .vocab = u->vocab};
    return u;
}

UNUSED_OK static void made_up_free(made_up *u) {
    free(u->vocab);
    free(u);
}

static const retrace_anchor anchor_auto = {NULL, -1};

/* ==== Files ==== */

typedef struct bytes {
    unsigned char *s;
    size_t n;
} bytes;

/* A folder of its own for this program. */
UNUSED_OK static const char *folder(void) {
    static char path[512];
    const char *dir = getenv("TMPDIR");
    if (path[0]) return path;
    snprintf(path, sizeof path, "%s/retrace-table-XXXXXX", dir && *dir ? dir : "/tmp");
    assert_non_null(mkdtemp(path));
    return path;
}

/* folder/name, for good: the same pointer for the same name. */
UNUSED_OK static const char *in_folder(const char *name) {
    static struct { char name[32], path[600]; } known[32];
    int i = 0;
    while (known[i].name[0] && strcmp(known[i].name, name) != 0) i++;
    assert_true(i < 31);
    snprintf(known[i].name, sizeof known[i].name, "%s", name);
    snprintf(known[i].path, sizeof known[i].path, "%s/%s", folder(), name);
    return known[i].path;
}

UNUSED_OK static int is_there(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

UNUSED_OK static bytes read_bytes(const char *path) {
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f) fail_msg("no '%s'", path);
    assert_int_equal(fstat(fileno(f), &st), 0);
    bytes b = {malloc((size_t)st.st_size + 1), (size_t)st.st_size};
    assert_non_null(b.s);
    assert_int_equal(fread(b.s, 1, b.n + 1, f), b.n);
    fclose(f);
    return b;
}

UNUSED_OK static void write_bytes(const char *path, const void *s, size_t n) {
    unlink(path); /* some file systems are slow to write over a file */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(s, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

UNUSED_OK static void assert_holds(const char *path, bytes want) {
    bytes b = read_bytes(path);
    assert_int_equal(b.n, want.n);
    assert_memory_equal(b.s, want.s, b.n);
    free(b.s);
}

#endif
