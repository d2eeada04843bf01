/* test_chain.c - bigram chains: small ones against the model's own answers, factored ones against
 * dense ones, and halves against the definition of the format. */
#include "helper.h"

#include <math.h>

#include "backward/dense.h"
#include "backward/factored.h"
#include "backward/half.h"

static uint64_t state = 7;

static int roll(int n) {
    return roll_from(&state, n);
}

static double uniform(void) {
    return (roll(1 << 20) + 0.5) / (1 << 20);
}

static void *room(size_t bytes) {
    void *p = retrace_alloc(bytes);
    assert_non_null(p);
    return p;
}

/* ==== Random table models ==== */

enum { MOST = 9 };

static size_t add(char *json, size_t at, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    at += (size_t)vsnprintf(json + at, at < 65000 ? 65000 - at : 0, fmt, args);
    va_end(args);
    assert_true(at < 65000);
    return at;
}

/* Weights, some of them 0, but not all. */
static size_t add_next(char *json, size_t at, int vocab, int holes) {
    int sure = roll(vocab);
    at = add(json, at, "\"next\": {");
    for (int w = 0; w < vocab; w++) {
        double weight = w != sure && holes && roll(2) ? 0 : exp(6 * uniform());
        at = add(json, at, "%s\"%d\": %.9g", w ? ", " : "", w, weight);
    }
    return add(json, at, "}}");
}

/* Rows for contexts of up to `order` tokens, all for one token and some for longer ones. */
static retrace_model *random_table(int vocab, int order, int ends, int holes) {
    static char json[1 << 16];
    size_t at = add(json, 0, "{\"tokens\": [");
    for (int v = 0; v < vocab; v++)
        at = add(json, at, "%s{\"text\": \"%c\", \"end\": %s}", v ? ", " : "", 'a' + v,
                 v >= vocab - ends ? "true" : "false");
    at = add(json, at, "], \"n_ctx\": 8, \"rows\": [{\"context\": [], ");
    at = add_next(json, at, vocab, holes);
    for (int length = 1, count = vocab; length <= order; length++, count *= vocab) {
        for (int i = 0; i < count; i++) {
            if (length > 1 && roll(vocab) > 1) continue;
            at = add(json, at, ", {\"context\": [");
            for (int k = 0, rest = i; k < length; k++, rest /= vocab)
                at = add(json, at, "%s%d", k ? ", " : "", rest % vocab);
            at = add(json, at, "], ");
            at = add_next(json, at, vocab, holes);
        }
    }
    add(json, at, "]}");
    return open_table(json);
}

/* ln P of every token after a sequence, by the model's own word. An empty sequence is asked for its
 * distribution. */
static void ask(retrace_model *m, const retrace_token *tokens, int n, double *logp) {
    retrace_token longer[8];
    float next[MOST];
    for (int i = 0; i < n; i++) longer[i] = tokens[i];
    for (retrace_token w = 0; w < m->facts.vocab; w++) {
        longer[n] = w;
        retrace_query q = {
            .tokens = longer, .n = n + 1, .n_prompt = n, .from = n, .logp = &logp[w]};
        assert_int_equal(retrace_model_eval(m, &q, 1, NULL), RETRACE_OK);
    }
    if (n) return;
    double sum = 0;
    retrace_query q = {.n = 0, .next = next};
    assert_int_equal(retrace_model_eval(m, &q, 1, NULL), RETRACE_OK);
    for (int w = 0; w < m->facts.vocab; w++) sum += exp((double)next[w]);
    for (int w = 0; w < m->facts.vocab; w++) logp[w] = (double)next[w] - log(sum);
}

/* The long-run frequencies by squaring (I + P) / 2, which no period can hold up, 60 times. */
static void long_run(double p[MOST][MOST], int n, const double *first, double *pi) {
    double a[MOST][MOST], b[MOST][MOST];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) a[i][j] = (p[i][j] + (i == j)) / 2;
    for (int k = 0; k < 60; k++) {
        for (int i = 0; i < n; i++) {
            double mass = 0;
            for (int j = 0; j < n; j++) {
                b[i][j] = 0;
                for (int l = 0; l < n; l++) b[i][j] += a[i][l] * a[l][j];
                mass += b[i][j];
            }
            for (int j = 0; j < n; j++) b[i][j] /= mass;
        }
        memcpy(a, b, sizeof a);
    }
    for (int j = 0; j < n; j++) {
        pi[j] = 0;
        for (int i = 0; i < n; i++) pi[j] += first[i] * a[i][j];
    }
}

static int same(double a, double b, double within) {
    return a == b || fabs(a - b) <= within;
}

/* Rows and columns; leaves the chain in p, and the law of a first token. */
static void check_rows(const retrace_bigram *b, retrace_model *m, const retrace_token *anchor,
                       int n_anchor, double p[MOST][MOST], double *first) {
    int n = m->facts.vocab, begun = m->facts.start >= 0;
    double right[MOST], row[MOST], column[MOST];
    retrace_token after[8];
    for (int i = 0; i < n_anchor; i++) after[i] = anchor[i];
    ask(m, &m->facts.start, begun, first);
    for (retrace_token v = 0; v < n; v++) {
        after[n_anchor] = v;
        ask(m, after, n_anchor + 1, right);
        if (v == m->facts.start || retrace_token_ends(m, v)) memcpy(right, first, sizeof right);
        assert_int_equal(retrace_bigram_row(b, v, row, NULL), RETRACE_OK);
        for (retrace_token w = 0; w < n; w++) {
            assert_true(same(row[w], right[w], 1e-14));
            assert_int_equal(retrace_bigram_column(b, w, column, NULL), RETRACE_OK);
            assert_true(column[v] == row[w]);
            p[v][w] = exp(right[w]);
        }
    }
    for (int w = 0; w < n; w++) first[w] = exp(first[w]);
}

static void check_law(const retrace_bigram *b, const retrace_model *m, double p[MOST][MOST],
                      const double *first) {
    const double *pi = retrace_bigram_pi(b);
    double right[MOST], mass = 0, moved = 0, entropy = 0, start = 0;
    int n = m->facts.vocab;
    retrace_bigram_info facts;
    retrace_bigram_facts(b, &facts);
    long_run(p, n, first, right);
    for (int w = 0; w < n; w++) {
        double in = 0;
        for (int v = 0; v < n; v++) in += pi[v] * p[v][w];
        moved += fabs(in - pi[w]);
        mass += pi[w];
        entropy -= pi[w] > 0 ? pi[w] * log(pi[w]) : 0;
        start += w == m->facts.start || retrace_token_ends(m, w) ? pi[w] : 0;
        assert_true(same(pi[w], right[w], 1e-11));
    }
    assert_true(same(mass, 1, 1e-14) && moved < 1e-14);
    assert_true(facts.residual >= 0 && facts.residual < 1e-14);
    assert_true(same(facts.entropy, entropy, 1e-14) && same(facts.start_pi, start, 1e-15));
}

static void dense_chains_are_the_models(void **unused) {
    (void)unused;
    for (int round = 0; round < 160; round++) {
        int vocab = 1 + roll(MOST), order = 1 + roll(vocab > 5 ? 2 : 3), n = roll(3);
        retrace_token anchor[2] = {roll(vocab), roll(vocab)};
        retrace_model *m = random_table(vocab, order, roll(3) % vocab, roll(2));
        double p[MOST][MOST], first[MOST];
        retrace_bigram *b = NULL;
        retrace_error err = {0};
        if (roll(2)) m->facts.start = roll(vocab);
        int own = roll(3) == 0; /* the model's document start */
        if (own) {
            n = m->facts.start >= 0;
            anchor[0] = m->facts.start;
        }
        if (retrace_bigram_of(&b, m, (retrace_anchor){anchor, own ? -1 : n}, &err))
            fail_msg("round %d: %s", round, err.msg);
        retrace_bigram_info facts;
        retrace_bigram_facts(b, &facts);
        assert_string_equal(facts.kind, "dense");
        assert_int_equal(facts.n_anchor, n);
        for (int i = 0; i < n; i++) assert_int_equal(facts.anchor[i], anchor[i]);
        assert_int_equal(facts.start, m->facts.start);
        check_rows(b, m, anchor, n, p, first);
        check_law(b, m, p, first);
        retrace_bigram_close(b);
        retrace_model_close(m);
    }
}

/* More tokens than are asked about at once, or solved for in one block. */
static void a_larger_vocabulary(void **unused) {
    (void)unused;
    enum { N = 150 };
    static char json[1 << 16];
    static float next[N];
    double row[N], moved = 0, image[N] = {0};
    size_t at = add(json, 0, "{\"tokens\": [");
    for (int v = 0; v < N; v++) at = add(json, at, "%s\"<%d>\"", v ? ", " : "", v);
    at = add(json, at, "], \"rows\": [{\"context\": [], \"next\": {\"0\": 1}}");
    for (int v = 0; v < N; v++)
        at = add(json, at, ", {\"context\": [%d], \"next\": {\"%d\": %d, \"%d\": 3, \"0\": 1}}", v,
                 1 + v * 31 % 70, 1 + v % 7, N - 1 - v % (N / 2));
    add(json, at, "]}");
    retrace_model *m = open_table(json);
    retrace_bigram *b = NULL;
    assert_int_equal(retrace_bigram_of(&b, m, (retrace_anchor){NULL, 0}, NULL), RETRACE_OK);
    for (retrace_token v = 0; v < N; v++) {
        retrace_query q = {.tokens = &v, .n = 1, .next = next};
        assert_int_equal(retrace_model_eval(m, &q, 1, NULL), RETRACE_OK);
        assert_int_equal(retrace_bigram_row(b, v, row, NULL), RETRACE_OK);
        for (int w = 0; w < N; w++) {
            assert_true(same(row[w], (double)next[w], 1e-6));
            image[w] += retrace_bigram_pi(b)[v] * exp(row[w]);
        }
    }
    for (int w = 0; w < N; w++) moved += fabs(image[w] - retrace_bigram_pi(b)[w]);
    assert_true(moved < 1e-14);
    retrace_bigram_close(b);
    retrace_model_close(m);
}

/* ==== What is refused ==== */

static const char plain[] = "{\"tokens\": [\"a\", \"b\"], \"n_ctx\": 4, \"rows\": "
                            "[{\"context\": [], \"next\": {\"a\": 1, \"b\": 2}}]}";
static const char other_law[] = "{\"tokens\": [\"a\", \"b\"], \"rows\": "
                                "[{\"context\": [], \"next\": {\"a\": 1, \"b\": 3}}]}";
static const char other_text[] = "{\"tokens\": [\"a\", \"c\"], \"rows\": "
                                 "[{\"context\": [], \"next\": {\"a\": 1, \"c\": 2}}]}";
static const char more_text[] = "{\"tokens\": [\"a\", \"b\", \"c\"], \"rows\": "
                                "[{\"context\": [], \"next\": {\"a\": 1, \"c\": 2}}]}";

static retrace_bigram *chain_of(retrace_model *m) {
    retrace_bigram *b = NULL;
    retrace_error err = {0};
    if (retrace_bigram_of(&b, m, (retrace_anchor){NULL, -1}, &err)) fail_msg("%s", err.msg);
    return b;
}

/* The message holds all of these, the names of both models among them. */
static void assert_refused(const retrace_bigram *b, const retrace_model *m, int shared,
                           const char *what) {
    retrace_error err = {0};
    retrace_bigram_info facts;
    retrace_bigram_facts(b, &facts);
    assert_int_equal(retrace_bigram_fits(b, m, shared, &err), RETRACE_EUSAGE);
    assert_int_equal(err.code, RETRACE_EUSAGE);
    if (!strstr(err.msg, what) || !strstr(err.msg, facts.model) || !strstr(err.msg, m->facts.name))
        fail_msg("'%s' does not say '%s' of both models", err.msg, what);
}

static void chains_fit_their_models_only(void **unused) {
    (void)unused;
    retrace_model *m = open_table(plain), *law = open_table(other_law);
    retrace_model *text = open_table(other_text), *more = open_table(more_text);
    retrace_bigram *b = chain_of(m);
    assert_int_equal(retrace_bigram_fits(b, m, 0, NULL), RETRACE_OK);
    assert_int_equal(retrace_bigram_fits(b, m, 1, NULL), RETRACE_OK);
    assert_refused(b, law, 0, "another model");
    assert_int_equal(retrace_bigram_fits(b, law, 1, NULL), RETRACE_OK);
    for (int shared = 0; shared < 2; shared++) {
        assert_refused(b, text, shared, "another tokenizer");
        assert_refused(b, more, shared, "2 tokens");
    }
    m->facts.weights = "f32";
    assert_refused(b, m, 0, "weights file");
    assert_refused(b, m, 0, "weights f32");
    assert_int_equal(retrace_bigram_fits(b, m, 1, NULL), RETRACE_OK);
    m->facts.weights = "file";
    m->facts.start = 1;
    assert_refused(b, m, 1, "document start");
    retrace_bigram_close(b);
    retrace_bigram_close(NULL);
    retrace_model_close(m);
    retrace_model_close(law);
    retrace_model_close(text);
    retrace_model_close(more);
}

static void tokens_are_checked(void **unused) {
    (void)unused;
    retrace_model *m = open_table(plain);
    retrace_bigram *b = chain_of(m);
    retrace_error err = {0};
    double logp[2];
    static const retrace_token bad[] = {-1, 2, INT32_MAX, INT32_MIN};
    for (int i = 0; i < COUNT(bad); i++) {
        assert_int_equal(retrace_bigram_row(b, bad[i], logp, &err), RETRACE_EUSAGE);
        assert_non_null(strstr(err.msg, "outside the chain's vocabulary of 2"));
        assert_int_equal(retrace_bigram_column(b, bad[i], logp, &err), RETRACE_EUSAGE);
        retrace_bigram *none = NULL;
        retrace_anchor anchor = {&bad[i], 1};
        assert_int_equal(retrace_bigram_of(&none, m, anchor, &err), RETRACE_EUSAGE);
        assert_non_null(strstr(err.msg, "anchor: token"));
        assert_null(none);
    }
    retrace_bigram_close(b);
    retrace_model_close(m);
}

static void sizes_are_checked(void **unused) {
    (void)unused;
    retrace_model *m = open_table(plain);
    retrace_token anchor[4] = {0, 1, 0, 1};
    retrace_bigram *b = NULL;
    retrace_error err = {0};
    assert_int_equal(retrace_bigram_of(&b, m, (retrace_anchor){anchor, 3}, &err), RETRACE_OK);
    retrace_bigram_close(b);
    assert_int_equal(retrace_bigram_of(&b, m, (retrace_anchor){anchor, 4}, &err), RETRACE_EUSAGE);
    assert_non_null(strstr(err.msg, "an anchor of 4 tokens leaves no room in a context of 4"));
    m->empty_prompt = 0; /* as of a model that must be given a beginning and has no token for it */
    assert_int_equal(retrace_bigram_of(&b, m, (retrace_anchor){NULL, 0}, &err), RETRACE_EMODEL);
    assert_non_null(strstr(err.msg, "no token that begins a document"));
    m->facts.vocab = RT_DENSE_MOST + 1;
    assert_int_equal(retrace_bigram_of(&b, m, (retrace_anchor){NULL, 0}, &err), RETRACE_EUSAGE);
    assert_non_null(strstr(err.msg, "a vocabulary of 4097 is too large"));
    m->facts.vocab = 2;
    retrace_model_close(m);
}

/* ==== Halves ==== */

/* By the definition of the format. */
static double half_value(unsigned h) {
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double x = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    if (exponent == 31) x = mantissa ? NAN : INFINITY;
    return h & 0x8000 ? -x : x;
}

static uint16_t pack(float x) {
    uint16_t h;
    rt_half_pack(&x, 1, &h);
    return h;
}

static void halves_keep_their_value(void **unused) {
    (void)unused;
    static uint16_t all[1 << 16], back[1 << 16];
    static float value[1 << 16];
    for (int h = 0; h < 1 << 16; h++) all[h] = (uint16_t)h;
    rt_half_unpack(all, 1 << 16, value);
    rt_half_pack(value, 1 << 16, back);
    for (unsigned h = 0; h < 1 << 16; h++) {
        double right = half_value(h);
        if (isnan(right)) {
            assert_true(isnan(value[h]) && isnan(half_value(back[h])));
            continue;
        }
        if ((double)value[h] != right || !signbit(value[h]) != !signbit(right) || back[h] != h)
            fail_msg("half %04x: %g and back to %04x", h, (double)value[h], back[h]);
    }
}

/* Between neighbours: to the nearer one, from the middle to the even one. */
static void floats_go_to_the_nearest_half(void **unused) {
    (void)unused;
    for (unsigned h = 0; h < 0x7c00; h++) {
        double low = half_value(h), high = h + 1 < 0x7c00 ? half_value(h + 1) : 65536;
        float middle = (float)((low + high) / 2);
        assert_true((double)middle == (low + high) / 2);
        unsigned even = h % 2 ? h + 1 : h;
        assert_int_equal(pack(nextafterf(middle, 0)), h);
        assert_int_equal(pack(middle), even);
        assert_int_equal(pack(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(pack(-middle), even | 0x8000);
    }
    assert_int_equal(pack(1e30f), 0x7c00);
    assert_int_equal(pack(-INFINITY), 0xfc00);
    assert_int_equal(pack(1e-30f), 0);
}

static void products_of_halves(void **unused) {
    (void)unused;
    for (int n = 1; n < 140; n += 1 + roll(9)) {
        uint16_t m[5 * 140];
        float x[140], out[5];
        for (int i = 0; i < 5 * n; i++) m[i] = pack((float)(4 * uniform() - 2));
        for (int i = 0; i < n; i++) x[i] = (float)(2 * uniform() - 1);
        rt_half_times(m, 5, n, x, out);
        for (int r = 0; r < 5; r++) {
            double right = 0;
            for (int i = 0; i < n; i++) right += half_value(m[r * n + i]) * (double)x[i];
            assert_true(same((double)out[r], right, 1e-5));
        }
    }
}

/* ==== Factored chains ==== */

enum { VOCAB = 97, DIM = 37 };

static uint16_t *random_halves(size_t n) {
    uint16_t *h = room(n * sizeof *h);
    for (size_t i = 0; i < n; i++) h[i] = pack((float)(2 * uniform() - 1));
    return h;
}

/* The same chain row by row, and the normalisers, in double. */
static double *multiply_out(rt_factored *parts) {
    double *logp = room(VOCAB * VOCAB * sizeof *logp);
    for (int row = 0; row <= VOCAB; row++) {
        double sum = 0, x[VOCAB];
        for (int w = 0; w < VOCAB; w++) {
            x[w] = 0;
            for (int i = 0; i < DIM; i++)
                x[w] += half_value(parts->states[row * DIM + i]) *
                        half_value(parts->output[w * DIM + i]);
            sum += exp(x[w]);
        }
        parts->log_norm[row] = log(sum);
        for (int v = 0; v < VOCAB; v++) {
            if ((parts->starts[v] ? VOCAB : v) != row) continue;
            for (int w = 0; w < VOCAB; w++) logp[v * VOCAB + w] = x[w] - log(sum);
        }
    }
    return logp;
}

static void factored_chains_are_dense_ones(void **unused) {
    (void)unused;
    rt_factored parts = {.states = random_halves((VOCAB + 1) * DIM),
                         .output = random_halves(VOCAB * DIM),
                         .log_norm = room((VOCAB + 1) * sizeof(double)),
                         .pi = room(VOCAB * sizeof(double)),
                         .starts = room(VOCAB)};
    double *pi = room(VOCAB * sizeof(double)), a[VOCAB], b[VOCAB];
    for (int v = 0; v < VOCAB; v++) {
        parts.starts[v] = v % 13 == 4;
        parts.pi[v] = pi[v] = 1.0 / VOCAB;
    }
    double *logp = multiply_out(&parts);
    retrace_token anchor = 5;
    retrace_bigram_info facts = {.kind = "factored",
                                 .model = "made up",
                                 .weights = "f32",
                                 .vocab = VOCAB,
                                 .dim = DIM,
                                 .anchor = &anchor,
                                 .n_anchor = 1};
    retrace_bigram *f = NULL, *d = NULL;
    assert_int_equal(rt_factored_new(&f, &facts, parts, NULL), RETRACE_OK);
    assert_int_equal(rt_dense_new(&d, &facts, logp, pi, NULL), RETRACE_OK);
    assert_ptr_equal(rt_factored_parts(f)->output, parts.output);
    for (retrace_token v = 0; v < VOCAB; v++) {
        assert_int_equal(retrace_bigram_row(f, v, a, NULL), RETRACE_OK);
        assert_int_equal(retrace_bigram_row(d, v, b, NULL), RETRACE_OK);
        for (int w = 0; w < VOCAB; w++) assert_true(same(a[w], b[w], 1e-5));
        assert_int_equal(retrace_bigram_column(f, v, a, NULL), RETRACE_OK);
        assert_int_equal(retrace_bigram_column(d, v, b, NULL), RETRACE_OK);
        for (int w = 0; w < VOCAB; w++) assert_true(same(a[w], b[w], 1e-5));
    }
    retrace_bigram_info copy;
    retrace_bigram_facts(f, &copy);
    assert_ptr_not_equal(copy.anchor, &anchor);
    assert_int_equal(copy.anchor[0], 5);
    assert_string_equal(copy.model, "made up");
    retrace_bigram_close(f);
    retrace_bigram_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_chains_are_the_models),
        cmocka_unit_test(a_larger_vocabulary),
        cmocka_unit_test(chains_fit_their_models_only),
        cmocka_unit_test(tokens_are_checked),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(halves_keep_their_value),
        cmocka_unit_test(floats_go_to_the_nearest_half),
        cmocka_unit_test(products_of_halves),
        cmocka_unit_test(factored_chains_are_dense_ones),
    };
    return cmocka_run_group_tests_name("chain", tests, NULL, NULL);
}
