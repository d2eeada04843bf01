/* shape_completions.c - /v1/completions: chunks and whole answers look the same.
 *
 * Log-probabilities are four lists side by side. top_logprobs goes by the tokens' texts, the chosen
 * one among them; where two tokens have the same text the more probable one counts. What has
 * nothing before it has null in both. */
#include "shape.h"

#include <math.h>

static json_t *logprobs(void) {
    return json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs", "top_logprobs",
                     "text_offset");
}

static void append(json_t *set, const char *list, json_t *value) {
    json_array_append_new(json_object_get(set, list), value);
}

/* The better one of those that have the same text. */
static void put_top(json_t *top, const retrace_model *m, retrace_token id, double logp) {
    json_t *name = srv_token_text(m, id);
    json_t *is = json_object_getn(top, json_string_value(name), json_string_length(name));
    double x = logp == -INFINITY ? -9999 : logp;
    if (!is || json_number_value(is) < x)
        json_object_setn_new(top, json_string_value(name), json_string_length(name),
                             cli_json_logprob(logp));
    json_decref(name);
}

static json_t *top_of(const srv_answer *a, const srv_piece *p) {
    int n = srv_top_count(a, p);
    if (isnan(p->logp)) return json_null();
    json_t *top = json_object();
    for (int i = 0; i < n; i++) put_top(top, a->s->model, p->top[i].id, p->top[i].logp);
    put_top(top, a->s->model, p->id, p->logp);
    return top;
}

static void add(const srv_answer *a, json_t *set, const srv_piece *p) {
    append(set, "tokens", srv_token_text(a->s->model, p->id));
    append(set, "token_logprobs", cli_json_logprob(p->logp));
    append(set, "top_logprobs", top_of(a, p));
    append(set, "text_offset", json_integer(p->offset));
}

static void chunk(cli_buf *b, const srv_answer *a, const srv_part *p, const srv_chunk *c) {
    cli_printf(b, "\"choices\":[{\"index\":%d,\"text\":", p->index);
    srv_put_string(b, c->text);
    srv_put_choice_rest(b, a, p, c);
}

static json_t *choice(const srv_answer *a, const srv_part *p) {
    json_t *o = json_pack("{s:i, s:o, s:O?, s:s}", "index", p->index, "text",
                          cli_json_text(cli_buf_text(&p->text)), "logprobs", p->logprobs,
                          "finish_reason", srv_finish_reason(p->finish));
    srv_add_ids(o, a, p);
    return o;
}

const srv_form srv_form_completions = {
    .object = "text_completion",
    .chunk_object = "text_completion",
    .done = "data: [DONE]\n\n",
    .logprobs = logprobs,
    .add = add,
    .chunk = chunk,
    .choice = choice,
    .whole = srv_whole_openai,
};
