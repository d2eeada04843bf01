/* test_weights.c - the setting `weights`, and what a model says of its identity.
 *
 * The same file with its matrices as they are and expanded must be the same model: the same hash,
 * nearly the same answers where the file is quantised, the same bits where it holds floats. The
 * tiny files in RETRACE_TINY, and the real one in RETRACE_MODEL. */
#include "tiny.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LEN = 24 };

static retrace_token v[LEN];
static int n_vocab;

static float *answer(retrace_model *m, int n, int slot) {
    retrace_error err;
    float *x = malloc((size_t)n_vocab * sizeof *x);
    assert_non_null(x);
    retrace_query q = {.tokens = v, .n = n, .n_prompt = n, .next = x, .slot = slot};
    if (retrace_model_eval(m, &q, 1, &err) < 0) fail_msg("%s", err.msg);
    return x;
}

/* How far the two models' answers are apart; also checks that a rewound answer is the same again.
 */
static double distance(retrace_model *a, retrace_model *b, int slot) {
    double far = 0;
    for (int n = LEN; n > 0; n -= 5) {
        float *x = answer(a, n, slot), *y = answer(b, n, slot), *z = answer(b, n, slot);
        far = fmax(far, tiny_nmse(x, y, n_vocab));
        if (slot >= 0) assert_memory_equal(y, z, (size_t)n_vocab * sizeof *y);
        free(x);
        free(y);
        free(z);
    }
    return far;
}

/* Opens a file both ways and says how far apart the answers are. */
static double both_ways(const char *path, int threads, int slot) {
    char set[128];
    retrace_model_info f, e;
    uint64_t seed = 2;
    snprintf(set, sizeof set, "ctx_size=256 batch_size=64 threads=%d", threads);
    retrace_model *a = tiny_open(path, set);
    snprintf(set, sizeof set, "ctx_size=256 batch_size=64 threads=%d weights=f32", threads);
    retrace_model *b = tiny_open(path, set);
    retrace_model_facts(a, &f);
    retrace_model_facts(b, &e);
    assert_string_equal(f.weights, "file");
    assert_string_equal(e.weights, "f32");
    assert_true(f.hash == e.hash && f.vocab_hash == e.vocab_hash && f.start == e.start);
    assert_string_equal(f.rewind, e.rewind);
    assert_string_equal(f.name, e.name);
    n_vocab = f.vocab;
    for (int i = 0; i < LEN; i++) v[i] = tiny_between(&seed, 3, f.vocab - 1);
    double far = distance(a, b, slot);
    retrace_model_close(a);
    retrace_model_close(b);
    return far;
}

static void expanded(void **state) {
    (void)state;
    static const char *const plain[] = {"dense.gguf", "swa.gguf", "recurrent.gguf", "hybrid.gguf"};
    if (!tiny_path("dense.gguf")) skip();
    for (int i = 0; i < 4; i++) {
        assert_true(both_ways(tiny_path(plain[i]), 1, 0) == 0);
        assert_true(both_ways(tiny_path(plain[i]), 2, RETRACE_PASSING) < 1e-6);
    }
    if (!tiny_path("quant.gguf")) return;
    for (int slot = -1; slot < 1; slot++) {
        double far = both_ways(tiny_path("quant.gguf"), 1, slot);
        assert_true(far > 0 && far < 2e-3);
    }
}

static void real(void **state) {
    (void)state;
    const char *path = getenv("RETRACE_MODEL");
    if (!path) skip();
    double far = both_ways(path, 2, 0);
    assert_true(far < 5e-3); /* activations are quantised where weights are */
}

static void wrong(void **state) {
    (void)state;
    retrace_model *m = NULL;
    retrace_error err;
    const char *path = tiny_path("quant.gguf");
    if (!path) skip();
    assert_int_equal(tiny_try(&m, path, "weights=f16", &err), RETRACE_EUSAGE);
    assert_non_null(strstr(err.msg, "weights"));
    assert_int_equal(tiny_try(&m, tiny_path("truncated.gguf"), "weights=f32", &err),
                     RETRACE_EMODEL);
    assert_int_equal(tiny_try(&m, tiny_path("vocabonly.gguf"), "weights=f32", &err),
                     RETRACE_EMODEL);
    assert_null(m);
}

/* ==== Hash and start ==== */

/* The hash of dense.gguf with one byte changed; at < 0: counted from the end. -0 is none. */
static uint64_t hash_of_changed(long at, int change) {
    static char copy[64];
    retrace_model_info f;
    FILE *in = fopen(tiny_path("dense.gguf"), "rb");
    snprintf(copy, sizeof copy, "/tmp/retrace-weights-%ld.gguf", (long)getpid());
    FILE *out = fopen(copy, "wb");
    assert_true(in && out);
    for (int c; (c = fgetc(in)) != EOF;) fputc(c, out);
    fclose(in);
    fseek(out, at, at < 0 ? SEEK_END : SEEK_SET);
    long place = ftell(out);
    fclose(out);
    out = fopen(copy, "r+b");
    assert_non_null(out);
    fseek(out, place, SEEK_SET);
    int c = fgetc(out);
    fseek(out, place, SEEK_SET);
    if (change) fputc(c ^ 1, out);
    fclose(out);
    retrace_model *m = tiny_open(copy, "ctx_size=64");
    retrace_model_facts(m, &f);
    retrace_model_close(m);
    remove(copy);
    return f.hash;
}

static void hashes(void **state) {
    (void)state;
    if (!tiny_path("dense.gguf")) skip();
    uint64_t plain = hash_of_changed(-1, 0);
    assert_true(plain == hash_of_changed(-100, 0));
    assert_true(plain != hash_of_changed(-1, 1));  /* the last tensor's last byte */
    assert_true(plain != hash_of_changed(-50, 1)); /* near it */
    assert_true(plain != hash_of_changed(102, 1)); /* in the header: the model's name */
}

static void starts(void **state) {
    (void)state;
    static const struct {
        const char *file, *name;
    } cases[] = {{"dense.gguf", "<s>"},
                 {"swa.gguf", "<bos>"},
                 {"recurrent.gguf", "<|endoftext|>"},
                 {"hybrid.gguf", "<|endoftext|>"}};
    if (!tiny_path("dense.gguf")) skip();
    for (int i = 0; i < 4; i++) {
        retrace_model_info f;
        retrace_model *m = tiny_open(tiny_path(cases[i].file), "ctx_size=64");
        retrace_model_facts(m, &f);
        retrace_text name = retrace_token_name(m, f.start);
        assert_int_equal(name.n, strlen(cases[i].name));
        assert_memory_equal(name.s, cases[i].name, name.n);
        retrace_model_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expanded), cmocka_unit_test(real),   cmocka_unit_test(wrong),
        cmocka_unit_test(hashes),   cmocka_unit_test(starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
