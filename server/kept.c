/* kept.c - completions that can be taken up again: for --keep-runs, --keep-seconds and /v1/rewind.
 *
 * A completion is entered when it begins, so that its id is known while it runs (409) and no two
 * clients write to it at once. Its owner is the key that made it; to others it does not exist. What
 * the runs remember of the model's distributions has a budget of its own in the library. */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

struct srv_kept {
    srv_entry *first; /* the newest */
    int64_t most;
    double most_s;
    struct srv_metrics *metrics;
};

srv_kept *srv_kept_new(const srv_config *c, struct srv_metrics *m) {
    srv_kept *k = cli_alloc(sizeof *k);
    *k = (srv_kept){.most = c->keep_runs, .most_s = c->keep_s, .metrics = m};
    return k;
}

static void free_entry(srv_entry *e) {
    for (int i = 0; i < e->n_runs; i++) retrace_run_free(e->runs[i]);
    free(e->runs);
    srv_request_free(e->q);
    free(e);
}

void srv_kept_free(srv_kept *k) {
    if (!k) return;
    for (srv_entry *e = k->first, *next; e; e = next) {
        next = e->next;
        free_entry(e);
    }
    free(k);
}

srv_entry *srv_kept_add(srv_kept *k, srv_request *q, int n_runs) {
    srv_entry *e = cli_alloc(sizeof *e);
    *e = (srv_entry){.q = q, .n_runs = n_runs, .in_use = 1, .next = k->first};
    e->runs = cli_alloc((size_t)n_runs * sizeof *e->runs);
    k->first = e;
    return e;
}

static int is_due(const srv_kept *k, const srv_entry *e, int64_t n_before, double now) {
    return !e->in_use && (n_before >= k->most || now - e->since >= k->most_s);
}

/* Those that were used last come first, so the ones too many are the last. */
double srv_kept_sweep(srv_kept *k, double now) {
    int64_t n = 0;
    double next = 0;
    for (srv_entry **at = &k->first; *at;) {
        srv_entry *e = *at;
        if (is_due(k, e, n, now)) {
            *at = e->next;
            free_entry(e);
            continue;
        }
        if (!e->in_use) {
            n++;
            if (next <= 0 || e->since + k->most_s < next) next = e->since + k->most_s;
        }
        at = &e->next;
    }
    srv_gauge_set(k->metrics, SRV_G_KEPT, n);
    return next;
}

static void move_to_front(srv_kept *k, srv_entry *e) {
    srv_entry **at = &k->first;
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    e->next = k->first;
    k->first = e;
}

/* What failed cannot be taken up again. */
static int is_worth(const srv_entry *e) {
    for (int i = 0; i < e->n_runs; i++)
        if (e->runs[i] && retrace_run_finished(e->runs[i]) != RETRACE_FINISH_ERROR) return 1;
    return 0;
}

void srv_kept_release(srv_kept *k, srv_entry *e, double now) {
    e->in_use = 0;
    e->since = is_worth(e) ? now : now - k->most_s;
    move_to_front(k, e);
    srv_kept_sweep(k, now);
}

srv_entry *srv_kept_take(srv_kept *k, const char *id, const unsigned char key[SRV_DIGEST],
                         srv_error *err) {
    srv_entry *e = k->first;
    while (e && (strcmp(e->q->id, id) != 0 || memcmp(e->q->key, key, SRV_DIGEST) != 0)) e = e->next;
    if (!e) {
        srv_fail(
            err, 404, "completion_not_found", "id",
            "there is no completion '%.64s', or it is no longer kept (--keep-runs, --keep-seconds)",
            id);
        return NULL;
    }
    if (e->in_use) {
        srv_fail(err, 409, "completion_in_use", "id",
                 "the completion '%.64s' is still being written", id);
        return NULL;
    }
    e->in_use = 1;
    return e;
}
