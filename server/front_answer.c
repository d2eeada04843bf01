/* front_answer.c - an answer on its way out: its headers and its bytes.
 *
 * An answer that is whole goes out with its length, straight from the reply's memory. A stream goes
 * out in chunks as it comes; while there is nothing, its connection is suspended and costs nothing.
 */
#include "front.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 8192 };

static ssize_t read_more(void *ud, uint64_t at, char *buf, size_t max) {
    conn *c = ud;
    int ended = 0;
    (void)at;
    if (srv_reply_gone(c->reply)) return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t n = srv_reply_take(c->reply, buf, max, &ended);
    c->sent += n;
    if (n) return (ssize_t)n;
    if (ended) return MHD_CONTENT_READER_END_OF_STREAM;
    conn_suspend(c);
    return 0;
}

static void put(struct MHD_Response *m, const char *name, const char *value) {
    MHD_add_response_header(m, name, value);
}

/* What the page wants to send, if that can be said back; else what our clients send. */
static const char *wanted_headers(const conn *c) {
    static const char usual[] = "Authorization, Content-Type, X-Api-Key";
    const char *wanted =
        MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, "Access-Control-Request-Headers");
    size_t n = wanted ? strlen(wanted) : 0;
    if (n == 0 || n > 1024) return usual;
    for (size_t i = 0; i < n; i++) {
        int letter = (wanted[i] | 32) >= 'a' && (wanted[i] | 32) <= 'z';
        int digit = wanted[i] >= '0' && wanted[i] <= '9';
        if (!letter && !digit && !strchr("-_, ", wanted[i])) return usual;
    }
    return wanted;
}

static void put_cors(const conn *c, struct MHD_Response *m) {
    if (c->f->s->config.n_origins) put(m, "Vary", "Origin");
    if (!c->cors) return;
    put(m, "Access-Control-Allow-Origin", c->cors);
    put(m, "Access-Control-Expose-Headers", "X-Request-Id, X-Retrace-Version, Retry-After");
    if (strcmp(c->method, "OPTIONS") != 0) return;
    put(m, "Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
    put(m, "Access-Control-Allow-Headers", wanted_headers(c));
    put(m, "Access-Control-Max-Age", "600");
}

static void put_headers(const conn *c, struct MHD_Response *m) {
    const srv_reply *r = c->reply;
    if (r->type) put(m, "Content-Type", r->type);
    put(m, "X-Request-Id", c->request);
    put(m, "X-Retrace-Version", retrace_version());
    put(m, "Cache-Control", "no-store");
    put(m, "X-Content-Type-Options", "nosniff");
    if (r->streaming) put(m, "X-Accel-Buffering", "no");
    put_cors(c, m);
    for (int i = 0; i < r->n_headers; i++) put(m, r->headers[i].name, r->headers[i].value);
    if (c->last || c->f->draining) put(m, "Connection", "close");
}

enum MHD_Result answer_send(conn *c) {
    srv_reply *r = c->reply;
    struct MHD_Response *m;
    c->last = c->last || conn_read_ahead(c);
    c->refused = c->refused || c->last; /* the client may be sending the next request */
    pthread_mutex_lock(&r->lock);
    if (r->streaming)
        m = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_more, c, NULL);
    else
        m = MHD_create_response_from_buffer(r->out.n, r->out.s ? r->out.s : "",
                                            MHD_RESPMEM_PERSISTENT);
    if (m) put_headers(c, m);
    c->status = r->status;
    if (!r->streaming) c->sent = r->out.n;
    pthread_mutex_unlock(&r->lock);
    if (!m) return MHD_NO;
    enum MHD_Result ok = MHD_queue_response(c->mhd, (unsigned)c->status, m);
    MHD_destroy_response(m);
    conn_state_set(c, CONN_SEND);
    return ok;
}
