/* test_backward_laws.c - bigram chains and exhaustive backward sampling against enumeration.
 *
 * Chains: pi, rows and columns to 1e-12, periodic and reducible ones included. Steps: Z, priors,
 * likelihoods and posteriors before every suffix of small worlds. Whole texts: the products of
 * posteriors, the telescoping identity, f and the weights; that they repair what sampling token by
 * token gets wrong, and that without them it is wrong.
 *
 * That the tests can fail was seen by breaking the library: pi as the uniform law, rows and
 * likelihoods without the anchor, the row of an end token as the model's own, control tokens as
 * candidates, the start with the prior of one of its tokens, the document start scored after the
 * anchor, the first factor from another model's chain, a weight upside down. Each fails here. */
#include "helper.h"

#include "leaves.h"

#include <math.h>

enum { WORLDS = 60 };

static void assert_near(double got, long double expected, const char *what, int i) {
    if (isinf((double)expected) ? got == (double)expected
                                : fabsl((long double)got - expected) <= 1e-12L)
        return;
    fail_msg("%s of world %d: expected %.17Lg, got %.17g", what, i, expected, got);
}

/* ==== Chains ==== */

/* The solver of these tests, on chains solved by hand. */
static void the_reference_knows_closed_forms(void **state) {
    (void)state;
    long double pi[5];
    const long double swap[] = {0, 1, 1, 0}, first[] = {1, 0, 0, 0, 0};
    solve_long_run(swap, 2, first, pi);
    assert_near((double)pi[0], .5L, "a period of two", 0);
    /* 0 goes to 1 (1/4) or 2 (3/4); 1 stays; 2 and 3 alternate, 3 staying half the time. */
    const long double split[] = {0, .25L, .75L, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, .5L, .5L};
    solve_long_run(split, 4, first, pi);
    assert_near((double)pi[0], 0, "a transient state", 0);
    assert_near((double)pi[1], .25L, "a state that keeps", 0);
    assert_near((double)pi[2], .25L, "the rarer of a class", 0);
    assert_near((double)pi[3], .5L, "the commoner of a class", 0);
    /* 0 comes back to itself before it leaves: the split is the same. */
    const long double lazy[] = {.9L, .025L, .075L, 0, 1, 0, 0, 0, 1};
    solve_long_run(lazy, 3, first, pi);
    assert_near((double)pi[2], .75L, "what is entered at last", 0);
}

static void check_chain(const world *w, int i) {
    const double *pi = retrace_bigram_pi(w->chain);
    retrace_bigram_info facts;
    retrace_error err = {0};
    double line[MOST_VOCAB];
    long double sum = 0, entropy = 0;
    for (int v = 0; v < w->vocab; v++) {
        assert_near(pi[v], w->pi[v], "pi", i);
        sum += (long double)pi[v];
        entropy -= w->pi[v] > 0 ? w->pi[v] * logl(w->pi[v]) : 0;
        if (retrace_bigram_row(w->chain, v, line, &err)) fail_msg("%s", err.msg);
        for (int u = 0; u < w->vocab; u++)
            assert_near(line[u], logl(world_step(w, v, u)), "a row", i);
        if (retrace_bigram_column(w->chain, v, line, &err)) fail_msg("%s", err.msg);
        for (int u = 0; u < w->vocab; u++)
            assert_near(line[u], logl(world_step(w, u, v)), "a column", i);
    }
    retrace_bigram_facts(w->chain, &facts);
    assert_near((double)sum, 1, "the sum of pi", i);
    assert_near(facts.start_pi, w->pi_start, "the start state", i);
    assert_true(fabsl((long double)facts.entropy - entropy) < 1e-9L);
    assert_true(facts.residual >= 0 && facts.residual < 1e-12);
    assert_string_equal(facts.kind, "dense");
    assert_int_equal(facts.vocab, w->vocab);
    assert_int_equal(facts.start, w->start);
    assert_int_equal(facts.n_anchor, w->n_anchor);
    if (w->n_anchor)
        assert_memory_equal(facts.anchor, w->anchor, (size_t)w->n_anchor * sizeof *w->anchor);
}

static void chains_are_the_direct_solution(void **state) {
    (void)state;
    for (int i = 0; i < WORLDS; i++) {
        world w;
        world_shape s = world_some_shape(i);
        world_random(&w, &s, (uint64_t)i);
        check_chain(&w, i);
        world_close(&w);
    }
}

/* Sparse rows: closed classes, transient states and periods of all kinds. */
static void sparse_chains_too(void **state) {
    (void)state;
    int unreached = 0;
    for (int i = 0; i < WORLDS; i++) {
        world w;
        world_shape s = {.vocab = 6 + i % 9,
                         .order = 1 + i % 2,
                         .ends = i % 2,
                         .zeros = 85 + i % 3 * 5,
                         .period = 1 + i % 4,
                         .anchor = i % 3 - 1,
                         .spread = 4};
        world_random(&w, &s, 1000 + (uint64_t)i);
        check_chain(&w, i);
        for (int v = 0; v < w.vocab; v++) unreached += w.pi[v] <= 0;
        world_close(&w);
    }
    assert_true(unreached > WORLDS);
}

/* Every token: weight `p` (of 1000) for an end, the rest evenly; documents are geometric. */
static void geometric(world *w, int p) {
    world_begin(w, 4);
    w->flags[3] = RETRACE_TOKEN_END;
    double *row = world_row_of(w, NULL, 0);
    row[0] = row[1] = row[2] = (1000 - p) / 3.0;
    row[3] = p;
    world_open(w);
    world_chain(w, NULL, -1);
}

static void the_start_is_one_over_the_length_of_documents(void **state) {
    (void)state;
    world w;
    retrace_bigram_info facts;
    geometric(&w, 100);
    retrace_bigram_facts(w.chain, &facts);
    /* Mean length 10, the end included; logits are floats. */
    assert_true(fabs(facts.start_pi - .1) < 1e-7);
    world_close(&w);

    /* Documents "0 1 2 end" and "0 1 2 1 2 end", the second every fourth time: mean 4.5. */
    world_begin(&w, 4);
    w.flags[3] = RETRACE_TOKEN_END;
    const retrace_token c[] = {0, 1, 2, 3}, again[] = {0, 1, 2};
    world_row_of(&w, NULL, 0)[0] = 1;
    world_row_of(&w, &c[0], 1)[1] = 1;
    world_row_of(&w, &c[1], 1)[2] = 1;
    double *two = world_row_of(&w, &c[2], 1);
    two[1] = 1, two[3] = 4; /* a chain of single tokens: 1 in 5 goes on */
    world_row_of(&w, again, 3)[3] = 1;
    world_open(&w);
    world_chain(&w, NULL, 0);
    retrace_bigram_facts(w.chain, &facts);
    assert_true(fabs(facts.start_pi - 1 / 4.5) < 1e-7);
    assert_near(facts.start_pi, w.pi_start, "the start state", 0);
    world_close(&w);
}

/* ==== Steps ==== */

static void check_step(const world *w, const retrace_token *x, int n, int start, int i) {
    retrace_backward_options o = law_options(RETRACE_EXHAUSTIVE, 1, 1);
    o.start = start;
    world now = *w;
    now.may_start = start;
    retrace_error err = {0};
    if (!(world_z(&now, x, n) > 0)) {
        if (law_try(&now, &o, x, n, &err) != RETRACE_EUSAGE)
            fail_msg("world %d: nothing can precede, but no EUSAGE: '%s'", i, err.msg);
        return;
    }
    retrace_backward *b = law_run(&now, &o, x, n);
    retrace_backward_sample s = law_sample(b, 0);
    assert_int_equal(s.n_steps, 1);
    const char *why = law_step_broken(&now, x, n, &s.steps[0]);
    if (why) fail_msg("world %d: %s", i, why);
    assert_near(s.steps[0].log_q,
                logl(world_score(&now, s.steps[0].drawn.id, x, n)) - logl(world_z(&now, x, n)),
                "log q", i);
    retrace_backward_stats stats;
    retrace_backward_totals(b, &stats);
    assert_near(stats.log_f, logl(world_f(w, x, n, 0)), "log f", i);
    retrace_backward_free(b);
}

/* The sum of all scores is pi(s1) less what is no candidate, and the posterior is the chain
 * reversed: without the model's own numbers for b being right this cannot hold. */
static void one_token_reverses_the_chain(void **state) {
    (void)state;
    for (int i = 0; i < WORLDS; i++) {
        world w;
        world_shape shape = world_some_shape(i);
        world_random(&w, &shape, (uint64_t)i);
        for (retrace_token s1 = 0; s1 < w.vocab; s1++) {
            long double z = w.pi[s1];
            for (retrace_token v = 0; v < w.vocab; v++)
                if (!world_candidate(&w, v) && !world_starts(&w, v))
                    z -= w.pi[v] * world_step(&w, v, s1);
            assert_true(fabsl(z - world_z(&w, &s1, 1)) < 1e-15L); /* the reference itself */
            check_step(&w, &s1, 1, 1, i);
        }
        world_close(&w);
    }
}

static void steps_are_enumerated(void **state) {
    (void)state;
    uint64_t chance = 5;
    for (int i = 0; i < 2 * WORLDS; i++) {
        world w;
        world_shape shape = world_some_shape(i);
        world_random(&w, &shape, 100 + (uint64_t)i);
        for (int k = 0; k < 12; k++) {
            retrace_token x[8];
            int n = 1 + k % 5;
            for (int t = 0; t < n; t++) x[t] = roll_from(&chance, w.vocab);
            if (k % 3) world_suffix(&w, &chance, n, x);
            check_step(&w, x, n, k % 4 != 3, i);
        }
        world_close(&w);
    }
}

/* ==== Whole texts ==== */

/* What a sample must be, given that every step was exhaustive. */
static void check_sample(const world *w, const retrace_backward_options *o,
                         const retrace_token *suffix, int n, const retrace_backward_sample *s) {
    long double log_q = 0, log_rho = 0;
    int put = s->n - n;
    assert_true(s->done);
    assert_int_equal(s->n_steps, put + s->started);
    assert_memory_equal(s->tokens + put, suffix, (size_t)n * sizeof *suffix);
    assert_true(s->started ? put < o->max_tokens : put == o->max_tokens);
    for (int k = 0; k < s->n_steps; k++) {
        const retrace_backward_step *step = &s->steps[k];
        const retrace_token *x = s->tokens + put - k;
        retrace_token next = k < put ? x[-1] : RETRACE_START;
        assert_int_equal(step->drawn.id, next);
        const char *why = law_step_broken(w, x, n + k, step);
        if (why) fail_msg("step %d: %s", k, why);
        long double z = world_z(w, x, n + k);
        assert_near(step->log_q, logl(world_score(w, next, x, n + k) / z), "log q", k);
        log_q += logl(world_score(w, next, x, n + k) / z);
        log_rho += logl(z / world_f(w, x, n + k, 0));
    }
    long double log_f = logl(world_f(w, s->tokens, s->n, s->started));
    assert_near(s->log_f, log_f, "log f", 0);
    assert_near(s->log_q, log_q, "log q", 0);
    assert_near(s->log_w, log_f - log_q, "log w", 0);
    /* q(p|s) = f(ps) / (f(s) times the product of rho(x_k)) */
    assert_near(s->log_q, log_f - logl(world_f(w, suffix, n, 0)) - log_rho, "telescoping", 0);
    assert_false(s->improper);
}

static void texts_telescope(void **state) {
    (void)state;
    uint64_t chance = 9;
    int started = 0, shared = 0, checked = 0;
    for (int i = 0; i < WORLDS; i++) {
        world w;
        world_shape shape = world_some_shape(i);
        world_random(&w, &shape, 200 + (uint64_t)i);
        retrace_token suffix[3];
        int n = 1 + i % 3, samples = 12;
        w.may_start = i % 4 != 3;
        if (world_suffix(&w, &chance, n, suffix) && !world_dead(&w, suffix, n, 3)) {
            retrace_backward_options o = law_options(RETRACE_EXHAUSTIVE, 3, samples);
            o.start = w.may_start;
            retrace_backward *b = law_run(&w, &o, suffix, n);
            for (int k = 0; k < samples; k++) {
                retrace_backward_sample s = law_sample(b, k);
                check_sample(&w, &o, suffix, n, &s);
                started += s.started;
                shared += s.steps[0].shared;
                assert_int_equal(s.steps[0].shared, k > 0);
                checked++;
            }
            retrace_backward_sample none;
            assert_false(retrace_backward_at(b, samples, &none));
            retrace_backward_free(b);
        }
        world_close(&w);
    }
    assert_true(started > 20 && shared > 400 && checked > 500);
}

/* ==== Every text of up to n tokens before a suffix ==== */

/* Half the L1 distances of what was seen, with and without weights, from f; and from q. */
static void distances(const leaves *l, int samples, double *raw, double *weighted, double *law) {
    double total = 0;
    *raw = *weighted = *law = 0;
    for (int i = 0; i < l->n; i++) total += l->weight[i];
    for (int i = 0; i < l->n; i++) {
        double f = (double)(l->f[i] / l->total);
        *raw += fabs(l->seen[i] / samples - f) / 2;
        *weighted += fabs(l->weight[i] / total - f) / 2;
        *law += fabs(l->seen[i] / samples - (double)l->q[i]) / 2;
    }
}

/* The same draw 20,000 times: what is seen follows the product of posteriors, and with its weights
 * follows f, which is another law. */
static void weights_repair_the_order(void **state) {
    (void)state;
    static leaves l;
    enum { SAMPLES = 20000 };
    world w;
    world_shape shape = {.vocab = 5, .order = 3, .ends = 1, .anchor = 1, .spread = 6};
    world_random(&w, &shape, 31);
    uint64_t chance = 3;
    retrace_token suffix[2];
    assert_true(world_suffix(&w, &chance, 2, suffix));
    leaves_of(&l, &w, 3, suffix, 2);
    retrace_backward_options o = law_options(RETRACE_EXHAUSTIVE, 3, SAMPLES);
    o.top = 1;
    retrace_backward *b = law_run(&w, &o, suffix, 2);
    double sum = 0, squares = 0, raw, weighted, law;
    for (int i = 0; i < SAMPLES; i++) {
        retrace_backward_sample s = law_sample(b, i);
        leaves_count(&l, suffix, &s);
        sum += exp(s.log_w);
        squares += exp(2 * s.log_w);
    }
    retrace_backward_stats stats;
    retrace_backward_totals(b, &stats);
    assert_true(fabs(stats.ess / (sum * sum / squares) - 1) < 1e-9);
    /* The mean weight is the sum of f over all leaves. */
    double mean = sum / SAMPLES, se = sqrt((squares / SAMPLES - mean * mean) / SAMPLES);
    assert_true(fabs(mean - (double)l.total) < 4 * se);
    distances(&l, SAMPLES, &raw, &weighted, &law);
    print_message("from f: %.3f as drawn, %.3f weighted; from q: %.3f (%d texts, ess %.0f)\n", raw,
                  weighted, law, l.n, stats.ess);
    assert_true(law < .02);
    assert_true(weighted < .06); /* the noise of some 2,000 samples over 85 texts */
    assert_true(raw > .3);
    retrace_backward_free(b);
    world_close(&w);
}

/* A model of single tokens: the order of drawing does not matter, rho is 1, all weights are f(s)
 * where the start is among the candidates. */
static void bigram_models_need_no_weights(void **state) {
    (void)state;
    static leaves l;
    uint64_t chance = 1;
    for (int i = 0; i < 12; i++) {
        world w;
        world_shape shape = {.vocab = 5,
                             .order = 1,
                             .ends = 1 + i % 2,
                             .zeros = i % 3 * 20,
                             .period = 1 + i % 2,
                             .spread = 5};
        world_random(&w, &shape, 300 + (uint64_t)i);
        retrace_token suffix[3];
        int n = 1 + i % 3;
        if (world_suffix(&w, &chance, n, suffix)) {
            leaves_of(&l, &w, 3, suffix, n);
            for (int k = 0; k < l.n; k++) {
                long double joint = l.f[k] / world_f(&w, suffix, n, 0);
                assert_true(fabsl(joint - l.q[k]) < 1e-15L); /* the reference itself */
            }
            retrace_backward_options o = law_options(RETRACE_EXHAUSTIVE, 3, 40);
            retrace_backward *b = law_run(&w, &o, suffix, n);
            retrace_backward_stats stats;
            retrace_backward_totals(b, &stats);
            for (int k = 0; k < 40; k++)
                assert_near(law_sample(b, k).log_w, (long double)stats.log_f, "log w", i);
            assert_true(fabs(stats.ess - 40) < 1e-9);
            retrace_backward_free(b);
        }
        world_close(&w);
    }
}

/* The product of first-step posteriors over all prefixes of up to three tokens, each from an
 * object of its own, is the enumerated q. */
static long double path(const world *w, retrace_token *x, int n, int depth, long double q,
                        const leaves *l, int *at) {
    if (depth == 0) return fabsl(q - l->q[(*at)++]);
    retrace_backward_options o = law_options(RETRACE_EXHAUSTIVE, 1, 1);
    retrace_backward *b = law_run(w, &o, x, n);
    const retrace_backward_step step = law_sample(b, 0).steps[0];
    double p[MOST_VOCAB + 1] = {0};
    for (int i = 0; i < step.n_top; i++) p[1 + step.top[i].id] = exp(step.top[i].log_posterior);
    retrace_backward_free(b);
    long double worst = fabsl(q * (long double)p[0] - l->q[(*at)++]);
    for (retrace_token v = 0; v < w->vocab; v++) {
        x[-1] = v;
        if (!(p[1 + v] > 0)) continue;
        long double d = path(w, x - 1, n + 1, depth - 1, q * (long double)p[1 + v], l, at);
        worst = d > worst ? d : worst;
    }
    return worst;
}

static void every_prefix_has_its_probability(void **state) {
    (void)state;
    static leaves l;
    uint64_t chance = 17;
    for (int i = 0; i < 6; i++) {
        world w;
        world_shape shape = {.vocab = 4 + i % 3,
                             .order = 3,
                             .ends = i % 3,
                             .controls = i / 4,
                             .zeros = i % 2 * 30,
                             .anchor = i % 2,
                             .spread = 5};
        world_random(&w, &shape, 400 + (uint64_t)i);
        retrace_token text[MOST_TEXT], *suffix = text + MOST_TEXT - 2;
        if (world_suffix(&w, &chance, 2, suffix) && !world_dead(&w, suffix, 2, 3)) {
            long double sum = 0;
            int at = 0;
            leaves_of(&l, &w, 3, suffix, 2);
            for (int k = 0; k < l.n; k++) sum += l.q[k];
            assert_true(fabsl(sum - 1) < 1e-15L); /* the reference itself */
            assert_true(path(&w, suffix, 2, 3, 1, &l, &at) < 1e-12L);
            assert_int_equal(at, l.n);
        }
        world_close(&w);
    }
}

/* ==== Another model's chain ==== */

static void a_shared_chain_gives_the_prior_only(void **state) {
    (void)state;
    uint64_t chance = 23;
    int checked = 0;
    for (int i = 0; i < 24; i++) {
        world a, b;
        world_shape shape = world_some_shape(i);
        shape.anchor = i % 2;
        world_random(&a, &shape, 500 + (uint64_t)i);
        world_random(&b, &shape, 600 + (uint64_t)i);
        /* The anchor is the chain's. */
        memcpy(b.anchor, a.anchor, sizeof a.anchor);
        b.law = &a;
        retrace_token suffix[4];
        int n = 1 + i % 4;
        if (world_suffix(&b, &chance, n, suffix) && !world_dead(&b, suffix, n, 3)) {
            retrace_backward_options o = law_options(RETRACE_EXHAUSTIVE, 3, 5);
            retrace_error err = {0};
            assert_int_equal(law_try(&b, &o, suffix, n, &err), RETRACE_EUSAGE);
            o.shared_table = 1;
            retrace_backward *run = law_run(&b, &o, suffix, n);
            for (int k = 0; k < 5; k++) {
                retrace_backward_sample s = law_sample(run, k);
                check_sample(&b, &o, suffix, n, &s);
                checked++;
            }
            retrace_backward_free(run);
        }
        world_close(&b);
        world_close(&a);
    }
    assert_true(checked > 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_knows_closed_forms),
        cmocka_unit_test(chains_are_the_direct_solution),
        cmocka_unit_test(sparse_chains_too),
        cmocka_unit_test(the_start_is_one_over_the_length_of_documents),
        cmocka_unit_test(one_token_reverses_the_chain),
        cmocka_unit_test(steps_are_enumerated),
        cmocka_unit_test(texts_telescope),
        cmocka_unit_test(every_prefix_has_its_probability),
        cmocka_unit_test(weights_repair_the_order),
        cmocka_unit_test(bigram_models_need_no_weights),
        cmocka_unit_test(a_shared_chain_gives_the_prior_only),
    };
    return cmocka_run_group_tests_name("backward laws", tests, NULL, NULL);
}
