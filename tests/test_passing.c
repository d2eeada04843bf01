/* test_passing.c - passing questions: many at once, nothing kept, the answers the ordinary ones.
 *
 * Each question is asked twice, as a passing one beside many others and as an ordinary one by
 * itself; the two may differ by rounding only. All kinds of models: the table, the tiny files in
 * RETRACE_TINY, and the real one in RETRACE_MODEL. */
#include "tiny.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LONG = 120, MANY = 1000 };

/* A model to ask; two answers to a question may differ by `off` in a log-probability. */
typedef struct subject {
    const char *file, *settings;
    double off;
} subject;

static const subject subjects[] = {
    {NULL, "", 1e-12},
    {"dense.gguf", "ctx_size=512 batch_size=32 threads=1", 0.02},
    {"swa.gguf", "ctx_size=512 batch_size=32 threads=1", 0.02},
    {"recurrent.gguf", "ctx_size=512 batch_size=32 threads=1", 0.02},
    {"hybrid.gguf", "ctx_size=512 batch_size=32 threads=1", 0.02},
    {"dense.gguf", "ctx_size=512 threads=2 parallel=4 deterministic=false", 0.02},
    {"quant.gguf", "ctx_size=512 threads=1", 0.3},
    {"quant.gguf", "ctx_size=512 threads=1 weights=f32", 0.02},
    {"real", "ctx_size=512", 0.5},
};

enum { N_SUBJECTS = sizeof subjects / sizeof *subjects, REAL = N_SUBJECTS - 1 };

/* NULL: the model is not there. */
static retrace_model *open_subject(int i, retrace_model_info *f) {
    const subject *s = &subjects[i];
    const char *path = !s->file ? tiny_table() : i == REAL ? getenv("RETRACE_MODEL") : NULL;
    if (s->file && i != REAL) path = tiny_path(s->file);
    if (!path) return NULL;
    retrace_model *m = tiny_open(path, s->settings);
    retrace_model_facts(m, f);
    return m;
}

static retrace_token any_token(uint64_t *seed, const retrace_model_info *f) {
    return tiny_between(seed, f->vocab > 8 ? 3 : 0, f->vocab - 1);
}

/* Questions with their tokens and answers. */
typedef struct asked {
    retrace_query q[MANY];
    retrace_token v[MANY][LONG];
    double logp[MANY][LONG];
    float *next[MANY];
    int n;
} asked;

static void free_asked(asked *a) {
    for (int i = 0; i < a->n; i++) free(a->next[i]);
    free(a);
}

/* Adds a question that begins with `common` tokens that all have; some ask for `next`. */
static void add(asked *a, const retrace_model_info *f, uint64_t *seed, int common, int n, int from,
                int next) {
    int i = a->n++;
    assert_true(i < MANY && n <= LONG);
    uint64_t same = 5;
    for (int k = 0; k < n; k++) a->v[i][k] = any_token(k < common ? &same : seed, f);
    a->next[i] = next ? malloc((size_t)f->vocab * sizeof(float)) : NULL;
    a->q[i] = (retrace_query){.tokens = a->v[i],
                              .n = n,
                              .n_prompt = tiny_between(seed, 0, n),
                              .from = from,
                              .logp = from < n ? a->logp[i] : NULL,
                              .next = a->next[i],
                              .slot = RETRACE_PASSING};
}

/* Each question by itself in slot 0: its answers, and how far the passing ones are from them. */
static void check_one(retrace_model *m, const retrace_model_info *f, const asked *a, int i,
                      double off) {
    double logp[LONG];
    float *next = malloc((size_t)f->vocab * sizeof *next);
    assert_non_null(next);
    retrace_query q = a->q[i];
    q.slot = 0;
    q.n_prompt = q.n;
    if (q.logp) q.logp = logp;
    if (q.next) q.next = next;
    tiny_ask(m, &q, 1);
    for (int k = 0; q.logp && k < q.n - q.from; k++) {
        double got = a->logp[i][k];
        if (isnan(logp[k]) ? !isnan(got) : !(fabs(got - logp[k]) <= off))
            fail_msg("question %d, token %d: %g, alone %g", i, k + q.from, got, logp[k]);
    }
    if (q.next && off > 1e-9) assert_true(tiny_nmse(a->next[i], next, f->vocab) < off / 40);
    if (q.next && off <= 1e-9)
        assert_memory_equal(a->next[i], next, (size_t)f->vocab * sizeof *next);
    free(next);
}

static asked *new_asked(void) {
    asked *a = calloc(1, sizeof *a);
    assert_non_null(a);
    return a;
}

/* The usual call: an anchor, a candidate, a suffix; and one with questions of all kinds. */
static void as_ordinary(void **state) {
    (void)state;
    for (int s = 0; s < N_SUBJECTS; s++) {
        retrace_model_info f;
        retrace_model *m = open_subject(s, &f);
        uint64_t seed = 3;
        if (!m) continue;
        for (int round = 0; round < 4; round++) {
            asked *a = new_asked();
            int n = s == REAL ? 20 : 70;
            for (int i = 0; i < n; i++) {
                int len = round == 0 ? 7 : tiny_between(&seed, 2, round == 1 ? 9 : 50);
                int common = round == 3 ? 0 : len < 3 ? len : round == 2 ? 3 : 1;
                int from = round == 0 ? 3 : tiny_between(&seed, 0, len);
                add(a, &f, &seed, common, len, from, round > 0 && i % 3 == 0);
            }
            tiny_ask(m, a->q, a->n);
            for (int i = 0; i < n; i += s == REAL ? 5 : 1) {
                check_one(m, &f, a, i, subjects[s].off);
            }
            free_asked(a);
        }
        retrace_model_close(m);
    }
}

/* Passing questions beside ordinary ones do not disturb what the slots hold. */
static void mixed(void **state) {
    (void)state;
    for (int s = 0; s < N_SUBJECTS; s++) {
        retrace_model_info f;
        retrace_model *m = open_subject(s, &f);
        uint64_t seed = 4;
        if (!m) continue;
        asked *a = new_asked();
        for (int i = 0; i < 12; i++) {
            add(a, &f, &seed, 2, 12, 4, i % 4 == 0);
            if (i % 3 == 1) a->q[i].slot = 0, a->q[i].n_prompt = 12;
        }
        tiny_ask(m, a->q, a->n);
        for (int i = 0; i < 12; i++) check_one(m, &f, a, i, subjects[s].off);
        retrace_query one = a->q[1], again = a->q[1];
        tiny_ask(m, &one, 1);
        tiny_ask(m, a->q, 1); /* passing */
        tiny_ask(m, &again, 1);
        if (f.rewind[0] == 'e') assert_true(again.evaluated < again.n);
        free_asked(a);
        retrace_model_close(m);
    }
}

/* A longer question than the context had room for, then short ones again; then one that fills
 * batches by itself. */
static void longer(void **state) {
    (void)state;
    for (int s = 0; s < REAL; s++) {
        static double logp[400], want[400];
        static retrace_token v[400];
        retrace_model_info f;
        retrace_model *m = open_subject(s, &f);
        uint64_t seed = 5;
        if (!m) continue;
        for (int i = 0; i < 400; i++) v[i] = any_token(&seed, &f);
        for (int n = 5; n <= 400; n += n == 5 ? 200 : n == 205 ? 195 : 400) {
            for (int k = 0; k < 2; k++) {
                retrace_query q = {.tokens = v, .n = k ? 9 : n, .logp = logp, .slot = -1};
                retrace_query w = q;
                w.slot = 0;
                w.n_prompt = w.n;
                w.logp = want;
                tiny_ask(m, &q, 1);
                tiny_ask(m, &w, 1);
                assert_true(isnan(logp[0]) == isnan(want[0]));
                for (int i = 1; i < q.n; i++)
                    assert_true(fabs(logp[i] - want[i]) <= subjects[s].off);
            }
        }
        retrace_model_close(m);
    }
}

static void a_thousand(void **state) {
    (void)state;
    for (int s = 0; s < REAL; s++) {
        retrace_model_info f;
        retrace_model *m = open_subject(s, &f);
        uint64_t seed = 6;
        if (!m) continue;
        asked *a = new_asked();
        for (int i = 0; i < MANY; i++) add(a, &f, &seed, 1, 6, 2, 0);
        tiny_ask(m, a->q, a->n);
        for (int i = 0; i < MANY; i += 37) check_one(m, &f, a, i, subjects[s].off);
        free_asked(a);
        retrace_model_close(m);
    }
}

/* Rows are counted: the common beginning once. A second call may have it still. */
static void counted(void **state) {
    (void)state;
    for (int s = 0; s < REAL; s++) {
        retrace_model_info f;
        retrace_model *m = open_subject(s, &f);
        uint64_t seed = 8;
        int sum = 0, last = subjects[s].file ? 1 : 0; /* which needs not be fed */
        if (!m) continue;
        asked *a = new_asked();
        for (int i = 0; i < 50; i++) add(a, &f, &seed, 3, 10, 5, 0);
        for (int i = 0; i < 50; i++) a->v[i][3] = i % 2 ? 1 : 2;
        tiny_ask(m, a->q, a->n);
        for (int i = 0; i < 50; i++) sum += a->q[i].evaluated;
        int shares =
            !subjects[s].file || f.rewind[0] == 'e' || strcmp(subjects[s].file, "swa.gguf") == 0;
        assert_int_equal(sum, shares ? 3 + 50 * (7 - last) : 50 * (10 - last));
        free_asked(a);
        retrace_model_close(m);
    }
}

/* Wrong questions are named, and the model answers the next call. */
static void wrong(void **state) {
    (void)state;
    for (int s = 0; s < REAL; s++) {
        retrace_model_info f;
        retrace_model *m = open_subject(s, &f);
        retrace_error err;
        uint64_t seed = 9;
        if (!m) continue;
        asked *a = new_asked();
        for (int i = 0; i < 5; i++) add(a, &f, &seed, 1, 6, 2, 0);
        retrace_token was = a->v[3][4];
        for (int k = 0; k < 3; k++) {
            a->v[3][4] = k == 0 ? f.vocab : k == 1 ? -1 : was;
            if (k == 2) a->q[3].n = f.n_ctx + 1;
            assert_int_equal(retrace_model_eval(m, a->q, a->n, &err), RETRACE_EUSAGE);
            for (int i = 0; i < a->n; i++) assert_int_equal(a->q[i].answered, 0);
            a->q[3].n = 6;
        }
        tiny_ask(m, a->q, a->n);
        for (int i = 0; i < a->n; i++) check_one(m, &f, a, i, subjects[s].off);
        free_asked(a);
        retrace_model_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_ordinary), cmocka_unit_test(mixed),   cmocka_unit_test(longer),
        cmocka_unit_test(a_thousand),  cmocka_unit_test(counted), cmocka_unit_test(wrong),
    };
    return cmocka_run_group_tests(tests, tiny_table_write, tiny_table_remove);
}
