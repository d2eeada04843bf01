/* request.c - a body becomes a request, and the request a unit for the worker.
 *
 * All checks are made here, in prep's thread, before anything waits for the model: a client learns
 * at once what is wrong, and what the worker gets can be run. */
#define _GNU_SOURCE
#include "read.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* ==== Its life ==== */

static void make_id(srv_request *q) {
    unsigned char chance[16] = {0};
    size_t got = 0;
    while (got < sizeof chance) {
        ssize_t n = getrandom(chance + got, sizeof chance - got, 0);
        if (n > 0) got += (size_t)n;
    }
    int at = snprintf(q->id, sizeof q->id, "%s", q->shape == SRV_CHAT ? "chatcmpl-" : "cmpl-");
    for (size_t i = 0; i < sizeof chance; i++)
        at += snprintf(q->id + at, sizeof q->id - (size_t)at, "%02x", chance[i]);
}

static srv_request *request_new(srv *s, const srv_call *c, srv_shape shape) {
    srv_request *q = cli_alloc(sizeof *q);
    q->shape = shape;
    make_id(q);
    q->created = (int64_t)time(NULL);
    memcpy(q->key, c->key, sizeof q->key);
    q->n = 1;
    q->logprobs = -1;
    q->arrived = c->arrived;
    q->options = s->config.preset;
    q->options.logprobs = -1;
    /* OpenAI's default for plain completions, unless the server was given one for all. */
    if (!srv_was_given(s, "max-tokens"))
        q->options.max_tokens = shape == SRV_COMPLETIONS ? 16 : 1024;
    q->start = json_pack("{s:{s:[]}}", "settings", "rules");
    return q;
}

void srv_request_free(srv_request *q) {
    if (!q) return;
    for (int i = 0; i < q->n_rules; i++) srv_shared_drop(q->shared[i]);
    for (int i = 0; i < q->n_prompts; i++) free(q->prompts[i].tokens);
    free(q->shared);
    free(q->rules);
    free(q->prompts);
    free(q->stops);
    free(q->bias);
    free(q->driver);
    free(q->model);
    json_decref(q->start);
    free(q);
}

/* ==== What all shapes share ==== */

static int read_model(srv_reading *r) {
    const char *name = NULL;
    if (srv_get_text(r->body, srv_fields_common, "model", &name, r->e)) return -1;
    if (!name || !*name) name = r->s->name;
    r->q->model = cli_copy(name, strlen(name));
    return 0;
}

/* A switch inside an object, {"include_usage": true}. */
static int read_inside(srv_reading *r, const char *field, const char *key, int *out) {
    char param[96];
    const char *used;
    json_t *o = srv_find(r->body, srv_fields_common, field, &used);
    if (!o) return 0;
    if (!json_is_object(o)) return srv_wrong(r->e, used, o, "an object");
    json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return 0;
    snprintf(param, sizeof param, "%s.%s", used, key);
    if (!json_is_boolean(v)) return srv_wrong(r->e, param, v, "true or false");
    *out = json_is_true(v);
    return 0;
}

static int read_flags(srv_reading *r) {
    srv_request *q = r->q;
    const srv_field *t = srv_fields_common;
    int64_t n = 1;
    if (read_model(r) || srv_get_bool(r->body, t, "stream", &q->stream, r->e) ||
        read_inside(r, "stream_options", "include_usage", &q->include_usage) ||
        read_inside(r, "retrace", "events", &q->events) ||
        srv_get_bool(r->body, t, "return_token_ids", &q->return_tokens, r->e) ||
        srv_get_bool(r->body, t, "deterministic", &q->options.alone, r->e) ||
        srv_get_int(r->body, t, "n", &n, r->e))
        return -1;
    q->n = (int)n;
    return 0;
}

static int check_product(srv_reading *r) {
    int all = r->q->n * r->q->n_prompts;
    if (all <= SRV_MAX_SEQUENCES) return 0;
    return srv_fail(r->e, 400, "too_many", "n",
                    "n: %d choices of %d prompts are more than %d in all", r->q->n, r->q->n_prompts,
                    SRV_MAX_SEQUENCES);
}

/* ==== /v1/completions ==== */

/* A number, or true or false as some servers have it. */
static int read_logprobs(srv_reading *r) {
    int64_t k = -1;
    json_t *v = srv_get(r->body, srv_fields_completions, "logprobs");
    if (json_is_boolean(v))
        k = json_is_true(v) ? 5 : -1;
    else if (srv_get_int(r->body, srv_fields_completions, "logprobs", &k, r->e))
        return -1;
    r->q->logprobs = (int)k;
    r->q->options.logprobs = k;
    return 0;
}

static int read_completions(srv_reading *r) {
    const srv_field *t = srv_fields_completions;
    const char *used;
    int64_t best = 1;
    json_t *suffix = srv_find(r->body, t, "suffix", &used);
    if (suffix && !srv_is_off(suffix))
        return srv_fail(r->e, 400, "unsupported_value", used,
                        "suffix: text is not filled in; it must be null or empty");
    if (srv_get_bool(r->body, t, "echo", &r->q->echo, r->e) || read_logprobs(r) ||
        srv_get_int(r->body, t, "best_of", &best, r->e))
        return -1;
    if (best != 1 && best != r->q->n)
        return srv_fail(r->e, 400, "unsupported_value", "best_of",
                        "best_of: only 1 or the same as n (%d)", r->q->n);
    return srv_read_prompts(r, 0);
}

/* ==== /v1/chat/completions ==== */

static int read_top(srv_reading *r) {
    int wanted = 0;
    int64_t top = 0;
    if (srv_get_bool(r->body, srv_fields_chat, "logprobs", &wanted, r->e) ||
        srv_get_int(r->body, srv_fields_chat, "top_logprobs", &top, r->e))
        return -1;
    if (top > 0 && !wanted)
        return srv_fail(r->e, 400, "invalid_value", "top_logprobs",
                        "top_logprobs: needs \"logprobs\": true");
    r->q->logprobs = wanted ? (int)top : -1;
    r->q->options.logprobs = r->q->logprobs;
    return 0;
}

static int refuse_tools(srv_reading *r) {
    const char *used;
    json_t *v = srv_find(r->body, srv_fields_chat, "tools", &used);
    if (v && !srv_is_off(v))
        return srv_fail(r->e, 400, "unsupported_value", used, "%s: tools are not offered", used);
    v = srv_find(r->body, srv_fields_chat, "tool_choice", &used);
    const char *how = json_is_string(v) ? json_string_value(v) : "";
    if (!v || srv_is_off(v) || strcmp(how, "none") == 0 || strcmp(how, "auto") == 0) return 0;
    return srv_fail(r->e, 400, "unsupported_value", used, "%s: tools are not offered", used);
}

static int check_template(srv_reading *r) {
    const char *used, *key;
    json_t *v = srv_find(r->body, srv_fields_chat, "chat_template", &used), *item;
    if (v && !srv_is_off(v))
        return srv_fail(r->e, 400, "unsupported_value", used,
                        "%s: the template is the model's, never a request's", used);
    v = srv_find(r->body, srv_fields_chat, "chat_template_kwargs", &used);
    if (v && !json_is_object(v)) return srv_wrong(r->e, used, v, "an object");
    json_object_foreach(v, key, item) {
        if (json_is_object(item) || json_is_array(item))
            return srv_fail(r->e, 400, "invalid_type", used,
                            "%s: may hold texts, numbers, true, false and null", used);
    }
    return 0;
}

static int read_chat(srv_reading *r) {
    if (read_top(r) || refuse_tools(r) || check_template(r)) return -1;
    return srv_read_messages(r);
}

/* ==== /completion ==== */

static int read_llama(srv_reading *r) {
    int64_t k = 0;
    if (srv_get_int(r->body, srv_fields_llama, "n_probs", &k, r->e)) return -1;
    r->q->n_probs = (int)k;
    r->q->options.logprobs = k > 0 ? k : -1;
    return srv_read_prompts(r, 1);
}

/* ==== From call to unit ==== */

static int read_shape(srv_reading *r) {
    switch (r->q->shape) {
    case SRV_COMPLETIONS: return read_completions(r);
    case SRV_CHAT: return read_chat(r);
    case SRV_LLAMA: break;
    }
    return read_llama(r);
}

static int read_all(srv_reading *r) {
    srv_request *q = r->q;
    if (read_flags(r) || srv_read_settings(r) || srv_read_bias(r) || srv_read_bans(r) ||
        srv_read_constraint(r) || srv_read_rules(r) || read_shape(r) || check_product(r))
        return -1;
    /* A trace tells the log-probability of each token. */
    if (q->events && q->options.logprobs < 0) q->options.logprobs = 0;
    q->options.rules = q->rules;
    q->options.n_rules = q->n_rules;
    srv_join_bias(r);
    srv_write_start(r);
    return 0;
}

static srv_request *request_of(srv *s, srv_call *c, srv_shape shape, srv_error *e) {
    json_t *body = srv_json_read(&c->body, e);
    if (!body) return NULL;
    srv_reading r = {.s = s, .body = body, .e = e};
    r.q = request_new(s, c, shape);
    int rc = read_all(&r);
    free(r.bias);
    json_decref(body);
    if (rc == 0) return r.q;
    srv_request_free(r.q);
    return NULL;
}

static void prepare(srv *s, srv_call *c, srv_shape shape) {
    srv_error e = {0};
    srv_request *q = request_of(s, c, shape, &e);
    srv_unit *u = q ? srv_unit_text(s, q, c->reply) : NULL;
    if (u && srv_worker_give(s->worker, u, &e)) u->type->free(u);
    if (e.status) srv_reply_error(c->reply, &e);
    srv_call_done(c);
}

void srv_prepare_completions(srv *s, srv_call *c) {
    prepare(s, c, SRV_COMPLETIONS);
}

void srv_prepare_chat(srv *s, srv_call *c) {
    prepare(s, c, SRV_CHAT);
}

void srv_prepare_llama(srv *s, srv_call *c) {
    prepare(s, c, SRV_LLAMA);
}
