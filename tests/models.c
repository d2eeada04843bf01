/* models.c - the same questions to every back end, and bad questions to each.
 *
 * The table model answers exactly and is the reference for what an answer means; the others must
 * give the same answer to a question however it is asked: alone or with others, in one slot or
 * another, after questions about other sequences or none. RETRACE_TINY is the folder of the tiny
 * models (without it the table model alone is asked), RETRACE_MODEL a real one. */
#include "bare.h"
#include "tiny.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LEN = 40 };

static const char TABLE[] =
    "{\"tokens\": [\"a\", \"b\", \" \", \"the\", \" cat\", {\"text\": \"</s>\", \"end\": true},"
    " {\"text\": \"<|x|>\", \"control\": true}],"
    " \"rows\": [{\"context\": [], \"next\": {\"a\": 4, \"b\": 2, \" \": 1, \"the\": 1, \" cat\": "
    "1,"
    " \"</s>\": 1, \"<|x|>\": 0.5}},"
    " {\"context\": [\"a\"], \"next\": {\"a\": 1, \"b\": 1, \" \": 1, \"the\": 2, \" cat\": 3,"
    " \"</s>\": 1, \"<|x|>\": 0.5}},"
    " {\"context\": [\"b\", \"a\"], \"next\": {\"a\": 3, \"b\": 1, \" \": 1, \"the\": 1, \" cat\": "
    "1,"
    " \"</s>\": 1, \"<|x|>\": 0.5}}]}";

/* A model to ask. `near` is the NMSE between answers whose tokens were batched otherwise. */
typedef struct subject {
    char path[1024];
    const char *settings;
    double near;
} subject;

/* The i-th model there is; 0 when there are no more. */
static int subject_at(int i, subject *s) {
    static const char *const files[] = {"dense.gguf", "swa.gguf", "recurrent.gguf", "hybrid.gguf"};
    const int n_files = sizeof files / sizeof *files;
    const char *path = i == 0 ? tiny_table() : NULL;
    *s = (subject){.settings = i == 0 ? "" : "ctx_size=512 batch_size=32 threads=1", .near = 1e-5};
    if (i > 0 && i <= n_files) path = tiny_path(files[i - 1]);
    if (i == n_files + 1) {
        path = getenv("RETRACE_MODEL");
        s->settings = "ctx_size=512";
        s->near = 2e-4;
    }
    if (i > n_files + 1) return 0;
    snprintf(s->path, sizeof s->path, "%s", path ? path : "");
    return 1;
}

/* Opens the i-th model and makes up a sequence of LEN tokens; 0 when it is not there. */
static int open_subject(int i, subject *s, retrace_model **m, retrace_model_info *f,
                        retrace_token *v) {
    uint64_t seed = 7;
    if (!subject_at(i, s) || !s->path[0]) return 0;
    *m = tiny_open(s->path, s->settings);
    retrace_model_facts(*m, f);
    for (int k = 0; k < LEN; k++) v[k] = tiny_between(&seed, f->vocab > 8 ? 3 : 0, f->vocab - 1);
    return 1;
}

enum { N_SUBJECTS = 6 };

static double log_of(const float *logits, int n, retrace_token id) {
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = fmax(max, (double)logits[i]);
    for (int i = 0; i < n; i++) sum += exp((double)logits[i] - max);
    return (double)logits[id] - max - log(sum);
}

/* ==== Answers ==== */

static void facts(void **state) {
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        subject s;
        retrace_model *m;
        retrace_model_info f;
        retrace_token v[LEN];
        int ends = 0;
        if (!open_subject(i, &s, &m, &f, v)) continue;
        assert_true(f.name[0] && f.vocab > 1 && f.n_ctx >= LEN);
        assert_string_equal(f.backend, i == 0 ? "table" : "llama");
        assert_in_range(f.bos + 1, 0, f.vocab);
        for (int id = 0; id < f.vocab; id++) {
            retrace_text name = retrace_token_name(m, id), piece = retrace_piece(m, id);
            assert_true(piece.n == 0 || piece.n == name.n);
            ends += retrace_token_ends(m, id);
            if (retrace_token_ends(m, id)) assert_int_equal(piece.n, 0);
        }
        assert_true(ends > 0);
        assert_int_equal(retrace_token_name(m, f.vocab).n, 0);
        retrace_model_close(m);
    }
}

/* The same question: the same bits, whatever was asked before, in whatever slot. */
static void repeated(void **state) {
    (void)state;
    static const int slots[] = {0, 0, 3, -7, 1 << 30};
    for (int i = 0; i < N_SUBJECTS; i++) {
        subject s;
        retrace_model *m;
        retrace_model_info f;
        retrace_token v[LEN];
        if (!open_subject(i, &s, &m, &f, v)) continue;
        float *first = tiny_row(&f), *again = tiny_row(&f);
        retrace_query q = {.tokens = v, .n = LEN, .n_prompt = 20, .next = first};
        tiny_ask(m, &q, 1);
        assert_int_equal(q.evaluated, LEN);
        for (int k = 0; k < 5; k++) {
            retrace_query other = {.tokens = v + k, .n = 30 - k, .n_prompt = 11, .next = again};
            if (k > 1) tiny_ask(m, &other, 1);
            q.next = again;
            q.slot = slots[k];
            memset(again, 0, sizeof *again);
            tiny_ask(m, &q, 1);
            assert_memory_equal(first, again, (size_t)f.vocab * sizeof *first);
        }
        free(first);
        free(again);
        retrace_model_close(m);
    }
}

/* A score is what the distribution before the token says. */
static void scores(void **state) {
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        subject s;
        retrace_model *m;
        retrace_model_info f;
        retrace_token v[LEN];
        double alone[LEN], batched[LEN], part[LEN];
        if (!open_subject(i, &s, &m, &f, v)) continue;
        float *next = tiny_row(&f);
        retrace_query q = {.tokens = v, .n = LEN, .n_prompt = 1, .logp = alone};
        tiny_ask(m, &q, 1);
        if (i > 0) assert_true(isnan(alone[0]));
        q = (retrace_query){.tokens = v, .n = LEN, .n_prompt = LEN, .logp = batched};
        tiny_ask(m, &q, 1);
        q = (retrace_query){.tokens = v, .n = LEN, .n_prompt = 1, .from = 17, .logp = part};
        tiny_ask(m, &q, 1);
        for (int k = 1; k < LEN; k++) {
            retrace_query p = {.tokens = v, .n = k, .n_prompt = 1, .next = next};
            tiny_ask(m, &p, 1);
            double want = log_of(next, f.vocab, v[k]);
            assert_true(fabs(alone[k] - want) < 1e-6);
            assert_true(fabs(batched[k] - want) < (s.near > 1e-5 ? 0.5 : 0.02));
            if (k >= 17) assert_true(fabs(part[k - 17] - want) < 1e-6);
        }
        free(next);
        retrace_model_close(m);
    }
}

/* Questions in one call: the same as one by one. */
static void together(void **state) {
    (void)state;
    for (int i = 0; i < 2 * N_SUBJECTS; i++) {
        enum { N = 6 };
        subject s;
        retrace_model *m;
        retrace_model_info f;
        retrace_token v[LEN];
        retrace_query q[N];
        float *rows[N];
        double logp[N][4];
        if (!open_subject(i % N_SUBJECTS, &s, &m, &f, v)) continue;
        int shared = i >= N_SUBJECTS && i % N_SUBJECTS > 0;
        if (shared) {
            char settings[128];
            snprintf(settings, sizeof settings, "%s parallel=4 deterministic=false", s.settings);
            retrace_model_close(m);
            m = tiny_open(s.path, settings);
        }
        float *want = tiny_row(&f);
        for (int k = 0; k < N; k++) {
            rows[k] = tiny_row(&f);
            q[k] = (retrace_query){.tokens = v + k % 3,
                                   .n = LEN - 3 - k,
                                   .n_prompt = 10 * (k % 4),
                                   .from = LEN - 7 - k,
                                   .logp = k % 2 ? logp[k] : NULL,
                                   .next = rows[k],
                                   .slot = k};
        }
        tiny_ask(m, q, N);
        for (int k = 0; k < N; k++) {
            retrace_query one = q[k];
            double again[4];
            one.next = want;
            if (one.logp) one.logp = again;
            tiny_ask(m, &one, 1);
            size_t bytes = (size_t)f.vocab * sizeof *want;
            if (shared)
                assert_true(tiny_nmse(rows[k], want, f.vocab) <= s.near);
            else
                assert_memory_equal(rows[k], want, bytes);
            for (int t = 0; one.logp && t < 4; t++) {
                assert_true(fabs(again[t] - logp[k][t]) <= (shared ? 0.5 : 0));
            }
            free(rows[k]);
        }
        free(want);
        retrace_model_close(m);
    }
}

/* The texts of a greedy run are bare libllama's. */
static void greedy(void **state) {
    (void)state;
    const char *path = tiny_path("dense.gguf");
    if (!path) skip();
    retrace_model *m = tiny_open(path, "ctx_size=256 batch_size=32 threads=1");
    bare *b = bare_open(tiny_path("dense.gguf"), 256, 32, 1, 0);
    retrace_model_info f;
    retrace_token v[LEN] = {1, 20, 300, 40};
    retrace_model_facts(m, &f);
    float *next = tiny_row(&f), *want = tiny_row(&f);
    assert_non_null(b);
    for (int n = 4; n < LEN; n++) {
        retrace_query q = {.tokens = v, .n = n, .n_prompt = 4, .next = next};
        tiny_ask(m, &q, 1);
        assert_int_equal(q.evaluated, n == 4 ? 4 : 1);
        assert_true(bare_eval(b, v, n, 4, want));
        assert_memory_equal(next, want, (size_t)f.vocab * sizeof *next);
        for (int id = 0; id < f.vocab; id++) {
            if (next[id] > next[v[n]]) v[n] = id;
        }
    }
    free(next);
    free(want);
    bare_close(b);
    retrace_model_close(m);
}

/* ==== Reuse ==== */

/* Answers `n` tokens after `before` tokens of the same text; returns how many were fed for it. */
static int fed_after(const char *path, const char *settings, const retrace_token *v, int before,
                     int n, float *next) {
    retrace_model *m = tiny_open(path, settings);
    retrace_query q = {.tokens = v, .n = before, .n_prompt = 4, .next = next};
    if (before > 0) tiny_ask(m, &q, 1);
    q.n = n;
    tiny_ask(m, &q, 1);
    retrace_model_close(m);
    return q.evaluated;
}

static void cut(const char *file, const char *settings, const char *rewind, int bits, int least,
                int most) {
    enum { LONG = 480 };
    retrace_token v[LONG];
    retrace_model_info f;
    uint64_t seed = 11;
    const char *path = tiny_path(file);
    if (!path) skip();
    retrace_model *m = tiny_open(path, settings);
    retrace_model_facts(m, &f);
    assert_string_equal(f.rewind, rewind);
    retrace_model_close(m);
    for (int i = 0; i < LONG; i++) v[i] = tiny_between(&seed, 3, f.vocab - 1);
    float *got = tiny_row(&f), *want = tiny_row(&f);
    fed_after(path, settings, v, 0, 101, want);
    int fed = fed_after(path, settings, v, LONG, 101, got);
    assert_in_range(fed, least, most);
    if (bits) assert_memory_equal(got, want, (size_t)f.vocab * sizeof *got);
    assert_true(tiny_nmse(got, want, f.vocab) <= 1e-5);
    free(got);
    free(want);
}

static void cut_dense(void **state) {
    (void)state;
    cut("dense.gguf", "ctx_size=512 threads=1 batch_size=32", "exact", 1, 1, 1);
}

static void cut_state(void **state) {
    (void)state;
    cut("recurrent.gguf", "ctx_size=512 threads=1 batch_size=32", "snapshot", 1, 1, 16);
    cut("hybrid.gguf", "ctx_size=512 threads=1 batch_size=32", "snapshot", 1, 1, 16);
}

static void cut_without_snapshots(void **state) {
    (void)state;
    cut("recurrent.gguf", "ctx_size=512 threads=1 batch_size=32 snapshots=0", "replay", 1, 101,
        101);
    cut("hybrid.gguf", "ctx_size=512 threads=1 batch_size=32 snapshots=0", "replay", 1, 101, 101);
    cut("swa.gguf", "ctx_size=512 threads=1 batch_size=32 snapshots=0", "replay", 1, 101, 101);
}

/* The window before position 100 is gone after 480 tokens; with all tokens kept it is not. */
static void cut_window(void **state) {
    (void)state;
    cut("swa.gguf", "ctx_size=512 threads=1 batch_size=32", "snapshot", 0, 2, 101);
    cut("swa.gguf", "ctx_size=512 threads=1 batch_size=32 swa_full=true", "exact", 1, 1, 1);
    cut("swa.gguf", "ctx_size=512 threads=1", "exact", 1, 1, 1);
}

/* Asks for lengths[0], lengths[1] ... tokens of a text whose tokens from from[i] on are drawn anew
 * before the i-th question, then compares the last answer with a fresh model's. */
static void cut_again(const char *settings, const int *lengths, const int *from, int n) {
    retrace_token v[512];
    retrace_model_info f;
    uint64_t seed = 12;
    const char *path = tiny_path("swa.gguf");
    if (!path) skip();
    retrace_model *m = tiny_open(path, settings);
    retrace_model_facts(m, &f);
    float *got = tiny_row(&f), *want = tiny_row(&f);
    for (int i = 0; i < n; i++) {
        for (int k = from[i]; k < 512; k++) v[k] = tiny_between(&seed, 3, f.vocab - 1);
        retrace_query q = {.tokens = v, .n = lengths[i], .n_prompt = 4, .next = got};
        tiny_ask(m, &q, 1);
    }
    retrace_model_close(m);
    fed_after(path, settings, v, 0, lengths[n - 1], want);
    double error = tiny_nmse(got, want, f.vocab);
    if (!(error <= 1e-5)) fail_msg("cut to %d: NMSE %g", lengths[n - 1], error);
    free(got);
    free(want);
}

/* Where a part of the window is there still and a part is gone. */
static void cut_window_edge(void **state) {
    (void)state;
    for (int to = 215; to < 250; to++) {
        const int lengths[] = {480, to}, from[] = {0, 512};
        cut_again("ctx_size=512 threads=1 batch_size=32", lengths, from, 2);
    }
}

/* A snapshot of a text that was taken back since must not come into play. */
static void cut_window_stale(void **state) {
    (void)state;
    const int lengths[] = {300, 270, 510, 262}, from[] = {0, 255, 255, 512};
    cut_again("ctx_size=512 threads=1 batch_size=32", lengths, from, 4);
}

/* ==== Bad questions ==== */

static void bad_questions(void **state) {
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        subject s;
        retrace_model *m;
        retrace_model_info f;
        retrace_token v[LEN], bad[LEN];
        retrace_error err;
        double logp[LEN];
        if (!open_subject(i, &s, &m, &f, v)) continue;
        float *before = tiny_row(&f), *after = tiny_row(&f);
        retrace_query good = {.tokens = v, .n = LEN, .n_prompt = 5, .next = before};
        tiny_ask(m, &good, 1);
        retrace_query q[2] = {good, good};
        q[0].next = after;
        q[1].next = after;
        q[1].tokens = bad;
        for (int k = 0; k < 2; k++) {
            memcpy(bad, v, sizeof bad);
            bad[LEN - 1] = k ? -1 : f.vocab;
            assert_int_equal(retrace_model_eval(m, q, 2, &err), RETRACE_EUSAGE);
            assert_int_equal(q[0].answered, 0);
        }
        q[1] = good;
        q[1].logp = logp;
        q[1].from = LEN + 1;
        assert_int_equal(retrace_model_eval(m, q + 1, 1, &err), RETRACE_EUSAGE);
        q[1].from = -1;
        assert_int_equal(retrace_model_eval(m, q + 1, 1, &err), RETRACE_EUSAGE);
        retrace_query none = {.tokens = v, .n = LEN};
        tiny_ask(m, &none, 1);
        retrace_query empty = {.tokens = v, .n = 0, .next = after};
        assert_int_equal(retrace_model_eval(m, &empty, 1, &err), i == 0 ? 0 : RETRACE_EUSAGE);
        assert_int_equal(retrace_model_eval(m, &empty, 0, &err), RETRACE_OK);
        good.next = after;
        good.n_prompt = -3;
        tiny_ask(m, &good, 1);
        good.n_prompt = 1 << 30;
        tiny_ask(m, &good, 1);
        good.n_prompt = 5;
        tiny_ask(m, &good, 1);
        assert_memory_equal(before, after, (size_t)f.vocab * sizeof *before);
        free(before);
        free(after);
        retrace_model_close(m);
    }
}

static void full_context(void **state) {
    (void)state;
    const char *path = tiny_path("dense.gguf");
    if (!path) skip();
    for (int n_ctx = 1; n_ctx <= 300; n_ctx += 299) {
        char settings[64];
        retrace_model_info f;
        retrace_error err;
        retrace_token v[301] = {0};
        snprintf(settings, sizeof settings, "ctx_size=%d threads=1", n_ctx);
        retrace_model *m = tiny_open(path, settings);
        retrace_model_facts(m, &f);
        assert_int_equal(f.n_ctx, n_ctx);
        float *next = tiny_row(&f);
        retrace_query q = {.tokens = v, .n = n_ctx + 1, .n_prompt = 3, .next = next};
        assert_int_equal(retrace_model_eval(m, &q, 1, &err), RETRACE_EUSAGE);
        q.n = n_ctx;
        tiny_ask(m, &q, 1);
        free(next);
        retrace_model_close(m);
    }
}

/* ==== Text ==== */

static retrace_text text_of(const char *s) {
    return (retrace_text){s, strlen(s)};
}

/* What the tokens spell, control tokens included. */
static char *spell(const retrace_model *m, const retrace_token *v, int n) {
    static char out[4096];
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        retrace_text t = retrace_token_name(m, v[i]);
        assert_true(at + t.n < sizeof out);
        memcpy(out + at, t.s, t.n);
        at += t.n;
    }
    out[at] = '\0';
    return out;
}

static int count(const char *s, const char *what) {
    int n = 0;
    while ((s = strstr(s, what))) {
        s += strlen(what);
        n++;
    }
    return n;
}

static int tokens_of(const retrace_model *m, const char *text, int flags, retrace_token **v) {
    int n = 0;
    retrace_error err;
    if (retrace_tokenize(m, text_of(text), flags, v, &n, &err) < 0) fail_msg("%s", err.msg);
    return n;
}

static void text(void **state) {
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        subject s;
        retrace_model *m;
        retrace_model_info f;
        retrace_token v[LEN], *t = NULL;
        retrace_error err;
        int n = 0;
        if (!open_subject(i, &s, &m, &f, v)) continue;
        const char *sample = i == 0 ? "athe cat b" : "the cat\n\xc3\xa9\xf0\x9f\x98\x80 and  x";
        n = tokens_of(m, sample, 0, &t);
        const char *back = spell(m, t, n);
        if (back[0] == ' ' && sample[0] != ' ') back++; /* SentencePiece puts one there */
        assert_string_equal(back, sample);
        retrace_free(t);
        n = tokens_of(m, "", RETRACE_TOKENIZE_BOS, &t);
        assert_int_equal(n, f.add_bos ? 1 : 0);
        retrace_free(t);
        retrace_text bad = {"a\xff", 2};
        assert_int_equal(retrace_tokenize(m, bad, 0, &t, &n, &err), RETRACE_EUSAGE);
        retrace_model_close(m);
    }
}

/* BOS where the model wants it, never twice; special tokens only when asked for. */
static void bos(void **state) {
    (void)state;
    const char *path = tiny_path("dense.gguf");
    retrace_token *t = NULL;
    if (!path) skip();
    retrace_model *m = tiny_open(path, "threads=1 ctx_size=256");
    int both = RETRACE_TOKENIZE_BOS | RETRACE_TOKENIZE_SPECIAL;
    assert_true(tokens_of(m, "a", both, &t) > 1 && t[0] == 1 && t[1] != 1);
    retrace_free(t);
    assert_true(tokens_of(m, "<s>a", both, &t) > 1 && t[0] == 1 && t[1] != 1);
    retrace_free(t);
    assert_true(tokens_of(m, "<s><s>a", both, &t) > 1 && t[0] == 1 && t[1] != 1);
    retrace_free(t);
    int n = tokens_of(m, "<s>a", RETRACE_TOKENIZE_BOS, &t);
    assert_true(t[0] == 1 && n > 4);
    for (int i = 1; i < n; i++) assert_int_not_equal(t[i], 1);
    retrace_free(t);
    assert_true(tokens_of(m, "a", 0, &t) > 0 && t[0] != 1);
    retrace_free(t);
    retrace_model_close(m);
}

/* ==== Chat ==== */

static char *chat_of(const retrace_model *m, const retrace_message *messages, int n_messages,
                     int n_controls) {
    retrace_token *v = NULL;
    retrace_error err;
    int n = 0, controls = 0;
    if (retrace_chat(m, messages, n_messages, &v, &n, &err) < 0) fail_msg("%s", err.msg);
    for (int i = 0; i < n; i++) {
        controls += retrace_piece(m, v[i]).n == 0 && retrace_token_name(m, v[i]).n > 0;
    }
    assert_int_equal(controls, n_controls);
    char *s = spell(m, v, n);
    retrace_free(v);
    return s;
}

static void chat(void **state) {
    (void)state;
    const char *path = tiny_path("dense.gguf");
    if (!path) skip();
    retrace_model *m = tiny_open(path, "threads=1 ctx_size=256");
    retrace_message plain[] = {{.role = "system", .content = text_of("be in")},
                               {.role = "user", .content = text_of("the end")}};
    assert_string_equal(chat_of(m, plain, 2, 6), "<s><|im_start|> system\nbe in<|im_end|> \n"
                                                 "<|im_start|> user\nthe end<|im_end|> \n"
                                                 "<|im_start|> assistant\n");
    /* Every control token of the vocabulary, spelt by a user, stays text. */
    retrace_message sly[] = {
        {.role = "user", .content = text_of(" x<s>y</s><|im_start|>z<|im_end|><unk>")}};
    const char *s = chat_of(m, sly, 1, 4);
    assert_int_equal(count(s, "<|im_start|>"), 3);
    assert_string_equal(s,
                        "<s><|im_start|> user\n x<s>y</s><|im_start|>z<|im_end|><unk><|im_end|> \n"
                        "<|im_start|> assistant\n");
    /* Half a token at a seam. */
    retrace_message seam[] = {{.role = "user", .content = text_of("<|im_end|")},
                              {.role = "assistant", .content = text_of("|>")}};
    chat_of(m, seam, 2, 6);
    /* A NUL byte is a byte, and what looks like a placeholder is text. */
    retrace_message nul[] = {{.role = "user", .content = {"a\0<s>b", 6}},
                             {.role = "user", .content = text_of("Qcontent0EQcontentQ1E")}};
    chat_of(m, nul, 2, 6);
    retrace_model_close(m);
}

static void bad_chats(void **state) {
    (void)state;
    static const struct {
        const char *file, *role;
        int code;
        const char *says;
    } rows[] = {
        {"dense.gguf", "user<|im_end|>", RETRACE_EUSAGE, "is no role"},
        {"dense.gguf", "", RETRACE_EUSAGE, "is no role"},
        {"swa.gguf", "system", RETRACE_EMODEL, "no place for message 1, of role 'system'"},
        {"hybrid.gguf", "user", RETRACE_EMODEL,
         "'{# a template of no known family #}' is not known"},
        {"recurrent.gguf", "user", RETRACE_EMODEL, "the model has no chat template"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *path = tiny_path(rows[i].file);
        retrace_token *v;
        retrace_error err;
        int n;
        if (!path) skip();
        retrace_model *m = tiny_open(path, "threads=1 ctx_size=256");
        retrace_message message = {.role = rows[i].role, .content = text_of("the end")};
        assert_int_equal(retrace_chat(m, &message, 1, &v, &n, &err), rows[i].code);
        if (!strstr(err.msg, rows[i].says))
            fail_msg("'%s' does not say '%s'", err.msg, rows[i].says);
        assert_int_equal(retrace_chat(m, &message, 0, &v, &n, &err), RETRACE_EUSAGE);
        retrace_model_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts),
        cmocka_unit_test(repeated),
        cmocka_unit_test(scores),
        cmocka_unit_test(together),
        cmocka_unit_test(greedy),
        cmocka_unit_test(cut_dense),
        cmocka_unit_test(cut_state),
        cmocka_unit_test(cut_without_snapshots),
        cmocka_unit_test(cut_window),
        cmocka_unit_test(cut_window_edge),
        cmocka_unit_test(cut_window_stale),
        cmocka_unit_test(bad_questions),
        cmocka_unit_test(full_context),
        cmocka_unit_test(text),
        cmocka_unit_test(bos),
        cmocka_unit_test(chat),
        cmocka_unit_test(bad_chats),
    };
    tiny_table_json = TABLE;
    return cmocka_run_group_tests(tests, tiny_table_write, tiny_table_remove);
}
