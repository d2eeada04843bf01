/* test_stationary.c - the law that a chain settles to, against an independent solution.
 *
 * The long-run frequency pi of a chain P that begins with law f is the one vector with pi = pi P
 * for which f - pi = y (I - P) has a solution y. These 2n equations know nothing of classes or
 * periods; here they are solved in long double with complete pivoting. Chains with known laws come
 * besides, among them laws that span hundreds of powers of ten, where every digit must be right. */
#include "helper.h"

#include <math.h>

#include "backward/stationary.h"

enum { MOST = 60, UNKNOWNS = 2 * MOST };

static uint64_t state = 1;

static int roll(int n) {
    return roll_from(&state, n);
}

static double uniform(void) {
    return (roll(1 << 20) + 0.5) / (1 << 20);
}

/* ==== The reference ==== */

static long double system_a[UNKNOWNS][UNKNOWNS + 1];
static int column_of[UNKNOWNS];

static void swap_columns(int n, int a, int b) {
    for (int i = 0; i < n; i++) {
        long double t = system_a[i][a];
        system_a[i][a] = system_a[i][b];
        system_a[i][b] = t;
    }
    int t = column_of[a];
    column_of[a] = column_of[b];
    column_of[b] = t;
}

/* Brings the largest of what is left to (k, k); returns it. */
static long double pivot(int n, int k) {
    int row = k, column = k;
    for (int i = k; i < n; i++) {
        for (int j = k; j < n; j++) {
            if (fabsl(system_a[i][j]) > fabsl(system_a[row][column])) row = i, column = j;
        }
    }
    for (int j = 0; j <= n; j++) {
        long double t = system_a[k][j];
        system_a[k][j] = system_a[row][j];
        system_a[row][j] = t;
    }
    swap_columns(n, k, column);
    return system_a[k][k];
}

/* One solution x of a consistent system; unknowns that nothing decides are 0. */
static void solve(int n, long double *x) {
    int rank = 0;
    for (int j = 0; j < n; j++) column_of[j] = j;
    while (rank < n && fabsl(pivot(n, rank)) > 1e-13L) {
        for (int i = 0; i < n; i++) {
            if (i == rank) continue;
            long double factor = system_a[i][rank] / system_a[rank][rank];
            for (int j = rank; j <= n; j++) system_a[i][j] -= factor * system_a[rank][j];
        }
        rank++;
    }
    for (int j = 0; j < n; j++) x[j] = 0;
    for (int i = 0; i < rank; i++) x[column_of[i]] = system_a[i][n] / system_a[i][i];
}

/* Unknowns: pi, then y. */
static void reference(const double *p, int n, const double *first, double *pi) {
    long double x[UNKNOWNS];
    memset(system_a, 0, sizeof system_a);
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < n; i++) {
            long double differs = (i == j) - (long double)p[i * n + j];
            system_a[j][i] = differs;
            system_a[n + j][n + i] = differs;
        }
        system_a[n + j][j] = 1;
        system_a[n + j][2 * n] = first[j];
    }
    solve(2 * n, x);
    for (int i = 0; i < n; i++) pi[i] = (double)x[i];
}

/* ==== Comparing ==== */

static void scale(double *row, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += row[i];
    for (int i = 0; i < n; i++) row[i] /= sum;
}

static void stationary(const double *p, int n, const double *first, double *pi) {
    retrace_error err = {0};
    if (rt_stationary(p, n, first, pi, &err)) fail_msg("n %d: %s", n, err.msg);
}

static void assert_close(const double *a, const double *b, int n, const char *what) {
    for (int i = 0; i < n; i++) {
        if (!(fabs(a[i] - b[i]) <= 1e-12))
            fail_msg("%s, n %d: pi[%d] is %.17g, not %.17g", what, n, i, a[i], b[i]);
    }
}

static void assert_law(const double *p, int n, const double *pi, const char *what) {
    double mass = 0;
    for (int j = 0; j < n; j++) {
        double in = 0;
        for (int i = 0; i < n; i++) in += pi[i] * p[i * n + j];
        if (!(fabs(in - pi[j]) <= 1e-14)) fail_msg("%s: state %d does not stand still", what, j);
        assert_true(pi[j] >= 0);
        mass += pi[j];
    }
    assert_true(fabs(mass - 1) <= 1e-14);
}

static void compare(const double *p, int n, const double *first, const char *what) {
    double pi[MOST], right[MOST];
    stationary(p, n, first, pi);
    reference(p, n, first, right);
    assert_close(pi, right, n, what);
    assert_law(p, n, pi, what);
}

/* ==== Random chains ==== */

/* A matrix of zeros and a law to begin with. */
static void blank(double *p, int n, double *first) {
    memset(p, 0, (size_t)(n * n) * sizeof *p);
    for (int i = 0; i < n; i++) first[i] = roll(3) ? uniform() : 0;
    first[roll(n)] = 1;
    scale(first, n);
}

/* Gives the states new names, so that classes lie scattered. */
static void shuffle(double *p, int n) {
    static double copy[MOST * MOST];
    int name[MOST];
    for (int i = 0; i < n; i++) {
        int j = roll(i + 1);
        name[i] = i;
        name[i] = name[j];
        name[j] = i;
    }
    memcpy(copy, p, (size_t)(n * n) * sizeof *p);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) p[name[i] * n + name[j]] = copy[i * n + j];
    }
}

static void make_dense(double *p, int n) {
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) p[i * n + j] = exp(-0.5 * roll(20));
        scale(p + i * n, n);
    }
}

/* A few ways out of each state: mostly one class or few, and states that are left for good. */
static void make_sparse(double *p, int n) {
    int ways = 1 + roll(3);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < ways; k++) p[i * n + roll(n)] += uniform();
        scale(p + i * n, n);
    }
}

/* States go round in `period` groups. */
static void make_periodic(double *p, int n) {
    int period = 1 + roll(n < 7 ? n : 7);
    for (int i = 0; i < n; i++) {
        int next = (i + 1) % period;
        for (int j = next; j < n; j += period) p[i * n + j] = uniform();
        scale(p + i * n, n);
    }
}

/* Groups that stay among themselves, of which some may let go of what they have. */
static void make_groups(double *p, int n) {
    int size = 1 + roll(n), leak = roll(3);
    for (int i = 0; i < n; i++) {
        int group = i / size, from = group * size, to = from + size < n ? from + size : n;
        for (int j = from; j < to; j++) p[i * n + j] = roll(2) ? uniform() : 0;
        p[i * n + from + roll(to - from)] += 0.1;
        if (leak == 0 && group % 2) p[i * n + roll(n)] += 0.01;
        if (leak == 1 && group == 0) p[i * n + roll(n)] += 0.2;
        scale(p + i * n, n);
    }
}

static void make_absorbing(double *p, int n) {
    make_sparse(p, n);
    for (int i = 0; i < n; i++) {
        if (roll(4) || (i && roll(2))) continue;
        memset(p + i * n, 0, (size_t)n * sizeof *p);
        p[i * n + i] = 1;
    }
}

static void chains_of_all_kinds(void **unused) {
    (void)unused;
    static const struct {
        const char *name;
        void (*make)(double *p, int n);
    } kinds[] = {{"dense", make_dense},
                 {"sparse", make_sparse},
                 {"periodic", make_periodic},
                 {"groups", make_groups},
                 {"absorbing", make_absorbing}};
    static double p[MOST * MOST];
    double first[MOST];
    for (int round = 0; round < 400; round++) {
        int n = round < 300 ? 1 + roll(12) : 1 + roll(MOST), k = round % COUNT(kinds);
        blank(p, n, first);
        kinds[k].make(p, n);
        shuffle(p, n);
        compare(p, n, first, kinds[k].name);
    }
}

/* Larger than one block of the elimination, with several classes. */
static void large_chains(void **unused) {
    (void)unused;
    enum { N = 230 };
    double *p = calloc(N * N, sizeof *p), first[N], pi[N];
    for (int i = 0; i < N; i++) {
        first[i] = i < 120 ? 1.0 / 120 : 0; /* 0..119 are left for good, by ways of equal chance */
        int from = i < 120 ? 0 : i < 180 ? 120 : 180, to = i < 120 ? N : i < 180 ? 180 : N;
        for (int j = from; j < to; j++) p[i * N + j] = i < 120 ? 1 : uniform();
        scale(p + i * N, N);
    }
    stationary(p, N, first, pi);
    assert_law(p, N, pi, "large");
    double one = 0, other = 0;
    for (int i = 120; i < N; i++) *(i < 180 ? &one : &other) += pi[i];
    assert_true(fabs(one - 60.0 / 110) < 1e-13);
    assert_true(fabs(other - 50.0 / 110) < 1e-13);
    free(p);
}

/* ==== Known laws ==== */

static void a_single_state(void **unused) {
    (void)unused;
    double p = 1, first = 1, pi = 0;
    stationary(&p, 1, &first, &pi);
    assert_true(pi == 1);
}

static void states_that_stay_keep_what_they_have(void **unused) {
    (void)unused;
    double p[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, first[3] = {0.25, 0, 0.75}, pi[3];
    stationary(p, 3, first, pi);
    assert_close(pi, first, 3, "identity");
}

static void a_round_is_even(void **unused) {
    (void)unused;
    enum { N = 50 };
    double p[N * N] = {0}, first[N] = {1}, pi[N], even[N];
    for (int i = 0; i < N; i++) {
        p[i * N + (i + 1) % N] = 1;
        even[i] = 1.0 / N;
    }
    stationary(p, N, first, pi);
    assert_close(pi, even, N, "a round");
}

/* Up with chance u, down with 1 - u: pi is a power of u / (1 - u), and relative errors count. */
static void a_walk_on_a_line(void **unused) {
    (void)unused;
    enum { N = 60 };
    static const double ups[] = {0.5, 0.3, 0.9, 0.001, 1 - 1e-5};
    for (int k = 0; k < COUNT(ups); k++) {
        double p[N * N] = {0}, first[N] = {1}, pi[N], u = ups[k], d = 1 - u;
        for (int i = 0; i < N; i++) {
            p[i * N + (i < N - 1 ? i + 1 : i)] += u;
            p[i * N + (i > 0 ? i - 1 : i)] += d;
        }
        stationary(p, N, first, pi);
        assert_true(pi[0] > 0 && pi[N - 1] > 0);
        for (int i = 1; i < N; i++) assert_true(fabs(pi[i] / pi[i - 1] / (u / d) - 1) < 1e-12);
    }
}

/* The chance to be ruined before N from i: ((d/u)^i - (d/u)^N) / (1 - (d/u)^N). */
static void a_gambler_is_ruined(void **unused) {
    (void)unused;
    enum { N = 30 };
    const double u = 0.55, r = 0.45 / 0.55;
    double p[(N + 1) * (N + 1)] = {0}, first[N + 1], pi[N + 1];
    p[0] = p[N * (N + 1) + N] = 1;
    for (int i = 1; i < N; i++) {
        p[i * (N + 1) + i + 1] = u;
        p[i * (N + 1) + i - 1] = 1 - u;
    }
    for (int i = 0; i <= N; i++) {
        memset(first, 0, sizeof first);
        first[i] = 1;
        stationary(p, N + 1, first, pi);
        double ruin = (pow(r, i) - pow(r, N)) / (1 - pow(r, N));
        assert_true(fabs(pi[0] - ruin) < 1e-13 && fabs(pi[N] - (1 - ruin)) < 1e-13);
        for (int j = 1; j < N; j++) assert_true(pi[j] == 0);
    }
}

/* Two halves that meet with chance e only: their shares depend on nothing but e's ratio. */
static void rare_ways_count_in_full(void **unused) {
    (void)unused;
    for (int power = 10; power <= 280; power += 30) {
        double e = pow(10, -power);
        double p[16] = {.5, .5, 0, 0, .5, .5 - e, e, 0, 0, 3 * e, .25 - 3 * e, .75, 0, 0, .5, .5};
        double first[4] = {1, 0, 0, 0}, pi[4], right[4] = {3, 3, 1, 1.5};
        scale(right, 4);
        stationary(p, 4, first, pi);
        for (int i = 0; i < 4; i++) assert_true(fabs(pi[i] / right[i] - 1) < 1e-12);
    }
}

/* State 1 leads to 0 with chance e^2 only, by way of 2. When that is 0 in a double it is said, and
 * no number made up. */
static void vanishing_ways_are_refused(void **unused) {
    (void)unused;
    for (int power = 100; power <= 200; power += 100) {
        double e = pow(10, -power), first[3] = {1, 0, 0}, pi[3];
        double p[9] = {0.5, 0.5, 0, 0, 1 - e, e, e, 1 - e, 0};
        retrace_error err = {0};
        int rc = rt_stationary(p, 3, first, pi, &err);
        assert_int_equal(rc, power == 100 ? RETRACE_OK : RETRACE_EMODEL);
        if (rc == RETRACE_OK)
            assert_true(fabs(pi[0] / (2 * e * e) - 1) < 1e-12);
        else
            assert_string_equal(err.msg, "the chain's probabilities lie too far apart to solve it");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_of_all_kinds),
        cmocka_unit_test(large_chains),
        cmocka_unit_test(a_single_state),
        cmocka_unit_test(states_that_stay_keep_what_they_have),
        cmocka_unit_test(a_round_is_even),
        cmocka_unit_test(a_walk_on_a_line),
        cmocka_unit_test(a_gambler_is_ruined),
        cmocka_unit_test(rare_ways_count_in_full),
        cmocka_unit_test(vanishing_ways_are_refused),
    };
    return cmocka_run_group_tests_name("stationary", tests, NULL, NULL);
}
