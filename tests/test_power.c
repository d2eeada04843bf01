/* test_power.c - the stationary law of large chains, from products with them: against the direct
 * solution and against plain iteration.
 *
 * What is claimed of each pass (mass 1, nothing negative, the change) is computed again in double.
 * Chains that mix badly or not at all must settle too. */
#include "helper.h"

#include <math.h>

#include "backward/power.h"
#include "backward/stationary.h"

static uint64_t state = 11;

static int roll(int n) {
    return roll_from(&state, n);
}

static double uniform(void) {
    return (roll(1 << 20) + 0.5) / (1 << 20);
}

static void *room(size_t bytes) {
    void *p = retrace_alloc(bytes);
    assert_non_null(p);
    return p;
}

static int same(double a, double b, double within) {
    return a == b || fabs(a - b) <= within;
}

/* A chain as logits, and what it settles to. */
typedef struct large {
    int n;
    float *logits;
    double *p; /* normalised */
    double *pi, *log_norm;
} large;

/* Rows like a language model's: a law of all, falling like one over the rank, and a few favourites
 * of each row, the stronger the lower `heat`. */
static large make_large(int n, double heat) {
    size_t all = (size_t)n * (size_t)n;
    large c = {n, room(all * sizeof(float)), room(all * sizeof(double)),
               room((size_t)n * sizeof(double)), room((size_t)n * sizeof(double))};
    for (int v = 0; v < n; v++) {
        float *x = c.logits + (size_t)v * (size_t)n;
        for (int w = 0; w < n; w++) x[w] = (float)(-1.1 * log(1 + w) + uniform() * 2);
        for (int k = 0; k < 12; k++) x[roll(n)] += (float)(log(n) / heat * uniform());
        x[(v + 1) % n] += (float)(log(n) / heat);
    }
    return c;
}

static void solve_large(large *c) {
    size_t n = (size_t)c->n;
    for (size_t v = 0; v < n; v++) {
        double sum = 0;
        for (size_t w = 0; w < n; w++) sum += c->p[v * n + w] = exp((double)c->logits[v * n + w]);
        for (size_t w = 0; w < n; w++) c->p[v * n + w] /= sum;
    }
    retrace_error err = {0};
    if (rt_stationary(c->p, c->n, c->p, c->pi, &err)) fail_msg("%s", err.msg);
}

static void free_large(large *c) {
    retrace_free(c->logits);
    retrace_free(c->p);
    retrace_free(c->pi);
    retrace_free(c->log_norm);
}

static double distance(const double *a, const double *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += fabs(a[i] - b[i]);
    return sum;
}

/* The L1 distance of pi and pi P in double. */
static double moves(const large *c, const double *pi) {
    double *image = calloc((size_t)c->n, sizeof *image);
    for (int v = 0; v < c->n; v++) {
        for (int w = 0; w < c->n; w++)
            image[w] += pi[v] * c->p[(size_t)v * (size_t)c->n + (size_t)w];
    }
    double sum = distance(image, pi, c->n);
    free(image);
    return sum;
}

static double one_pass(rt_power *p, large *c, int first) {
    double change;
    retrace_error err = {0};
    rt_power_begin(p, first);
    for (int at = 0, block = 50; at < c->n; at += block) {
        int rows = c->n - at < block ? c->n - at : block;
        if (rt_power_rows(p, at, rows, c->logits + (size_t)at * (size_t)c->n, c->log_norm + at,
                          &err))
            fail_msg("%s", err.msg);
    }
    if (rt_power_end(p, &change, &err)) fail_msg("%s", err.msg);
    return change;
}

/* How many passes bring the change below 1e-6; checks what is claimed of each. *rate: what plain
 * iteration is said to shrink it by. */
static int iterate(large *c, int keep, int most, double *last, double *rate) {
    rt_power *p = NULL;
    double *before = room((size_t)c->n * sizeof *before), change = 1;
    int pass = 0;
    assert_int_equal(rt_power_new(&p, c->n, keep, NULL), RETRACE_OK);
    while (change >= 1e-6) {
        if (pass == most) fail_msg("after %d passes the change is %g", pass, change);
        memcpy(before, rt_power_pi(p), (size_t)c->n * sizeof *before);
        double mass = 0;
        for (int i = 0; i < c->n; i++) {
            assert_true(before[i] >= 0);
            mass += before[i];
        }
        assert_true(same(mass, 1, 1e-12));
        change = one_pass(p, c, pass++ == 0);
        assert_true(same(change, moves(c, before), 1e-6 * change + 2e-7));
    }
    memcpy(last, before, (size_t)c->n * sizeof *before);
    *rate = rt_power_rate(p);
    assert_true(*rate >= 0 && *rate < 1);
    retrace_free(before);
    rt_power_free(p);
    return pass;
}

static int iterate_plainly(const large *c, double *rate) {
    size_t n = (size_t)c->n;
    double *pi = calloc(n, sizeof *pi), *next = calloc(n, sizeof *next), change = 1;
    int pass = 0;
    for (size_t i = 0; i < n; i++) pi[i] = 1.0 / c->n;
    for (; change >= 1e-6 && pass < 1000; pass++) {
        memset(next, 0, n * sizeof *next);
        for (size_t v = 0; v < n; v++)
            for (size_t w = 0; w < n; w++) next[w] += pi[v] * c->p[v * n + w];
        double before = change;
        change = distance(next, pi, c->n);
        *rate = change / before;
        memcpy(pi, next, n * sizeof *next);
    }
    free(pi);
    free(next);
    return pass;
}

static void few_passes_are_enough(void **unused) {
    (void)unused;
    static const double heat[] = {3, 1.5, 1, 0.6};
    for (int i = 0; i < COUNT(heat); i++) {
        large c = make_large(900, heat[i]);
        double *pi = room((size_t)c.n * sizeof *pi);
        solve_large(&c);
        double seen, said;
        int plain_ones = iterate_plainly(&c, &seen), passes = iterate(&c, 16, 40, pi, &said);
        double off = distance(pi, c.pi, c.n);
        print_message(
            "  plain %d, with the truncated chain %d; off by %.2g; rate %.2f, said %.2f\n",
            plain_ones, passes, off, seen, said);
        assert_true(same(seen, said, 0.1));
        assert_true(off < 1e-5);
        assert_true(passes <= 5 && plain_ones >= 2 * passes);
        retrace_free(pi);
        free_large(&c);
    }
}

/* Beside the entries that are kept all rows have the same tail: then the truncated chain is the
 * chain, and one correction is enough. */
static void equal_tails_need_one_correction(void **unused) {
    (void)unused;
    enum { N = 200, HEAD = 20, KEEP = 4 };
    large c = make_large(N, 1);
    double *pi = room(N * sizeof *pi);
    for (int v = 0; v < N; v++) {
        float *x = c.logits + v * N;
        for (int w = 0; w < N; w++) x[w] = w < HEAD ? -INFINITY : (float)(-0.1 * (w % 50));
        for (int k = 0; k < KEEP; k++)
            x[(v * 7 + k * k * (1 + v % 3)) % HEAD] = (float)(2 + uniform());
    }
    solve_large(&c);
    double rate;
    assert_true(iterate_plainly(&c, &rate) > 6);
    assert_int_equal(iterate(&c, KEEP, 9, pi, &rate), 2);
    assert_true(distance(pi, c.pi, N) < 1e-6);
    retrace_free(pi);
    free_large(&c);
}

/* Groups that hardly leave, rounds, few states, one entry kept, rows with zeros: it may take
 * longer, but it comes to an end, and to the right one. */
static void make_hard(large *c, int kind) {
    for (int v = 0; v < c->n; v++) {
        float *x = c->logits + (size_t)v * (size_t)c->n;
        for (int w = 0; w < c->n; w++) {
            double far = (w < c->n / 3) != (v < c->n / 3) ? 5 + kind : 0;
            x[w] = (float)(2 * uniform() - (kind < 4 ? far : 0));
            if ((kind == 4 || kind == 5) && w % 2 == v % 2) x[w] = kind == 4 ? x[w] - 6 : -INFINITY;
            if (kind == 6 && w != (v + 1) % c->n) x[w] = -INFINITY;
            if (kind == 7 && w != (v + 1) % c->n && w != (v + 7) % c->n) x[w] = -INFINITY;
            if (kind == 8 && w >= c->n / 2) x[w] = -INFINITY; /* left for good */
        }
    }
}

static void hard_chains_settle_too(void **unused) {
    (void)unused;
    for (int round = 0; round < 135; round++) {
        int kind = round % 9, n = kind == 7 ? 51 : 2 * (1 + roll(30)), keep = 1 + roll(4);
        large c = make_large(n, 1);
        double *pi = room((size_t)n * sizeof *pi), rate;
        make_hard(&c, kind);
        solve_large(&c);
        int passes = iterate(&c, keep, 60, pi, &rate);
        if (distance(pi, c.pi, n) > 2e-3)
            fail_msg("kind %d, n %d: off by %g after %d passes", kind, n, distance(pi, c.pi, n),
                     passes);
        retrace_free(pi);
        free_large(&c);
    }
}

/* One step of the chain in double. */
static void step(const large *c, const double *pi, double *out) {
    for (int w = 0; w < c->n; w++) {
        out[w] = 0;
        for (int v = 0; v < c->n; v++) out[w] += pi[v] * c->p[(size_t)v * (size_t)c->n + (size_t)w];
    }
}

/* Here what a correction led to is spoilt from outside: the next pass must take that back, to one
 * plain step from the last good pi, and go on with half steps, one at first and twice as many each
 * time. Then corrections are tried again. */
static void what_makes_it_worse_is_taken_back(void **unused) {
    (void)unused;
    enum { N = 60 };
    large c = make_large(N, 1);
    rt_power *p = NULL;
    double good[N], right[N], *pi;
    solve_large(&c);
    assert_int_equal(rt_power_new(&p, N, 2, NULL), RETRACE_OK);
    pi = rt_power_pi(p);
    double change = one_pass(p, &c, 1);
    for (int steps = 1; steps <= 4; steps *= 2) {
        memcpy(good, pi, sizeof good);
        double before = one_pass(p, &c, 0);
        assert_true(before <= change);
        for (int i = 0; i < N; i++) pi[i] = i == 7;
        change = one_pass(p, &c, 0);
        assert_true(change > before);
        step(&c, good, right);
        assert_true(distance(pi, right, N) < 1e-6);
        for (int k = 0; k < steps; k++) {
            memcpy(good, pi, sizeof good);
            change = one_pass(p, &c, 0);
            assert_true(change <= before + 1e-7);
            step(&c, good, right);
            for (int i = 0; i < N; i++) right[i] = (right[i] + good[i]) / 2;
            assert_true(distance(pi, right, N) < 1e-6);
        }
        memcpy(good, pi, sizeof good);
        change = one_pass(p, &c, 0);
        step(&c, good, right);
        for (int i = 0; i < N; i++) right[i] = (right[i] + good[i]) / 2;
        assert_true(distance(pi, right, N) > 1e-5);
    }
    rt_power_free(p);
    free_large(&c);
}

/* Memories that make no sense lead far astray, but never to what is no law. */
static void a_law_stays_a_law(void **unused) {
    (void)unused;
    enum { N = 60 };
    for (int round = 0; round < 20; round++) {
        large c = make_large(N, 1);
        rt_power *p = NULL;
        size_t n;
        assert_int_equal(rt_power_new(&p, N, 2, NULL), RETRACE_OK);
        double change = 1, *state_p = rt_power_state(p, &n);
        for (int pass = 0; pass < 3; pass++) change = one_pass(p, &c, pass == 0);
        for (int i = 2 * N; i < 8 * N; i++) state_p[i] += 0.3 * uniform() - 0.15;
        for (int pass = 0; pass < 30 && (pass < 4 || change >= 1e-6); pass++) {
            double mass = 0;
            change = one_pass(p, &c, 0);
            for (int i = 0; i < N; i++) {
                assert_true(rt_power_pi(p)[i] >= 0);
                mass += rt_power_pi(p)[i];
            }
            assert_true(same(mass, 1, 1e-12));
        }
        assert_true(change < 1e-6);
        rt_power_free(p);
        free_large(&c);
    }
}

static void a_kept_state_leads_on_to_the_same_bits(void **unused) {
    (void)unused;
    large c = make_large(300, 2);
    rt_power *a = NULL, *b = NULL;
    size_t n, m;
    assert_int_equal(rt_power_new(&a, c.n, 8, NULL), RETRACE_OK);
    for (int pass = 0; pass < 9; pass++) {
        double *state_a = rt_power_state(a, &n);
        assert_ptr_equal(state_a, rt_power_pi(a));
        rt_power_free(b);
        assert_int_equal(rt_power_new(&b, c.n, 8, NULL), RETRACE_OK);
        double *state_b = rt_power_state(b, &m);
        assert_true(m == n);
        memcpy(state_b, state_a, n * sizeof *state_a);
        memset(c.log_norm, 0, (size_t)c.n * sizeof *c.log_norm);
        double change = one_pass(b, &c, 1);
        assert_true(change == one_pass(a, &c, pass == 0));
        assert_memory_equal(state_a, state_b, n * sizeof *state_a);
    }
    rt_power_free(a);
    rt_power_free(b);
    free_large(&c);
}

/* Rows kept one by one, columns added in uneven pieces. */
static double pass_in_pieces(rt_power *p, large *c, int first) {
    double change;
    rt_power_begin(p, first);
    for (int at = 0; at < c->n; at += 50) {
        const float *x = c->logits + (size_t)at * (size_t)c->n;
        int rows = c->n - at < 50 ? c->n - at : 50;
        for (int i = rows - 1; i >= 0; i--)
            assert_int_equal(rt_power_keep(p, at + i, 1, x + (size_t)i * (size_t)c->n,
                                           c->log_norm + at + i, NULL),
                             RETRACE_OK);
        for (int w = 0, n; w < c->n; w += n) {
            n = 1 + roll(c->n - w);
            rt_power_add(p, at, rows, x, c->log_norm + at, w, n);
        }
    }
    assert_int_equal(rt_power_end(p, &change, NULL), RETRACE_OK);
    return change;
}

static void pieces_give_the_same_bits(void **unused) {
    (void)unused;
    large c = make_large(301, 2);
    rt_power *a = NULL, *b = NULL;
    assert_int_equal(rt_power_new(&a, c.n, 8, NULL), RETRACE_OK);
    assert_int_equal(rt_power_new(&b, c.n, 8, NULL), RETRACE_OK);
    for (int pass = 0; pass < 5; pass++) {
        double change = one_pass(a, &c, pass == 0);
        assert_true(change == pass_in_pieces(b, &c, pass == 0));
        assert_memory_equal(rt_power_pi(a), rt_power_pi(b), (size_t)c.n * sizeof(double));
    }
    rt_power_free(a);
    rt_power_free(b);
    free_large(&c);
}

static void rows_without_a_law_are_refused(void **unused) {
    (void)unused;
    static const float bad[] = {NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        float x[4] = {0, 1, 2, 3};
        double norm[2];
        retrace_error err = {0};
        rt_power *p = NULL;
        assert_int_equal(rt_power_new(&p, 2, 2, &err), RETRACE_OK);
        x[2] = i < 2 ? bad[i] : -INFINITY;
        if (i == 2) x[3] = -INFINITY;
        rt_power_begin(p, 1);
        assert_int_equal(rt_power_rows(p, 0, 2, x, norm, &err), RETRACE_EMODEL);
        assert_string_equal(err.msg, "row 1 of the chain is no distribution");
        rt_power_free(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_passes_are_enough),
        cmocka_unit_test(hard_chains_settle_too),
        cmocka_unit_test(what_makes_it_worse_is_taken_back),
        cmocka_unit_test(equal_tails_need_one_correction),
        cmocka_unit_test(a_law_stays_a_law),
        cmocka_unit_test(a_kept_state_leads_on_to_the_same_bits),
        cmocka_unit_test(pieces_give_the_same_bits),
        cmocka_unit_test(rows_without_a_law_are_refused),
    };
    return cmocka_run_group_tests_name("power", tests, NULL, NULL);
}
