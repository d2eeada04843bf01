/* test_slots.c - questions that only feed, the most probable tokens of each place, questions that
 * are alone, and beginnings that one slot takes over from another.
 *
 * The reference is always a model that was asked nothing else. All kinds of models: a table, the
 * tiny files in RETRACE_TINY, and the real one in RETRACE_MODEL. */
#include "tiny.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LONG = 200, B = 32, SLOTS = 4 };

/* After an a there are fewer tokens than the vocabulary has. */
static const char FEW[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", \"d\", {\"text\": \"</s>\", \"end\": true}],"
    " \"rows\": [{\"context\": [],"
    "  \"next\": {\"a\": 4, \"b\": 2, \"c\": 1, \"d\": 1, \"</s>\": 1}},"
    " {\"context\": [\"a\"], \"next\": {\"a\": 1, \"b\": 5, \"c\": 2, \"</s>\": 3}}]}";

/* A model to ask. `bits`: a slot that was cut or copied answers bit for bit; else, and where
 * batches differ, a log-probability may be `off`. */
typedef struct subject {
    const char *file;
    int bits;
    double off;
} subject;

static const subject subjects[] = {
    {NULL, 1, 1e-12},         {"dense.gguf", 1, 0.02},
    {"swa.gguf", 0, 0.02},    {"recurrent.gguf", 1, 0.02},
    {"hybrid.gguf", 1, 0.02}, {"real", 1, 0.5},
};

enum { N_SUBJECTS = sizeof subjects / sizeof *subjects, REAL = N_SUBJECTS - 1 };

/* NULL: the model is not there. */
static retrace_model *open_subject(int i, retrace_model_info *f) {
    const char *file = subjects[i].file;
    const char *path = !file ? tiny_table() : i == REAL ? getenv("RETRACE_MODEL") : tiny_path(file);
    if (!path || (i < REAL && getenv("RETRACE_MODEL"))) return NULL;
    retrace_model *m = tiny_open(
        path, !file ? "" : "ctx_size=256 batch_size=32 threads=1 parallel=4 deterministic=false");
    retrace_model_facts(m, f);
    return m;
}

static void make_up(retrace_token *v, int n, uint64_t seed, const retrace_model_info *f) {
    for (int i = 0; i < n; i++) v[i] = tiny_between(&seed, f->vocab > 8 ? 3 : 0, f->vocab - 1);
}

static void assert_near(const float *got, const float *want, int n, const subject *s) {
    if (memcmp(got, want, (size_t)n * sizeof *got) == 0)
        return; /* also where logits are -INFINITY */
    double error = tiny_nmse(got, want, n);
    if (!(error <= s->off / 40)) fail_msg("%s: NMSE %g", s->file ? s->file : "table", error);
}

/* ==== Feeding only ==== */

/* A prompt fed in growing pieces: each row is counted once, and the answer costs what is left. */
static void feeding(void **state) {
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        retrace_model_info f;
        retrace_token v[LONG];
        retrace_model *m = open_subject(i, &f);
        if (!m) continue;
        make_up(v, LONG, 1, &f);
        float *got = tiny_row(&f), *want = tiny_row(&f);
        for (int alone = 0; alone < 2; alone++) {
            for (int n = B; n <= 4 * B; n += B) {
                retrace_query q = {
                    .tokens = v + alone, .n = n, .n_prompt = n, .slot = 1, .alone = alone};
                tiny_ask(m, &q, 1);
                assert_int_equal(q.evaluated, B);
                tiny_ask(m, &q, 1); /* there is nothing left to do */
                assert_int_equal(q.evaluated, 0);
            }
            retrace_query q = {.tokens = v + alone,
                               .n = 4 * B + 9,
                               .n_prompt = 4 * B + 9,
                               .next = got,
                               .slot = 1,
                               .alone = alone};
            tiny_ask(m, &q, 1);
            assert_int_equal(q.evaluated, 9);
            retrace_model_close(m);
            m = open_subject(i, &f);
            q.next = want;
            tiny_ask(m, &q, 1);
            assert_int_equal(q.evaluated, q.n);
            if (alone) assert_memory_equal(got, want, (size_t)f.vocab * sizeof *got);
            assert_near(got, want, f.vocab, &subjects[i]);
        }
        free(got);
        free(want);
        retrace_model_close(m);
    }
}

/* A passing question that asks for nothing does nothing. */
static void feeding_in_passing(void **state) {
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        retrace_model_info f;
        retrace_token v[9];
        double logp[9];
        retrace_model *m = open_subject(i, &f);
        if (!m) continue;
        make_up(v, 9, 1, &f);
        retrace_query q[2] = {{.tokens = v, .n = 9, .slot = RETRACE_PASSING},
                              {.tokens = v, .n = 9, .logp = logp, .slot = RETRACE_PASSING}};
        tiny_ask(m, q, 2);
        assert_int_equal(q[0].evaluated, 0);
        assert_int_equal(q[1].evaluated, i == 0 ? 9 : 8);
        retrace_model_close(m);
    }
}

/* ==== The most probable tokens ==== */

enum { TOP = 7, N = 20, FROM = 4 };

static double log_of(const float *x, int n, retrace_token id) {
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = fmax(max, (double)x[i]);
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - max);
    return (double)x[id] - max - log(sum);
}

/* The list against a distribution: in order, nothing better left out, and its end marked. */
static void assert_top(const retrace_candidate *top, const float *x, int n, double off) {
    int listed = 0, better = 0;
    double norm = (double)x[0] - log_of(x, n, 0);
    while (listed < TOP && top[listed].id >= 0) listed++;
    for (int i = listed; i < TOP; i++) assert_int_equal(top[i].id, -1);
    for (int i = 0; i < listed; i++) {
        assert_true(fabs(top[i].logp - log_of(x, n, top[i].id)) <= off);
        if (i == 0) continue;
        assert_true(top[i].logp <= top[i - 1].logp);
        if (top[i].logp == top[i - 1].logp) assert_true(top[i].id > top[i - 1].id);
    }
    for (int id = 0; id < n && listed; id++)
        better += (double)x[id] - norm > top[listed - 1].logp + off;
    assert_true(better < listed);
    int possible = 0;
    for (int id = 0; id < n; id++) possible += x[id] > -INFINITY;
    assert_int_equal(listed, possible < TOP ? possible : TOP);
}

/* Of a prompt's places at once, as single questions have it. */
static void tops_of(retrace_model *m, int i, const retrace_model_info *f, int slot, int from) {
    retrace_token v[N];
    double logp[N], off = slot < 0 || i == REAL ? subjects[i].off : 1e-6;
    retrace_candidate top[(N + 2) * TOP];
    make_up(v, N, 3, f);
    float *next = tiny_row(f), *x = tiny_row(f);
    for (int asks = 1; asks < 4; asks++) {
        int places = (asks & 1 ? N - from : 0) + (asks & 2 ? 1 : 0);
        for (int k = 0; k < (N + 2) * TOP; k++) top[k] = (retrace_candidate){-7, 7};
        retrace_query q = {.tokens = v,
                           .n = N,
                           .n_prompt = 1,
                           .from = from,
                           .logp = asks & 1 ? logp : NULL,
                           .next = asks & 2 ? next : NULL,
                           .slot = slot,
                           .alone = 1,
                           .n_top = TOP,
                           .top = top};
        tiny_ask(m, &q, 1);
        assert_int_equal(top[places * TOP].id, -7); /* nothing behind it was written */
        for (int p = 0; p < places; p++) {
            int n = asks & 1 ? from + p : N;
            if (n == 0) {
                for (int k = 0; k < TOP; k++) assert_int_equal(top[k].id, -1);
                continue;
            }
            retrace_query one = {.tokens = v, .n = n, .n_prompt = 1, .next = x, .alone = 1};
            tiny_ask(m, &one, 1);
            assert_top(top + p * TOP, x, f->vocab, off);
        }
    }
    free(next);
    free(x);
}

static void tops(void **state) {
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        retrace_model_info f;
        retrace_model *m = open_subject(i, &f);
        if (!m) continue;
        tops_of(m, i, &f, 0, 0);
        tops_of(m, i, &f, 2, FROM);
        tops_of(m, i, &f, RETRACE_PASSING, FROM);
        tops_of(m, i, &f, RETRACE_PASSING, 0);
        retrace_model_close(m);
    }
}

/* All tokens of the vocabulary, and more than there are. */
static void whole_tops(void **state) {
    (void)state;
    retrace_model_info f;
    retrace_error err;
    retrace_candidate top[9];
    float next[5];
    retrace_model *m = open_subject(0, &f);
    if (!m) skip();
    retrace_token v[] = {0};
    static const retrace_token want[] = {1, 4, 2, 0, -1, -1}; /* b, the end, c, a; d cannot be */
    for (int k = 0; k <= 6; k++) {
        retrace_query q = {.tokens = v, .n = 1, .next = next, .n_top = k, .top = top};
        for (int i = 0; i < 9; i++) top[i].id = -7;
        tiny_ask(m, &q, 1);
        for (int i = 0; i < k; i++) assert_int_equal(top[i].id, want[i]);
        assert_int_equal(top[k].id, -7);
    }
    retrace_query empty = {.tokens = v, .n = 0, .next = next, .n_top = 2, .top = top};
    tiny_ask(m, &empty, 1);
    assert_int_equal(top[0].id, 0);
    assert_true(fabs(top[0].logp - log(4.0 / 9)) < 1e-6);
    retrace_query bad = {.tokens = v, .n = 1, .next = next, .n_top = -1, .top = top};
    assert_int_equal(retrace_model_eval(m, &bad, 1, &err), RETRACE_EUSAGE);
    assert_non_null(strstr(err.msg, "-1"));
    retrace_model_close(m);
}

/* ==== Alone ==== */

/* A question about a prefix of one of a few texts that begin alike, by some plan. */
static retrace_query any_question(uint64_t *seed, retrace_token texts[SLOTS][LONG], float *next) {
    int n = tiny_between(seed, 2, LONG), which = tiny_between(seed, 0, SLOTS - 1);
    return (retrace_query){.tokens = texts[which],
                           .n = n,
                           .n_prompt = tiny_between(seed, 0, 2) ? tiny_between(seed, 1, n) : 90,
                           .next = next,
                           .slot = tiny_between(seed, 0, SLOTS - 1)};
}

/* Among questions in shared batches, in all slots, before and beside it, an answer has the bits
 * that a model gives that is asked nothing else. */
static void alone(void **state) {
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        retrace_model_info f;
        retrace_token texts[SLOTS][LONG];
        float *next[SLOTS], *want;
        uint64_t seed = 9;
        int saved = 0;
        retrace_model *m = open_subject(i, &f);
        if (!m) continue;
        for (int k = 0; k < SLOTS; k++) {
            make_up(texts[k], LONG, 5, &f);
            make_up(texts[k] + 40 * k, LONG - 40 * k, (uint64_t)k + 6, &f);
            next[k] = tiny_row(&f);
        }
        want = tiny_row(&f);
        for (int round = 0; round < (i == REAL ? 1 : 16); round++) {
            retrace_query q[SLOTS];
            for (int k = 0; k < SLOTS; k++) {
                q[k] = any_question(&seed, texts, next[k]);
                q[k].alone = k == 1;
            }
            tiny_ask(m, q, SLOTS);
            saved += q[1].evaluated < q[1].n;
            retrace_model *fresh = open_subject(i, &f);
            retrace_query one = q[1];
            one.next = want;
            tiny_ask(fresh, &one, 1);
            if (subjects[i].bits)
                assert_memory_equal(next[1], want, (size_t)f.vocab * sizeof *want);
            assert_near(next[1], want, f.vocab, &subjects[i]);
            one = q[2];
            one.next = want;
            tiny_ask(fresh, &one, 1);
            assert_near(next[2], want, f.vocab, &subjects[i]);
            retrace_model_close(fresh);
        }
        if (i != REAL) assert_true(saved > 2); /* what was fed alone is used again */
        for (int k = 0; k < SLOTS; k++) free(next[k]);
        free(want);
        retrace_model_close(m);
    }
}

/* Moves a run on to its next question; 0: it has ended. */
static int next_question(retrace_run *run, retrace_need *need) {
    retrace_error err;
    do {
        int rc = retrace_run_next(run, need, &err);
        if (rc < 0) fail_msg("%s", err.msg);
        if (rc == RETRACE_DONE) return 0;
    } while (need->kind == RETRACE_EVENT);
    return 1;
}

/* Writes an answer with the option `alone` in slot 1, and others beside it in the same calls.
 * Returns its length. */
static int write_beside(retrace_model *m, const retrace_model_info *f, int n_runs,
                        retrace_token *tokens, double *logp) {
    retrace_run *runs[SLOTS];
    retrace_query *asked[SLOTS], q[SLOTS];
    retrace_token prompt[50];
    retrace_options o;
    int n = 0, left = 1;
    make_up(prompt, 50, 4, f);
    for (int k = 0; k < n_runs; k++) {
        retrace_options_default(&o);
        o.max_tokens = 24;
        o.logprobs = 0;
        o.seed = k;
        o.slot = 1 + k;
        o.ignore_eos = 1;
        o.alone = k == 0;
        assert_int_equal(retrace_run_new(&runs[k], m, &o, prompt, 50, NULL), 0);
    }
    while (left > 0) {
        left = 0;
        for (int k = 0; k < n_runs; k++) {
            retrace_need need;
            if (!next_question(runs[k], &need)) continue;
            asked[left] = need.queries;
            q[left++] = need.queries[0];
        }
        if (left > 0) tiny_ask(m, q, left);
        for (int k = 0; k < left; k++) *asked[k] = q[k];
    }
    const retrace_token *v = retrace_run_tokens(runs[0], &n);
    memcpy(tokens, v, (size_t)n * sizeof *v);
    for (int i = 0, top; i < n; i++) retrace_run_logprobs(runs[0], i, &logp[i], &top);
    for (int k = 0; k < n_runs; k++) retrace_run_free(runs[k]);
    return n;
}

static void alone_run(void **state) {
    (void)state;
    for (int i = 1; i < N_SUBJECTS; i++) {
        retrace_model_info f;
        retrace_token v[24], w[24];
        double logp[24], want[24];
        if (!subjects[i].bits) continue;
        retrace_model *m = open_subject(i, &f);
        if (!m) continue;
        int n = write_beside(m, &f, 1, w, want);
        assert_int_equal(n, 24);
        retrace_model_close(m);
        m = open_subject(i, &f);
        for (int beside = 3; beside > 0; beside--) {
            assert_int_equal(write_beside(m, &f, beside, v, logp), n);
            assert_memory_equal(v, w, sizeof v);
            assert_memory_equal(logp, want, sizeof logp);
        }
        retrace_model_close(m);
    }
}

/* ==== Copies ==== */

/* Three slots take over the prompt of a fourth, which goes on in the same call. */
static void copies(void **state) {
    (void)state;
    for (int i = 1; i < N_SUBJECTS; i++) {
        enum { PROMPT = 96 };
        retrace_model_info f;
        retrace_token v[SLOTS][LONG];
        float *next[SLOTS], *want;
        retrace_query q[SLOTS];
        retrace_model *m = open_subject(i, &f);
        if (!m) continue;
        want = tiny_row(&f);
        for (int k = 0; k < SLOTS; k++) {
            make_up(v[k], LONG, 2, &f);
            if (k > 0) make_up(v[k] + PROMPT, LONG - PROMPT, (uint64_t)k + 30, &f);
            next[k] = tiny_row(&f);
            q[k] = (retrace_query){
                .tokens = v[k], .n = PROMPT + 5, .n_prompt = PROMPT, .next = next[k], .slot = k};
        }
        tiny_ask(m, q, 1);
        q[0].n = PROMPT + 6;
        tiny_ask(m, q, SLOTS);
        assert_int_equal(q[0].evaluated, 1);
        for (int k = 0; k < SLOTS; k++) {
            if (k > 0) assert_int_equal(q[k].evaluated, 5);
            retrace_model *fresh = open_subject(i, &f);
            retrace_query one = q[k];
            one.next = want;
            tiny_ask(fresh, &one, 1);
            assert_near(next[k], want, f.vocab, &subjects[i]);
            retrace_model_close(fresh);
        }
        for (int k = 0; k < SLOTS; k++) q[k].n = PROMPT + 20; /* and nobody is disturbed later */
        tiny_ask(m, q, SLOTS);
        for (int k = 0; k < SLOTS; k++) {
            retrace_model *fresh = open_subject(i, &f);
            retrace_query one = q[k];
            assert_int_equal(q[k].evaluated, k == 0 ? 14 : 15);
            one.next = want;
            tiny_ask(fresh, &one, 1);
            assert_near(next[k], want, f.vocab, &subjects[i]);
            retrace_model_close(fresh);
            free(next[k]);
        }
        free(want);
        retrace_model_close(m);
    }
}

/* What a slot lends is what it held when it was asked, whatever it is used for in the same call;
 * too little is not worth a copy. */
static void lent_and_replaced(void **state) {
    (void)state;
    for (int i = 1; i < N_SUBJECTS; i++) {
        retrace_model_info f;
        retrace_token v[2][LONG];
        retrace_model *m = open_subject(i, &f);
        if (!m) continue;
        make_up(v[0], LONG, 2, &f);
        make_up(v[1], LONG, 3, &f);
        float *a = tiny_row(&f), *b = tiny_row(&f), *want = tiny_row(&f);
        for (int n = 31; n <= 160; n += n == 31 ? 1 : 64) {
            retrace_query first = {.tokens = v[0], .n = n, .n_prompt = n, .slot = 0};
            retrace_query other = {.tokens = v[1], .n = 150, .n_prompt = 150, .slot = 0, .next = a};
            retrace_query lent = {
                .tokens = v[0], .n = n + 3, .n_prompt = n + 3, .slot = 1, .next = b};
            tiny_ask(m, &first, 1);
            retrace_query q[2] = {lent, other};
            tiny_ask(m, q, 2);
            assert_int_equal(q[0].evaluated, n < 32 ? n + 3 : 3);
            assert_int_equal(q[1].evaluated, 150);
            retrace_model *fresh = open_subject(i, &f);
            for (int k = 0; k < 2; k++) {
                retrace_query one = q[k];
                one.next = want;
                tiny_ask(fresh, &one, 1);
                assert_near(k ? a : b, want, f.vocab, &subjects[i]);
            }
            retrace_model_close(fresh);
            other.slot = 1; /* forgets it, for the next turn */
            tiny_ask(m, &other, 1);
        }
        free(a);
        free(b);
        free(want);
        retrace_model_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(feeding), cmocka_unit_test(feeding_in_passing),
        cmocka_unit_test(tops),    cmocka_unit_test(whole_tops),
        cmocka_unit_test(alone),   cmocka_unit_test(alone_run),
        cmocka_unit_test(copies),  cmocka_unit_test(lent_and_replaced),
    };
    tiny_table_json = FEW;
    return cmocka_run_group_tests_name("slots", tests, tiny_table_write, tiny_table_remove);
}
