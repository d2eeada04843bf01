/* backward_summary.c - the lines below all samples: how many there are, what they weigh, what to
 * beware of.
 *
 * Samples may come to the same text by chance or by other tokens, so texts are counted too. Weights
 * say how the samples count beside each other, so they can only be told when all are there. */
#include "backward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *plural(int64_t n) {
    return n == 1 ? "" : "s";
}

/* ==== Counting ==== */

static int by_bytes(const void *a, const void *b) {
    const cli_buf *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int order = n ? memcmp(x->s, y->s, n) : 0;
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

static int distinct(cli_buf *prefixes, int n) {
    int count = 0;
    if (n) qsort(prefixes, (size_t)n, sizeof *prefixes, by_bytes);
    for (int i = 0; i < n; i++) count += i == 0 || by_bytes(&prefixes[i - 1], &prefixes[i]) != 0;
    return count;
}

cli_back_count cli_back_counts(const cli_back *k) {
    cli_back_count c = {0};
    retrace_backward_sample s;
    int cap = 0;
    cli_buf *prefixes = NULL;
    for (int i = 0; retrace_backward_at(k->b, i, &s); i++) {
        c.unfinished += !s.done && s.n_steps;
        if (!s.done) continue;
        c.improper |= s.improper;
        if (c.done == cap) {
            cap = 2 * cap + 16;
            prefixes = cli_realloc(prefixes, (size_t)cap * sizeof *prefixes);
        }
        prefixes[c.done] = (cli_buf){0};
        cli_back_prefix(k, &s, &prefixes[c.done++]);
    }
    c.texts = distinct(prefixes, c.done);
    for (int i = 0; i < c.done; i++) cli_buf_free(&prefixes[i]);
    free(prefixes);
    return c;
}

/* ==== Weights ==== */

typedef struct weight {
    int sample;
    double log_w, share;
} weight;

static int by_weight(const void *a, const void *b) {
    const weight *x = a, *y = b;
    double a_w = round(1e6 * x->log_w), b_w = round(1e6 * y->log_w); /* beyond rounding */
    if (a_w != b_w) return a_w < b_w ? 1 : -1;
    return x->sample - y->sample;
}

/* The samples that are done, the heaviest first; 0 when none weighs anything. */
static int weigh(const cli_back *k, weight *w, int n) {
    retrace_backward_sample s;
    double sum = 0;
    int found = 0;
    for (int i = 0; found < n && retrace_backward_at(k->b, i, &s); i++)
        if (s.done) w[found++] = (weight){i, s.log_w, 0};
    qsort(w, (size_t)n, sizeof *w, by_weight);
    if (w[0].log_w == -INFINITY) return 0;
    for (int i = 0; i < n; i++) sum += w[i].share = exp(w[i].log_w - w[0].log_w);
    for (int i = 0; i < n; i++) w[i].share *= 100 / sum;
    return 1;
}

static void tell_weights(const cli_back *k, const cli_back_count *c) {
    enum { LISTED = 12 };
    if (c->done < 2 || c->improper || cli_on(k->f, "json")) return;
    weight *w = cli_alloc((size_t)c->done * sizeof *w);
    cli_buf b = {0};
    double rest = 0;
    if (weigh(k, w, c->done)) {
        for (int i = 0; i < c->done; i++) {
            if (i < LISTED)
                cli_printf(&b, "%s[%d] %.*f %%", i ? ", " : "", w[i].sample + 1,
                           w[i].share > 0 && w[i].share < 1, w[i].share);
            else
                rest += w[i].share;
        }
        if (c->done > LISTED)
            cli_printf(&b, ", %d other%s %.0f %%", c->done - LISTED, plural(c->done - LISTED),
                       rest);
        cli_say("weights: %s", b.s);
    }
    cli_buf_free(&b);
    free(w);
}

/* ==== Warnings ==== */

/* Steps that are estimates with an error that may be larger than stated. In the modes that state
 * none there is nothing to doubt. */
static int is_doubtful(const cli_back *k, const retrace_backward_step *t) {
    (void)k;
    return !t->reliable && !isnan(t->se);
}

/* Less than --threshold asked for. In compat it means something else. */
static int falls_short(const cli_back *k, const retrace_backward_step *t) {
    int asked = k->options.threshold > 0 &&
                (k->options.mode == RETRACE_PRIORITY || k->options.mode == RETRACE_EXACT);
    return asked && t->coverage < k->options.threshold;
}

typedef struct tally {
    int n, steps;
    double least; /* coverage of those */
} tally;

static tally count(const cli_back *k, int (*is)(const cli_back *, const retrace_backward_step *)) {
    tally t = {.least = 1};
    retrace_backward_sample s;
    for (int i = 0; retrace_backward_at(k->b, i, &s); i++)
        for (int j = 0; j < s.n_steps; j++, t.steps++) {
            if (!is(k, &s.steps[j])) continue;
            t.n++;
            t.least = fmin(t.least, s.steps[j].coverage);
        }
    return t;
}

static void warn(const cli_back *k) {
    double asked = k->options.threshold;
    tally doubtful = count(k, is_doubtful), under = count(k, falls_short);
    if (doubtful.n)
        cli_say("retrace: warning: in %d of %d step%s a few candidates carry the estimate: its "
                "error may be larger than stated (%s helps)",
                doubtful.n, doubtful.steps, plural(doubtful.steps),
                asked > 0 && asked < 1 ? "a larger --threshold" : "a larger --budget");
    if (under.n)
        cli_say("retrace: warning: asked for %g %%, reached %g %% in %d of %d step%s; %s",
                100 * asked, floor(1000 * under.least) / 10, under.n, under.steps,
                plural(under.steps),
                k->options.budget ? "--budget is the most that is evaluated: a larger one helps"
                                  : "a higher --threshold, or --budget N, helps");
}

/* ==== The last line ==== */

static void put_samples(cli_buf *b, const cli_back_count *c, double ess) {
    if (cli_interrupted())
        cli_printf(b, "interrupted: %d complete sample%s, %d unfinished", c->done, plural(c->done),
                   c->unfinished);
    else
        cli_printf(b, "%d sample%s", c->done, plural(c->done));
    if (c->done == 0) return;
    cli_printf(b, ", %d text%s", c->texts, plural(c->texts));
    if (c->improper)
        cli_puts(b, ", weights improper: no effective size");
    else
        cli_printf(b, ", effective size %.2f", ess);
}

void cli_back_show_summary(const cli_back *k) {
    retrace_backward_stats t;
    cli_back_count c = cli_back_counts(k);
    cli_buf b = {0};
    retrace_backward_totals(k->b, &t);
    put_samples(&b, &c, t.ess);
    if (!cli_quiet && !cli_on(k->f, "json") && isatty(STDOUT_FILENO) && isatty(STDERR_FILENO))
        putc('\n', stderr);
    tell_weights(k, &c);
    cli_say("%s; %lld candidate%s and %lld token%s evaluated in %.1f s, seed %lld", b.s,
            (long long)t.candidates, plural(t.candidates), (long long)t.evaluated,
            plural(t.evaluated), k->end - k->start, (long long)k->options.seed);
    warn(k);
    cli_buf_free(&b);
}
