/* test_exact.c - resample exact: what it admits, how it ends, and that its law is the model's own.
 *
 * The laws proper are enumerated in laws.c; here are the edges, and the law once more on answers
 * too long to enumerate: by frequencies, from fixed seeds. */
#include "helper.h"

#include <math.h>

static answer a;

static const char letters[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", {\"text\": \"</s>\", \"end\": true}],"
    " \"rows\": [{\"context\": [], \"next\": {\"a\": 0.5, \"b\": 0.3, \"c\": 0.15, \"</s>\": "
    "0.05}}]}";

static retrace_options exact_options(int n, retrace_rule **rule) {
    retrace_options o = plain_options(n);
    o.resample = RETRACE_RESAMPLE_EXACT;
    o.rules = rule;
    o.n_rules = 1;
    return o;
}

static void refused(retrace_options o, const char *what) {
    retrace_model *m = open_table(letters);
    retrace_run *run = NULL;
    retrace_error err = {0};
    assert_int_equal(retrace_run_new(&run, m, &o, NULL, 0, &err), RETRACE_EUSAGE);
    if (!strstr(err.msg, what)) fail_msg("'%s' does not name '%s'", err.msg, what);
    retrace_model_close(m);
}

static void only_what_is_certain_is_admitted(void **unused) {
    (void)unused;
    const char *weighted[] = {"text", "ab", "weight", "0.5", NULL};
    retrace_rule *hard = ban_rule("ab", NULL), *soft = make_rule("phrases", weighted);
    refused(exact_options(3, &soft), "phrases");
    retrace_options o = exact_options(3, &hard);
    o.on_stuck = RETRACE_STUCK_STOP;
    refused(o, "on_stuck");
    o.on_stuck = RETRACE_STUCK_ALLOW;
    refused(o, "on_stuck");
    retrace_rule_free(hard);
    retrace_rule_free(soft);
}

static void nothing_accepted_is_stuck(void **unused) {
    (void)unused;
    const char *all[] = {"text", "a", "text", "b", "text", "c", NULL};
    retrace_model *m = open_table(letters);
    retrace_rule *r = make_rule("phrases", all);
    retrace_options o = exact_options(2, &r);
    o.ignore_eos = 1;
    for (int t = 0; t < 2; t++) {
        o.temp = t;
        finish_text(&a, m, &o, "");
        assert_int_equal(a.finish, RETRACE_FINISH_STUCK);
        assert_string_equal(a.text, "");
        assert_int_equal(a.stats.evaluated, 0); /* rejected before the model was asked again */
    }
    retrace_rule_free(r);
    retrace_model_close(m);
}

static void a_spent_budget_says_so(void **unused) {
    (void)unused;
    const char *rare[] = {"text", "a", "text", "b", NULL};
    retrace_model *m = open_table(letters);
    retrace_rule *r = make_rule("phrases", rare);
    retrace_options o = exact_options(30, &r);
    o.ignore_eos = 1;
    o.max_rewinds = 3;
    finish_text(&a, m, &o, "");
    assert_int_equal(a.finish, RETRACE_FINISH_BUDGET);
    assert_string_equal(a.text, "");
    o.max_rewinds = -1;
    o.max_evaluated = 5;
    finish_text(&a, m, &o, "");
    assert_int_equal(a.finish, RETRACE_FINISH_BUDGET);
    assert_string_equal(a.text, "");
    retrace_rule_free(r);
    retrace_model_close(m);
}

/* a a ... is best; aba is banned: at temperature 0 the next best after "ab" is tried, deepest
 * first. */
static void greedy_takes_the_best_that_is_alive(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_rule *r = ban_rule("aa", "ba");
    retrace_options o = exact_options(3, &r);
    o.temp = 0;
    finish_text(&a, m, &o, "");
    assert_string_equal(a.text, "abb");
    retrace_rule_free(r);
    retrace_model_close(m);
}

/* What is banned is improbable to come by: no rejection is made twice. */
static void every_rejection_is_new(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_rule *r = ban_rule("a", "b");
    retrace_options o = exact_options(1, &r);
    for (int seed = 0; seed < 50; seed++) {
        o.seed = seed;
        finish_text(&a, m, &o, "");
        assert_true(a.stats.rewinds <= 2);
        assert_int_equal(a.stats.evaluated, 0);
    }
    retrace_rule_free(r);
    retrace_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_certain_is_admitted),
        cmocka_unit_test(nothing_accepted_is_stuck),
        cmocka_unit_test(a_spent_budget_says_so),
        cmocka_unit_test(greedy_takes_the_best_that_is_alive),
        cmocka_unit_test(every_rejection_is_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
