/* backward_json.c - `backward --json`, in the order that docs/cli.md gives. */
#include "backward.h"

#include <math.h>
#include <string.h>

/* "id", "text" (and "bytes" of no whole character), and "start" for the start of the text. */
static json_t *token_json(const cli_back *k, retrace_token id) {
    json_t *o = json_object();
    json_object_set_new(o, "id", json_integer(id));
    if (id != RETRACE_START) {
        cli_json_bytes(o, retrace_piece(k->model, id), 0);
        return o;
    }
    json_object_set_new(o, "text", json_string(""));
    json_object_set_new(o, "start", json_true());
    return o;
}

static json_t *top_json(const cli_back *k, const retrace_backward_step *s) {
    json_t *list = json_array();
    for (int i = 0; i < s->n_top; i++) {
        const retrace_preceding *c = &s->top[i];
        json_t *o = token_json(k, c->id);
        json_object_set_new(o, "posterior", cli_json_real(exp(c->log_posterior)));
        json_object_set_new(o, "prior", cli_json_real(exp(c->log_prior)));
        json_object_set_new(o, "log_likelihood", cli_json_logprob(c->log_likelihood));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *step_json(const cli_back *k, const retrace_backward_step *s) {
    json_t *o = token_json(k, s->drawn.id);
    json_object_set_new(o, "posterior", cli_json_real(exp(s->drawn.log_posterior)));
    json_object_set_new(o, "prior", cli_json_real(exp(s->drawn.log_prior)));
    json_object_set_new(o, "log_likelihood", cli_json_logprob(s->drawn.log_likelihood));
    json_object_set_new(o, "coverage", cli_json_real(s->coverage));
    json_object_set_new(o, "se", cli_json_real(s->se));
    json_object_set_new(o, "evaluated", json_integer(s->evaluated));
    json_object_set_new(o, "exact", json_boolean(s->exact));
    json_object_set_new(o, "shared", json_boolean(s->shared));
    json_object_set_new(o, "reliable", json_boolean(s->reliable));
    json_object_set_new(o, "log_q", cli_json_logprob(s->log_q));
    json_object_set_new(o, "log_z", cli_json_logprob(s->log_z));
    json_object_set_new(o, "log_z_low", cli_json_logprob(s->log_z_low));
    json_object_set_new(o, "log_z_high", cli_json_logprob(s->log_z_high));
    json_object_set_new(o, "top", top_json(k, s));
    return o;
}

static json_t *joined(const cli_buf *a, const cli_buf *b) {
    cli_buf all = {0};
    cli_put(&all, a->s, a->n);
    cli_put(&all, b->s, b->n);
    json_t *j = cli_json_text(cli_buf_text(&all));
    cli_buf_free(&all);
    return j;
}

static json_t *sample_json(const cli_back *k, const retrace_backward_sample *s) {
    json_t *o = json_object(), *steps = json_array();
    cli_buf prefix = {0};
    cli_back_prefix(k, s, &prefix);
    json_object_set_new(o, "text", joined(&prefix, &k->suffix));
    json_object_set_new(o, "prefix", cli_json_text(cli_buf_text(&prefix)));
    json_object_set_new(o, "tokens", cli_json_ints(s->tokens, s->n));
    json_object_set_new(o, "finish", json_string(cli_back_finish(s)));
    json_object_set_new(o, "canonical", json_boolean(cli_back_canonical(k, s)));
    json_object_set_new(o, "weight", json_string(s->improper ? "improper" : "proper"));
    json_object_set_new(o, "log_f", cli_json_logprob(s->log_f));
    json_object_set_new(o, "log_q", cli_json_logprob(s->log_q));
    json_object_set_new(o, "log_w", cli_json_logprob(s->log_w));
    for (int i = 0; i < s->n_steps; i++) json_array_append_new(steps, step_json(k, &s->steps[i]));
    json_object_set_new(o, "steps", steps);
    cli_buf_free(&prefix);
    return o;
}

/* Candidates of steps that another sample had evaluated already. */
static int64_t shared(const cli_back *k) {
    retrace_backward_sample s;
    int64_t n = 0;
    for (int i = 0; retrace_backward_at(k->b, i, &s); i++)
        for (int j = 0; j < s.n_steps; j++) n += s.steps[j].shared ? s.steps[j].evaluated : 0;
    return n;
}

json_t *cli_back_json(const cli_back *k) {
    retrace_backward_sample s;
    retrace_backward_stats t;
    json_t *o = json_object(), *samples = json_array(), *stats = json_object();
    cli_back_count c = cli_back_counts(k);
    retrace_backward_totals(k->b, &t);
    for (int i = 0; retrace_backward_at(k->b, i, &s); i++)
        if (s.done || s.n_steps) json_array_append_new(samples, sample_json(k, &s));
    json_object_set_new(o, "suffix", cli_json_text(cli_buf_text(&k->suffix)));
    json_object_set_new(o, "suffix_tokens", cli_json_ints(k->ids, k->n));
    json_object_set_new(o, "log_f", cli_json_logprob(t.log_f));
    json_object_set_new(o, "seed", json_integer(k->options.seed));
    json_object_set_new(o, "samples", samples);
    json_object_set_new(o, "texts", json_integer(c.texts));
    json_object_set_new(o, "ess", c.improper ? json_null() : cli_json_real(t.ess));
    json_object_set_new(stats, "evaluated_candidates", json_integer(t.candidates));
    json_object_set_new(stats, "shared_candidates", json_integer(shared(k)));
    json_object_set_new(stats, "evaluated_tokens", json_integer(t.evaluated));
    json_object_set_new(stats, "seconds", cli_json_real(k->end - k->start));
    json_object_set_new(o, "stats", stats);
    if (k->err.code)
        json_object_set_new(o, "error",
                            cli_json_text((retrace_text){k->err.msg, strlen(k->err.msg)}));
    return o;
}

/* "text" leaves out what may yet become part of a character. */
json_t *cli_back_json_step(const cli_back *k, const retrace_backward_event *e) {
    retrace_backward_sample s;
    json_t *o = json_object();
    cli_buf prefix = {0}, whole = {0};
    retrace_backward_at(k->b, e->sample, &s);
    cli_back_prefix(k, &s, &prefix);
    size_t open = cli_back_open(cli_buf_text(&prefix));
    cli_put(&whole, prefix.n ? prefix.s + open : "", prefix.n - open);
    json_object_set_new(o, "sample", json_integer(e->sample));
    json_object_set_new(o, "text", joined(&whole, &k->suffix));
    json_object_set_new(o, "step", step_json(k, e->step));
    cli_buf_free(&prefix);
    cli_buf_free(&whole);
    return o;
}
