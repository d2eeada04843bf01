/* test_dry.c - the rule `dry`: what is penalised and by how much. The numbers are worked out by
 * hand. */
#include "offer.h"

#include <math.h>

/* Five tokens, all equally probable everywhere. */
static const char even[] = "{\"tokens\": [\"a\", \"b\", \"c\", \"\\n\", \"d:\"], \"rows\": ["
                           "{\"context\": [], \"next\": {\"0\": 1, \"1\": 1, \"2\": 1, \"3\": 1, "
                           "\"4\": 1}}]}";

/* What is taken from the logit of each token after a prompt. */
static void costs(const char *rule, const char *prompt, const double expected[5]) {
    retrace_model *m = open_table(even);
    offer f = first_draw(m, plain_options(1), rule, prompt);
    double free = 0;
    for (int i = 0; i < 5; i++) free = fmax(free, f.p[i]);
    for (int i = 0; i < 5; i++) {
        double cost = f.p[i] > 0 ? -log(f.p[i] / free) : INFINITY;
        if (cost == expected[i] || fabs(cost - expected[i]) < 1e-6) continue;
        fail_msg("%s after '%s': token %d costs %g, not %g", rule, prompt, i, cost, expected[i]);
    }
    retrace_model_close(m);
}

#define COSTS(rule, prompt, a, b, c, newline, d)                                                   \
    costs(rule, prompt, (const double[]){a, b, c, newline, d})

static void longer_costs_more(void **state) {
    (void)state;
    COSTS("dry", "", 0, 0, 0, 0, 0);
    COSTS("dry", "a", 0, 0, 0, 0, 0);
    COSTS("dry", "aba", 0, 0, 0, 0, 0); /* one token over again: below 2 */
    COSTS("dry", "abcab", 0, 0, 0.8, 0, 0);
    COSTS("dry", "babcbab", 0, 0, 0.8 * 1.75, 0, 0);
    COSTS("dry:multiplier=2,base=3", "bbabcbbab", 0, 0, 2 * 3 * 3, 0, 0);
    COSTS("dry:allowed_length=1", "aba", 0, 0.8, 0, 0, 0);
    COSTS("dry:allowed_length=3", "abcab", 0, 0, 0, 0, 0);
    COSTS("dry:multiplier=0", "abcab", 0, 0, 0, 0, 0);
}

static void the_longest_counts(void **state) {
    (void)state;
    /* c comes after ab and after ccab, and costs what the longer one says, once. */
    COSTS("dry", "abccabcccab", 0, 0, 0.8 * 1.75 * 1.75, 0, 0);
    COSTS("dry", "abcabaccab", 0.8 * 1.75, 0, 0.8, 0, 0);
    /* Repetitions may overlap: aaa is a repetition of itself one token on. */
    COSTS("dry", "aaa", 0.8, 0, 0, 0, 0);
    COSTS("dry", "aaaa", 0.8 * 1.75, 0, 0, 0, 0);
    COSTS("dry", "aabbb", 0, 0.8, 0, 0, 0);
    COSTS("dry:allowed_length=1", "abab", 0.8 * 1.75, 0, 0, 0, 0);
}

static void breakers(void **state) {
    (void)state;
    COSTS("dry", "a\nbca\nb", 0, 0, 0, 0, 0); /* no repetition reaches over it */
    COSTS("dry:allowed_length=1", "a\nbca\nb", 0, 0, 0.8, 0, 0);
    COSTS("dry", "ab\nab", 0, 0, 0, 0, 0); /* nor is it penalised */
    COSTS("dry", "abd:ab", 0, 0, 0, 0, 0); /* a token that contains one */
    COSTS("dry:breaker=b", "abcab", 0, 0, 0, 0, 0);
    COSTS("dry:breaker=b", "ac\nac", 0, 0, 0, 0.8, 0); /* newline is none then */
    COSTS("dry:allowed_length=1", "ab\n", 0, 0, 0, 0, 0);
}

static void what_it_looks_at(void **state) {
    (void)state;
    COSTS("dry:last=5", "abcab", 0, 0, 0.8, 0, 0);
    COSTS("dry:last=4", "abcab", 0, 0, 0, 0, 0);
    COSTS("dry:prompt=false", "abcab", 0, 0, 0, 0, 0);
}

/* A very long repetition: quick, and no overflow. */
static void without_bound(void **state) {
    (void)state;
    char prompt[4001];
    memset(prompt, 'a', 4000);
    prompt[4000] = 0;
    COSTS("dry", prompt, INFINITY, 0, 0, 0, 0);
    COSTS("dry:base=1", prompt, 0.8, 0, 0, 0, 0);
}

static void settings(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"multiplier", "-1"}, {"base", "0.9"}, {"allowed_length", "0"},
        {"last", "-1"},       {"prompt", "2"}, {"breakers", "x"},
    };
    for (int i = 0; i < COUNT(bad); i++) {
        retrace_rule *r = NULL;
        retrace_error err = {0};
        const char *pairs[] = {bad[i][0], bad[i][1], NULL};
        assert_int_equal(try_rule(&r, "dry", pairs, &err), RETRACE_EUSAGE);
        assert_non_null(strstr(err.msg, bad[i][0]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(longer_costs_more), cmocka_unit_test(the_longest_counts),
        cmocka_unit_test(breakers),          cmocka_unit_test(what_it_looks_at),
        cmocka_unit_test(without_bound),     cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
