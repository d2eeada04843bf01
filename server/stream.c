/* stream.c - answers as server-sent events.
 *
 * Every chunk is `data: ` and one object. What is the same in all chunks of an answer was written
 * once; a chunk appends to it. The object `retrace` stands beside the choices, never inside a
 * delta, and a chunk that has nothing else to tell still has its choice: many clients take the
 * first one without looking. */
#include "shape.h"

#include <stdlib.h>

void srv_stream_begin(srv_answer *a) {
    if (a->begun) return;
    a->begun = 1;
    srv_reply_header(a->reply, "cache-control", "no-cache");
    srv_reply_header(a->reply, "x-accel-buffering", "no");
    srv_reply_start(a->reply, 200, "text/event-stream; charset=utf-8", 1);
}

static void put_out(srv_answer *a) {
    srv_reply_put(a->reply, a->out.s, a->out.n);
}

/* The choice's operations since the last chunk, and at the end how it went. */
static void put_retrace(srv_answer *a, srv_part *p, int over) {
    if (!over && json_array_size(p->ops) == 0) return;
    json_t *o = json_object();
    if (a->n_parts > 1) json_object_set_new(o, "choice", json_integer(p->index));
    if (p->ops) json_object_set_new(o, "ops", p->ops);
    p->ops = NULL;
    if (over) {
        json_t *report = srv_report_part(a, p);
        json_object_update(o, report);
        json_decref(report);
    }
    cli_puts(&a->out, ",\"retrace\":");
    srv_put_json(&a->out, o, 0);
    json_decref(o);
}

static void write_chunk(srv_answer *a, srv_part *p, const srv_chunk *c) {
    a->out.n = 0;
    cli_put(&a->out, a->head.s, a->head.n);
    a->form->chunk(&a->out, a, p, c);
    put_retrace(a, p, c->over);
    if (a->q->include_usage && a->form->object) cli_puts(&a->out, ",\"usage\":null");
    cli_puts(&a->out, "}\n\n");
    put_out(a);
}

void srv_stream_chunk(srv_answer *a, srv_part *p, srv_chunk *c) {
    c->first = !p->sent;
    p->sent = 1;
    if (!srv_reply_gone(a->reply)) write_chunk(a, p, c);
    json_decref(c->logprobs);
    json_decref(c->ids);
}

/* The only chunk without choices, for clients that have asked for it. */
static void put_usage(srv_answer *a) {
    json_t *usage = srv_usage(a);
    cli_put(&a->out, a->head.s, a->head.n);
    cli_puts(&a->out, "\"choices\":[],\"usage\":");
    srv_put_json(&a->out, usage, 0);
    cli_puts(&a->out, "}\n\n");
    json_decref(usage);
}

void srv_stream_end(srv_answer *a) {
    a->out.n = 0;
    if (a->q->include_usage && a->form->object) put_usage(a);
    cli_puts(&a->out, a->form->done);
    put_out(a);
    srv_reply_end(a->reply);
}

void srv_stream_fail(srv_answer *a, const srv_error *e) {
    json_t *error = srv_error_json(e);
    a->out.n = 0;
    cli_puts(&a->out, "data: ");
    srv_put_json(&a->out, error, 0);
    cli_puts(&a->out, "\n\n");
    json_decref(error);
    put_out(a);
    srv_reply_end(a->reply);
}

/* A long prompt is as silent as a dead connection: the headers go out before any text. */
void srv_answer_ping(srv_answer *a) {
    static const char ping[] = ": keep-alive\n\n";
    if (!a->q->stream || a->ended) return;
    srv_stream_begin(a);
    srv_reply_put(a->reply, ping, sizeof ping - 1);
}
