/* backward.c - POST /v1/backward: texts that end in a given suffix.
 *
 * The object is that of `backward --json`; with "stream" each step is an event of its own, and the
 * object is the last one before [DONE]. The questions of a step are many and independent of each
 * other, so they are asked in slices that fit between the tokens of live runs. */
#include "../cli/backward.h"
#include "worker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = 1 << 20, MOST_EVENTS = 16 /* of one turn */ };

typedef struct unit {
    srv_unit unit;
    srv *s;
    cli_back k;
    int stream;
    double put_at;
    retrace_backward_need need;
    int at; /* of the questions: from here on they are still to be asked */
} unit;

/* ==== What a client asks for ==== */

/* The field of a setting; `temp` is called temperature, as in every request. */
static const srv_field *field_of(const char *setting) {
    const char *name = strcmp(setting, "temp") == 0 ? "temperature" : setting;
    for (const srv_field *f = srv_fields_backward; f->name; f++)
        if (strcmp(f->name, name) == 0) return f;
    return NULL;
}

/* The value as a person would write it. */
static int spell(json_t *body, const srv_field *f, retrace_type type, cli_buf *b, srv_error *e) {
    const srv_field *all = srv_fields_backward;
    int64_t n = 0;
    double x = 0;
    int on = 0, rc;
    const char *text = NULL;
    switch (type) {
    case RETRACE_INT:
        rc = srv_get_int(body, all, f->name, &n, e);
        cli_printf(b, "%lld", (long long)n);
        return rc;
    case RETRACE_REAL:
        rc = srv_get_real(body, all, f->name, &x, e);
        cli_printf(b, "%.17g", x);
        return rc;
    case RETRACE_BOOL:
        rc = srv_get_bool(body, all, f->name, &on, e);
        cli_puts(b, on ? "true" : "false");
        return rc;
    default:
        rc = srv_get_text(body, all, f->name, &text, e);
        cli_puts(b, text ? text : "");
        return rc;
    }
}

static int set_option(unit *u, json_t *body, const retrace_setting_info *info, srv_error *e) {
    const srv_field *f = field_of(info->name);
    retrace_error err;
    cli_buf b = {0};
    if (!f || !srv_get(body, srv_fields_backward, f->name)) return 0;
    int rc = spell(body, f, info->type, &b, e);
    retrace_setting s = {info->name, cli_buf_text(&b)};
    if (rc == 0 && retrace_backward_set(&u->k.options, s, &err) < 0)
        rc = srv_fail_with(e, &err, f->name);
    cli_buf_free(&b);
    return rc;
}

/* As the program splits it: what stands before it is not known. */
static int read_suffix(unit *u, json_t *body, srv_error *e) {
    const char *text = NULL;
    retrace_error err;
    if (srv_get_text(body, srv_fields_backward, "suffix", &text, e)) return -1;
    if (!text || !*text)
        return srv_fail(e, 400, "missing_field", "suffix", "suffix: what do the texts end in?");
    if (strlen(text) > MOST_TEXT)
        return srv_fail(e, 400, "too_long", "suffix", "suffix: more than %d bytes", MOST_TEXT);
    cli_puts(&u->k.suffix, text);
    if (cli_back_split(&u->k, cli_buf_text(&u->k.suffix), &u->k.ids, &u->k.n, &err) < 0)
        return srv_fail_with(e, &err, "suffix");
    return 0;
}

static int read_request(unit *u, json_t *body, srv_error *e) {
    if (!u->s->table)
        return srv_fail(e, 501, "no_table", NULL,
                        "backward sampling needs the model's bigram table: serve --table FILE");
    retrace_backward_default(&u->k.options);
    int rc = read_suffix(u, body, e);
    for (const retrace_setting_info *i = retrace_backward_infos(); i->name && rc == 0; i++)
        rc = set_option(u, body, i, e);
    if (rc == 0) rc = srv_get_bool(body, srv_fields_backward, "stream", &u->stream, e);
    if (u->k.options.seed < 0) u->k.options.seed = cli_random_seed();
    return rc;
}

/* ==== Answers ==== */

/* Numbers have as many digits as the program's. Frees o. */
static char *spelt(json_t *o) {
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(o);
    return text ? text : cli_copy("{}", 2);
}

static void put_event(unit *u, json_t *o) {
    cli_buf b = {0};
    if (!srv_reply_started(u->unit.reply)) {
        srv_reply_header(u->unit.reply, "cache-control", "no-cache");
        srv_reply_header(u->unit.reply, "x-accel-buffering", "no");
        srv_reply_start(u->unit.reply, 200, "text/event-stream; charset=utf-8", 1);
    }
    char *text = spelt(o);
    cli_printf(&b, "data: %s\n\n", text);
    free(text);
    srv_reply_put(u->unit.reply, b.s, b.n);
    u->put_at = cli_clock();
    cli_buf_free(&b);
}

static void finish(unit *u) {
    srv_reply *r = u->unit.reply;
    u->k.end = cli_clock();
    if (u->stream) {
        put_event(u, cli_back_json(&u->k));
        srv_reply_put(r, "data: [DONE]\n\n", 14);
    } else {
        char *text = spelt(cli_back_json(&u->k));
        srv_reply_start(r, 200, "application/json; charset=utf-8", 0);
        srv_reply_put(r, text, strlen(text));
        srv_reply_put(r, "\n", 1);
        free(text);
    }
    srv_reply_end(r);
}

static void fail(srv_unit *self, const srv_error *e) {
    unit *u = (unit *)self;
    if (!srv_reply_started(self->reply)) {
        srv_reply_error(self->reply, e);
        return;
    }
    put_event(u, srv_error_json(e));
    srv_reply_end(self->reply);
}

/* ==== Steps ==== */

static int begin(srv_unit *self, srv_worker *w) {
    unit *u = (unit *)self;
    srv_error e = {0};
    retrace_error err;
    u->k.start = u->put_at = srv_worker_now(w);
    if (retrace_backward_new(&u->k.b, u->s->model, u->s->table, &u->k.options, u->k.ids, u->k.n,
                             &err) == RETRACE_OK)
        return 0;
    srv_fail_with(&e, &err, NULL);
    srv_reply_error(self->reply, &e);
    return -1;
}

/* Prompts that are being read in the same turn go first: then one question, to get on at all. */
static int slice(const unit *u, const srv_pace *pace) {
    int left = u->need.n_queries - u->at, room = pace->passing;
    if (pace->n_live && pace->rows < pace->most_rows && room > 1) room = 1;
    return left < room ? left : room;
}

/* A slice of what is still to be asked. */
static void ask_slice(unit *u, srv_worker *w) {
    srv_pace *pace = srv_worker_pace(w);
    int n = slice(u, pace);
    for (int i = 0; i < n; i++) {
        retrace_query *q = &u->need.queries[u->at + i];
        srv_worker_ask(w, &u->unit, q, q->slot, SRV_ASK_PASSING);
    }
    pace->passing -= n;
    u->at += n;
}

/* Z is 0: nothing can precede the suffix, which is a result. */
static int no_more(unit *u, int rc) {
    srv_error e = {0};
    if (rc == RETRACE_DONE) u->k.err.code = 0;
    if (rc == RETRACE_EUSAGE || rc == RETRACE_DONE) {
        finish(u);
    } else {
        srv_fail_with(&e, &u->k.err, NULL);
        fail(&u->unit, &e);
    }
    return 1;
}

static void ping(unit *u, double now) {
    if (now - u->put_at < SRV_PING_S || !srv_reply_started(u->unit.reply)) return;
    srv_reply_put(u->unit.reply, ": ping\n\n", 8);
    u->put_at = now;
}

static int step(srv_unit *self, srv_worker *w) {
    unit *u = (unit *)self;
    ping(u, srv_worker_now(w));
    if (srv_worker_full(self)) return 0;
    if (u->at < u->need.n_queries) {
        ask_slice(u, w);
        return 0;
    }
    for (int i = 0; i < MOST_EVENTS; i++) {
        u->at = 0;
        int rc = retrace_backward_next(u->k.b, &u->need, &u->k.err);
        if (rc < 0 || rc == RETRACE_DONE) return no_more(u, rc);
        if (u->need.kind == RETRACE_NEED_MODEL) {
            ask_slice(u, w);
            return 0;
        }
        u->need.n_queries = 0;
        if (u->stream && u->need.event->kind == RETRACE_STEPPED)
            put_event(u, cli_back_json_step(&u->k, u->need.event));
    }
    srv_worker_again(w);
    return 0;
}

static void free_unit(srv_unit *self) {
    unit *u = (unit *)self;
    retrace_backward_free(u->k.b);
    retrace_free(u->k.ids);
    cli_buf_free(&u->k.suffix);
    srv_reply_drop(self->reply);
    free(u);
}

static const srv_unit_type type = {"backward", 0, begin, step, fail, free_unit, NULL};

void srv_prepare_backward(srv *s, srv_call *c) {
    srv_error e = {0};
    unit *u = cli_alloc(sizeof *u);
    u->unit = (srv_unit){.type = &type, .reply = srv_reply_hold(c->reply), .arrived = cli_clock()};
    u->s = s;
    u->k.f = s->config.flags;
    u->k.model = s->model;
    json_t *body = srv_json_read(&c->body, &e);
    int rc = body ? read_request(u, body, &e) : -1;
    json_decref(body);
    if (rc == 0) rc = srv_worker_give(s->worker, &u->unit, &e);
    if (rc) {
        srv_reply_error(c->reply, &e);
        free_unit(&u->unit);
    }
    srv_call_done(c);
}
