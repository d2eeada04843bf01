/* real_backward.c - backward sampling on a real model: is the posterior calibrated, and does the
 * anchor help?
 *
 * Calibration: a token is drawn from the prior and goes on by the model. Then the posterior of that
 * token given what followed is Bayes' rule by construction, so the share of posterior above the
 * true token (plus a random part of its own) is uniform. 100 pairs; the same figures with the prior
 * left out, or with the likelihood left out, are far from uniform, so the test can fail.
 *
 * Reversal loss: -ln posterior of the token that really preceded, at cuts of a text. With the
 * document start as anchor it is lower than without one.
 *
 * Long: it builds two tables (RETRACE_LONG), which stay beside this program. */
#include "helper.h"

#include <math.h>

enum { PAIRS = 100, DRAWS = 400, FOLLOW = 3, BINS = 10, CUTS = 16, SUFFIX = 6 };

static const char *folder;

typedef struct world {
    retrace_model *model;
    retrace_bigram *chain;
    retrace_model_info facts;
    retrace_bigram_info table;
} world;

static int tell(void *ud, const retrace_build_progress *p) {
    int *last = ud, percent = (int)(100 * p->share);
    if (percent / 10 != *last / 10) print_message("  %d %%\n", percent);
    *last = percent;
    return 0;
}

static world open_world(const char *name, retrace_anchor anchor) {
    world w = {0};
    retrace_error err = {0};
    retrace_setting f32 = {"weights", {"f32", 3}};
    char path[600];
    int last = 0;
    if (retrace_model_open(&w.model, getenv("RETRACE_MODEL"), &f32, 1, &err))
        fail_msg("%s", err.msg);
    retrace_model_facts(w.model, &w.facts);
    snprintf(path, sizeof path, "%s/%s.bigram", folder, name);
    int rc = retrace_bigram_open(&w.chain, path, &err);
    if (rc == RETRACE_OK && retrace_bigram_fits(w.chain, w.model, 0, &err)) {
        retrace_bigram_close(w.chain);
        rc = RETRACE_EIO;
    }
    if (rc) {
        print_message("building %s\n", path);
        if (retrace_bigram_build(path, w.model, anchor, 0, tell, &last, &err) ||
            retrace_bigram_open(&w.chain, path, &err))
            fail_msg("%s", err.msg);
    }
    retrace_bigram_facts(w.chain, &w.table);
    return w;
}

static void close_world(world *w) {
    retrace_bigram_close(w->chain);
    retrace_model_close(w->model);
}

/* ==== Scores by hand ==== */

static double uniform(uint64_t *state) {
    return (roll_from(state, 1 << 30) + 0.5) / (1 << 30);
}

static int pick(const double *p, int n, uint64_t *state) {
    double sum = 0, u = uniform(state);
    for (int i = 0; i < n; i++) sum += p[i];
    u *= sum;
    for (int i = 0; i < n; i++)
        if ((u -= p[i]) < 0) return i;
    return n - 1;
}

/* ln P(s | a, v), the first factor from the table. */
static double log_likelihood(const world *w, retrace_token v, const retrace_token *s, int n) {
    retrace_token t[64];
    double logp[64], sum, *row = malloc((size_t)w->facts.vocab * sizeof *row);
    retrace_error err = {0};
    int a = w->table.n_anchor;
    for (int i = 0; i < a; i++) t[i] = w->table.anchor[i];
    t[a] = v;
    memcpy(t + a + 1, s, (size_t)n * sizeof *s);
    retrace_query q = {.tokens = t, .n = a + 1 + n, .from = a + 2, .logp = logp};
    q.n_prompt = q.n;
    if (retrace_bigram_row(w->chain, v, row, &err) || retrace_model_eval(w->model, &q, 1, &err))
        fail_msg("%s", err.msg);
    sum = row[s[0]];
    for (int i = 0; i < n - 1; i++) sum += logp[i];
    free(row);
    return sum;
}

static int is_candidate(const world *w, retrace_token v) {
    return retrace_piece(w->model, v).n > 0;
}

/* The model goes on from v. */
static void follow(const world *w, retrace_token v, retrace_token *s, int n, uint64_t *state) {
    retrace_token t[64];
    int at = w->table.n_anchor;
    float *next = malloc((size_t)w->facts.vocab * sizeof *next);
    double *p = malloc((size_t)w->facts.vocab * sizeof *p);
    retrace_error err = {0};
    for (int i = 0; i < at; i++) t[i] = w->table.anchor[i];
    t[at++] = v;
    for (int k = 0; k < n; k++) {
        retrace_query q = {.tokens = t, .n = at, .n_prompt = at, .next = next};
        double max = -INFINITY;
        if (retrace_model_eval(w->model, &q, 1, &err)) fail_msg("%s", err.msg);
        for (int i = 0; i < w->facts.vocab; i++) max = fmax(max, (double)next[i]);
        for (int i = 0; i < w->facts.vocab; i++) p[i] = exp((double)next[i] - max);
        t[at++] = s[k] = pick(p, w->facts.vocab, state);
    }
    free(next);
    free(p);
}

static retrace_backward *look_back(const world *w, const retrace_token *s, int n, int draws,
                                   int budget) {
    retrace_backward *b = NULL;
    retrace_backward_options o;
    retrace_error err = {0};
    retrace_backward_default(&o);
    o.seed = 1;
    o.max_tokens = 1;
    o.num_samples = draws;
    o.budget = budget;
    o.start = 0;
    if (retrace_backward_new(&b, w->model, w->chain, &o, s, n, &err) ||
        retrace_backward_finish(b, NULL, NULL, &err))
        fail_msg("%s", err.msg);
    return b;
}

/* ==== Calibration ==== */

/* What a candidate is worth, with or without its prior. */
static double worth(const retrace_preceding *d, int no_prior) {
    return (no_prior ? 0 : d->log_prior) + d->log_likelihood;
}

/* The share of the posterior above the true token, by draws; of the token itself a part. Draws
 * follow prior times likelihood, so without the prior they are weighed by its inverse. */
static double rank(const retrace_backward *b, const retrace_preceding *truth, double part,
                   int no_prior) {
    retrace_backward_sample x;
    double above = 0, all = 0;
    for (int i = 0; retrace_backward_at(b, i, &x); i++) {
        const retrace_preceding *d = &x.steps[0].drawn;
        double w = no_prior ? exp(-d->log_prior - 10) : 1;
        int beats = worth(d, no_prior) > worth(truth, no_prior);
        all += w;
        above += w * (d->id == truth->id ? part : beats);
    }
    return above / all;
}

static double chi_square(const double *u, int n) {
    int count[BINS] = {0};
    double sum = 0, expected = (double)n / BINS;
    for (int i = 0; i < n; i++) {
        int bin = (int)(u[i] * BINS);
        count[bin < BINS ? bin : BINS - 1]++;
    }
    for (int k = 0; k < BINS; k++) sum += (count[k] - expected) * (count[k] - expected) / expected;
    return sum;
}

static void the_true_token_is_where_it_should_be(void **state) {
    (void)state;
    if (!folder) skip();
    world w = open_world("auto", (retrace_anchor){NULL, -1});
    const double *pi = retrace_bigram_pi(w.chain);
    double *prior = malloc((size_t)w.facts.vocab * sizeof *prior), u[2][PAIRS];
    uint64_t chance = 20;
    for (int v = 0; v < w.facts.vocab; v++) prior[v] = is_candidate(&w, v) ? pi[v] : 0;
    for (int i = 0; i < PAIRS; i++) {
        retrace_token v = pick(prior, w.facts.vocab, &chance), s[FOLLOW];
        follow(&w, v, s, FOLLOW, &chance);
        retrace_preceding truth = {v, 0, log(pi[v]), log_likelihood(&w, v, s, FOLLOW)};
        retrace_backward *b = look_back(&w, s, FOLLOW, DRAWS, 256);
        double part = uniform(&chance);
        for (int how = 0; how < 2; how++) u[how][i] = rank(b, &truth, part, how);
        retrace_backward_free(b);
    }
    double with = chi_square(u[0], PAIRS), without = chi_square(u[1], PAIRS);
    print_message("chi-square of %d ranks, 9 degrees of freedom: %.1f; without the prior %.1f\n",
                  PAIRS, with, without);
    assert_true(with < 27.9);    /* one in a thousand */
    assert_true(without > 16.9); /* one in twenty */
    free(prior);
    close_world(&w);
}

/* ==== Reversal loss ==== */

static const char story[] =
    "The boat came back late in the evening, when the lamps along the harbour had been lit. Two "
    "men stood on the deck and did not speak. They had been out since the morning and had caught "
    "nothing. My mother asked them in and gave them soup and bread. \"There is something in the "
    "water,\" the older one said at last. \"The fish are afraid of it.\" Nobody laughed. The next "
    "day the school was closed, and we walked down to the beach to see for ourselves.";

static double reversal_loss(const world *w) {
    retrace_token *t = NULL;
    retrace_error err = {0};
    int n;
    double sum = 0;
    if (retrace_tokenize(w->model, text_of(story), 0, &t, &n, &err)) fail_msg("%s", err.msg);
    for (int i = 0; i < CUTS; i++) {
        int at = 1 + i * (n - SUFFIX - 1) / CUTS;
        retrace_backward_sample x;
        retrace_backward *b = look_back(w, t + at, SUFFIX, 1, 256);
        assert_true(retrace_backward_at(b, 0, &x));
        double score = log(retrace_bigram_pi(w->chain)[t[at - 1]]) +
                       log_likelihood(w, t[at - 1], t + at, SUFFIX);
        sum += x.steps[0].log_z - score;
        retrace_backward_free(b);
    }
    retrace_free(t);
    return sum / CUTS;
}

static void the_anchor_lowers_the_reversal_loss(void **state) {
    (void)state;
    if (!folder) skip();
    world with = open_world("auto", (retrace_anchor){NULL, -1});
    double a = reversal_loss(&with);
    close_world(&with);
    world without = open_world("none", (retrace_anchor){NULL, 0});
    double b = reversal_loss(&without);
    close_world(&without);
    print_message("reversal loss, nats a token: %.2f with the anchor, %.2f without\n", a, b);
    assert_true(a < b);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_true_token_is_where_it_should_be),
        cmocka_unit_test(the_anchor_lowers_the_reversal_loss),
    };
    char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    if (slash) *slash = '\0';
    if (slash && getenv("RETRACE_LONG") && getenv("RETRACE_MODEL")) folder = argv[0];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
