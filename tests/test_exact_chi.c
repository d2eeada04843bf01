/* test_exact_chi.c - resample exact on texts too many to walk: 20,000 seeded runs of 12 tokens.
 *
 * A phrase and a pattern that look at the last three letters at most: so the law of what is
 * accepted follows from sums over the last two letters, computed here without the library. Runs are
 * counted by first letter and length; chi-square must be small. Local resampling, which draws from
 * another law, must fail the same test. Seeds are fixed, so the outcome is. */
#include "helper.h"

#include <math.h>

enum { RUNS = 20000, LONGEST = 12, LETTERS = 4, NONE = LETTERS, CELLS = LETTERS * (LONGEST + 1) };

/* Weights after each letter and at the start; the last one ends the answer. */
static const double weights[LETTERS + 1][LETTERS + 1] = {
    {20, 40, 25, 10, 5}, {35, 10, 30, 15, 10}, {30, 30, 10, 25, 5},
    {25, 15, 45, 5, 10}, {30, 25, 25, 20, 0},
};

static double probability(int last, int next) {
    double total = 0;
    for (int i = 0; i <= LETTERS; i++) total += weights[last][i];
    return weights[last][next] / total;
}

/* Bans: the text "ab", and the pattern "c.c". */
static int banned(int before, int last, int next) {
    return (last == 0 && next == 1) || (before == 2 && last != NONE && next == 2);
}

static retrace_model *model(void) {
    char json[2048];
    size_t n = (size_t)snprintf(json, sizeof json,
                                "{\"tokens\": [\"a\", \"b\", \"c\", \"d\", {\"text\": \"</s>\", "
                                "\"end\": true}], \"rows\": [");
    for (int i = 0; i <= LETTERS; i++) {
        char context[4] = "";
        if (i < LETTERS) snprintf(context, sizeof context, "%d", i);
        n += (size_t)snprintf(json + n, sizeof json - n, "%s{\"context\": [%s], \"next\": {",
                              i ? ", " : "", context);
        for (int k = 0; k <= LETTERS; k++)
            n += (size_t)snprintf(json + n, sizeof json - n, "%s\"%d\": %.1f", k ? ", " : "", k,
                                  weights[i][k]);
        n += (size_t)snprintf(json + n, sizeof json - n, "}}");
    }
    snprintf(json + n, sizeof json - n, "]}");
    return open_table(json);
}

/* Adds the accepted texts that begin with `first` to their cells, by length. */
static void accepted(int first, double cell[CELLS]) {
    double mass[LETTERS + 1][LETTERS] = {{0}};
    mass[NONE][first] = probability(NONE, first);
    for (int n = 1; n <= LONGEST; n++) {
        double next[LETTERS + 1][LETTERS] = {{0}};
        for (int before = 0; before <= LETTERS; before++) {
            for (int last = 0; last < LETTERS; last++) {
                double m = mass[before][last];
                cell[first * (LONGEST + 1) + n] +=
                    m * (n == LONGEST ? 1 : probability(last, LETTERS));
                for (int k = 0; k < LETTERS; k++)
                    if (!banned(before, last, k)) next[last][k] += m * probability(last, k);
            }
        }
        memcpy(mass, next, sizeof mass);
    }
}

/* Runs with seeds 1, 2, ...; how often each cell was met. */
static void count(int resample, double cell[CELLS]) {
    static answer a;
    retrace_model *m = model();
    const char *pattern[] = {"pattern", "c.c", NULL};
    retrace_rule *rules[] = {ban_rule("ab", NULL), make_rule("regex", pattern)};
    retrace_options o = plain_options(LONGEST);
    o.hold = RETRACE_HOLD_ALL;
    o.resample = resample;
    o.max_evaluated = 1000000;
    o.rules = rules;
    o.n_rules = COUNT(rules);
    for (int i = 1; i <= RUNS; i++) {
        o.seed = i;
        finish_tokens(&a, m, &o, NULL, 0);
        assert_true(a.finish == RETRACE_FINISH_END || a.finish == RETRACE_FINISH_LENGTH);
        assert_true(a.n_text > 0);
        cell[(a.text[0] - 'a') * (LONGEST + 1) + (int)a.n_text]++;
    }
    for (int i = 0; i < COUNT(rules); i++) retrace_rule_free(rules[i]);
    retrace_model_close(m);
}

/* Cells with less than 5 expected are put together. Returns chi-square, in standard deviations from
 * what it should be. */
static double deviation(const double expected[CELLS], const double got[CELLS]) {
    double total = 0, chi = 0, rest = 0, rest_got = 0;
    int cells = 0;
    for (int i = 0; i < CELLS; i++) total += expected[i];
    for (int i = 0; i < CELLS; i++) {
        double e = expected[i] / total * RUNS;
        if (e < 5) {
            rest += e;
            rest_got += got[i];
            continue;
        }
        chi += (got[i] - e) * (got[i] - e) / e;
        cells++;
    }
    if (rest > 0) {
        chi += (rest_got - rest) * (rest_got - rest) / rest;
        cells++;
    }
    assert_true(cells > 30);
    return (chi - (cells - 1)) / sqrt(2.0 * (cells - 1));
}

static void long_texts_have_the_base_law(void **state) {
    (void)state;
    double expected[CELLS] = {0}, exact[CELLS] = {0}, local[CELLS] = {0};
    for (int i = 0; i < LETTERS; i++) accepted(i, expected);
    count(RETRACE_RESAMPLE_EXACT, exact);
    count(RETRACE_RESAMPLE_LOCAL, local);
    double good = deviation(expected, exact), bad = deviation(expected, local);
    print_message("chi-square, in deviations: exact %.2f, local %.2f\n", good, bad);
    assert_true(good < 3);
    assert_true(bad > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(long_texts_have_the_base_law)};
    return cmocka_run_group_tests_name("exact", tests, NULL, NULL);
}
