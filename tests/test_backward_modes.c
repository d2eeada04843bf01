/* test_backward_modes.c - what options do to backward sampling, over random table models.
 *
 * Temperature and top-p against the definition; budgets and thresholds at their ends; topk and
 * compat against their rules written a second time; the same draws whatever the batch size and the
 * number of samples; the context's end; what is refused, and how.
 *
 * That the tests can fail was seen by breaking the library: top-p after the temperature, one
 * candidate too many or too few kept, topk by pi alone, keys that depend on the batch size. Each
 * fails here. */
#include "helper.h"

#include "enumerate.h"

#include <math.h>

enum { WORLDS = 24 };

/* A world, and a suffix from which `depth` steps never end up where nothing can precede. */
static int some_world(world *w, int i, uint64_t seed, int depth, retrace_token *suffix, int n) {
    uint64_t chance = seed;
    world_shape shape = world_some_shape(i);
    shape.zeros = shape.zeros > 30 ? 30 : shape.zeros;
    world_random(w, &shape, seed + (uint64_t)i);
    if (world_suffix(w, &chance, n, suffix) && !world_dead(w, suffix, n, depth)) return 1;
    world_close(w);
    return 0;
}

static double candidates(const world *w) {
    int n = 0;
    for (retrace_token v = RETRACE_START; v < w->vocab; v++) n += world_candidate(w, v);
    return n;
}

/* ==== Temperature and top-p ==== */

static void temperature_0_takes_the_best(void **state) {
    (void)state;
    int checked = 0;
    for (int i = 0; i < WORLDS; i++) {
        world w;
        retrace_token suffix[2];
        if (!some_world(&w, i, 40, 3, suffix, 2)) continue;
        retrace_backward_options o = law_options(RETRACE_EXHAUSTIVE, 3, 2);
        o.temp = 0;
        o.top_p = i % 2 ? .5 : 1;
        retrace_backward *b = law_run(&w, &o, suffix, 2);
        retrace_backward_sample s = law_sample(b, 1);
        assert_true(s.improper);
        for (int k = 0; k < s.n_steps; k++) {
            const retrace_token *x = s.tokens + s.n - 2 - k;
            long double drawn = world_score(&w, s.steps[k].drawn.id, x, 2 + k);
            for (retrace_token v = RETRACE_START; v < w.vocab; v++)
                assert_true(world_score(&w, v, x, 2 + k) <= drawn * (1 + 1e-12L));
            assert_true(s.steps[k].log_q == 0);
            checked++;
        }
        retrace_backward_free(b);
        world_close(&w);
    }
    assert_true(checked > WORLDS);
}

/* Every draw lies in the smallest set, and its q is the tempered share of that set. */
static void top_p_is_the_smallest_set(void **state) {
    (void)state;
    static const double top_ps[] = {1e-6, .2, .5, .8, .95, .999, 1};
    static const double temps[] = {.5, 1, 2};
    int keep[MOST_VOCAB + 1], cut = 0;
    for (int i = 0; i < WORLDS; i++) {
        world w;
        retrace_token x[3];
        if (!some_world(&w, i, 60, 1, x, 3)) continue;
        for (int k = 0; k < COUNT(top_ps) * COUNT(temps); k++) {
            double top_p = top_ps[k % COUNT(top_ps)], temp = temps[k / COUNT(top_ps)];
            retrace_backward_options o = law_options(RETRACE_EXHAUSTIVE, 1, 30);
            o.top_p = top_p, o.temp = temp, o.seed = k;
            long double kept = world_kept(&w, x, 3, temp, top_p, keep);
            retrace_backward *b = law_run(&w, &o, x, 3);
            for (int n = 0; n < 30; n++) {
                retrace_backward_sample s = law_sample(b, n);
                retrace_token v = s.steps[0].drawn.id;
                long double score = world_score(&w, v, x, 3);
                assert_true(keep[1 + v]);
                assert_true(fabsl((long double)s.steps[0].log_q -
                                  (logl(score) / (long double)temp - logl(kept))) < 1e-12L);
                assert_int_equal(s.improper, top_p < 1);
                /* Z and the list know nothing of it. */
                const char *why = law_step_broken(&w, x, 3, &s.steps[0]);
                if (why) fail_msg("%s", why);
            }
            retrace_backward_free(b);
            for (int v = 0; v <= w.vocab; v++) cut += !keep[v] && world_score(&w, v - 1, x, 3) > 0;
        }
        world_close(&w);
    }
    assert_true(cut > 500);
}

/* Four candidates as likely as each other, at the edge of what is kept. */
static void equal_candidates_are_cut_in_number(void **state) {
    (void)state;
    static const double top_ps[] = {.24, .26, .49, .51, .76, 1};
    static const int kept[] = {1, 2, 2, 3, 4, 4};
    world w;
    world_begin(&w, 4);
    double *row = world_row_of(&w, NULL, 0);
    for (int v = 0; v < 4; v++) row[v] = 1;
    world_open(&w);
    world_chain(&w, NULL, 0);
    const retrace_token x[] = {2, 1};
    for (int i = 0; i < COUNT(top_ps); i++) {
        retrace_backward_options o = law_options(RETRACE_EXHAUSTIVE, 1, 200);
        o.top_p = top_ps[i];
        o.temp = 3;
        int seen[5] = {0}, distinct = 0;
        retrace_backward *b = law_run(&w, &o, x, 2);
        for (int k = 0; k < 200; k++) {
            retrace_backward_sample s = law_sample(b, k);
            distinct += !seen[1 + s.steps[0].drawn.id]++;
            assert_true(fabs(s.steps[0].log_q + log(kept[i])) < 1e-12);
        }
        assert_int_equal(distinct, kept[i]);
        retrace_backward_free(b);
    }
    world_close(&w);
}

/* ==== Budgets ==== */

static void a_whole_budget_is_exhaustive(void **state) {
    (void)state;
    int checked = 0;
    for (int i = 0; i < WORLDS; i++) {
        world w;
        retrace_token suffix[2];
        if (!some_world(&w, i, 80, 3, suffix, 2)) continue;
        retrace_backward_options o = law_options(RETRACE_EXHAUSTIVE, 3, 6);
        o.temp = i % 3 ? 1 : .7;
        retrace_backward *all = law_run(&w, &o, suffix, 2);
        for (int k = 0; k < 4; k++) {
            o.mode = RETRACE_PRIORITY;
            o.budget = k == 0 ? w.vocab + 1 : k == 1 ? 4 * w.vocab : 0;
            o.threshold = k == 3;
            retrace_backward *b = law_run(&w, &o, suffix, 2);
            law_assert_same(all, b, 6, o.mode);
            retrace_backward_free(b);
            retrace_backward_sample s = law_sample(all, k);
            const char *why = law_step_broken(&w, suffix, 2, &s.steps[0]);
            if (why) fail_msg("%s", why);
            checked++;
        }
        retrace_backward_free(all);
        world_close(&w);
    }
    assert_true(checked > WORLDS);
}

/* A budget of n evaluates n, or all that there are. */
static void budgets_are_kept(void **state) {
    (void)state;
    for (int i = 0; i < WORLDS; i++) {
        world w;
        retrace_token suffix[3];
        if (!some_world(&w, i, 90, 2, suffix, 3)) continue;
        int possible = 0;
        for (retrace_token v = RETRACE_START; v < w.vocab; v++)
            possible += world_score(&w, v, suffix, 1) > 0;
        for (int budget = 1; budget < possible + 3; budget++) {
            retrace_backward_options o = law_options(RETRACE_PRIORITY, 1, 1);
            o.budget = budget;
            retrace_backward *b = law_run(&w, &o, suffix, 3);
            retrace_backward_sample sample = law_sample(b, 0);
            /* Few candidates may all turn out to be impossible. */
            if (sample.blocked) assert_true(sample.n_steps == 0 && budget < possible);
            if (!sample.blocked) {
                const retrace_backward_step *s = &sample.steps[0];
                assert_int_equal(s->evaluated, budget < possible ? budget : possible);
                assert_int_equal(s->exact, budget >= possible);
                assert_true(budget < possible ? s->coverage > 0 : s->coverage == 1);
                for (int k = 0; k < s->n_top; k++) {
                    const char *why = law_listed_broken(&w, suffix, 3, s->log_z, &s->top[k]);
                    if (why) fail_msg("%s", why);
                }
            }
            retrace_backward_free(b);
        }
        world_close(&w);
    }
}

static void thresholds_choose_how_many(void **state) {
    (void)state;
    world w;
    world_shape shape = {.vocab = 200, .order = 1, .ends = 1, .spread = 10};
    world_random(&w, &shape, 4);
    const retrace_token suffix[] = {3, 77, 12};
    double before = 0;
    for (int i = 0; i < 4; i++) {
        static const double thresholds[] = {.3, .9, .99, 1};
        double covered = 0, evaluated = 0;
        for (int seed = 0; seed < 50; seed++) {
            retrace_backward_options o = law_options(RETRACE_PRIORITY, 1, 1);
            o.threshold = thresholds[i];
            o.seed = seed;
            o.top = 1;
            retrace_backward *b = law_run(&w, &o, suffix, 3);
            covered += law_sample(b, 0).steps[0].coverage / 50;
            evaluated += law_sample(b, 0).steps[0].evaluated / 50.0;
            retrace_backward_free(b);
            o.budget = 5;
            b = law_run(&w, &o, suffix, 3);
            assert_true(law_sample(b, 0).steps[0].evaluated <= 5);
            retrace_backward_free(b);
        }
        print_message("threshold %.2f: %.1f candidates cover %.3f\n", thresholds[i], evaluated,
                      covered);
        assert_true(evaluated > before);
        assert_true(covered > thresholds[i] - .1);
        before = evaluated;
    }
    world_close(&w);
}

/* ==== topk and compat ==== */

/* Indices 1 + v of all candidates of positive measure, the largest first; of equal ones the lower
 * token, and the start last. by_b: pi(v) P(s1 | v), else P(s1 | v). */
static int in_order(const world *w, const retrace_token *s, int by_b, int *order) {
    long double x[MOST_VOCAB + 1];
    int n = 0;
    for (int i = 0; i <= w->vocab; i++) {
        retrace_token v = i < w->vocab ? i : RETRACE_START;
        x[1 + v] = world_score(w, v, s, 1);
        if (!(x[1 + v] > 0)) continue;
        if (!by_b) x[1 + v] = world_likelihood(w, v, s, 1);
        int k = n++;
        for (; k > 0 && x[order[k - 1]] < x[1 + v]; k--) order[k] = order[k - 1];
        order[k] = 1 + v;
    }
    return n;
}

/* The evaluated ones are the first n of the order; Z, q and the bound on coverage follow. */
static void check_first(const world *w, const retrace_token *x, int n, const int *order,
                        int evaluated, const retrace_backward_step *s, double temp) {
    char first[MOST_VOCAB + 1] = {0};
    long double z = 0, tempered = 0;
    for (int k = 0; k < evaluated; k++) {
        long double score = world_score(w, order[k] - 1, x, n);
        first[order[k]] = 1;
        z += score;
        if (score > 0) tempered += powl(score, 1 / (long double)temp);
    }
    assert_int_equal(s->evaluated, evaluated);
    assert_true(fabsl((long double)s->log_z - logl(z)) < 1e-12L);
    assert_true(first[1 + s->drawn.id]);
    long double score = world_score(w, s->drawn.id, x, n);
    assert_true(fabsl((long double)s->log_q - (logl(score) / (long double)temp - logl(tempered))) <
                1e-12L);
    for (int k = 0; k < s->n_top; k++) {
        const char *why = law_listed_broken(w, x, n, s->log_z, &s->top[k]);
        if (why) fail_msg("%s", why);
        assert_true(first[1 + s->top[k].id]);
    }
    assert_true(s->coverage >= 0 && s->coverage <= (double)(z / world_z(w, x, n)) + 1e-12);
}

static void topk_takes_the_largest_b(void **state) {
    (void)state;
    int order[MOST_VOCAB + 1], checked = 0;
    for (int i = 0; i < WORLDS; i++) {
        world w;
        retrace_token x[3];
        if (!some_world(&w, i, 110, 1, x, 3)) continue;
        int n = in_order(&w, x, 1, order);
        for (int budget = 1; budget < n; budget++) {
            long double z = 0;
            for (int k = 0; k < budget; k++) z += world_score(&w, order[k] - 1, x, 3);
            if (!(z > 0)) continue;
            for (int seed = 1; seed < 4; seed++) {
                retrace_backward_options o = law_options(RETRACE_TOPK, 1, 1);
                o.budget = budget;
                o.seed = seed;
                o.temp = seed;
                retrace_backward *b = law_run(&w, &o, x, 3);
                const retrace_backward_step *s = &law_sample(b, 0).steps[0];
                check_first(&w, x, 3, order, budget, s, seed);
                assert_true(s->log_z_low == s->log_z && s->log_z_high >= s->log_z);
                assert_true(isnan(s->se));
                assert_false(s->exact);
                assert_true(law_sample(b, 0).improper);
                retrace_backward_free(b);
                checked++;
            }
        }
        world_close(&w);
    }
    assert_true(checked > 200);
}

/* The original: in falling order of P(s1 | v), until what was found reaches the threshold's share
 * of f(s); it looks after each batch. */
static void compat_stops_at_its_share_of_f(void **state) {
    (void)state;
    static const double thresholds[] = {.1, .5, .9};
    int order[MOST_VOCAB + 1], checked = 0, early = 0;
    for (int i = 0; i < WORLDS; i++) {
        world w;
        retrace_token x[3];
        if (!some_world(&w, i, 130, 1, x, 3)) continue;
        int n = in_order(&w, x, 0, order);
        for (int k = 0; k < COUNT(thresholds); k++) {
            long double enough = (long double)thresholds[k] * world_f(&w, x, 3, 0), found = 0;
            int count = 0, batch = 1 + i % 3;
            while (count < n && (found < enough || count % batch))
                found += world_score(&w, order[count++] - 1, x, 3);
            retrace_backward_options o = law_options(RETRACE_COMPAT, 1, 1);
            o.threshold = thresholds[k];
            o.batch_size = batch;
            retrace_backward *b = law_run(&w, &o, x, 3);
            check_first(&w, x, 3, order, count, &law_sample(b, 0).steps[0], 1);
            assert_int_equal(law_sample(b, 0).improper, count < n);
            early += count < n;
            checked++;
            retrace_backward_free(b);
        }
        world_close(&w);
    }
    assert_true(checked > 40 && early > 20);
}

/* ==== Batches and samples ==== */

static void batches_change_nothing(void **state) {
    (void)state;
    static const int batches[] = {1, 3, 256};
    for (int i = 0; i < 3 * WORLDS; i++) {
        world w;
        retrace_token suffix[2];
        if (!some_world(&w, i, 150, 3, suffix, 2)) continue;
        retrace_backward_options o = law_options(i % 4, 3, 7);
        o.seed = i;
        o.temp = i % 4 == 1 ? .6 : 1;
        o.top_p = o.mode != RETRACE_EXACT && i % 3 == 1 ? .8 : 1;
        o.budget = o.mode == RETRACE_EXHAUSTIVE ? 0 : w.vocab / 2 + 1;
        if (o.mode == RETRACE_PRIORITY && i % 3 == 0) o.threshold = .7;
        law_assert_batches(&w, &o, suffix, 2, batches, COUNT(batches));
        world_close(&w);
    }
}

/* ==== The context, and what is refused ==== */

static void a_full_context_ends_a_text(void **state) {
    (void)state;
    for (int anchors = 0; anchors < 3; anchors++) {
        world w;
        world_shape shape = {.vocab = 6, .order = 2, .ends = 1, .spread = 2, .anchor = anchors};
        world_random(&w, &shape, 77);
        w.model->facts.n_ctx = 7;
        const retrace_token suffix[] = {1, 2, 0, 3, 1, 1, 2, 2};
        retrace_error err = {0};
        retrace_backward_options o = law_options(RETRACE_EXHAUSTIVE, 20, 30);
        int room = 7 - anchors, full = 0;
        for (int n = 1; n < room; n++) {
            retrace_backward *b = law_run(&w, &o, suffix, n);
            for (int i = 0; i < 30; i++) {
                retrace_backward_sample s = law_sample(b, i);
                assert_true(s.started ? s.n <= room : s.n == room);
                full += !s.started;
                long double f = world_f(&w, s.tokens, s.n, s.started);
                assert_true(fabsl((long double)s.log_f - logl(f)) < 1e-12L);
            }
            retrace_backward_free(b);
        }
        assert_true(full > 10);
        for (int n = room; n <= 8; n++)
            assert_int_equal(law_try(&w, &o, suffix, n, &err), RETRACE_EUSAGE);
        world_close(&w);
    }
}

/* No step at all: the suffix, and what it is worth. */
static void no_tokens_leave_the_suffix(void **state) {
    (void)state;
    world w;
    world_shape shape = {.vocab = 6, .order = 2, .ends = 1, .spread = 2, .anchor = 1};
    world_random(&w, &shape, 5);
    const retrace_token x[] = {1, 2, 3};
    retrace_backward_options o = law_options(RETRACE_PRIORITY, 0, 2);
    retrace_backward *b = law_run(&w, &o, x, 3);
    retrace_backward_sample s = law_sample(b, 1);
    assert_true(s.done && !s.started && !s.blocked);
    assert_int_equal(s.n_steps, 0);
    assert_int_equal(s.n, 3);
    assert_true(s.log_q == 0);
    assert_true(fabsl((long double)s.log_f - logl(world_f(&w, x, 3, 0))) < 1e-12L);
    assert_true(s.log_w == s.log_f);
    retrace_backward_free(b);
    world_close(&w);
}

static void assert_refused(const world *w, const retrace_backward_options *o,
                           const retrace_token *s, int n, const char *word) {
    retrace_backward *b = NULL;
    retrace_error err = {0};
    int rc = retrace_backward_new(&b, w->model, w->chain, o, s, n, &err);
    if (rc != RETRACE_EUSAGE) fail_msg("%s: status %d", word, rc);
    assert_null(b);
    assert_int_equal(err.code, RETRACE_EUSAGE);
    if (!strstr(err.msg, word)) fail_msg("'%s' does not say '%s'", err.msg, word);
}

static void wrong_input_is_refused(void **state) {
    (void)state;
    world w, other;
    world_shape shape = {.vocab = 6, .order = 2, .ends = 1, .spread = 2};
    world_random(&w, &shape, 5);
    world_random(&other, &shape, 6);
    const retrace_token s[] = {1, 2}, low[] = {1, -1}, high[] = {6, 1};
    retrace_backward_options good = law_options(RETRACE_EXHAUSTIVE, 2, 1), o = good;
    assert_refused(&w, &o, s, 0, "empty");
    assert_refused(&w, &o, low, 2, "-1");
    assert_refused(&w, &o, high, 2, "6");
    o.mode = RETRACE_EXACT;
    o.top_p = .9;
    assert_refused(&w, &o, s, 2, "top");
    o.top_p = 1;
    o.shared_table = 1;
    assert_refused(&w, &o, s, 2, "shared");
    /* A table cannot be asked in words. */
    o = good;
    o.mode = RETRACE_PRIORITY;
    o.budget = 2;
    o.heuristic = RETRACE_FORWARD_PROMPT;
    retrace_error err = {0};
    assert_int_equal(law_try(&w, &o, s, 2, &err), RETRACE_EUSAGE);
    assert_non_null(strstr(err.msg, "heuristic"));
    o.heuristic = RETRACE_REVERSED;
    assert_int_equal(law_try(&w, &o, s, 2, &err), RETRACE_EUSAGE);
    o.heuristic = RETRACE_MIXED;
    assert_int_equal(law_try(&w, &o, s, 2, &err), RETRACE_OK);
    /* Another model's chain, and another tokenizer's. */
    retrace_backward *b = NULL;
    assert_int_equal(retrace_backward_new(&b, w.model, other.chain, &good, s, 2, &err),
                     RETRACE_EUSAGE);
    assert_int_equal(retrace_bigram_fits(other.chain, w.model, 0, &err), RETRACE_EUSAGE);
    assert_int_equal(retrace_bigram_fits(other.chain, w.model, 1, &err), RETRACE_OK);
    assert_int_equal(retrace_bigram_fits(w.chain, w.model, 0, &err), RETRACE_OK);
    world_close(&other);
    shape.vocab = 7;
    world_random(&other, &shape, 6);
    good.shared_table = 1;
    assert_int_equal(retrace_backward_new(&b, w.model, other.chain, &good, s, 2, &err),
                     RETRACE_EUSAGE);
    assert_int_equal(retrace_bigram_fits(other.chain, w.model, 1, &err), RETRACE_EUSAGE);
    world_close(&other);
    world_close(&w);
}

/* One field to a number, whatever its type. */
static void set_field(retrace_backward_options *o, const retrace_setting_info *i, double x) {
    char *at = (char *)o + i->offset;
    if (i->type == RETRACE_REAL) memcpy(at, &x, sizeof x);
    if (i->type == RETRACE_INT) memcpy(at, &(int64_t){(int64_t)x}, sizeof(int64_t));
    if (i->type == RETRACE_CHOICE || i->type == RETRACE_BOOL)
        memcpy(at, &(int){(int)x}, sizeof(int));
}

static void every_option_has_its_range(void **state) {
    (void)state;
    world w;
    world_shape shape = {.vocab = 6, .order = 1, .ends = 1, .spread = 2};
    world_random(&w, &shape, 5);
    const retrace_token s[] = {1, 2};
    int n = 0;
    for (const retrace_setting_info *i = retrace_backward_infos(); i->name; i++, n++) {
        retrace_backward_options o;
        retrace_error err = {0};
        retrace_backward_default(&o);
        assert_int_equal(
            retrace_backward_set(&o, (retrace_setting){i->name, text_of("nonsense")}, &err),
            RETRACE_EUSAGE);
        assert_non_null(strstr(err.msg, i->name));
        if (i->type != RETRACE_INT && i->type != RETRACE_REAL) continue;
        o = law_options(RETRACE_EXHAUSTIVE, 1, 1);
        if (i->min > -9e15) {
            set_field(&o, i, i->min - 1);
            assert_refused(&w, &o, s, 2, i->name);
        }
        o = law_options(RETRACE_EXHAUSTIVE, 1, 1);
        if (i->max < 9e15) {
            set_field(&o, i, i->max + 1);
            assert_refused(&w, &o, s, 2, i->name);
        }
        if (i->type == RETRACE_REAL) {
            set_field(&o, i, (double)NAN);
            assert_refused(&w, &o, s, 2, i->name);
        }
    }
    assert_true(n >= 12);
    retrace_backward_options o = law_options(RETRACE_EXHAUSTIVE, 1, 1);
    o.mode = 5;
    assert_refused(&w, &o, s, 2, "mode");
    o = law_options(-1, 1, 1);
    assert_refused(&w, &o, s, 2, "mode");
    o = law_options(RETRACE_EXHAUSTIVE, 1, 1);
    o.heuristic = 4;
    assert_refused(&w, &o, s, 2, "heuristic");
    world_close(&w);
}

/* Token 0 follows nothing at all once a document has begun, and begins none. */
static void what_nothing_precedes_is_told(void **state) {
    (void)state;
    world w;
    world_begin(&w, 4);
    w.flags[3] = RETRACE_TOKEN_END;
    double *row = world_row_of(&w, NULL, 0);
    row[1] = row[2] = 2, row[3] = 1;
    world_open(&w);
    world_chain(&w, NULL, 0);
    const retrace_token never[] = {0, 1}, good[] = {1, 0};
    for (int mode = RETRACE_PRIORITY; mode <= RETRACE_COMPAT; mode++) {
        retrace_backward_options o = law_options(mode, 2, 2);
        retrace_error err = {0};
        if (mode == RETRACE_COMPAT) o.threshold = .9;
        assert_int_equal(law_try(&w, &o, never, 2, &err), RETRACE_EUSAGE);
        assert_true(strlen(err.msg) > 0);
        assert_int_equal(law_try(&w, &o, good, 2, &err), RETRACE_EUSAGE);
        assert_int_equal(law_try(&w, &o, good, 1, &err), RETRACE_OK);
    }
    world_close(&w);
}

/* ==== Step by step ==== */

/* The loop over next, by hand: events come in order, and the questions fit the context. */
static void events_tell_every_step(void **state) {
    (void)state;
    world w;
    world_shape shape = {.vocab = 9, .order = 3, .ends = 1, .spread = 4, .anchor = 1};
    world_random(&w, &shape, 8);
    const retrace_token s[] = {1, 2};
    retrace_backward_options o = law_options(RETRACE_PRIORITY, 3, 3);
    o.budget = 4;
    retrace_backward *b = NULL;
    retrace_backward_need need;
    retrace_error err = {0};
    int steps[3] = {0}, done = 0, rc;
    assert_int_equal(retrace_backward_new(&b, w.model, w.chain, &o, s, 2, &err), RETRACE_OK);
    while ((rc = retrace_backward_next(b, &need, &err)) == RETRACE_OK) {
        if (need.kind == RETRACE_NEED_MODEL) {
            assert_true(need.n_queries > 0);
            for (int i = 0; i < need.n_queries; i++) assert_true(need.queries[i].n <= w.n_ctx);
            assert_int_equal(retrace_model_eval(w.model, need.queries, need.n_queries, &err),
                             RETRACE_OK);
            continue;
        }
        assert_int_equal(need.kind, RETRACE_EVENT);
        int i = need.event->sample;
        assert_true(i >= 0 && i < 3);
        retrace_backward_sample now = law_sample(b, i);
        if (need.event->kind == RETRACE_STEPPED) {
            assert_int_equal(now.n_steps, ++steps[i]);
            assert_int_equal(now.steps[steps[i] - 1].drawn.id, need.event->step->drawn.id);
            assert_false(now.done && steps[i] < 3 && !now.started);
        } else {
            assert_true(now.done);
            assert_int_equal(now.n_steps, steps[i]);
            done++;
        }
    }
    assert_int_equal(rc, RETRACE_DONE);
    assert_int_equal(need.kind, RETRACE_NEED_NOTHING);
    assert_int_equal(done, 3);
    retrace_backward_free(b);
    world_close(&w);
}

static int stop_after(void *ud, const retrace_backward_event *event) {
    (void)event;
    return --*(int *)ud == 0;
}

static void a_listener_can_stop_it(void **state) {
    (void)state;
    world w;
    world_shape shape = {.vocab = 9, .order = 3, .spread = 4};
    world_random(&w, &shape, 8);
    const retrace_token x[] = {1, 2};
    retrace_backward_options o = law_options(RETRACE_EXHAUSTIVE, 3, 3);
    retrace_backward *b = NULL;
    retrace_error err = {0};
    int left = 2;
    assert_int_equal(retrace_backward_new(&b, w.model, w.chain, &o, x, 2, &err), RETRACE_OK);
    assert_int_equal(retrace_backward_finish(b, stop_after, &left, &err), RETRACE_OK);
    assert_int_equal(left, 0);
    retrace_backward_sample s = law_sample(b, 0);
    assert_true(s.n_steps == 2 && !s.done);
    /* What is left can still be done. */
    assert_int_equal(retrace_backward_finish(b, NULL, NULL, &err), RETRACE_OK);
    assert_true(law_sample(b, 2).done);
    retrace_backward_free(b);
    world_close(&w);
}

/* Candidates that n_top cuts are the smallest. */
static void lists_are_cut_at_their_end(void **state) {
    (void)state;
    world w;
    world_shape shape = {.vocab = 9, .order = 3, .ends = 1, .spread = 4};
    world_random(&w, &shape, 8);
    const retrace_token s[] = {1, 2};
    retrace_backward_options o = law_options(RETRACE_EXHAUSTIVE, 1, 1);
    retrace_backward *all = law_run(&w, &o, s, 2);
    const retrace_backward_step whole = law_sample(all, 0).steps[0];
    assert_int_equal(whole.n_top, (int)candidates(&w));
    for (int top = 0; top < 12; top++) {
        o.top = top;
        retrace_backward *b = law_run(&w, &o, s, 2);
        const retrace_backward_step *step = &law_sample(b, 0).steps[0];
        assert_int_equal(step->n_top, top < whole.n_top ? top : whole.n_top);
        for (int i = 0; i < step->n_top; i++) {
            assert_int_equal(step->top[i].id, whole.top[i].id);
            assert_true(step->top[i].log_posterior == whole.top[i].log_posterior);
        }
        retrace_backward_free(b);
    }
    retrace_backward_free(all);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_0_takes_the_best),
        cmocka_unit_test(top_p_is_the_smallest_set),
        cmocka_unit_test(equal_candidates_are_cut_in_number),
        cmocka_unit_test(a_whole_budget_is_exhaustive),
        cmocka_unit_test(budgets_are_kept),
        cmocka_unit_test(thresholds_choose_how_many),
        cmocka_unit_test(topk_takes_the_largest_b),
        cmocka_unit_test(compat_stops_at_its_share_of_f),
        cmocka_unit_test(batches_change_nothing),
        cmocka_unit_test(a_full_context_ends_a_text),
        cmocka_unit_test(no_tokens_leave_the_suffix),
        cmocka_unit_test(wrong_input_is_refused),
        cmocka_unit_test(every_option_has_its_range),
        cmocka_unit_test(what_nothing_precedes_is_told),
        cmocka_unit_test(events_tell_every_step),
        cmocka_unit_test(a_listener_can_stop_it),
        cmocka_unit_test(lists_are_cut_at_their_end),
    };
    return cmocka_run_group_tests_name("backward modes", tests, NULL, NULL);
}
