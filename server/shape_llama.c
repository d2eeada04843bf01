/* shape_llama.c - llama.cpp's own /completion.
 *
 * A chunk is an object without choices; the last one is what a whole answer would be, without its
 * text. There is no [DONE]. `id` is not llama-server's: /v1/rewind asks for it. Several choices are
 * a list of answers, as llama-server has it. Fields that describe a slot are there because clients
 * look for them. */
#include "shape.h"

#include <math.h>

static json_t *logprobs(void) {
    return json_array();
}

static json_t *entry(const retrace_model *m, retrace_token id, double logp) {
    return json_pack("{s:i, s:o, s:o, s:o}", "id", (int)id, "token", srv_token_text(m, id), "bytes",
                     srv_token_bytes(m, id), "logprob", cli_json_logprob(logp));
}

static void add(const srv_answer *a, json_t *set, const srv_piece *p) {
    json_array_append_new(set, srv_with_top(a, p, entry));
}

static const char *stop_type(retrace_finish f) {
    switch (f) {
    case RETRACE_FINISH_END: return "eos";
    case RETRACE_FINISH_STOP: return "word";
    case RETRACE_FINISH_LENGTH:
    case RETRACE_FINISH_BUDGET: return "limit";
    default: return "none";
    }
}

static json_t *settings(const srv_answer *a) {
    const retrace_options *o = &a->q->options;
    json_t *stop = json_array();
    for (int i = 0; i < o->n_stops; i++) json_array_append_new(stop, cli_json_text(o->stops[i]));
    return json_pack("{s:I, s:I, s:f, s:I, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:b, s:o, s:i, s:b}",
                     "n_predict", (json_int_t)o->max_tokens, "seed", (json_int_t)o->seed,
                     "temperature", o->temp, "top_k", (json_int_t)o->top_k, "top_p", o->top_p,
                     "min_p", o->min_p, "typical_p", o->typical, "repeat_penalty",
                     o->repeat_penalty, "repeat_last_n", (json_int_t)o->repeat_last_n,
                     "presence_penalty", o->presence_penalty, "frequency_penalty",
                     o->frequency_penalty, "ignore_eos", o->ignore_eos, "stop", stop, "n_probs",
                     a->q->n_probs, "stream", a->q->stream);
}

static json_t *prompt_text(const srv_answer *a, const srv_prompt *prompt) {
    cli_buf b = {0};
    for (int i = 0; i < prompt->n; i++) srv_prompt_piece(a->s, prompt, i, &b);
    json_t *j = cli_json_text(cli_buf_text(&b));
    cli_buf_free(&b);
    return j;
}

/* To a thousandth; 0 where there is nothing to divide by. */
static double per(double x, double y) {
    return y > 0 ? round(1e3 * x / y) / 1e3 : 0;
}

static json_t *timings(const srv_answer *a, const srv_part *p, int n_prompt, int64_t n) {
    double began = p->began > 0 ? p->began : p->ended;
    double prompt_ms = 1e3 * (began - a->q->arrived), ms = 1e3 * (p->ended - began);
    return json_pack("{s:i, s:f, s:f, s:f, s:I, s:f, s:f, s:f}", "prompt_n", n_prompt, "prompt_ms",
                     per(prompt_ms, 1), "prompt_per_token_ms", per(prompt_ms, n_prompt),
                     "prompt_per_second", per(1e3 * n_prompt, prompt_ms), "predicted_n",
                     (json_int_t)n, "predicted_ms", per(ms, 1), "predicted_per_token_ms",
                     per(ms, (double)n), "predicted_per_second", per(1e3 * (double)n, ms));
}

/* All that comes at the end: of a whole answer, or in the last chunk of a stream. */
static json_t * final(const srv_answer *a, const srv_part *p, json_t *content, json_t *ids) {
    const srv_prompt *prompt = srv_part_prompt(a, p);
    int64_t n = srv_part_tokens(a, p);
    json_t *o = json_pack(
        "{s:i, s:o, s:o, s:i, s:b, s:s, s:I, s:i, s:i, s:o, s:o, s:b, s:b, s:s, s:o, s:o}", "index",
        p->index, "content", content, "tokens", ids, "id_slot", -1, "stop", 1, "model", a->q->model,
        "tokens_predicted", (json_int_t)n, "tokens_evaluated", prompt->n, "tokens_cached",
        p->cached > 0 ? p->cached : 0, "generation_settings", settings(a), "prompt",
        prompt_text(a, prompt), "has_new_line", p->breaks, "truncated", 0, "stop_type",
        stop_type(p->finish), "stopping_word", cli_json_text(cli_buf_text(&p->stop_word)),
        "timings", timings(a, p, prompt->n, n));
    return o;
}

static json_t *choice(const srv_answer *a, const srv_part *p) {
    json_t *ids = a->q->return_tokens ? json_incref(p->ids) : json_array();
    json_t *o = final(a, p, cli_json_text(cli_buf_text(&p->text)), ids);
    json_object_set_new(o, "id", json_string(a->q->id)); /* a chunk's head has it */
    if (p->logprobs) json_object_set(o, "completion_probabilities", p->logprobs);
    return o;
}

static void chunk(cli_buf *b, const srv_answer *a, const srv_part *p, const srv_chunk *c) {
    if (c->over) {
        json_t *o = final(a, p, cli_json_text(c->text), json_array());
        srv_put_json(b, o, 1);
        json_decref(o);
        return;
    }
    cli_printf(b, "\"index\":%d,\"content\":", p->index);
    srv_put_string(b, c->text);
    cli_puts(b, ",\"tokens\":");
    if (c->ids)
        srv_put_json(b, c->ids, 0);
    else
        cli_puts(b, "[]");
    cli_printf(b, ",\"stop\":false,\"id_slot\":-1,\"tokens_predicted\":%d,\"tokens_evaluated\":%d",
               p->told - a->q->keep, srv_part_prompt(a, p)->n);
    if (!c->logprobs) return;
    cli_puts(b, ",\"completion_probabilities\":");
    srv_put_json(b, c->logprobs, 0);
}

/* One answer, or a list of them. */
static json_t *whole(const srv_answer *a) {
    json_t *list = json_array();
    for (int i = 0; i < a->n_parts; i++) json_array_append(list, a->parts[i].choice);
    if (a->n_parts > 1) return list;
    json_t *o = json_incref(json_array_get(list, 0));
    json_object_set_new(o, "retrace", srv_report_all(a));
    json_decref(list);
    return o;
}

const srv_form srv_form_llama = {
    .done = "",
    .logprobs = logprobs,
    .add = add,
    .chunk = chunk,
    .choice = choice,
    .whole = whole,
};
