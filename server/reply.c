/* reply.c - an answer on its way to a client.
 *
 * One producer (the front itself, prep or the worker) puts bytes in, the front takes them out. Each
 * holds the reply, so neither has to know when the other is done. A client that has left is a flag:
 * what is put then is dropped, and the producer sees it when it next looks. */
#include "reply.h"

#include <stdlib.h>
#include <string.h>

srv_reply *srv_reply_new(srv_front *front) {
    srv_reply *r = cli_alloc(sizeof *r);
    atomic_init(&r->refs, 1);
    atomic_init(&r->gone, 0);
    pthread_mutex_init(&r->lock, NULL);
    r->front = front;
    return r;
}

srv_reply *srv_reply_hold(srv_reply *r) {
    atomic_fetch_add(&r->refs, 1);
    return r;
}

void srv_reply_drop(srv_reply *r) {
    if (!r || atomic_fetch_sub(&r->refs, 1) != 1) return;
    for (int i = 0; i < r->n_headers; i++) {
        free(r->headers[i].name);
        free(r->headers[i].value);
    }
    free(r->headers);
    cli_buf_free(&r->out);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static void wake(srv_reply *r) {
    if (r->front) srv_front_wake(r->front, r);
}

/* ==== The producer's side ==== */

void srv_reply_header(srv_reply *r, const char *name, const char *value) {
    pthread_mutex_lock(&r->lock);
    r->headers = cli_realloc(r->headers, (size_t)(r->n_headers + 1) * sizeof *r->headers);
    r->headers[r->n_headers++] =
        (srv_header){cli_copy(name, strlen(name)), cli_copy(value, strlen(value))};
    pthread_mutex_unlock(&r->lock);
}

void srv_reply_start(srv_reply *r, int status, const char *type, int streaming) {
    pthread_mutex_lock(&r->lock);
    r->status = status;
    r->type = type;
    r->streaming = streaming;
    pthread_mutex_unlock(&r->lock);
    if (streaming) wake(r);
}

void srv_reply_put(srv_reply *r, const char *s, size_t n) {
    if (n == 0 || srv_reply_gone(r)) return;
    pthread_mutex_lock(&r->lock);
    if (r->taken == r->out.n) {
        r->taken = r->out.n = 0;
        r->since = cli_clock();
    }
    cli_put(&r->out, s, n);
    int streaming = r->streaming;
    pthread_mutex_unlock(&r->lock);
    if (streaming) wake(r);
}

void srv_reply_end(srv_reply *r) {
    pthread_mutex_lock(&r->lock);
    r->ended = 1;
    pthread_mutex_unlock(&r->lock);
    wake(r);
}

void srv_reply_json(srv_reply *r, int status, json_t *j) {
    char *s = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    srv_reply_start(r, status, "application/json; charset=utf-8", 0);
    srv_reply_put(r, s ? s : "{}", s ? strlen(s) : 2);
    srv_reply_put(r, "\n", 1);
    srv_reply_end(r);
    free(s);
}

int srv_reply_started(srv_reply *r) {
    pthread_mutex_lock(&r->lock);
    int started = r->status != 0;
    pthread_mutex_unlock(&r->lock);
    return started;
}

int srv_reply_gone(const srv_reply *r) {
    return atomic_load(&r->gone);
}

size_t srv_reply_waiting(srv_reply *r, double *since) {
    pthread_mutex_lock(&r->lock);
    size_t n = r->out.n - r->taken;
    if (since) *since = n ? r->since : cli_clock();
    pthread_mutex_unlock(&r->lock);
    return n;
}

/* ==== The front's side ==== */

int srv_reply_ready(srv_reply *r) {
    pthread_mutex_lock(&r->lock);
    int ready = r->status && (r->ended || r->streaming);
    pthread_mutex_unlock(&r->lock);
    return ready;
}

size_t srv_reply_take(srv_reply *r, char *buf, size_t max, int *ended) {
    pthread_mutex_lock(&r->lock);
    size_t left = r->out.n - r->taken, n = left < max ? left : max;
    if (n) memcpy(buf, r->out.s + r->taken, n);
    r->taken += n;
    if (n) r->since = cli_clock();
    if (r->taken > 65536 && r->taken * 2 > r->out.n) {
        memmove(r->out.s, r->out.s + r->taken, r->out.n - r->taken);
        r->out.n -= r->taken;
        r->taken = 0;
    }
    *ended = r->ended && r->taken == r->out.n;
    pthread_mutex_unlock(&r->lock);
    return n;
}

void srv_reply_leave(srv_reply *r) {
    atomic_store(&r->gone, 1);
}
