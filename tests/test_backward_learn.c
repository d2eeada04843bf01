/* test_backward_learn.c - which tokens are alike, what is learned from some about all, and that the
 * default proposal gains by it.
 *
 * The regression is held against its formulas, written a second time with Gaussian elimination and
 * in long double. Where a chain has no more tokens than there are features nothing is cut off, so
 * their products must be the cosines of the centred states. And in a world whose tokens come in
 * classes the rounds must find the class that matters. */
#include "helper.h"

#include "enumerate.h"

#include <math.h>

#include "backward/learn.h"

enum { ROWS = 90, KNOWN = 70 };

/* ==== The regression ==== */

static double chance(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

static void random_features(float *f, int rows, uint64_t seed) {
    for (int v = 0; v < rows; v++) {
        double sum = 0, x[RT_FEATURES];
        for (int k = 0; k < RT_FEATURES; k++) {
            x[k] = (chance(&seed) - .5) * (k < 6 ? 4 : .3);
            sum += x[k] * x[k];
        }
        for (int k = 0; k < RT_FEATURES; k++)
            f[(size_t)v * RT_FEATURES + (size_t)k] = (float)(x[k] / sqrt(sum));
    }
}

static long double cosine(const float *f, int a, int b) {
    long double sum = 0;
    for (int k = 0; k < RT_FEATURES; k++)
        sum += (long double)f[a * RT_FEATURES + k] * (long double)f[b * RT_FEATURES + k];
    return sum;
}

static long double kernel(long double c) {
    return 1 / ((1 + (1 - c) / 2) * (1 + (1 - c) / 2));
}

/* x becomes m^-1 x, by elimination with pivots; m is destroyed. */
static void eliminate(long double *m, long double *x, int n) {
    for (int c = 0; c < n; c++) {
        int best = c;
        for (int r = c; r < n; r++)
            if (fabsl(m[r * n + c]) > fabsl(m[best * n + c])) best = r;
        for (int k = 0; k < n; k++) {
            long double y = m[c * n + k];
            m[c * n + k] = m[best * n + k];
            m[best * n + k] = y;
        }
        long double y = x[c];
        x[c] = x[best];
        x[best] = y;
        for (int r = 0; r < n; r++) {
            long double by = r == c ? 0 : m[r * n + c] / m[c * n + c];
            for (int k = c; k < n; k++) m[r * n + k] -= by * m[c * n + k];
            x[r] -= by * x[c];
        }
    }
    for (int c = 0; c < n; c++) x[c] /= m[c * n + c];
}

static void by_formula(const rt_lesson *l, long double *guess, long double *spread) {
    static long double m[KNOWN * KNOWN], a[KNOWN], one[KNOWN];
    int n = l->n;
    for (int pass = 0; pass < 2; pass++) {
        long double *x = pass ? one : a;
        for (int i = 0; i < n; i++) {
            x[i] = pass ? 1 : (long double)l->y[i];
            for (int j = 0; j < n; j++)
                m[i * n + j] =
                    kernel(cosine(l->features, l->index[i], l->index[j])) + (i == j ? 0.2L : 0);
        }
        eliminate(m, x, n);
    }
    long double above = 0, below = 0, scale = 0;
    for (int i = 0; i < n; i++) {
        above += a[i];
        below += one[i];
    }
    for (int i = 0; i < n; i++) {
        a[i] -= above / below * one[i];
        scale += a[i] * ((long double)l->y[i] - above / below) / n;
    }
    for (int v = 0; v < l->rows; v++) {
        long double nearest = -1;
        guess[v] = 0;
        for (int i = 0; i < n; i++) {
            long double c = cosine(l->features, v, l->index[i]);
            guess[v] += kernel(c) * a[i];
            nearest = fmaxl(nearest, c);
        }
        spread[v] = scale * (1 - kernel(nearest) * kernel(nearest) / 1.2L);
    }
}

static void guesses_follow_the_formula(void **state) {
    (void)state;
    static float features[ROWS * RT_FEATURES];
    static long double guess[ROWS], spread[ROWS];
    static const int sizes[] = {1, 2, 3, 63, 64, 65, KNOWN};
    for (int t = 0; t < COUNT(sizes); t++) {
        uint64_t seed = (uint64_t)t + 1;
        int index[KNOWN];
        double y[KNOWN], found[ROWS], about[ROWS], most = 0;
        random_features(features, ROWS, seed);
        for (int i = 0; i < sizes[t]; i++) {
            index[i] = (i * 7 + 3) % ROWS;
            y[i] = 6 * chance(&seed) - 20;
        }
        rt_lesson l = {features, ROWS, index, y, sizes[t]};
        retrace_error err;
        assert_int_equal(rt_learn(&l, found, about, &err), RETRACE_OK);
        by_formula(&l, guess, spread);
        for (int v = 0; v < ROWS; v++) {
            most = fmax(most, fabs(found[v] - (double)guess[v]));
            most = fmax(most, fabs(about[v] - (double)spread[v]));
        }
        print_message("  %d known: off by %.1e at most\n", sizes[t], most);
        assert_true(most < 2e-4);
    }
}

/* ==== Features ==== */

/* The cosine of two tokens' centred states: the square roots of their rows. */
static void features_keep_the_cosines(void **state) {
    (void)state;
    static long double x[40][40];
    world w;
    world_shape shape = {.vocab = 40, .order = 1, .ends = 1, .spread = 4};
    world_random(&w, &shape, 5);
    const float *f, *again;
    retrace_error err;
    assert_int_equal(rt_features(w.chain, &f, &err), RETRACE_OK);
    assert_int_equal(rt_features(w.chain, &again, &err), RETRACE_OK);
    assert_ptr_equal(f, again);
    for (int v = 0; v < 40; v++)
        for (int k = 0; k < 40; k++) x[v][k] = sqrtl(world_step(&w, v, k));
    for (int k = 0; k < 40; k++) {
        long double mean = 0;
        for (int v = 0; v < 40; v++) mean += x[v][k] / 40;
        for (int v = 0; v < 40; v++) x[v][k] -= mean;
    }
    double most = 0;
    for (int a = 0; a < 40; a++) {
        for (int b = 0; b <= a; b++) {
            long double ab = 0, aa = 0, bb = 0;
            for (int k = 0; k < 40; k++) {
                ab += x[a][k] * x[b][k];
                aa += x[a][k] * x[a][k];
                bb += x[b][k] * x[b][k];
            }
            most = fmax(most, fabs((double)(ab / sqrtl(aa * bb) - cosine(f, a, b))));
        }
    }
    print_message("  off by %.1e at most\n", most);
    assert_true(most < 1e-4);
    world_close(&w);
}

/* More tokens than features: what is kept are the directions in which tokens differ most. Eight
 * classes far apart must stay apart. */
static void features_keep_what_differs_most(void **state) {
    (void)state;
    world w;
    uint64_t seed = 3;
    double same = 1, other = -1;
    world_begin(&w, 120);
    double *row = world_row_of(&w, NULL, 0);
    for (int k = 0; k < 120; k++) row[k] = 1;
    for (retrace_token v = 0; v < 120; v++) {
        row = world_row_of(&w, &v, 1);
        for (int k = 0; k < 120; k++) row[k] = ceil((k % 8 == v % 8 ? 60 : 4) + 8 * chance(&seed));
    }
    world_open(&w);
    world_chain(&w, NULL, 0);
    const float *f;
    retrace_error err;
    assert_int_equal(rt_features(w.chain, &f, &err), RETRACE_OK);
    for (int a = 0; a < 120; a++) {
        assert_true(fabsl(cosine(f, a, a) - 1) < 1e-5L);
        for (int b = 0; b < a; b++) {
            double c = (double)cosine(f, a, b);
            if (a % 8 == b % 8)
                same = fmin(same, c);
            else
                other = fmax(other, c);
        }
    }
    print_message("  cosine in a class at least %.3f, else at most %.3f\n", same, other);
    assert_true(same > .8 && other < .1);
    world_close(&w);
}

/* ==== What rounds are for ==== */

/* Tokens of one class of five are worth much more before "0 1" than the chain tells. */
static void classes(world *w) {
    uint64_t seed = 11;
    world_begin(w, 200);
    double *row = world_row_of(w, NULL, 0);
    for (int k = 0; k < 200; k++) row[k] = 1;
    for (retrace_token v = 0; v < 200; v++) {
        const retrace_token context[] = {v, 0};
        row = world_row_of(w, &v, 1);
        for (int k = 0; k < 200; k++) row[k] = ceil((k % 5 == v % 5 ? 90 : 9) + 9 * chance(&seed));
        row[0] = 40;
        row = world_row_of(w, context, 2);
        for (int k = 0; k < 200; k++) row[k] = 2;
        row[1] = ceil((v % 5 == 3 ? 4000 : 1) * (1 + chance(&seed)));
    }
    world_open(w);
    world_chain(w, NULL, 0);
}

static double error_of(const world *w, int heuristic) {
    enum { SEEDS = 150 };
    const retrace_token x[] = {0, 1};
    double z = (double)world_z(w, x, 2), sum = 0;
    for (int seed = 1; seed <= SEEDS; seed++) {
        retrace_backward_options o = law_options(RETRACE_PRIORITY, 1, 1);
        o.heuristic = heuristic;
        o.budget = 60;
        o.seed = seed;
        o.top = 0;
        retrace_backward *b = law_run(w, &o, x, 2);
        sum += pow(exp(law_sample(b, 0).steps[0].log_z) / z - 1, 2) / SEEDS;
        retrace_backward_free(b);
    }
    return sqrt(sum);
}

static void rounds_find_what_the_chain_does_not_tell(void **state) {
    (void)state;
    world w;
    classes(&w);
    double plain = error_of(&w, RETRACE_BIGRAM), learned = error_of(&w, RETRACE_MIXED);
    print_message("  error of Z %.1f %% by b, %.1f %% by what was learned\n", 100 * plain,
                  100 * learned);
    assert_true(learned < .5 * plain);
    world_close(&w);
}

/* In rounds what is evaluated depends on earlier scores; but not on how they were asked for. */
static void batches_change_nothing_in_rounds(void **state) {
    (void)state;
    static const int batches[] = {1, 3, 7, 256};
    for (int i = 0; i < 12; i++) {
        world w;
        world_shape shape = {.vocab = 50, .order = 2, .ends = 1, .anchor = i % 2, .spread = 4};
        retrace_token x[3];
        uint64_t chance = (uint64_t)i;
        world_random(&w, &shape, 40 + (uint64_t)i);
        assert_true(world_suffix(&w, &chance, 3, x));
        retrace_backward_options o = law_options(i % 3 ? RETRACE_PRIORITY : RETRACE_EXACT, 3, 7);
        o.heuristic = RETRACE_MIXED;
        o.seed = i;
        o.budget = 25 + i;
        law_assert_batches(&w, &o, x, 3, batches, COUNT(batches));
        world_close(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guesses_follow_the_formula),
        cmocka_unit_test(features_keep_the_cosines),
        cmocka_unit_test(features_keep_what_differs_most),
        cmocka_unit_test(rounds_find_what_the_chain_does_not_tell),
        cmocka_unit_test(batches_change_nothing_in_rounds),
    };
    return cmocka_run_group_tests_name("backward learn", tests, NULL, NULL);
}
