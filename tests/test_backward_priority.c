/* test_backward_priority.c - what few evaluated candidates say about all: means over seeds.
 *
 * A draw v with probability what(v) / Zhat, counted as Zhat, has the mean E[Zhat what(v) / Zhat] =
 * E[what(v)] = score(v), whatever the correlation of the two: so counts of draws times Zhat test
 * the estimate of every single candidate. In the same way the weight of a sampled text is an
 * unbiased estimate of f of that text. Standard errors and intervals are held against the real
 * spread. Seeds are fixed, so the outcome is.
 *
 * That the tests can fail was seen by breaking the library in a dozen ways: no division by the
 * chance of being included; that chance as with uniform keys, or of b where g was another; kappa as
 * the last chosen key instead of the first one left out; the draw, or log q, without it or without
 * the temperature; all suffixes with the same keys; the variance without (1 - q); intervals of half
 * the width, or with a normal quantile. Each fails here. */
#include "helper.h"

#include "leaves.h"

#include <math.h>

enum { DRAWS = 8 };

typedef struct tally {
    int n;
    double sum, squares;
} tally;

static void add(tally *t, double x) {
    t->n++;
    t->sum += x;
    t->squares += x * x;
}

static double mean_of(const tally *t) {
    return t->sum / t->n;
}

static double variance_of(const tally *t) {
    return t->squares / t->n - mean_of(t) * mean_of(t);
}

/* How many standard errors the mean lies from x. */
static double off(const tally *t, double x) {
    double se = sqrt(variance_of(t) / t->n);
    if (!(se > x * 1e-12)) return fabs(mean_of(t) - x) <= x * 1e-9 ? 0 : INFINITY;
    return (mean_of(t) - x) / se;
}

/* ==== Estimates ==== */

typedef struct setting {
    world_shape shape;
    uint64_t seed;
    int n_suffix, budget, seeds;
    double coverage; /* the least share of intervals that hold Z */
    int mode, heuristic;
    double threshold;
    int shared; /* 1: the chain is another model's, in which some tokens never meet */
} setting;

typedef struct outcome {
    tally z, error;             /* Zhat; (se Zhat)^2 */
    tally each[MOST_VOCAB + 1]; /* Zhat times the share of draws that took 1 + v */
    tally rare;                 /* the same of all candidates with less than .3 % of Z */
    int covered, reliable, covered_reliable;
} outcome;

static void one_seed(const world *w, const setting *s, const retrace_token *x, int seed, double z,
                     const char *rare, outcome *out) {
    retrace_backward_options o = law_options(s->mode, 1, DRAWS);
    double count[MOST_VOCAB + 1] = {0}, few = 0;
    o.budget = s->budget;
    o.heuristic = s->heuristic;
    o.shared_table = s->shared;
    o.threshold = s->threshold;
    o.seed = seed;
    o.top = 1;
    retrace_backward *b = law_run(w, &o, x, s->n_suffix);
    const retrace_backward_step first = law_sample(b, 0).steps[0];
    for (int i = 0; i < DRAWS; i++) count[1 + law_sample(b, i).steps[0].drawn.id] += 1.0 / DRAWS;
    double estimate = exp(first.log_z);
    if (s->mode == RETRACE_PRIORITY && s->budget) assert_int_equal(first.evaluated, s->budget);
    assert_true(first.evaluated >= s->budget);
    for (int v = 0; v <= w->vocab; v++) {
        add(&out->each[v], count[v] * estimate);
        few += rare[v] ? count[v] * estimate : 0;
    }
    add(&out->rare, few);
    add(&out->z, estimate);
    add(&out->error, first.se * first.se * estimate * estimate);
    int holds = exp(first.log_z_low) <= z && z <= exp(first.log_z_high);
    out->covered += holds;
    out->reliable += first.reliable;
    out->covered_reliable += first.reliable && holds;
    assert_true(first.log_z_low <= first.log_z && first.log_z <= first.log_z_high);
    retrace_backward_free(b);
}

/* Prints what stands out; returns the number of complaints. */
static int judge(const world *w, const setting *s, const retrace_token *x, double z,
                 const char *rare, const outcome *out, int which) {
    int wrong = 0;
    double few = 0, worst = 0;
    for (int v = 0; v <= w->vocab; v++) {
        double score = (double)world_score(w, v - 1, x, s->n_suffix);
        if (rare[v]) {
            few += score;
            continue;
        }
        double d = off(&out->each[v], score);
        worst = fabs(d) > fabs(worst) ? d : worst;
    }
    double spread = variance_of(&out->z), ratio = mean_of(&out->error) / spread;
    double share = (double)out->covered / s->seeds;
    wrong += fabs(worst) > 4.5;
    wrong += fabs(off(&out->rare, few)) > 4;
    wrong += fabs(off(&out->z, z)) > 4;
    wrong += !(ratio > .8 && ratio < 1.25);
    wrong += share < s->coverage;
    wrong += out->reliable > 300 && out->covered_reliable < .9 * out->reliable;
    print_message("  %d: %d of %d, spread of Z %.1f %%: Z off by %.1f, worst candidate %.1f, rare "
                  "%.1f errors; se^2 %.2f of it; covers %.3f, %.3f of the %.0f %% reliable%s\n",
                  which, s->budget, w->vocab, 100 * sqrt(spread) / z, off(&out->z, z), worst,
                  few > 0 ? off(&out->rare, few) : 0, ratio, share,
                  (double)out->covered_reliable / (out->reliable ? out->reliable : 1),
                  100.0 * out->reliable / s->seeds, wrong ? "  <-- wrong" : "");
    return wrong;
}

static int check_setting(const setting *s, int which) {
    static outcome out;
    world w, other;
    char rare[MOST_VOCAB + 1] = {0};
    retrace_token x[4];
    uint64_t chance = s->seed;
    memset(&out, 0, sizeof out);
    world_random(&w, &s->shape, s->seed);
    if (s->shared) {
        world_shape shape = s->shape;
        shape.zeros = 40;
        world_random(&other, &shape, s->seed + 1);
        memcpy(w.anchor, other.anchor, sizeof w.anchor);
        w.law = &other;
    }
    assert_true(world_suffix(&w, &chance, s->n_suffix, x));
    double z = (double)world_z(&w, x, s->n_suffix);
    for (int v = 0; v <= w.vocab; v++)
        rare[v] = (double)world_score(&w, v - 1, x, s->n_suffix) < .003 * z;
    for (int seed = 1; seed <= s->seeds; seed++) one_seed(&w, s, x, seed, z, rare, &out);
    int wrong = judge(&w, s, x, z, rare, &out, which);
    world_close(&w);
    if (s->shared) world_close(&other);
    return wrong;
}

#define SMALL                                                                                      \
    { .vocab = 24, .order = 3, .ends = 1, .anchor = 1, .spread = 4 }
/* A model that can read the heuristics' questions. */
#define READS                                                                                      \
    { .vocab = 131, .order = 1, .ends = 1, .spread = 4, .letters = 1 }

static const setting settings[] = {
    {.shape = SMALL, .seed = 1, .n_suffix = 3, .budget = 6, .heuristic = RETRACE_BIGRAM},
    {.shape = SMALL, .seed = 1, .n_suffix = 3, .budget = 6, .mode = RETRACE_EXACT},
    {.shape = {.vocab = 24, .order = 2, .zeros = 20, .spread = 4},
     .seed = 2,
     .n_suffix = 2,
     .budget = 8},
    {.shape = {.vocab = 24, .order = 3, .controls = 2, .ends = 1, .spread = 6},
     .seed = 3,
     .n_suffix = 4,
     .budget = 10},
    {.shape = {.vocab = 60, .order = 1, .ends = 1, .spread = 6},
     .seed = 4,
     .n_suffix = 3,
     .budget = 12,
     .heuristic = RETRACE_BIGRAM},
    {.shape = {.vocab = 200, .order = 1, .ends = 1, .spread = 8},
     .seed = 5,
     .n_suffix = 2,
     .budget = 16,
     .heuristic = RETRACE_BIGRAM,
     .seeds = 2000},
    /* Far too few for such tails: the intervals fall short, and say so. */
    {.shape = {.vocab = 24, .order = 3, .ends = 1, .anchor = 1, .spread = 8},
     .seed = 8,
     .n_suffix = 3,
     .budget = 6,
     .coverage = .85},
    {.shape = {.vocab = 16, .order = 2, .ends = 1, .anchor = 1, .spread = 2},
     .seed = 7,
     .n_suffix = 2,
     .budget = 8,
     .coverage = .85,
     .shared = 1},
    /* The pilot that says how many has keys of its own, so nothing is biased by it. */
    {.shape = {.vocab = 120, .order = 1, .ends = 1, .spread = 6},
     .seed = 9,
     .n_suffix = 3,
     .threshold = .6,
     .seeds = 2000},
    {.shape = READS, .seed = 6, .n_suffix = 2, .budget = 12, .heuristic = RETRACE_MIXED},
    /* Rounds of one to seven candidates; what is learned in them is of no use here, and must not
     * harm. */
    {.shape = SMALL, .seed = 1, .n_suffix = 3, .budget = 12, .seeds = 1500},
    {.shape = SMALL, .seed = 10, .n_suffix = 3, .budget = 15, .mode = RETRACE_EXACT, .seeds = 1000},
    {.shape = {.vocab = 60, .order = 2, .ends = 1, .spread = 6},
     .seed = 4,
     .n_suffix = 3,
     .budget = 30,
     .seeds = 1000},
    {.shape = {.vocab = 60, .order = 1, .zeros = 30, .spread = 6, .anchor = -1, .start = 1},
     .seed = 12,
     .n_suffix = 2,
     .budget = 26,
     .seeds = 1000},
    {.shape = {.vocab = 30, .order = 2, .ends = 1, .anchor = 1, .spread = 2},
     .seed = 7,
     .n_suffix = 2,
     .budget = 18,
     .seeds = 1000,
     .coverage = .85,
     .shared = 1},
    {.shape = READS, .seed = 6, .n_suffix = 2, .budget = 84, .seeds = 500},
    {.shape = READS,
     .seed = 6,
     .n_suffix = 2,
     .budget = 12,
     .heuristic = RETRACE_FORWARD_PROMPT,
     .seeds = 1500},
    {.shape = READS,
     .seed = 6,
     .n_suffix = 2,
     .budget = 12,
     .heuristic = RETRACE_REVERSED,
     .seeds = 1500},
};

static void estimates_are_unbiased(void **state) {
    (void)state;
    int wrong = 0;
    for (int i = 0; i < COUNT(settings); i++) {
        setting one = settings[i];
        if (one.seeds == 0) one.seeds = 3000;
        if (!(one.coverage > 0)) one.coverage = .93;
        wrong += check_setting(&one, i);
    }
    if (wrong) fail_msg("%d complaints", wrong);
}

/* ==== Intervals, on average over worlds ==== */

/* Adds up how many intervals were stated, and how many of those hold Z. */
static void count_intervals(const world *w, const retrace_token *x, int heuristic, int budget,
                            int seeds, int *stated, int *hold) {
    double z = (double)world_z(w, x, 3);
    for (int seed = 1; seed <= seeds; seed++) {
        retrace_backward_options o = law_options(RETRACE_PRIORITY, 1, 1);
        o.heuristic = heuristic;
        o.budget = budget;
        o.seed = seed;
        o.top = 0;
        retrace_backward *b = law_run(w, &o, x, 3);
        const retrace_backward_step s = law_sample(b, 0).steps[0];
        assert_true(exp(s.log_z_low) <= z * (1 + 1e-9) || s.reliable);
        assert_true(s.reliable ? s.log_z_high < INFINITY : s.log_z_high == INFINITY);
        *stated += s.reliable;
        *hold += s.reliable && exp(s.log_z_low) <= z && z <= exp(s.log_z_high);
        retrace_backward_free(b);
    }
}

/* Over worlds with light and heavy tails. Nothing tells of a rare candidate with an enormous
 * likelihood but its being met; so from few candidates none are stated. `mixed` learns in rounds,
 * though there is nothing to learn in these worlds. */
static void stated_intervals_hold(void **state) {
    (void)state;
    enum { MANY = 12 };
    static const struct {
        double spread;
        int vocab, heuristic, budget;
        double least; /* share of the steps that must state one */
    } kind[] = {
        {4, 110, RETRACE_BIGRAM, 64, .33}, {8, 110, RETRACE_BIGRAM, 64, 0},
        {4, 110, RETRACE_BIGRAM, 24, 0},   {4, 110, RETRACE_MIXED, 64, .5},
        {8, 110, RETRACE_MIXED, 64, .5},   {4, 110, RETRACE_MIXED, 24, 0},
        {8, 200, RETRACE_MIXED, 100, .5},  {12, 200, RETRACE_MIXED, 100, .5},
        {4, 200, RETRACE_MIXED, 64, .33},
    };
    for (int k = 0; k < COUNT(kind); k++) {
        int stated = 0, hold = 0, seeds = kind[k].heuristic == RETRACE_MIXED ? 15 : 40;
        for (int i = 0; i < MANY; i++) {
            world w;
            world_shape shape = {.vocab = kind[k].vocab,
                                 .order = 2,
                                 .ends = 1,
                                 .spread = kind[k].spread,
                                 .anchor = i % 2};
            retrace_token x[3];
            uint64_t chance = (uint64_t)i;
            world_random(&w, &shape, 900 + (uint64_t)i);
            assert_true(world_suffix(&w, &chance, 3, x));
            count_intervals(&w, x, kind[k].heuristic, kind[k].budget, seeds, &stated, &hold);
            world_close(&w);
        }
        print_message("  spread %g, %s, %d of %d: %d of %d intervals stated, %d hold Z\n",
                      kind[k].spread, kind[k].heuristic == RETRACE_MIXED ? "rounds" : "b",
                      kind[k].budget, kind[k].vocab, stated, MANY * seeds, hold);
        assert_true(hold >= .93 * stated);
        if (kind[k].budget < 64) assert_int_equal(stated, 0);
        assert_true(stated >= kind[k].least * MANY * seeds);
    }
}

/* ==== Weights of whole texts ==== */

static int check_weights(int mode, double temp, int budget, uint64_t seed, int seeds) {
    static leaves l;
    world w;
    world_shape shape = {.vocab = 5, .order = 3, .ends = 1, .anchor = 1, .spread = 2};
    uint64_t chance = seed;
    retrace_token x[2];
    world_random(&w, &shape, seed);
    assert_true(world_suffix(&w, &chance, 2, x));
    leaves_of(&l, &w, 2, x, 2);
    tally all = {0};
    for (int i = 1; i <= seeds; i++) {
        retrace_backward_options o = law_options(mode, 2, 1);
        o.budget = budget;
        o.temp = temp;
        o.seed = i;
        o.top = 0;
        retrace_backward *b = law_run(&w, &o, x, 2);
        retrace_backward_sample s = law_sample(b, 0);
        assert_false(s.improper);
        leaves_count(&l, x, &s);
        add(&all, exp(s.log_w));
        retrace_backward_free(b);
    }
    double worst = 0;
    for (int i = 0; i < l.n; i++) {
        tally t = {seeds, l.weight[i], l.squares[i]};
        double d = off(&t, (double)l.f[i]);
        if (l.seen[i] >= 20) worst = fabs(d) > fabs(worst) ? d : worst;
    }
    double whole = off(&all, (double)l.total);
    int wrong = fabs(worst) > 4.5 || fabs(whole) > 4;
    print_message(
        "  mode %d, temp %.1f, %d of 6: sum off by %.1f, worst of %d texts %.1f errors%s\n", mode,
        temp, budget, whole, l.n, worst, wrong ? "  <-- wrong" : "");
    world_close(&w);
    return wrong;
}

static void weights_are_unbiased(void **state) {
    (void)state;
    static const double temps[] = {1, .5, 2};
    int wrong = 0;
    for (int i = 0; i < 3; i++) {
        wrong += check_weights(RETRACE_PRIORITY, temps[i], 3, 11 + (uint64_t)i, 6000);
        wrong += check_weights(RETRACE_PRIORITY, temps[i], 2, 21 + (uint64_t)i, 6000);
        wrong += check_weights(RETRACE_EXACT, temps[i], 3, 31 + (uint64_t)i, 6000);
    }
    if (wrong) fail_msg("%d complaints", wrong);
}

/* ==== Nothing possible among what was evaluated ==== */

/* Before "0 1" only token 3 can stand. */
static void narrow(world *w) {
    world_begin(w, 12);
    double *row = world_row_of(w, NULL, 0);
    for (int v = 0; v < 12; v++) row[v] = 10 + v;
    for (retrace_token v = 0; v < 12; v++) {
        const retrace_token context[] = {v, 0};
        world_row_of(w, context, 2)[v == 3 ? 1 : 2] = 1;
    }
    world_open(w);
    world_chain(w, NULL, 0);
}

/* Z is not 0 only because the few that were evaluated are impossible: no error, a sample without
 * weight. So the mean of weights stays right. */
static void a_draw_of_nothing_weighs_nothing(void **state) {
    (void)state;
    enum { RUNS = 3000 };
    static leaves l;
    const retrace_token x[] = {0, 1};
    world w;
    tally all = {0};
    int blocked = 0;
    narrow(&w);
    leaves_of(&l, &w, 1, x, 2);
    for (int seed = 1; seed <= RUNS; seed++) {
        retrace_backward_options o = law_options(RETRACE_PRIORITY, 1, 1);
        o.budget = 4;
        o.seed = seed;
        retrace_backward *b = law_run(&w, &o, x, 2);
        retrace_backward_sample s = law_sample(b, 0);
        assert_true(s.done);
        if (s.blocked) assert_true(s.log_w == -INFINITY && !s.started && s.n == 2);
        blocked += s.blocked;
        leaves_count(&l, x, &s);
        add(&all, exp(s.log_w));
        retrace_backward_free(b);
    }
    print_message("  %d of %d blocked; mean weight off by %.1f errors\n", blocked, RUNS,
                  off(&all, (double)l.total));
    assert_true(blocked > RUNS / 2 && blocked < RUNS);
    assert_true(fabs(off(&all, (double)l.total)) < 4);
    world_close(&w);
}

/* A world in which some prefixes cannot be gone on from: those samples end there, the others'
 * weights still have f for their means. */
static void dead_ends_weigh_nothing(void **state) {
    (void)state;
    enum { RUNS = 20000 };
    static leaves l;
    world w;
    /* Nothing may stand before "0 2": any (v, 0) leads to others than 2. */
    world_begin(&w, 4);
    double *row = world_row_of(&w, NULL, 0);
    row[0] = 5, row[1] = 3, row[2] = 2, row[3] = 4;
    for (retrace_token v = 0; v < 4; v++) {
        const retrace_token context[] = {v, 0};
        row = world_row_of(&w, context, 2);
        row[0] = 1, row[1] = 2 + v, row[3] = 1;
    }
    world_open(&w);
    world_chain(&w, NULL, 0);
    const retrace_token x[] = {2};
    leaves_of(&l, &w, 3, x, 1);
    assert_true(l.dead);
    retrace_backward_options o = law_options(RETRACE_EXHAUSTIVE, 3, RUNS);
    retrace_backward *b = law_run(&w, &o, x, 1);
    int blocked = 0, other = 0;
    for (int i = 0; i < RUNS; i++) {
        retrace_backward_sample s = law_sample(b, i);
        assert_true(s.done);
        assert_int_equal(s.blocked, s.n < 4 && s.n > 1 && s.tokens[0] == 0 && s.tokens[1] == 2);
        if (s.blocked) assert_true(s.log_w == -INFINITY && !s.started);
        blocked += s.blocked;
        other += !s.blocked;
        leaves_count(&l, x, &s);
    }
    assert_true(blocked > 1000 && other > 1000);
    for (int i = 0; i < l.n; i++) {
        tally t = {RUNS, l.weight[i], l.squares[i]};
        if (l.f[i] > 0 && l.seen[i] >= 20) assert_true(fabs(off(&t, (double)l.f[i])) < 4.5);
    }
    retrace_backward_free(b);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimates_are_unbiased),
        cmocka_unit_test(stated_intervals_hold),
        cmocka_unit_test(weights_are_unbiased),
        cmocka_unit_test(a_draw_of_nothing_weighs_nothing),
        cmocka_unit_test(dead_ends_weigh_nothing),
    };
    return cmocka_run_group_tests_name("backward priority", tests, NULL, NULL);
}
