/* front_call.c - a request: its checks, its body, and to whom it goes.
 *
 * The order of the checks matters: where it comes from before what it wants, the key before
 * anything that is worth one, and all of it before the body is read. */
#define _GNU_SOURCE
#include "front.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

conn *call_conn(struct MHD_Connection *mhd) {
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return i ? i->socket_context : NULL;
}

static const char *header(const conn *c, const char *name) {
    return MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, name);
}

static void name_request(conn *c) {
    unsigned char chance[12] = {0};
    if (getrandom(chance, sizeof chance, 0) != (ssize_t)sizeof chance) chance[0] = 1;
    size_t n = (size_t)snprintf(c->request, sizeof c->request, "req_");
    for (size_t i = 0; i < sizeof chance; i++)
        n += (size_t)snprintf(c->request + n, sizeof c->request - n, "%02x", chance[i]);
}

/* The request line is there. */
void *call_begins(void *ud, const char *uri, struct MHD_Connection *mhd) {
    conn *c = call_conn(mhd);
    (void)ud;
    if (!c || c->barred) return NULL;
    conn_state_set(c, CONN_HEAD);
    name_request(c);
    snprintf(c->path, sizeof c->path, "%.*s", (int)strcspn(uri, "?"), uri);
    c->arrived = cli_clock();
    c->open = 1;
    c->last = ++c->requests >= MOST_REQUESTS;
    c->received = c->sent = c->ticked = 0;
    c->stuck = 0;
    c->status = 0;
    c->refused = 0;
    c->cors = NULL;
    c->method[0] = '\0';
    memset(c->key, 0, sizeof c->key);
    return c;
}

/* ==== Checks ==== */

typedef struct fields {
    head_seen seen;
    srv_error *e;
} fields;

static enum MHD_Result check_field(void *ud, enum MHD_ValueKind kind, const char *key,
                                   const char *value) {
    fields *x = ud;
    (void)kind;
    size_t n = value ? strlen(value) : 0;
    int rc = head_field(&x->seen, key, strlen(key), value ? value : "", n, x->e);
    return rc ? MHD_NO : MHD_YES;
}

static int check_headers(const conn *c, const char *version, srv_error *e) {
    fields x = {{0, 0}, e};
    MHD_get_connection_values(c->mhd, MHD_HEADER_KIND, check_field, &x);
    if (e->status) return -1;
    return head_fields_end(&x.seen, strcmp(version, "HTTP/1.1") == 0, e);
}

/* "http://HOST/path" is the path when the host is this one. */
static int own_path(const conn *c, const char *url, const char **path, srv_error *e) {
    const char *host = header(c, "Host");
    *path = url;
    if (strncasecmp(url, "http://", 7) != 0) return 0;
    size_t n = strcspn(url + 7, "/");
    if (!host || strlen(host) != n || strncasecmp(host, url + 7, n) != 0)
        return srv_fail(e, 400, "bad_request", NULL, "the request's target is another server");
    *path = url[7 + n] ? url + 7 + n : "/";
    return 0;
}

static int check_origin(conn *c, srv_error *e) {
    return srv_origin_check(&c->f->s->config, c->f->port, header(c, "Host"), header(c, "Origin"),
                            header(c, "Sec-Fetch-Site"), &c->cors, e);
}

static int check_route(conn *c, const srv_route *r, const char *allow, srv_error *e) {
    if (!r || !r->open) {
        int rc = srv_key_check(&c->f->s->config, header(c, "Authorization"), header(c, "X-Api-Key"),
                               c->key, e);
        if (rc) return rc;
    }
    if (!r && allow)
        return srv_fail(e, 405, "method_not_allowed", NULL, "%s is not for %s (%s)", c->path,
                        c->method, allow);
    if (!r) return srv_fail(e, 404, "not_found", NULL, "there is no %s here", c->path);
    return 0;
}

static int is_json(const char *type) {
    if (!type || strncasecmp(type, "application/json", 16) != 0) return 0;
    return !type[16] || type[16] == ';' || type[16] == ' ';
}

static int check_body(const conn *c, srv_error *e) {
    const char *length = header(c, "Content-Length"), *coding = header(c, "Content-Encoding");
    int64_t most = c->f->s->config.max_body, n = 0;
    if (coding && strcasecmp(coding, "identity") != 0)
        return srv_fail(e, 415, "unsupported_media_type", "Content-Encoding",
                        "bodies are taken as they are, without a coding");
    if (strcmp(c->method, "POST") == 0 && !is_json(header(c, "Content-Type")))
        return srv_fail(e, 415, "unsupported_media_type", "Content-Type",
                        "Content-Type must be application/json");
    if (length && cli_parse_int(length, &n) && n > most)
        return srv_fail(e, 413, "body_too_large", NULL,
                        "the body has %lld bytes; at most %lld are taken (--max-body-mib)",
                        (long long)n, (long long)most);
    return 0;
}

static int shutting_down(srv_error *e) {
    srv_fail(e, 503, "shutting_down", NULL, "the server is shutting down");
    e->retry_after = 5;
    return -1;
}

static int check_draining(const conn *c, srv_error *e) {
    return c->f->draining ? shutting_down(e) : 0;
}

/* ==== Making the call ==== */

static enum MHD_Result take_argument(void *ud, enum MHD_ValueKind kind, const char *key,
                                     const char *value) {
    (void)kind;
    json_t *text = json_string(value ? value : "");
    if (!text || json_object_set_new(ud, key, text) != 0) return MHD_NO; /* no UTF-8 */
    return MHD_YES;
}

static int read_query(const conn *c, json_t *into, srv_error *e) {
    int n = MHD_get_connection_values(c->mhd, MHD_GET_ARGUMENT_KIND, NULL, NULL);
    if (n == MHD_get_connection_values(c->mhd, MHD_GET_ARGUMENT_KIND, take_argument, into) &&
        (size_t)n == json_object_size(into))
        return 0;
    return srv_fail(e, 400, "bad_request", NULL,
                    "the query of the URL is not UTF-8, or has a name twice");
}

static int make_call(conn *c, const srv_route *r, const char *path, const char *id, size_t n_id,
                     srv_error *e) {
    srv_call *call = cli_alloc(sizeof *call);
    c->call = call;
    call->route = r;
    call->path = cli_copy(path, strlen(path));
    if (n_id) snprintf(call->id, sizeof call->id, "%.*s", (int)n_id, id);
    call->query = json_object();
    call->reply = srv_reply_hold(c->reply);
    call->arrived = c->arrived;
    call->held = &c->f->held;
    memcpy(call->key, c->key, sizeof call->key);
    snprintf(call->request, sizeof call->request, "%s", c->request);
    return read_query(c, call->query, e);
}

static void new_reply(conn *c) {
    c->reply = srv_reply_new(c->f);
    c->reply->conn = c;
}

static enum MHD_Result refuse(conn *c, const srv_error *e, const char *allow) {
    if (!c->reply) new_reply(c);
    if (allow && e->status == 405) srv_reply_header(c->reply, "Allow", allow);
    srv_reply_error(c->reply, e);
    c->refused = header(c, "Content-Length") || header(c, "Transfer-Encoding");
    if (c->refused || c->state != CONN_BODY) return answer_send(c);
    if (c->call) srv_call_done(c->call);
    c->call = NULL;
    return MHD_YES;
}

static enum MHD_Result answer_options(conn *c, const char *allow) {
    new_reply(c);
    srv_reply_header(c->reply, "Allow", allow ? allow : "GET, HEAD, POST, OPTIONS");
    srv_reply_start(c->reply, 204, NULL, 0);
    srv_reply_end(c->reply);
    return MHD_YES;
}

/* The head is there. An answer that is known by now waits for the end of a request without a body,
 * so that the connection can be used again. */
static enum MHD_Result head(conn *c, const char *url, const char *method, const char *version) {
    srv_error e = {0};
    const char *path = url, *id = NULL, *allow = NULL;
    size_t n_id = 0;
    snprintf(c->method, sizeof c->method, "%s", method);
    MHD_set_connection_option(c->mhd, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)SRV_STALL_S);
    conn_state_set(c, CONN_BODY);
    int rc = check_headers(c, version, &e);
    if (!rc) rc = own_path(c, url, &path, &e);
    if (!rc) rc = check_origin(c, &e);
    if (rc) return refuse(c, &e, NULL);
    const srv_route *r = srv_route_find(method, path, &id, &n_id, &allow);
    if (strcmp(method, "OPTIONS") == 0) return answer_options(c, allow);
    rc = check_route(c, r, allow, &e);
    if (!rc) rc = check_body(c, &e);
    if (!rc && !r->open) rc = check_draining(c, &e);
    if (rc) return refuse(c, &e, allow);
    new_reply(c);
    rc = make_call(c, r, path, id, n_id, &e);
    return rc ? refuse(c, &e, NULL) : MHD_YES;
}

/* ==== The body ==== */

static int body_fits(conn *c, size_t n, srv_error *e) {
    int64_t most = c->f->s->config.max_body;
    size_t all = atomic_load(&c->f->held) + n;
    if ((int64_t)(c->received + n) > most)
        return srv_fail(e, 413, "body_too_large", NULL,
                        "the body is larger than %lld bytes (--max-body-mib)", (long long)most);
    if (all > (size_t)most * BODIES)
        return srv_fail(e, 503, "overloaded", NULL, "too many large bodies at a time");
    return 0;
}

/* libmicrohttpd takes no answer in the middle of a body: it is given by hand. */
static enum MHD_Result body(conn *c, const char *data, size_t n) {
    srv_error e = {0};
    if (c->refused) return MHD_NO;
    if (body_fits(c, n, &e) != 0) {
        conn_refuse(c, &e);
        return MHD_NO;
    }
    c->received += n;
    c->heads += n;
    if (!c->call) return MHD_YES; /* of an OPTIONS: not looked at */
    atomic_fetch_add(&c->f->held, n);
    cli_put(&c->call->body, data, n);
    return MHD_YES;
}

/* ==== The answer ==== */

/* All of the request is there. */
static enum MHD_Result dispatch(conn *c) {
    srv_error e = {0};
    srv *s = c->f->s;
    srv_call *call = c->call;
    c->call = NULL;
    if (!call) return answer_send(c);
    if (call->route->at_once) {
        call->route->at_once(s, call);
        return answer_send(c);
    }
    if (!s->prep) shutting_down(&e);
    if (e.status || srv_prep_give(s->prep, call, &e) != 0) {
        srv_call_done(call);
        srv_reply_error(c->reply, &e);
        return answer_send(c);
    }
    conn_state_set(c, CONN_WAIT);
    atomic_fetch_add(&c->f->n_calls, 1);
    c->counted = 1;
    if (c->hung_up) srv_reply_leave(c->reply);
    if (!c->hung_up) conn_suspend(c);
    return c->hung_up ? MHD_NO : MHD_YES;
}

enum MHD_Result call_handle(void *ud, struct MHD_Connection *mhd, const char *url,
                            const char *method, const char *version, const char *data,
                            size_t *n_data, void **req) {
    conn *c = call_conn(mhd);
    size_t n = *n_data;
    (void)ud;
    (void)req;
    if (!c || c->barred) return MHD_NO;
    if (c->state == CONN_HEAD) return head(c, url, method, version);
    if (n) {
        *n_data = 0;
        return body(c, data, n);
    }
    if (c->state == CONN_BODY) return dispatch(c);
    if (c->state != CONN_WAIT || srv_reply_gone(c->reply)) return MHD_NO;
    if (srv_reply_ready(c->reply)) return answer_send(c);
    conn_suspend(c);
    return MHD_YES;
}

/* ==== The end ==== */

static void log_it(const conn *c, int status) {
    srv_line l = {c->request, c->remote, c->method, c->path,
                  c->key,     status,    c->sent,   cli_clock() - c->arrived};
    srv_log_call(c->f->s->log, &l);
}

void call_completed(void *ud, struct MHD_Connection *mhd, void **req,
                    enum MHD_RequestTerminationCode how) {
    conn *c = call_conn(mhd);
    srv_front *f = ud;
    *req = NULL;
    if (!c || !c->open) return;
    c->open = 0;
    int whole = how == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    if (c->counted) atomic_fetch_sub(&f->n_calls, 1);
    c->counted = 0;
    if (c->call) srv_call_done(c->call);
    c->call = NULL;
    if (c->reply) {
        if (!whole) srv_reply_leave(c->reply);
        c->reply->conn = NULL;
        srv_reply_drop(c->reply);
    }
    c->reply = NULL;
    c->suspended = 0;
    srv_count_up(f->s->metrics, SRV_C_REQUESTS, 1);
    if (c->status >= 400) srv_count_up(f->s->metrics, SRV_C_ERRORS, 1);
    log_it(c, c->status);
    if (!whole) return;
    conn_state_set(c, CONN_IDLE);
    if (!c->ends) {
        c->over = f->over;
        f->over = c;
    }
    c->ends = 1;
    MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)IDLE_S);
}
