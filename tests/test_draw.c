/* test_draw.c - the weights of one draw over large vocabularies, against the chain written plainly.
 *
 * The laws (laws.c) cover the order of the chain on a few tokens. Over many tokens the library
 * sorts as little as it can; here penalties, bias, bans, top-k, typical, top-p, min-p and
 * temperature over some thousand tokens, flat, steep and with ties, must give the same tokens and
 * weights as sorting it all. */
#include "helper.h"

#include <math.h>

enum { MOST = 3000 };

static uint64_t state;

static int roll(int n) {
    return roll_from(&state, n);
}

/* ==== The model ==== */

/* Weights that rise and fall in several ways; some tokens have none. */
static double weight_of(int shape, int i) {
    switch (shape) {
    case 0: return 1 + 0.001 * roll(1000);             /* flat */
    case 1: return pow(1 + i, -1.1) * (1 + roll(100)); /* a long tail */
    case 2: return 1 + roll(3);                        /* three values: many ties */
    case 3: return exp(-0.05 * roll(2000));            /* over forty powers of e */
    default: return roll(4) ? pow(roll(1000), 3) : 0;  /* holes */
    }
}

static retrace_model *open_many(int shape, int n, double *weights) {
    static char json[MOST * 48];
    size_t at = 0;
    at += (size_t)snprintf(json, sizeof json, "{\"tokens\": [{\"text\": \"</s>\", \"end\": true}");
    for (int i = 1; i < n; i++)
        at += (size_t)snprintf(json + at, sizeof json - at, ", \"<%d>\"", i);
    at += (size_t)snprintf(json + at, sizeof json - at,
                           "], \"rows\": [{\"context\": [], \"next\": {");
    for (int i = 0; i < n; i++) {
        weights[i] = i == 0 ? 1 : weight_of(shape, i);
        at += (size_t)snprintf(json + at, sizeof json - at, "%s\"%d\": %.17g", i ? ", " : "", i,
                               weights[i]);
    }
    at += (size_t)snprintf(json + at, sizeof json - at, "}}]}");
    assert_true(at < sizeof json);
    return open_table(json);
}

/* ==== The chain, plainly ==== */

typedef struct cand {
    int id;
    double logit, p, key;
} cand;

static int by_key(const void *a, const void *b) {
    const cand *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void sort_by(cand *c, int n, int rising_surprise, double entropy) {
    for (int i = 0; i < n; i++)
        c[i].key = rising_surprise ? fabs(-log(c[i].p) - entropy) : -c[i].logit;
    qsort(c, (size_t)n, sizeof *c, by_key);
}

static void softmax(cand *c, int n) {
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = fmax(max, c[i].logit);
    for (int i = 0; i < n; i++) sum += c[i].p = exp(c[i].logit - max);
    for (int i = 0; i < n; i++) c[i].p /= sum;
}

/* The shortest beginning that exceeds (or reaches) a mass. */
static int beginning(const cand *c, int n, double mass, int reach) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += c[i].p;
        if (reach ? sum >= mass : sum > mass) return i + 1;
    }
    return n;
}

static int keep_typical(cand *c, int n, double mass) {
    double entropy = 0;
    softmax(c, n);
    for (int i = 0; i < n; i++) entropy -= c[i].p > 0 ? c[i].p * log(c[i].p) : 0;
    sort_by(c, n, 1, entropy);
    n = beginning(c, n, mass, 0);
    sort_by(c, n, 0, 0);
    return n;
}

static int truncate_plainly(cand *c, int n, const retrace_options *o) {
    sort_by(c, n, 0, 0);
    if (o->top_k > 0 && n > o->top_k) n = (int)o->top_k;
    if (o->typical < 1) n = keep_typical(c, n, o->typical);
    if (o->top_p < 1) {
        softmax(c, n);
        n = beginning(c, n, o->top_p, 1);
    }
    double least = n && o->min_p > 0 ? c[0].logit + log(o->min_p) : -INFINITY;
    while (n && c[n - 1].logit < least) n--;
    for (int i = 0; i < n; i++) c[i].logit /= o->temp;
    softmax(c, n);
    return n;
}

typedef struct setup {
    const double *weights;
    int n;
    retrace_token prompt[40];
    int n_prompt;
    retrace_bias bias[20];
    retrace_options o;
} setup;

static double penalised(const setup *s, int id, double logit) {
    for (int i = 0; i < s->n_prompt; i++) {
        if (s->prompt[i] != id || i < s->n_prompt - s->o.repeat_last_n) continue;
        logit = logit > 0 ? logit / s->o.repeat_penalty : logit * s->o.repeat_penalty;
        break;
    }
    for (int i = 0; i < s->o.n_bias; i++)
        if (s->bias[i].id == id) logit += s->bias[i].bias;
    return logit;
}

static int plainly(const setup *s, cand *c) {
    double total = 0;
    int n = 0;
    for (int i = 0; i < s->n; i++) total += s->weights[i];
    for (int i = 0; i < s->n; i++) {
        double logit = penalised(s, i, (double)(float)log(s->weights[i] / total));
        if (logit > -INFINITY && !(i == 0 && s->o.ignore_eos)) c[n++] = (cand){i, logit, 0, 0};
    }
    return truncate_plainly(c, n, &s->o);
}

/* ==== Comparing ==== */

typedef struct drawn {
    double p[MOST];
    double total;
    int n;
} drawn;

static int choose_first(void *ud, const double *p, const retrace_token *ids, int n,
                        uint64_t purpose, int pos, int attempt) {
    drawn *d = ud;
    (void)purpose, (void)pos, (void)attempt;
    memset(d, 0, sizeof *d);
    int first = n;
    for (int i = 0; i < n; i++) {
        d->p[ids ? ids[i] : i] = p[i];
        d->total += p[i];
        d->n += p[i] > 0;
        if (p[i] > 0 && first == n) first = i;
    }
    return first;
}

static void make_setup(setup *s) {
    s->o = plain_options(1);
    s->o.temp = 0.25 * (1 + roll(8));
    int which = roll(16);
    s->o.top_k = which & 1 ? 1 + roll(roll(2) ? 40 : s->n) : 0;
    s->o.top_p = which & 2 ? 0.05 + 0.9499 * roll(1000) / 1000 : 1;
    s->o.min_p = which & 4 ? 0.0001 * (1 + roll(3000)) : 0;
    s->o.typical = roll(4) == 0 ? 0.05 + 0.9 * roll(1000) / 1000 : 1;
    s->o.repeat_penalty = roll(2) ? 1 : 1.01 + 0.01 * roll(50);
    s->o.repeat_last_n = roll(2) ? 64 : 5;
    s->o.ignore_eos = roll(2);
    s->n_prompt = roll(40);
    for (int i = 0; i < s->n_prompt; i++) s->prompt[i] = 1 + roll(s->n - 1);
    s->o.n_bias = roll(2) ? 0 : roll(20);
    for (int i = 0; i < s->o.n_bias; i++)
        s->bias[i] = (retrace_bias){roll(s->n), roll(3) ? roll(2000) / 200. - 5 : -INFINITY};
    s->o.bias = s->bias;
}

static void compare(retrace_model *m, setup *s) {
    static drawn d;
    static cand c[MOST];
    static answer a;
    s->o.choose = choose_first;
    s->o.choose_ud = &d;
    finish_tokens(&a, m, &s->o, s->prompt, s->n_prompt);
    int n = plainly(s, c), live = 0;
    for (int i = 0; i < n; i++) {
        double got = d.p[c[i].id] / d.total;
        live += c[i].p > 0;
        if (!(fabs(got - c[i].p) <= 1e-12 + 1e-10 * c[i].p))
            fail_msg("token %d: expected %.17g, got %.17g", c[i].id, c[i].p, got);
    }
    if (d.n != live) fail_msg("%d tokens have weight, %d should", d.n, live);
}

static void weights_are_those_of_the_plain_chain(void **unused) {
    (void)unused;
    static const int sizes[] = {7, 255, 257, 700, MOST};
    static double weights[MOST];
    for (int shape = 0; shape < 5; shape++) {
        for (int k = 0; k < COUNT(sizes); k++) {
            state = (uint64_t)(shape * 100 + k);
            setup s = {.weights = weights, .n = sizes[k]};
            retrace_model *m = open_many(shape, sizes[k], weights);
            for (int round = 0; round < 60; round++) {
                make_setup(&s);
                compare(m, &s);
            }
            retrace_model_close(m);
        }
    }
}

/* A place where a hundred tokens are banned one after the other: what is left keeps its odds. */
static void many_bans_leave_the_odds(void **unused) {
    (void)unused;
    static double weights[MOST];
    static drawn d;
    static answer a;
    char list[1024];
    int at = 0;
    for (int i = 1; i < 100; i++) at += snprintf(list + at, sizeof list - (size_t)at, "<%d>\n", i);
    state = 5;
    retrace_model *m = open_many(1, 600, weights);
    const char *pairs[] = {"file", list, NULL};
    retrace_rule *r = make_rule("phrases", pairs);
    retrace_options o = plain_options(3);
    o.choose = choose_first;
    o.choose_ud = &d;
    o.ignore_eos = 1;
    o.rules = &r;
    o.n_rules = 1;
    finish_text(&a, m, &o, "");
    assert_string_equal(a.text, "<100><100><100>");
    assert_int_equal(a.stats.rewinds, 3 * 99);
    assert_int_equal(d.n, 600 - 1 - 99);
    double left = 0;
    for (int i = 100; i < 600; i++) left += weights[i];
    for (int i = 100; i < 600; i++)
        assert_true(fabs(d.p[i] / d.total - weights[i] / left) <= 1e-6 * weights[i] / left);
    retrace_rule_free(r);
    retrace_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_those_of_the_plain_chain),
        cmocka_unit_test(many_bans_leave_the_odds),
    };
    return cmocka_run_group_tests_name("draw", tests, NULL, NULL);
}
