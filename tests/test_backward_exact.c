/* test_backward_exact.c - mode exact draws from the posterior itself: chi-square against
 * enumeration.
 *
 * 20,000 draws of one object and draws over seeds, at temperatures .5, 1 and 2, of single tokens
 * and of whole texts; pairs of neighbouring samples, which must be independent. The exhaustive mode
 * takes the same tests: it tells whether the draw or the race is wrong. Seeds are fixed, so the
 * outcome is.
 *
 * That the tests can fail was seen by breaking the library: a race that ends when any candidate is
 * complete, keys that are the same for all samples, suffixes or steps, no temperature in the keys.
 * Each fails here. */
#include "helper.h"

#include "leaves.h"

#include <math.h>

enum { SAMPLES = 20000, SEEDS = 4000 };

/* Chi-square in standard deviations from what it should be; cells with less than 5 expected are put
 * together. */
static double deviation(const double *seen, const double *p, int n, double total) {
    double chi = 0, rest = 0, rest_seen = 0;
    int cells = -1;
    for (int i = 0; i < n; i++) {
        double e = p[i] * total;
        if (e < 5) {
            rest += e;
            rest_seen += seen[i];
            continue;
        }
        chi += (seen[i] - e) * (seen[i] - e) / e;
        cells++;
    }
    if (rest > 0) {
        chi += (rest_seen - rest) * (rest_seen - rest) / rest;
        cells++;
    }
    assert_true(cells > 1);
    return (chi - cells) / sqrt(2.0 * cells);
}

static void tempered(const world *w, const retrace_token *x, int n, double temp, double *p) {
    int keep[MOST_VOCAB + 1];
    long double sum = world_kept(w, x, n, temp, 1, keep);
    for (int v = 0; v <= w->vocab; v++) {
        long double score = world_score(w, v - 1, x, n);
        p[v] = score > 0 ? (double)(powl(score, 1 / (long double)temp) / sum) : 0;
    }
}

/* First tokens of all samples of an object: alone, and each with the next sample's. */
static int check_object(const world *w, const retrace_token *x, int n, int mode, double temp,
                        int pairs) {
    static double seen[MOST_VOCAB + 1], p[MOST_VOCAB + 1], both[1024], p_both[1024];
    int cells = w->vocab + 1, last = -1;
    retrace_backward_options o = law_options(mode, 1, SAMPLES);
    o.temp = temp;
    o.top = 1;
    o.budget = mode == RETRACE_EXACT ? 3 : 0; /* for Z; the draw must not mind */
    memset(seen, 0, sizeof seen);
    memset(both, 0, sizeof both);
    tempered(w, x, n, temp, p);
    retrace_backward *b = law_run(w, &o, x, n);
    for (int i = 0; i < SAMPLES; i++) {
        retrace_backward_sample s = law_sample(b, i);
        int v = 1 + s.steps[0].drawn.id;
        assert_true(s.steps[0].exact);
        seen[v]++;
        if (pairs && i % 2) both[last * cells + v]++;
        last = v;
    }
    retrace_backward_free(b);
    for (int i = 0; pairs && i < cells * cells; i++) p_both[i] = p[i / cells] * p[i % cells];
    double alone = deviation(seen, p, cells, SAMPLES);
    double two = pairs ? deviation(both, p_both, cells * cells, SAMPLES / 2) : 0;
    print_message("  mode %d, temp %.1f, %d tokens: %.2f, pairs %.2f\n", mode, temp, w->vocab,
                  alone, two);
    return alone > 3.5 || two > 3.5;
}

static int check_seeds(const world *w, const retrace_token *x, int n, double temp) {
    static double seen[MOST_VOCAB + 1], p[MOST_VOCAB + 1];
    memset(seen, 0, sizeof seen);
    tempered(w, x, n, temp, p);
    for (int seed = 1; seed <= SEEDS; seed++) {
        retrace_backward_options o = law_options(RETRACE_EXACT, 1, 1);
        o.temp = temp;
        o.top = 1;
        o.seed = seed;
        o.budget = 3;
        retrace_backward *b = law_run(w, &o, x, n);
        seen[1 + law_sample(b, 0).steps[0].drawn.id]++;
        retrace_backward_free(b);
    }
    double alone = deviation(seen, p, w->vocab + 1, SEEDS);
    print_message("  over seeds, temp %.1f: %.2f\n", temp, alone);
    return alone > 3.5;
}

static void draws_follow_the_posterior(void **state) {
    (void)state;
    static const double temps[] = {.5, 1, 2};
    static const world_shape shapes[] = {
        {.vocab = 9, .order = 3, .ends = 1, .anchor = 1, .spread = 3},
        {.vocab = 24, .order = 2, .ends = 1, .controls = 2, .zeros = 20, .spread = 5},
    };
    int wrong = 0;
    for (int i = 0; i < COUNT(shapes); i++) {
        world w;
        retrace_token x[4];
        uint64_t chance = (uint64_t)i;
        world_random(&w, &shapes[i], 50 + (uint64_t)i);
        assert_true(world_suffix(&w, &chance, 4, x));
        for (int k = 0; k < COUNT(temps); k++) {
            wrong += check_object(&w, x, 4, RETRACE_EXACT, temps[k], i == 0);
            wrong += check_object(&w, x, 4, RETRACE_EXHAUSTIVE, temps[k], i == 0);
            wrong += check_seeds(&w, x, 4, temps[k]);
        }
        world_close(&w);
    }
    if (wrong) fail_msg("%d laws differ", wrong);
}

/* Three tokens before a suffix, or fewer and the start. */
static void texts_follow_the_product(void **state) {
    (void)state;
    static leaves l;
    static double p[MOST_LEAVES];
    static const int modes[] = {RETRACE_EXACT, RETRACE_EXHAUSTIVE};
    world w;
    world_shape shape = {.vocab = 6, .order = 3, .ends = 1, .anchor = 1, .spread = 3};
    uint64_t chance = 2;
    retrace_token x[2];
    world_random(&w, &shape, 60);
    assert_true(world_suffix(&w, &chance, 2, x));
    for (int k = 0; k < COUNT(modes); k++) {
        leaves_of(&l, &w, 3, x, 2);
        for (int i = 0; i < l.n; i++) p[i] = (double)l.q[i];
        retrace_backward_options o = law_options(modes[k], 3, SAMPLES);
        o.top = 1;
        o.budget = modes[k] == RETRACE_EXACT ? 2 : 0;
        retrace_backward *b = law_run(&w, &o, x, 2);
        for (int i = 0; i < SAMPLES; i++) {
            retrace_backward_sample s = law_sample(b, i);
            leaves_count(&l, x, &s);
        }
        double off = deviation(l.seen, p, l.n, SAMPLES);
        print_message("  mode %d: %d texts, %.2f\n", modes[k], l.n, off);
        assert_true(off < 3.5);
        retrace_backward_free(b);
    }
    world_close(&w);
}

/* A suffix that follows almost surely once it has begun: the first factor says nearly all, and few
 * candidates are looked at any further. Rows of 5, 6, 7 lead on to 6, 7, 8. */
static void the_race_saves_work(void **state) {
    (void)state;
    world w;
    uint64_t chance = 3;
    world_begin(&w, 200);
    for (retrace_token v = -1; v < 200; v++) {
        double *row = world_row_of(&w, &v, v < 0 ? 0 : 1);
        for (int k = 0; k < 200; k++) row[k] = 1 + floor(exp(roll_from(&chance, 1000) / 125.0));
        if (v >= 5 && v < 8) row[v + 1] = 1e8;
    }
    world_open(&w);
    world_chain(&w, NULL, 0);
    const retrace_token x[] = {5, 6, 7, 8};
    int64_t rows[2];
    for (int k = 0; k < 2; k++) {
        retrace_backward_options o = law_options(k ? RETRACE_EXACT : RETRACE_EXHAUSTIVE, 1, 1);
        o.budget = k ? 8 : 0;
        o.batch_size = 1;
        retrace_backward *b = law_run(&w, &o, x, 4);
        retrace_backward_stats stats;
        retrace_backward_totals(b, &stats);
        rows[k] = stats.evaluated;
        retrace_backward_free(b);
    }
    print_message("  rows: exhaustive %d, exact %d\n", (int)rows[0], (int)rows[1]);
    assert_true(rows[1] < rows[0] / 2);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_posterior),
        cmocka_unit_test(texts_follow_the_product),
        cmocka_unit_test(the_race_saves_work),
    };
    return cmocka_run_group_tests_name("backward exact", tests, NULL, NULL);
}
