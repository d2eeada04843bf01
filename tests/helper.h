/* helper.h - what the tests on table models share: a model from a string, rules from a list, a
 * scripted choice, a run to its end. Included once by each test program. */
#ifndef RT_HELPER_H
#define RT_HELPER_H

#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "watch.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

UNUSED_OK static retrace_text text_of(const char *s) {
    return (retrace_text){s, strlen(s)};
}

/* ==== Numbers ==== */

/* 0 .. n - 1 from a state of the caller's, the same on every machine. */
UNUSED_OK static int roll_from(uint64_t *state, int n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int)((*state >> 33) % (uint64_t)n);
}

/* ==== Models ==== */

/* Writes a table to a temporary file and opens it; the file is gone when this returns. */
UNUSED_OK static int try_table(retrace_model **out, const void *json, size_t n,
                               const retrace_setting *settings, int n_settings,
                               retrace_error *err) {
    const char *dir = getenv("TMPDIR");
    char path[512], uri[520];
    snprintf(path, sizeof path, "%s/retrace-test-XXXXXX", dir && *dir ? dir : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, json, n), (ssize_t)n);
    close(fd);
    snprintf(uri, sizeof uri, "table:%s", path);
    int rc = retrace_model_open(out, uri, settings, n_settings, err);
    unlink(path);
    return rc;
}

UNUSED_OK static retrace_model *open_table(const char *json) {
    retrace_model *m = NULL;
    retrace_error err = {0};
    if (try_table(&m, json, strlen(json), NULL, 0, &err)) fail_msg("table: %s", err.msg);
    return m;
}

/* The token of that name. */
UNUSED_OK static retrace_token token_of(const retrace_model *m, const char *name) {
    retrace_model_info facts;
    retrace_model_facts(m, &facts);
    for (retrace_token i = 0; i < facts.vocab; i++) {
        retrace_text t = retrace_token_name(m, i);
        if (t.n == strlen(name) && memcmp(t.s, name, t.n) == 0) return i;
    }
    fail_msg("no token '%s'", name);
    return -1;
}

/* ==== Rules ==== */

/* Settings as name, value, name, value, ... ended by NULL. */
UNUSED_OK static int try_rule(retrace_rule **out, const char *name, const char *const *pairs,
                              retrace_error *err) {
    retrace_setting s[64];
    int n = 0;
    for (; pairs && pairs[2 * n]; n++)
        s[n] = (retrace_setting){pairs[2 * n], text_of(pairs[2 * n + 1])};
    return retrace_rule_new(out, name, s, n, err);
}

UNUSED_OK static retrace_rule *make_rule(const char *name, const char *const *pairs) {
    retrace_rule *r = NULL;
    retrace_error err = {0};
    if (try_rule(&r, name, pairs, &err)) fail_msg("rule %s: %s", name, err.msg);
    return r;
}

/* One group of phrases; the second may be NULL. */
UNUSED_OK static retrace_rule *ban_rule(const char *first, const char *second) {
    const char *pairs[] = {"text", first, second ? "text" : NULL, second, NULL};
    return make_rule("phrases", pairs);
}

/* ==== Choice ==== */

/* Wants these tokens in turn, at temperature 1 or so; the most probable one when the list has ended
 * or the wanted one is not on offer, which `missed` counts. Draws of rules take their first index.
 */
typedef struct script {
    const retrace_token *want;
    int n, used, missed;
} script;

UNUSED_OK static int choose_script(void *ud, const double *p, const retrace_token *ids, int n,
                                   uint64_t purpose, int pos, int attempt) {
    script *s = ud;
    (void)pos, (void)attempt;
    int best = n;
    for (int i = 0; i < n; i++)
        if (p[i] > 0 && (best == n || p[i] > p[best])) best = i;
    if (purpose != 0) return 0;
    if (s->used >= s->n) return best;
    retrace_token want = s->want[s->used++];
    for (int i = 0; i < n; i++)
        if ((ids ? ids[i] : i) == want && p[i] > 0) return i;
    s->missed++;
    return best;
}

/* ==== Runs ==== */

/* Runs a prompt to its end. NULL, or what did not hold. */
UNUSED_OK static const char *try_finish(answer *a, retrace_model *m, const retrace_options *o,
                                        const retrace_token *prompt, int n_prompt) {
    retrace_run *run = NULL;
    static retrace_error err;
    answer_start(a);
    if (retrace_run_new(&run, m, o, prompt, n_prompt, &err)) return err.msg;
    int rc = retrace_run_finish(run, see_event, a, &err);
    answer_end(a, run);
    retrace_run_free(run);
    return rc ? err.msg : broken(m, a);
}

/* The same, and a failed test when something does not hold. */
UNUSED_OK static void finish_tokens(answer *a, retrace_model *m, const retrace_options *o,
                                    const retrace_token *prompt, int n_prompt) {
    const char *why = try_finish(a, m, o, prompt, n_prompt);
    if (why) fail_msg("%s (text '%s', finish %s)", why, a->text, retrace_finish_name(a->finish));
}

UNUSED_OK static void finish_text(answer *a, retrace_model *m, const retrace_options *o,
                                  const char *prompt) {
    retrace_token *tokens = NULL;
    int n = 0;
    retrace_error err = {0};
    if (retrace_tokenize(m, text_of(prompt), RETRACE_TOKENIZE_SPECIAL, &tokens, &n, &err))
        fail_msg("tokenize: %s", err.msg);
    finish_tokens(a, m, o, tokens, n);
    retrace_free(tokens);
}

/* Temperature 1 without truncation, n tokens. */
UNUSED_OK static retrace_options plain_options(int n) {
    retrace_options o;
    retrace_options_default(&o);
    o.max_tokens = n;
    o.seed = 1;
    o.temp = 1;
    o.top_k = 0;
    o.top_p = 1;
    o.min_p = 0;
    return o;
}

/* The most probable token always. */
UNUSED_OK static retrace_options greedy_options(int n) {
    retrace_options o = plain_options(n);
    o.temp = 0;
    return o;
}

/* ==== Step by step ==== */

UNUSED_OK static retrace_run *run_start(retrace_model *m, const retrace_options *o, answer *out) {
    retrace_run *run = NULL;
    retrace_error err = {0};
    answer_start(out);
    if (retrace_run_new(&run, m, o, NULL, 0, &err)) fail_msg("run: %s", err.msg);
    return run;
}

/* One call of next, which must succeed, and the model's answer where it was asked. */
UNUSED_OK static retrace_need_kind turn(retrace_model *m, retrace_run *run, answer *out) {
    retrace_need need;
    retrace_error err = {0};
    int rc = retrace_run_next(run, &need, &err);
    if (rc < 0) fail_msg("next: %s", err.msg);
    assert_int_equal(rc == RETRACE_DONE, need.kind == RETRACE_NEED_NOTHING);
    if (need.kind == RETRACE_EVENT) see(out, need.event);
    if (need.kind == RETRACE_NEED_MODEL &&
        retrace_model_eval(m, need.queries, need.n_queries, &err))
        fail_msg("eval: %s", err.msg);
    return need.kind;
}

UNUSED_OK static void run_end(retrace_model *m, retrace_run *run, answer *out) {
    answer_end(out, run);
    const char *why = broken(m, out);
    if (why) fail_msg("%s (text '%s')", why, out->text);
    retrace_run_free(run);
}

UNUSED_OK static void assert_same_answer(const answer *x, const answer *y) {
    assert_int_equal(x->finish, y->finish);
    assert_int_equal(x->n_text, y->n_text);
    assert_memory_equal(x->text, y->text, x->n_text);
    assert_int_equal(x->n_tokens, y->n_tokens);
    assert_memory_equal(x->tokens, y->tokens, (size_t)x->n_tokens * sizeof x->tokens[0]);
}

#endif
