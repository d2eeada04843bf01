/* peers_rules.c - what went wrong elsewhere with operators, patterns, log-probabilities and a
 * person's undo must go right here.
 *
 * As in peers.c, each test is one kind of public report, named after its symptom. What concerns
 * constraints is in test_grammar.c, what operators remember in test_operators_run.c. */
#include "helper.h"

#include <math.h>

static answer a, b;

static const char letters[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", \"bXc\", {\"text\": \"</s>\", \"end\": true}], \"rows\": ["
    "{\"context\": [], \"next\": {\"a\": 0.4, \"b\": 0.3, \"c\": 0.2, \"bXc\": 0.1}}]}";

/* ==== Log-probabilities ==== */

/* Each kept token has its own log-probability, and there are no others. */
static void assert_one_each(retrace_run *run) {
    static const double p[] = {0.4, 0.3, 0.2, 0.1};
    double logp = 0;
    int n, n_top = 0;
    const retrace_token *tokens = retrace_run_tokens(run, &n);
    for (int i = 0; i < n; i++) {
        assert_non_null(retrace_run_logprobs(run, i, &logp, &n_top));
        assert_true(fabs(logp - log(p[tokens[i]])) < 1e-6);
        assert_int_equal(n_top, 2);
    }
    assert_null(retrace_run_logprobs(run, n, &logp, &n_top));
}

static void run_script(const char *names, const char *stop, retrace_rule *rule, const char *text,
                       int tokens, int rewinds) {
    retrace_model *m = open_table(letters);
    retrace_token want[16];
    script s = {want, 0, 0, 0};
    for (; names[s.n]; s.n++) want[s.n] = names[s.n] == 'X' ? 3 : names[s.n] - 'a';
    retrace_options o = plain_options(4);
    retrace_text stops = text_of(stop);
    o.logprobs = 2;
    o.choose = choose_script;
    o.choose_ud = &s;
    o.stops = &stops;
    o.n_stops = stop[0] != '\0';
    o.rules = &rule;
    o.n_rules = rule != NULL;
    retrace_run *run = run_start(m, &o, &a);
    assert_int_equal(retrace_run_finish(run, see_event, &a, NULL), RETRACE_OK);
    assert_one_each(run);
    run_end(m, run, &a);
    assert_int_equal(s.missed, 0);
    assert_string_equal(a.text, text);
    assert_int_equal(a.n_tokens, tokens);
    assert_int_equal(a.stats.rewinds, rewinds);
    retrace_rule_free(rule);
    retrace_model_close(m);
}

static void a_stop_within_a_token_loses_log_probabilities(void **unused) {
    (void)unused;
    run_script("caX", "X", NULL, "cab", 3, 0);
    run_script("caX", "bX", NULL, "ca", 2, 0);
    run_script("caX", "abX", NULL, "c", 1, 0);
    run_script("X", "b", NULL, "", 0, 0);
}

static void erased_tokens_leave_log_probabilities(void **unused) {
    (void)unused;
    run_script("abcXbcac", "", ban_rule("ab", "cbX"), "bcac", 4, 2);
    run_script("caaaXbcaabbb", "", ban_rule("caa", "abX"), "bbbb", 4, 3);
}

/* ==== Undo ==== */

/* A person puts `put`, takes it back and leaves the rest to chance. */
static void undo(answer *out, retrace_model *m, int64_t seed, const char *put) {
    retrace_options o = plain_options(12);
    o.driver = "guide:top_k=3";
    o.seed = seed;
    retrace_run *run = run_start(m, &o, out);
    retrace_need need;
    retrace_error err;
    int step = put ? 0 : 2, rc;
    while ((rc = retrace_run_next(run, &need, &err)) == RETRACE_OK) {
        if (need.kind == RETRACE_EVENT) see(out, need.event);
        if (need.kind == RETRACE_NEED_MODEL)
            assert_int_equal(retrace_model_eval(m, need.queries, need.n_queries, &err), RETRACE_OK);
        if (need.kind != RETRACE_NEED_CHOICE) continue;
        retrace_choice choice = {.kind = RETRACE_CHOOSE_DRAW};
        if (step == 0) choice = (retrace_choice){RETRACE_CHOOSE_TEXT, 0, text_of(put), 0};
        if (step == 1) choice.kind = RETRACE_CHOOSE_BACK;
        step++;
        assert_int_equal(retrace_run_choose(run, &choice, &err), RETRACE_OK);
    }
    assert_int_equal(rc, RETRACE_DONE);
    run_end(m, run, out);
}

static void an_undone_text_changes_what_follows(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    for (int seed = 0; seed < 20; seed++) {
        undo(&a, m, seed, NULL);
        undo(&b, m, seed, "abXcc");
        assert_same_answer(&a, &b);
        assert_int_equal(b.erases, 1);
    }
    retrace_model_close(m);
}

/* ==== Patterns ==== */

static void a_hit_let_through_hides_later_ones(void **unused) {
    (void)unused;
    retrace_model *m = open_table(
        "{\"tokens\": [\"a\", \"b\", \"c\", \"d\"], \"rows\": [{\"context\": [], \"next\": {\"a\":"
        " 1}}, {\"context\": [\"a\"], \"next\": {\"b\": 1}}, {\"context\": [\"b\"], \"next\":"
        " {\"c\": 1}}, {\"context\": [\"c\"], \"next\": {\"d\": 0.6, \"a\": 0.4}}]}");
    const char *const pairs[] = {"pattern", "ab", "pattern", "cd", NULL};
    retrace_rule *r = make_rule("regex", pairs);
    retrace_options o = greedy_options(12);
    o.rules = &r;
    o.n_rules = 1;
    o.on_stuck = RETRACE_STUCK_ALLOW;
    finish_text(&a, m, &o, "");
    assert_string_equal(a.text, "abcdabcdabcd"); /* an a leads to ab, and that to a c */
    assert_int_equal(a.stats.accepted, 6);
    retrace_rule_free(r);
    retrace_model_close(m);
}

/* ==== Operators ==== */

static const char *const operators[] = {
    "probability-threshold", "entropy-threshold", "probability-margin", "probability-drop",
    "probability-trend",     "repetition",        "ngram-overlap",      "logit-threshold"};

/* Tests that a place itself fails, whatever is drawn there, so that no retry can pass. */
static void a_property_of_the_place_loops(void **unused) {
    (void)unused;
    static const char *const tests[][3] = {{"entropy-threshold", "max_entropy", "0"},
                                           {"probability-margin", "min_margin", "1"}};
    retrace_model *m = open_table(letters);
    for (int i = 0; i < 8; i++) {
        const char *const *t = tests[i & 1];
        const char *const pairs[] = {
            t[1], t[2], "retry", i & 2 ? "resample" : "exclude", "backtrack_count", "1", NULL};
        retrace_rule *r = make_rule(t[0], pairs);
        retrace_options o = i & 4 ? greedy_options(30) : plain_options(30);
        o.rules = &r;
        o.n_rules = 1;
        finish_text(&a, m, &o, "");
        assert_int_equal(a.finish, RETRACE_FINISH_LENGTH);
        assert_int_equal(a.n_tokens, 30);
        assert_true(a.stats.accepted > 0);
        retrace_rule_free(r);
    }
    retrace_model_close(m);
}

static void a_small_or_large_top_k_crashes(void **unused) {
    (void)unused;
    static const int64_t top_k[] = {0, 1, 2, 5, 1000000000};
    retrace_model *m = open_table(letters);
    for (int i = 0; i < 2 * COUNT(operators) * COUNT(top_k); i++) {
        const char *const pairs[] = {"on", i & 1 ? "sampled" : "model", NULL};
        retrace_rule *r = make_rule(operators[i / 2 % COUNT(operators)], pairs);
        retrace_options o = plain_options(30);
        o.top_k = top_k[i / 2 / COUNT(operators)];
        o.rules = &r;
        o.n_rules = 1;
        finish_text(&a, m, &o, "");
        assert_int_equal(a.n_tokens, 30);
        retrace_rule_free(r);
    }
    retrace_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_within_a_token_loses_log_probabilities),
        cmocka_unit_test(erased_tokens_leave_log_probabilities),
        cmocka_unit_test(an_undone_text_changes_what_follows),
        cmocka_unit_test(a_hit_let_through_hides_later_ones),
        cmocka_unit_test(a_property_of_the_place_loops),
        cmocka_unit_test(a_small_or_large_top_k_crashes),
    };
    return cmocka_run_group_tests_name("peers_rules", tests, NULL, NULL);
}
