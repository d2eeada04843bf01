/* metrics.c - what the server has done, in Prometheus's text format.
 *
 * Counters only rise; gauges say what is now. The names of rules are labels; more than MOST of them
 * share one called "other", so that no client can make the page grow. */
#include "server.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, N_BOUNDS = 12 };

static const double bounds[N_BOUNDS] = {0.005, 0.01, 0.05, 0.1, 0.25, 0.5,
                                        1,     2.5,  10,   30,  120,  600};

typedef struct rule_count {
    char name[64];
    int64_t hits, erased;
} rule_count;

typedef struct histogram {
    int64_t upto[N_BOUNDS], n;
    double sum;
} histogram;

struct srv_metrics {
    pthread_mutex_t lock;
    int64_t counts[SRV_N_COUNTS], gauges[SRV_N_GAUGES];
    rule_count rules[MOST + 1];
    int n_rules;
    histogram seconds, first;
};

typedef struct row {
    const char *name, *help;
} row;

static const row count_rows[SRV_N_COUNTS] = {
    [SRV_C_REQUESTS] = {"requests_total", "Requests answered."},
    [SRV_C_ERRORS] = {"errors_total", "Of these, with a status of 400 or more."},
    [SRV_C_PROMPT_TOKENS] = {"prompt_tokens_total", "Tokens of prompts."},
    [SRV_C_CACHED_TOKENS] = {"cached_tokens_total", "Of these, not computed again."},
    [SRV_C_TOKENS] = {"tokens_total", "Tokens written and kept."},
    [SRV_C_EVALUATED] = {"evaluated_total", "Token rows given to the model."},
    [SRV_C_ERASED] = {"tokens_erased_total", "Tokens taken back."},
    [SRV_C_REWINDS] = {"rewinds_total", "How often tokens were taken back."},
    [SRV_C_ACCEPTED] = {"accepted_total", "Hits of soft rules that were let through."},
    [SRV_C_CANCELLED] = {"cancelled_total", "Requests whose client left."},
    [SRV_C_STEPS] = {"steps_total", "Calls of the model."},
};

static const row gauge_rows[SRV_N_GAUGES] = {
    [SRV_G_RUNNING] = {"requests_running", "Requests in work."},
    [SRV_G_WAITING] = {"requests_waiting", "Requests that wait for a slot."},
    [SRV_G_KEPT] = {"runs_kept", "Completions kept for /v1/rewind."},
    [SRV_G_CONNECTIONS] = {"connections", "Open connections."},
};

struct srv_metrics *srv_metrics_new(void) {
    struct srv_metrics *m = cli_alloc(sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

void srv_metrics_free(struct srv_metrics *m) {
    if (!m) return;
    pthread_mutex_destroy(&m->lock);
    free(m);
}

void srv_count_up(struct srv_metrics *m, srv_count c, int64_t n) {
    pthread_mutex_lock(&m->lock);
    m->counts[c] += n;
    pthread_mutex_unlock(&m->lock);
}

void srv_gauge_set(struct srv_metrics *m, srv_gauge g, int64_t value) {
    pthread_mutex_lock(&m->lock);
    m->gauges[g] = value;
    pthread_mutex_unlock(&m->lock);
}

/* The row of a rule, under the lock; a new one while there is room. */
static rule_count *rule_of(struct srv_metrics *m, const char *name) {
    for (int i = 0; i < m->n_rules; i++)
        if (strncmp(m->rules[i].name, name, sizeof m->rules[i].name - 1) == 0) return &m->rules[i];
    rule_count *r = &m->rules[m->n_rules < MOST ? m->n_rules++ : MOST];
    snprintf(r->name, sizeof r->name, "%s", r == &m->rules[MOST] ? "other" : name);
    return r;
}

void srv_count_rule(struct srv_metrics *m, const char *rule, int64_t hits, int64_t erased) {
    pthread_mutex_lock(&m->lock);
    rule_count *r = rule_of(m, rule);
    r->hits += hits;
    r->erased += erased;
    pthread_mutex_unlock(&m->lock);
}

static void observe(histogram *h, double x) {
    if (x < 0) return;
    for (int i = 0; i < N_BOUNDS; i++) h->upto[i] += x <= bounds[i];
    h->n++;
    h->sum += x;
}

void srv_observe(struct srv_metrics *m, double seconds, double first_s) {
    pthread_mutex_lock(&m->lock);
    observe(&m->seconds, seconds);
    observe(&m->first, first_s);
    pthread_mutex_unlock(&m->lock);
}

/* ==== The page ==== */

static void put_head(cli_buf *b, const char *name, const char *help, const char *type) {
    cli_printf(b, "# HELP retrace:%s %s\n# TYPE retrace:%s %s\n", name, help, name, type);
}

static void put_rows(cli_buf *b, const row *rows, const int64_t *values, int n, const char *type) {
    for (int i = 0; i < n; i++) {
        put_head(b, rows[i].name, rows[i].help, type);
        cli_printf(b, "retrace:%s %lld\n", rows[i].name, (long long)values[i]);
    }
}

static void put_histogram(cli_buf *b, const char *name, const char *help, const histogram *h) {
    put_head(b, name, help, "histogram");
    for (int i = 0; i < N_BOUNDS; i++)
        cli_printf(b, "retrace:%s_bucket{le=\"%g\"} %lld\n", name, bounds[i],
                   (long long)h->upto[i]);
    cli_printf(b, "retrace:%s_bucket{le=\"+Inf\"} %lld\n", name, (long long)h->n);
    cli_printf(b, "retrace:%s_sum %.6f\nretrace:%s_count %lld\n", name, h->sum, name,
               (long long)h->n);
}

static void put_label(cli_buf *b, const char *s) {
    for (; *s; s++) {
        if (*s == '\\' || *s == '"') cli_put(b, "\\", 1);
        if (*s == '\n')
            cli_puts(b, "\\n");
        else
            cli_put(b, s, 1);
    }
}

static void put_rules(cli_buf *b, const struct srv_metrics *m, int erased) {
    const char *name = erased ? "rule_erased_total" : "rule_hits_total";
    put_head(b, name, erased ? "Tokens that a rule took back." : "Hits of a rule.", "counter");
    for (int i = 0; i <= MOST; i++) {
        const rule_count *r = &m->rules[i];
        if (!r->name[0]) continue;
        cli_printf(b, "retrace:%s{rule=\"", name);
        put_label(b, r->name);
        cli_printf(b, "\"} %lld\n", (long long)(erased ? r->erased : r->hits));
    }
}

void srv_metrics_text(struct srv_metrics *m, cli_buf *out) {
    pthread_mutex_lock(&m->lock);
    put_rows(out, count_rows, m->counts, SRV_N_COUNTS, "counter");
    put_rows(out, gauge_rows, m->gauges, SRV_N_GAUGES, "gauge");
    put_rules(out, m, 0);
    put_rules(out, m, 1);
    put_histogram(out, "request_seconds", "Seconds of a completion, waiting included.",
                  &m->seconds);
    put_histogram(out, "first_text_seconds", "Seconds to the first text.", &m->first);
    pthread_mutex_unlock(&m->lock);
}
