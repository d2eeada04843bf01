/* trace.c - the log of a run: one JSON object a line, written as it happens.
 *
 * Applying push and erase in order gives the final tokens; the texts of the settled ones, joined,
 * are what was streamed. The last line is always `done`, so a log without it is visibly cut short.
 */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct cli_trace {
    FILE *f;
    char *name;
    const retrace_model *model;
    int64_t seq;
};

static json_t *opening(int64_t seq, const char *op) {
    return json_pack("{s:I, s:s}", "seq", (json_int_t)seq, "op", op);
}

static json_t *text_of(const char *s) {
    return cli_json_text((retrace_text){s ? s : "", s ? strlen(s) : 0});
}

static json_t *push(const retrace_model *m, const retrace_event *e, int64_t seq) {
    json_t *j = opening(seq, "push");
    json_object_set_new(j, "node", json_integer(e->node));
    json_object_set_new(j, "parent", json_integer(e->parent));
    json_object_set_new(j, "pos", json_integer(e->pos));
    json_object_set_new(j, "id", json_integer(e->id));
    cli_json_bytes(j, e->text, 0);
    json_object_set_new(j, "logprob", cli_json_logprob(e->logprob));
    if (!e->drawn) json_object_set_new(j, "drawn", json_false());
    if (e->n_top > 0) json_object_set_new(j, "top", cli_json_candidates(m, e->top, e->n_top));
    return j;
}

static json_t *erase(const retrace_event *e, int64_t seq) {
    json_t *j = opening(seq, "erase");
    json_object_set_new(j, "to", json_integer(e->to));
    json_object_set_new(j, "node", json_integer(e->node));
    json_object_set_new(j, "rule", text_of(e->rule));
    json_object_set_new(j, "why", text_of(e->why));
    json_object_set_new(j, "ban", cli_json_ints(e->ban, e->n_ban));
    return j;
}

static json_t *done(retrace_finish finish, retrace_text text, int64_t seq) {
    json_t *j = opening(seq, "done");
    json_object_set_new(j, "finish", json_string(retrace_finish_name(finish)));
    cli_json_bytes(j, text, 0);
    return j;
}

json_t *cli_trace_object(const retrace_model *m, const retrace_event *e, int64_t seq) {
    json_t *j;
    switch (e->kind) {
    case RETRACE_PUSH: return push(m, e, seq);
    case RETRACE_ERASE: return erase(e, seq);
    case RETRACE_SETTLE:
        j = opening(seq, "settle");
        json_object_set_new(j, "to", json_integer(e->to));
        return j;
    case RETRACE_NOTE:
        j = opening(seq, "note");
        json_object_set_new(j, "rule", text_of(e->rule));
        json_object_set_new(j, "why", text_of(e->why));
        return j;
    case RETRACE_END: break;
    }
    return done(e->finish, e->text, seq);
}

static int write_line(cli_trace *t, json_t *j) {
    t->seq++;
    return cli_json_line(j, t->f, t->name);
}

int cli_trace_open(cli_trace **out, const char *path, const retrace_model *m, json_t *plan) {
    FILE *f = fopen(path, "w");
    if (!f) return cli_fail(CLI_IO, "cannot write '%s': %s", path, strerror(errno));
    cli_trace *t = *out = cli_alloc(sizeof *t);
    *t = (cli_trace){.f = f, .name = cli_copy(path, strlen(path)), .model = m};
    json_t *start = opening(0, "start");
    json_object_update(start, plan);
    return write_line(t, start);
}

int cli_trace_event(cli_trace *t, const retrace_event *e) {
    return write_line(t, cli_trace_object(t->model, e, t->seq));
}

int cli_trace_choice(cli_trace *t, const retrace_choice *c, int pos, int node) {
    static const char *const kinds[] = {"draw", "token", "text", "back"};
    json_t *j = opening(t->seq, "choice");
    json_object_set_new(j, "pos", json_integer(pos));
    json_object_set_new(j, "node", json_integer(node));
    json_object_set_new(j, "kind", json_string(kinds[c->kind]));
    if (c->kind == RETRACE_CHOOSE_TOKEN) json_object_set_new(j, "id", json_integer(c->token));
    if (c->kind == RETRACE_CHOOSE_TEXT) json_object_set_new(j, "text", cli_json_text(c->text));
    if (c->kind == RETRACE_CHOOSE_BACK) json_object_set_new(j, "to", json_integer(c->to));
    return write_line(t, j);
}

int cli_trace_error(cli_trace *t, retrace_text text, const char *msg) {
    json_t *j = done(RETRACE_FINISH_ERROR, text, t->seq);
    json_object_set_new(j, "error", text_of(msg));
    return write_line(t, j);
}

int cli_trace_close(cli_trace *t) {
    if (!t) return CLI_OK;
    int bad = fclose(t->f) != 0;
    int code = bad ? cli_fail(CLI_IO, "cannot write '%s': %s", t->name, strerror(errno)) : CLI_OK;
    free(t->name);
    free(t);
    return code;
}
