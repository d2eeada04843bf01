/* facts.c - what can be answered at once: the model, the rules, how the server is. */
#include "server.h"

#include <string.h>

enum { DEAD_S = 30 }; /* a worker that has not gone round its loop for so long is not well */

static json_t *text_of(const char *s) {
    return cli_json_text((retrace_text){s ? s : "", s ? strlen(s) : 0});
}

static json_t *whole(int64_t n) {
    return json_integer((json_int_t)n);
}

/* Ends the call with this answer. */
static void answer(srv_call *c, json_t *j) {
    srv_reply_json(c->reply, 200, j);
    srv_call_done(c);
}

static json_t *meta(const srv *s) {
    json_t *j = json_object();
    json_object_set_new(j, "n_vocab", whole(s->facts.vocab));
    json_object_set_new(j, "n_ctx", whole(s->facts.n_ctx));
    json_object_set_new(j, "n_params", whole(s->facts.n_params));
    json_object_set_new(j, "size", whole(s->facts.size_bytes));
    return j;
}

/* What this server can do that others cannot. */
static json_t *abilities(srv *s) {
    json_t *j = json_object();
    json_object_set_new(j, "version", json_string(retrace_version()));
    json_object_set_new(j, "backend", text_of(s->facts.backend));
    json_object_set_new(j, "rewind", text_of(s->facts.rewind));
    json_object_set_new(j, "chat", json_boolean(s->facts.chat_template));
    json_object_set_new(j, "backward", json_boolean(s->table != NULL));
    json_object_set_new(j, "parallel", whole(s->config.parallel));
    json_object_set_new(j, "ban_lists", srv_lists_names(s->lists));
    return j;
}

/* For a person who opens the address, with or without a key: nothing about the model. */
void srv_get_root(srv *s, srv_call *c) {
    static const char *const facts[][2] = {
        {"about", "retrace serve: a language model that can take words back, over HTTP; in the "
                  "forms of OpenAI's and llama-server's interfaces"},
        {"docs", "docs/http.md, in the source of retrace"},
        {"interface", "/openapi.json"},
        {"rules", "/v1/rules"},
        {"models", "/v1/models"},
        {"health", "/health"},
        {"metrics", "/metrics"}};
    json_t *j = json_object();
    (void)s;
    json_object_set_new(j, "name", json_string("retrace"));
    json_object_set_new(j, "version", json_string(retrace_version()));
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        json_object_set_new(j, facts[i][0], json_string(facts[i][1]));
    answer(c, j);
}

static json_t *model_json(srv *s) {
    json_t *m = json_object();
    json_object_set_new(m, "id", text_of(s->name));
    json_object_set_new(m, "object", json_string("model"));
    json_object_set_new(m, "created", whole(s->created));
    json_object_set_new(m, "owned_by", json_string("retrace"));
    json_object_set_new(m, "meta", meta(s));
    json_object_set_new(m, "retrace", abilities(s));
    return m;
}

void srv_get_models(srv *s, srv_call *c) {
    json_t *out = json_object(), *list = json_array();
    json_array_append_new(list, model_json(s));
    json_object_set_new(out, "object", json_string("list"));
    json_object_set_new(out, "data", list);
    answer(c, out);
}

/* The path is /v1/models/NAME or /models/NAME. */
void srv_get_one_model(srv *s, srv_call *c) {
    static const char models[] = "/models/";
    const char *name = strstr(c->path, models) + sizeof models - 1;
    if (strcmp(name, s->name) == 0) {
        answer(c, model_json(s));
        return;
    }
    srv_error e = {0};
    srv_fail(&e, 404, "model_not_found", "id", "there is one model here, and this is not its name");
    srv_reply_error(c->reply, &e);
    srv_call_done(c);
}

/* The sampling that requests get which say nothing. */
static json_t *sampling(const retrace_options *o) {
    json_t *j = json_object();
    json_object_set_new(j, "temperature", cli_json_real(o->temp));
    json_object_set_new(j, "top_k", whole(o->top_k));
    json_object_set_new(j, "top_p", cli_json_real(o->top_p));
    json_object_set_new(j, "min_p", cli_json_real(o->min_p));
    json_object_set_new(j, "typical_p", cli_json_real(o->typical));
    json_object_set_new(j, "repeat_penalty", cli_json_real(o->repeat_penalty));
    json_object_set_new(j, "presence_penalty", cli_json_real(o->presence_penalty));
    json_object_set_new(j, "frequency_penalty", cli_json_real(o->frequency_penalty));
    return j;
}

void srv_get_props(srv *s, srv_call *c) {
    json_t *j = json_object(), *d = json_object();
    retrace_token bos = s->facts.bos;
    retrace_text piece = bos < 0 ? (retrace_text){"", 0} : retrace_token_name(s->model, bos);
    json_object_set_new(d, "n_ctx", whole(s->facts.n_ctx));
    json_object_set_new(d, "params", sampling(&s->config.preset));
    json_object_set_new(j, "default_generation_settings", d);
    json_object_set_new(j, "total_slots", whole(s->config.parallel));
    json_object_set_new(j, "model_path", text_of(s->name));
    json_object_set_new(j, "chat_template", json_string(""));
    json_object_set_new(j, "bos_token", cli_json_text(piece));
    json_object_set_new(j, "build_info", json_sprintf("retrace %s", retrace_version()));
    json_object_set_new(j, "retrace", abilities(s));
    answer(c, j);
}

static json_t *name_of(const srv *s, retrace_token id) {
    return id < 0 ? json_null() : cli_json_text(retrace_token_name(s->model, id));
}

static retrace_token end_token(const srv *s) {
    for (retrace_token id = 0; id < s->facts.vocab; id++)
        if (retrace_token_ends(s->model, id)) return id;
    return -1;
}

void srv_get_tokenizer_info(srv *s, srv_call *c) {
    json_t *j = json_object();
    json_object_set_new(j, "bos_token", name_of(s, s->facts.bos));
    json_object_set_new(j, "eos_token", name_of(s, end_token(s)));
    json_object_set_new(j, "pad_token", json_null());
    json_object_set_new(j, "model_max_length", whole(s->facts.n_ctx));
    answer(c, j);
}

void srv_get_rules(srv *s, srv_call *c) {
    answer(c, json_incref(s->rules));
}

void srv_get_openapi(srv *s, srv_call *c) {
    answer(c, json_incref(s->openapi));
}

void srv_get_health(srv *s, srv_call *c) {
    double idle = srv_worker_idle_s(s->worker);
    if (idle <= DEAD_S) {
        json_t *j = json_object();
        json_object_set_new(j, "status", json_string("ok"));
        json_object_set_new(j, "idle_s", cli_json_real(idle));
        answer(c, j);
        return;
    }
    srv_error e = {0};
    srv_fail(&e, 503, "engine_stalled", NULL, "the engine has done nothing for %.0f s", idle);
    srv_reply_error(c->reply, &e);
    srv_call_done(c);
}

void srv_get_metrics(srv *s, srv_call *c) {
    cli_buf b = {0};
    srv_metrics_text(s->metrics, &b);
    srv_reply_start(c->reply, 200, "text/plain; version=0.0.4; charset=utf-8", 0);
    srv_reply_put(c->reply, b.s, b.n);
    srv_reply_end(c->reply);
    cli_buf_free(&b);
    srv_call_done(c);
}

void srv_no_embeddings(srv *s, srv_call *c) {
    (void)s;
    srv_error e = {0};
    srv_fail(&e, 501, "not_supported", NULL, "this server makes no embeddings");
    srv_reply_error(c->reply, &e);
    srv_call_done(c);
}
