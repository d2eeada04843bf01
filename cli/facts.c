/* facts.c - tokenize, info and score: what a model is and what it makes of a text. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A model and the tokens of a text, as generate would have them. */
typedef struct reading {
    retrace_model *model;
    retrace_token *ids;
    int n;
} reading;

static int read_text(reading *r, const cli_flags *f) {
    cli_buf text = {0};
    int code = cli_read_prompt(f, &text);
    if (!code) code = cli_model_of(f, &r->model);
    if (!code) code = cli_model_tokens(f, r->model, cli_buf_text(&text), &r->ids, &r->n);
    cli_buf_free(&text);
    return code;
}

static void reading_free(reading *r) {
    retrace_free(r->ids);
    retrace_model_close(r->model);
}

/* Prints " text" in quotes, safe for a terminal. */
static void print_quoted(retrace_text t) {
    cli_buf b = {0};
    cli_escape(&b, t, 0);
    printf("\"%s\"\n", b.s ? b.s : "");
    cli_buf_free(&b);
}

/* ==== tokenize ==== */

static int tokens_json(const reading *r) {
    json_t *list = json_array(), *o = json_object();
    for (int i = 0; i < r->n; i++) {
        json_t *token = json_pack("{s:i}", "id", (int)r->ids[i]);
        cli_json_bytes(token, retrace_token_name(r->model, r->ids[i]), 1);
        json_array_append_new(list, token);
    }
    json_object_set_new(o, "tokens", list);
    json_object_set_new(o, "count", json_integer(r->n));
    return cli_json_line(o, stdout, "standard output");
}

static int tokens_text(const reading *r) {
    for (int i = 0; i < r->n; i++) {
        printf("%6d  ", (int)r->ids[i]);
        print_quoted(retrace_token_name(r->model, r->ids[i]));
    }
    return cli_flush();
}

int cli_tokenize(const cli_flags *f) {
    reading r = {0};
    int code = read_text(&r, f);
    if (!code) code = cli_on(f, "json") ? tokens_json(&r) : tokens_text(&r);
    if (!code) cli_say("%d token%s", r.n, r.n == 1 ? "" : "s");
    reading_free(&r);
    return code;
}

/* ==== info ==== */

static int facts_json(const retrace_model_info *i) {
    json_t *o = json_object();
    json_object_set_new(o, "model", cli_json_text((retrace_text){i->name, strlen(i->name)}));
    json_object_set_new(o, "backend", json_string(i->backend));
    json_object_set_new(o, "vocab", json_integer(i->vocab));
    json_object_set_new(o, "n_ctx", json_integer(i->n_ctx));
    json_object_set_new(o, "n_params", json_integer(i->n_params));
    json_object_set_new(o, "size_bytes", json_integer(i->size_bytes));
    json_object_set_new(o, "chat_template", json_boolean(i->chat_template));
    json_object_set_new(o, "rewind", json_string(i->rewind));
    json_object_set_new(o, "add_bos", json_boolean(i->add_bos));
    json_object_set_new(o, "bos", i->bos < 0 ? json_null() : json_integer(i->bos));
    return cli_json_line(o, stdout, "standard output");
}

static int facts_text(const retrace_model *m, const retrace_model_info *i) {
    cli_buf name = {0};
    cli_escape(&name, (retrace_text){i->name, strlen(i->name)}, 0);
    printf("model          %s\nback end       %s\n", name.s ? name.s : "", i->backend);
    printf("vocabulary     %d tokens\ncontext        %d tokens\n", i->vocab, i->n_ctx);
    if (i->n_params) printf("parameters     %.1f million\n", (double)i->n_params / 1e6);
    if (i->size_bytes) printf("size           %.1f MB\n", (double)i->size_bytes / 1e6);
    printf("chat template  %s\nrewinding      %s\n", i->chat_template ? "yes" : "no", i->rewind);
    printf("begins with    ");
    if (i->add_bos && i->bos >= 0)
        print_quoted(retrace_token_name(m, i->bos));
    else
        printf("nothing (no BOS)\n");
    cli_buf_free(&name);
    return cli_flush();
}

int cli_info(const cli_flags *f) {
    retrace_model *m = NULL;
    retrace_model_info facts;
    int code = cli_model_of(f, &m);
    if (code) return code;
    retrace_model_facts(m, &facts);
    code = cli_on(f, "json") ? facts_json(&facts) : facts_text(m, &facts);
    retrace_model_close(m);
    return code;
}

/* ==== score ==== */

/* The sum over tokens that have something before them, and how many those are. */
static double total(const double *logp, int n, int *counted) {
    double sum = 0;
    *counted = 0;
    for (int i = 0; i < n; i++) {
        if (isnan(logp[i])) continue;
        sum += logp[i];
        ++*counted;
    }
    return sum;
}

static int score_json(const reading *r, const double *logp) {
    int counted;
    double sum = total(logp, r->n, &counted);
    json_t *list = json_array(), *o = json_object();
    for (int i = 0; i < r->n; i++) {
        json_t *token = json_pack("{s:i}", "id", (int)r->ids[i]);
        cli_json_bytes(token, retrace_token_name(r->model, r->ids[i]), 0);
        json_object_set_new(token, "logprob", cli_json_logprob(logp[i]));
        json_array_append_new(list, token);
    }
    json_object_set_new(o, "tokens", list);
    json_object_set_new(o, "logprob", cli_json_logprob(sum));
    json_object_set_new(o, "perplexity", cli_json_real(counted ? exp(-sum / counted) : NAN));
    return cli_json_line(o, stdout, "standard output");
}

static int score_text(const reading *r, const double *logp) {
    int counted;
    double sum = total(logp, r->n, &counted);
    for (int i = 0; i < r->n; i++) {
        if (isnan(logp[i]))
            printf("%9s %7s  ", "-", "-");
        else
            printf("%9.4f %6.2f%%  ", logp[i], 100 * exp(logp[i]));
        print_quoted(retrace_token_name(r->model, r->ids[i]));
    }
    printf("%9.4f  log-probability of %d token%s", sum, counted, counted == 1 ? "" : "s");
    if (counted) printf(", perplexity %.4g", exp(-sum / counted));
    printf("\n");
    return cli_flush();
}

static int ask(const reading *r, double *logp) {
    retrace_error err;
    retrace_query q = {.tokens = r->ids, .n = r->n, .n_prompt = r->n, .logp = logp};
    return retrace_model_eval(r->model, &q, 1, &err) ? cli_report(&err, NULL) : CLI_OK;
}

int cli_score(const cli_flags *f) {
    reading r = {0};
    int code = read_text(&r, f);
    double *logp = cli_alloc((size_t)(r.n + 1) * sizeof *logp);
    if (!code && r.n == 0)
        code = cli_fail(CLI_USAGE, "the text is empty: there is nothing to score");
    if (!code) code = ask(&r, logp);
    if (!code) code = cli_on(f, "json") ? score_json(&r, logp) : score_text(&r, logp);
    free(logp);
    reading_free(&r);
    return code;
}
