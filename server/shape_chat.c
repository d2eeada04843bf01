/* shape_chat.c - /v1/chat/completions.
 *
 * A stream's first chunk has the role and an empty text; deltas hold nothing but the role and text,
 * since clients add up all that they find in them. */
#include "shape.h"

static json_t *logprobs(void) {
    return json_pack("{s:[], s:n}", "content", "refusal");
}

static json_t *entry(const retrace_model *m, retrace_token id, double logp) {
    return json_pack("{s:o, s:o, s:o}", "token", srv_token_text(m, id), "logprob",
                     cli_json_logprob(logp), "bytes", srv_token_bytes(m, id));
}

static void add(const srv_answer *a, json_t *set, const srv_piece *p) {
    json_array_append_new(json_object_get(set, "content"), srv_with_top(a, p, entry));
}

static void put_delta(cli_buf *b, const srv_chunk *c) {
    cli_puts(b, c->first ? "{\"role\":\"assistant\",\"content\":" : "{\"content\":");
    srv_put_string(b, c->text);
    cli_puts(b, "}");
}

static void chunk(cli_buf *b, const srv_answer *a, const srv_part *p, const srv_chunk *c) {
    cli_printf(b, "\"choices\":[{\"index\":%d,\"delta\":", p->index);
    if (c->text.n || c->first || c->logprobs)
        put_delta(b, c);
    else
        cli_puts(b, "{}");
    srv_put_choice_rest(b, a, p, c);
}

static json_t *choice(const srv_answer *a, const srv_part *p) {
    json_t *o =
        json_pack("{s:i, s:{s:s, s:o, s:n}, s:o, s:s}", "index", p->index, "message", "role",
                  "assistant", "content", cli_json_text(cli_buf_text(&p->text)), "refusal",
                  "logprobs", p->logprobs ? json_incref(p->logprobs) : json_null(), "finish_reason",
                  srv_finish_reason(p->finish));
    srv_add_ids(o, a, p);
    return o;
}

const srv_form srv_form_chat = {
    .object = "chat.completion",
    .chunk_object = "chat.completion.chunk",
    .done = "data: [DONE]\n\n",
    .role = 1,
    .logprobs = logprobs,
    .add = add,
    .chunk = chunk,
    .choice = choice,
    .whole = srv_whole_openai,
};
