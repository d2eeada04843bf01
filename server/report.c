/* report.c - what is the same in every shape: usage, how it ended, the object `retrace`, the trace.
 *
 * One choice: `retrace` holds all there is to tell, and stands at the top. Several: each choice has
 * its own `retrace`, and the one at the top has the finishes as a list and the sums of the rest
 * (but the longest of the times). Times count from the request's arrival. */
#include "shape.h"

#include <math.h>

/* OpenAI has no words for all of them; retrace.finish is the truth. */
const char *srv_finish_reason(retrace_finish f) {
    switch (f) {
    case RETRACE_FINISH_END:
    case RETRACE_FINISH_STOP: return "stop";
    case RETRACE_FINISH_STUCK: return "content_filter";
    default: return "length";
    }
}

const srv_prompt *srv_part_prompt(const srv_answer *a, const srv_part *p) {
    return &a->q->prompts[p->index / a->q->n];
}

int srv_rewound(const srv_answer *a) {
    return a->q->rewound || a->q->keep > 0;
}

int64_t srv_part_tokens(const srv_answer *a, const srv_part *p) {
    return p->stats.kept > a->q->keep ? p->stats.kept - a->q->keep : 0;
}

/* ==== Usage ==== */

/* What a prompt's choices share was computed once: only what none of them computed was saved. */
static int64_t cached_of(const srv_answer *a, int prompt) {
    int least = -1;
    for (int i = 0; i < a->q->n; i++) {
        int n = a->parts[prompt * a->q->n + i].cached;
        if (n >= 0 && (least < 0 || n < least)) least = n;
    }
    return least > 0 ? least : 0;
}

json_t *srv_usage(const srv_answer *a) {
    int64_t prompt = 0, cached = 0, completion = 0;
    for (int i = 0; i < a->q->n_prompts; i++) {
        prompt += a->q->prompts[i].n;
        cached += cached_of(a, i);
    }
    for (int i = 0; i < a->n_parts; i++) completion += srv_part_tokens(a, &a->parts[i]);
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)prompt,
                     "completion_tokens", (json_int_t)completion, "total_tokens",
                     (json_int_t)(prompt + completion), "prompt_tokens_details", "cached_tokens",
                     (json_int_t)cached);
}

/* ==== The object `retrace` ==== */

static double first_text(const srv_answer *a, const srv_part *p) {
    return p->text_at > 0 ? p->text_at - a->q->arrived : NAN;
}

json_t *srv_report_part(const srv_answer *a, const srv_part *p) {
    json_t *o = json_pack("{s:s, s:I, s:o, s:O}", "finish", retrace_finish_name(p->finish), "seed",
                          (json_int_t)a->q->options.seed, "stats",
                          cli_json_stats(&p->stats, first_text(a, p), p->ended - a->q->arrived),
                          "rules", p->rules);
    if (srv_rewound(a)) {
        json_object_set_new(o, "keep", json_integer(a->q->keep));
        json_object_set_new(o, "prefix", cli_json_text(cli_buf_text(&p->prefix)));
    }
    return o;
}

static void add_stats(retrace_stats *sum, const retrace_stats *s) {
    sum->prompt += s->prompt;
    sum->prompt_evaluated += s->prompt_evaluated;
    sum->kept += s->kept;
    sum->evaluated += s->evaluated;
    sum->reevaluated += s->reevaluated;
    sum->erased += s->erased;
    sum->accepted += s->accepted;
    sum->rewinds += s->rewinds;
    if (s->held_max_bytes > sum->held_max_bytes) sum->held_max_bytes = s->held_max_bytes;
}

/* All choices have the same rules in the same order. */
static void add_rules(json_t *sum, const json_t *rules) {
    static const char *const counts[] = {"hits", "erased", "accepted"};
    size_t i;
    json_t *rule;
    json_array_foreach(rules, i, rule) {
        json_t *to = json_array_get(sum, i);
        if (!to) {
            json_array_append_new(sum, json_copy(rule));
            continue;
        }
        for (int k = 0; k < 3; k++)
            json_object_set_new(to, counts[k],
                                json_integer(json_integer_value(json_object_get(to, counts[k])) +
                                             json_integer_value(json_object_get(rule, counts[k]))));
    }
}

json_t *srv_report_all(const srv_answer *a) {
    if (a->n_parts == 1) {
        json_t *one = srv_report_part(a, &a->parts[0]);
        if (a->q->events) json_object_set(one, "trace", a->parts[0].ops);
        return one;
    }
    retrace_stats sum = {0};
    json_t *finish = json_array(), *rules = json_array();
    double first = NAN, seconds = 0;
    for (int i = 0; i < a->n_parts; i++) {
        const srv_part *p = &a->parts[i];
        json_array_append_new(finish, json_string(retrace_finish_name(p->finish)));
        add_stats(&sum, &p->stats);
        add_rules(rules, p->rules);
        first = fmin(first, first_text(a, p));
        seconds = fmax(seconds, p->ended - a->q->arrived);
    }
    return json_pack("{s:o, s:I, s:o, s:o}", "finish", finish, "seed",
                     (json_int_t)a->q->options.seed, "stats", cli_json_stats(&sum, first, seconds),
                     "rules", rules);
}

/* ==== The trace ==== */

/* With the name that clients know the model by: where its file lies is the server's business. */
json_t *srv_trace_start(const srv_answer *a, const srv_part *p) {
    const srv_prompt *prompt = srv_part_prompt(a, p);
    json_t *o = json_pack("{s:i, s:s, s:s}", "seq", 0, "op", "start", "model", a->s->name);
    json_object_set_new(o, "prompt_tokens", cli_json_ints(prompt->tokens, prompt->n));
    if (a->q->start) json_object_update(o, a->q->start);
    int head = p->index % a->q->n;
    if (head > 0) json_object_set_new(o, "head", json_integer(head));
    return o;
}

/* ==== OpenAI's two shapes ==== */

static void put_ids(cli_buf *b, const char *name, const retrace_token *ids, int n) {
    cli_printf(b, ",\"%s\":[", name);
    for (int i = 0; i < n; i++) cli_printf(b, i ? ",%d" : "%d", (int)ids[i]);
    cli_puts(b, "]");
}

void srv_put_choice_rest(cli_buf *b, const srv_answer *a, const srv_part *p, const srv_chunk *c) {
    cli_puts(b, ",\"logprobs\":");
    if (c->logprobs)
        srv_put_json(b, c->logprobs, 0);
    else
        cli_puts(b, "null");
    if (c->first && a->q->return_tokens) {
        const srv_prompt *prompt = srv_part_prompt(a, p);
        put_ids(b, "prompt_token_ids", prompt->tokens, prompt->n);
    }
    if (c->ids) {
        cli_puts(b, ",\"token_ids\":");
        srv_put_json(b, c->ids, 0);
    }
    if (c->over)
        cli_printf(b, ",\"finish_reason\":\"%s\"}]", srv_finish_reason(p->finish));
    else
        cli_puts(b, ",\"finish_reason\":null}]");
}

void srv_add_ids(json_t *choice, const srv_answer *a, const srv_part *p) {
    const srv_prompt *prompt = srv_part_prompt(a, p);
    if (!a->q->return_tokens) return;
    json_object_set(choice, "token_ids", p->ids);
    json_object_set_new(choice, "prompt_token_ids", cli_json_ints(prompt->tokens, prompt->n));
}

json_t *srv_whole_openai(const srv_answer *a) {
    json_t *choices = json_array();
    for (int i = 0; i < a->n_parts; i++) json_array_append(choices, a->parts[i].choice);
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:o, s:o}", "id", a->q->id, "object",
                     a->form->object, "created", (json_int_t)a->q->created, "model", a->q->model,
                     "system_fingerprint", a->fingerprint, "choices", choices, "usage",
                     srv_usage(a), "retrace", srv_report_all(a));
}
