/* test_factors.c - hidden states times the output matrix are the model's logits.
 *
 * The product that the factors make is compared with the logits that libllama gives beside the
 * states, with those of ordinary questions, and with a product in double. The tiny files in
 * RETRACE_TINY, and the real one in RETRACE_MODEL. */
#include "retrace_ext.h"
#include "tiny.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LONG = 300 };

/* `off`: of a logit, between the product and libllama's own, which is a second evaluation: with
 * several threads and a long anchor the hybrid model's is rounded otherwise. `near`: NMSE against a
 * question whose tokens were batched otherwise. */
typedef struct subject {
    const char *file, *settings;
    double off, near;
} subject;

static const subject subjects[] = {
    {"dense.gguf", "ctx_size=512 threads=2", 4e-4, 1e-5},
    {"swa.gguf", "ctx_size=512 threads=1", 4e-4, 1e-5},
    {"recurrent.gguf", "ctx_size=512 threads=1", 4e-4, 1e-5},
    {"hybrid.gguf", "ctx_size=512 threads=3", 1e-2, 1e-5},
    {"quant.gguf", "ctx_size=512 threads=1", 0.3, 1e-2},
    {"quant.gguf", "ctx_size=512 threads=1 weights=f32", 4e-4, 1e-5},
    {NULL, "ctx_size=512", 1.0, 5e-3},
    {NULL, "ctx_size=512 weights=f32", 1e-3, 1e-4},
};

enum { N_SUBJECTS = sizeof subjects / sizeof *subjects };

/* An open model and its factors. */
typedef struct opened {
    retrace_model *m;
    const retrace_factors *f;
    retrace_model_info facts;
    int dim;
    float *w;
    retrace_error err;
} opened;

static void good(const opened *o, int rc) {
    if (rc < 0) fail_msg("%s", o->err.msg);
}

static float *floats(int n, int m) {
    float *x = malloc((size_t)n * (size_t)m * sizeof *x);
    assert_non_null(x);
    return x;
}

static int open_subject(int i, opened *o) {
    const subject *s = &subjects[i];
    const char *path = s->file ? tiny_path(s->file) : getenv("RETRACE_MODEL");
    if (!path) return 0;
    *o = (opened){.m = tiny_open(path, s->settings)};
    retrace_model_facts(o->m, &o->facts);
    o->f = o->m->type->factors;
    good(o, o->f->dim(o->m, &o->dim, &o->err));
    o->w = floats(o->facts.vocab, o->dim);
    good(o, o->f->output(o->m, o->w, &o->err));
    return 1;
}

static void close_subject(opened *o) {
    free(o->w);
    retrace_model_close(o->m);
}

/* The largest difference between n logits, or of a row from its mean difference. */
static double farthest(const float *a, const float *b, int n) {
    double far = 0;
    for (int i = 0; i < n; i++) far = fmax(far, fabs((double)a[i] - (double)b[i]));
    return far;
}

/* Asked in the ordinary way. */
static void ask(opened *o, const retrace_token *v, int n, float *next) {
    retrace_query q = {.tokens = v, .n = n, .n_prompt = n, .next = next};
    good(o, retrace_model_eval(o->m, &q, 1, &o->err));
}

static void check_states(opened *o, const subject *s, int n_anchor, int n, uint64_t *seed) {
    int vocab = o->facts.vocab;
    static retrace_token v[LONG], anchor[LONG];
    float *h = floats(n, o->dim), *again = floats(n, o->dim), *own = floats(n, vocab),
          *x = floats(n, vocab), *next = floats(1, vocab);
    for (int i = 0; i < n; i++) v[i] = tiny_between(seed, 3, vocab - 1);
    for (int i = 0; i < n_anchor; i++) anchor[i] = tiny_between(seed, 3, vocab - 1);
    good(o, o->f->states(o->m, anchor, n_anchor, v, n, h, own, &o->err));
    good(o, o->f->states(o->m, anchor, n_anchor, v, n > 1 ? n - 1 : 1, again, NULL, &o->err));
    good(o, o->f->states(o->m, anchor, n_anchor, v, n, again, NULL, &o->err));
    assert_memory_equal(h, again, (size_t)n * (size_t)o->dim * sizeof *h);
    good(o, o->f->multiply(o->m, o->w, h, n, x, &o->err));
    for (int i = 0; i < n; i++) {
        double far =
            farthest(own + (size_t)i * (size_t)vocab, x + (size_t)i * (size_t)vocab, vocab);
        if (!(far <= s->off))
            fail_msg("%s, state %d of %d: a logit is off by %g", s->file ? s->file : "real", i, n,
                     far);
    }
    for (int i = 0; i < n; i += 50) {
        anchor[n_anchor] = v[i];
        ask(o, anchor, n_anchor + 1, next);
        assert_true(tiny_nmse(x + (size_t)i * (size_t)vocab, next, vocab) <= s->near);
    }
    free(h), free(again), free(own), free(x), free(next);
}

static void states(void **state) {
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        opened o;
        uint64_t seed = 1;
        if (!open_subject(i, &o)) continue;
        check_states(&o, &subjects[i], 1, subjects[i].file ? o.f->states_batch : 20, &seed);
        check_states(&o, &subjects[i], 0, 7, &seed);
        check_states(&o, &subjects[i], 5, 1, &seed);
        if (subjects[i].file) check_states(&o, &subjects[i], LONG - 10, 3, &seed);
        close_subject(&o);
    }
}

/* After the anchor alone. */
static void anchors(void **state) {
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        opened o;
        retrace_token anchor[3] = {5, 9, 4};
        if (!open_subject(i, &o)) continue;
        float *h = floats(1, o.dim), *x = floats(1, o.facts.vocab), *own = floats(1, o.facts.vocab);
        for (int n = 1; n < 4; n += 2) {
            good(&o, o.f->states(o.m, anchor, n, NULL, 1, h, own, &o.err));
            good(&o, o.f->multiply(o.m, o.w, h, 1, x, &o.err));
            assert_true(farthest(own, x, o.facts.vocab) <= subjects[i].off);
            ask(&o, anchor, n, own);
            assert_true(tiny_nmse(x, own, o.facts.vocab) <= subjects[i].near);
        }
        free(h), free(x), free(own);
        close_subject(&o);
    }
}

/* Against a product in double; a state's logits do not depend on those beside it. */
static void products(void **state) {
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        enum { N = 21 };
        opened o;
        uint64_t seed = 3;
        if (!open_subject(i, &o)) continue;
        int vocab = o.facts.vocab;
        float *h = floats(N, o.dim), *x = floats(N, vocab), *one = floats(1, vocab);
        for (int k = 0; k < N * o.dim; k++) h[k] = (float)tiny_between(&seed, -999, 999) / 500;
        good(&o, o.f->multiply(o.m, o.w, h, N, x, &o.err));
        for (int r = 0; r < N; r++) {
            for (int c = 0; c<vocab; c += vocab> 1000 ? 97 : 1) {
                double sum = 0, size = 0;
                for (int k = 0; k < o.dim; k++) {
                    double t = (double)h[r * o.dim + k] *
                               (double)o.w[(size_t)c * (size_t)o.dim + (size_t)k];
                    sum += t;
                    size += fabs(t);
                }
                double got = (double)x[(size_t)r * (size_t)vocab + (size_t)c];
                assert_true(fabs(got - sum) <= 2e-6 * size);
            }
        }
        for (int r = 0; r < N; r += 4) {
            good(&o, o.f->multiply(o.m, o.w, h + r * o.dim, 1, one, &o.err));
            assert_true(farthest(one, x + (size_t)r * (size_t)vocab, vocab) <= 1e-4);
        }
        free(h), free(x), free(one);
        close_subject(&o);
    }
}

static void mark_part(void *ud, int part) {
    ((int *)ud)[part]++;
}

/* Every part once. */
static void parts(void **state) {
    (void)state;
    enum { N = 5000 };
    static int seen[N];
    for (int i = 0; i < N_SUBJECTS; i++) {
        opened o;
        if (!open_subject(i, &o)) continue;
        memset(seen, 0, sizeof seen);
        good(&o, o.f->together(o.m, N - 1, mark_part, seen, &o.err));
        good(&o, o.f->together(o.m, 1, mark_part, seen, &o.err));
        good(&o, o.f->together(o.m, 0, mark_part, seen, &o.err));
        for (int k = 0; k < N; k++) assert_int_equal(seen[k], k == 0 ? 2 : k < N - 1);
        close_subject(&o);
    }
}

static void refused(void **state) {
    (void)state;
    const char *path = tiny_path("softcap.gguf");
    retrace_error err;
    int dim = 0;
    if (!path) skip();
    retrace_model *m = tiny_open(path, "ctx_size=64");
    assert_int_equal(m->type->factors->dim(m, &dim, &err), RETRACE_EMODEL);
    assert_non_null(strstr(err.msg, "soft cap"));
    retrace_model_close(m);
}

static void wrong(void **state) {
    (void)state;
    opened o;
    retrace_token v[2] = {5, 6}, bad[1] = {-1};
    if (!open_subject(0, &o)) skip();
    float *h = floats(2, o.dim);
    const retrace_factors *f = o.f;
    assert_int_equal(f->states(o.m, v, 1, bad, 1, h, NULL, &o.err), RETRACE_EUSAGE);
    bad[0] = o.facts.vocab;
    assert_int_equal(f->states(o.m, bad, 1, v, 1, h, NULL, &o.err), RETRACE_EUSAGE);
    assert_int_equal(f->states(o.m, v, 512, v, 1, h, NULL, &o.err), RETRACE_EUSAGE);
    assert_int_equal(f->states(o.m, v, 0, NULL, 1, h, NULL, &o.err), RETRACE_EUSAGE);
    assert_int_equal(f->states(o.m, v, 1, v, f->states_batch + 1, h, NULL, &o.err), RETRACE_EUSAGE);
    good(&o, f->states(o.m, v, 1, v, 2, h, NULL, &o.err));
    free(h);
    close_subject(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states), cmocka_unit_test(anchors), cmocka_unit_test(products),
        cmocka_unit_test(parts),  cmocka_unit_test(refused), cmocka_unit_test(wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
