/* backward.c - retrace backward: text that ends in a given suffix.
 *
 * The loop over retrace_backward_next, so that Ctrl-C and the progress line need not wait for a
 * whole step. A broken table is found before the model is loaded; a model without a table gets its
 * chain in memory when it is a table model, whose vocabulary is small. */
#define _POSIX_C_SOURCE 200809L
#include "backward.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ==== Before ==== */

static int set_options(cli_back *k) {
    retrace_error err;
    retrace_backward_default(&k->options);
    for (int i = 0; i < k->f->n; i++) {
        const cli_option *o = &k->f->v[i];
        if (o->part != CLI_BACK || o->n == 0) continue;
        retrace_setting s = {o->setting, o->given[o->n - 1]};
        if (retrace_backward_set(&k->options, s, &err)) return cli_report(&err, NULL);
    }
    if (k->options.seed < 0) k->options.seed = cli_random_seed();
    return CLI_OK;
}

static int exists(const cli_buf *path) {
    return access(path->s, F_OK) == 0;
}

/* A file that is called as `bigram build` would call it, beside the model or here. It may be of
 * anything, so it is only named. */
static int find_table(const char *uri, cli_buf *path) {
    const char *file = cli_model_file(uri), *slash = strrchr(file, '/');
    cli_buf dir = {0};
    cli_put(&dir, file, slash ? (size_t)(slash - file) + (slash == file) : 0);
    if (slash) cli_bigram_path(path, dir.s, uri);
    cli_buf_free(&dir);
    if (path->n && exists(path)) return 1;
    path->n = 0;
    cli_bigram_path(path, ".", uri);
    return exists(path);
}

static int table_missing(const cli_back *k, const cli_buf *tried) {
    cli_buf there = {0};
    if (tried->n)
        cli_fail(CLI_USAGE, "--table is missing, and there is no '%s'", tried->s);
    else
        cli_fail(CLI_USAGE, "--table is missing: backward needs the model's bigram table");
    if (find_table(k->uri, &there))
        cli_fail(CLI_USAGE, "there is one of that name: --table %s", there.s);
    cli_buf_free(&there);
    return cli_fail(CLI_USAGE, "it is made once, by: retrace bigram build -m %s -o FILE", k->uri);
}

/* --table, or the one that `bigram build --output-dir` made. */
static int open_table(cli_back *k) {
    retrace_plugin_info p;
    cli_buf path = {0};
    const char *given = cli_value(k->f, "table"), *dir = cli_value(k->f, "output-dir");
    int code = CLI_OK;
    if (!given && dir) cli_bigram_path(&path, dir, k->uri);
    if (given || (path.n && exists(&path)))
        code = cli_bigram_read(&k->chain, given ? given : path.s);
    else if (cli_model_backend(k->uri, &p) && strcmp(p.name, "table") != 0)
        code = table_missing(k, &path);
    cli_buf_free(&path);
    return code;
}

/* The table before the model: it says what the model's weights should be. */
static int open_both(cli_back *k) {
    retrace_bigram_info has = {0};
    int code = cli_model_uri(k->f, &k->uri);
    if (!code) code = cli_model_there(k->uri);
    if (!code) code = open_table(k);
    if (code) return code;
    json_t *settings = cli_model_settings(k->f, k->uri);
    if (k->chain) retrace_bigram_facts(k->chain, &has);
    if (has.weights) cli_model_prefer(settings, k->uri, "weights", has.weights);
    code = cli_model_open(&k->model, k->uri, settings);
    json_decref(settings);
    return code;
}

static int chain_in_memory(cli_back *k) {
    cli_anchor a;
    retrace_error err;
    int code = cli_anchor_of(k->f, k->model, &a);
    if (!code && retrace_bigram_of(&k->chain, k->model, a.anchor, &err))
        code = cli_report(&err, NULL);
    cli_anchor_free(&a);
    return code;
}

static void warn_shared(const cli_back *k) {
    retrace_bigram_info has;
    retrace_bigram_facts(k->chain, &has);
    if (!k->options.shared_table || retrace_bigram_fits(k->chain, k->model, 0, NULL) == RETRACE_OK)
        return;
    cli_say("retrace: warning: the table is of another model (%s): what precedes a text, and the "
            "order of trying, are by that one",
            has.model ? has.model : "unnamed");
}

/* Of this model, but of other weights than were asked for? */
static int differs_by_weights(const cli_back *k) {
    retrace_bigram_info has;
    retrace_model_info m;
    retrace_bigram_facts(k->chain, &has);
    retrace_model_facts(k->model, &m);
    return has.model_hash == m.hash && strcmp(has.weights, m.weights) != 0;
}

static int wrong_table(const cli_back *k, const retrace_error *err) {
    int code = cli_exit_code(err->code);
    if (differs_by_weights(k))
        return cli_fail(code, "--table: %s: leave --weights out, or build a table with it",
                        err->msg);
    return cli_fail(code, "--table: %s: build one with 'retrace bigram build -m %s -o FILE'",
                    err->msg, k->uri);
}

static int check_table(cli_back *k) {
    retrace_error err;
    if (retrace_bigram_fits(k->chain, k->model, k->options.shared_table, &err))
        return wrong_table(k, &err);
    warn_shared(k);
    return cli_anchor_check(k->f, k->model, k->chain);
}

/* Cheap checks come first. */
static int prepare(cli_back *k) {
    retrace_error err;
    int code = set_options(k);
    if (!code) code = cli_read_prompt(k->f, &k->suffix);
    if (!code && k->suffix.n == 0) code = cli_fail(CLI_USAGE, "--suffix: empty");
    if (!code) code = open_both(k);
    if (!code) code = cli_back_suffix(k);
    if (!code) code = k->chain ? check_table(k) : chain_in_memory(k);
    if (!code && retrace_backward_new(&k->b, k->model, k->chain, &k->options, k->ids, k->n, &err))
        code = cli_report(&err, NULL);
    return code;
}

/* ==== During ==== */

static int on_event(cli_back *k, cli_back_show *show, const retrace_backward_event *e) {
    if (show) return cli_back_show_event(show, e);
    if (e->kind != RETRACE_STEPPED || !cli_on(k->f, "stream")) return CLI_OK;
    return cli_json_line(cli_back_json_step(k, e), stdout, "standard output");
}

/* CLI_OK when it ended by itself or by Ctrl-C; what the library says is in k->err. */
static int loop(cli_back *k, cli_back_show *show) {
    retrace_backward_need need;
    while (!cli_interrupted()) {
        int code = CLI_OK, rc = retrace_backward_next(k->b, &need, &k->err);
        if (rc == RETRACE_OK && need.kind == RETRACE_NEED_MODEL) {
            if (show) cli_back_show_progress(show);
            rc = retrace_model_eval(k->model, need.queries, need.n_queries, &k->err);
            if (show) cli_back_show_answers(show, need.queries, need.n_queries);
            /* a question that the model refuses is no suffix that nothing can precede */
            if (rc == RETRACE_EUSAGE) k->err.code = RETRACE_EMODEL;
        } else if (rc == RETRACE_OK && need.kind == RETRACE_EVENT) {
            code = on_event(k, show, need.event);
        }
        if (rc < 0) return CLI_OK;
        k->err.code = 0;
        if (code || rc == RETRACE_DONE) return code;
    }
    return CLI_OK;
}

/* ==== After ==== */

static int any_step(const cli_back *k) {
    retrace_backward_sample s;
    for (int i = 0; retrace_backward_at(k->b, i, &s); i++)
        if (s.n_steps) return 1;
    return 0;
}

/* The library's way to say that Z is 0, see retrace_backward_next. */
static int impossible(const cli_back *k) {
    return k->err.code == RETRACE_EUSAGE;
}

/* Not one token was found that can precede the suffix. */
static int all_blocked(const cli_back *k) {
    retrace_backward_sample s;
    int n = 0;
    for (; retrace_backward_at(k->b, n, &s); n++)
        if (!s.blocked || s.n_steps) return 0;
    return n > 0;
}

static int verdict(const cli_back *k) {
    if (impossible(k))
        return cli_fail(CLI_INVALID, "the model gives this suffix no probability after any token");
    if (k->err.code) return cli_report(&k->err, NULL);
    if (cli_interrupted()) return CLI_INTERRUPTED;
    if (!all_blocked(k)) return CLI_OK;
    return cli_fail(CLI_INVALID,
                    "the model gives this suffix no probability after any token that was tried; a "
                    "larger --budget tries more");
}

static int finish(cli_back *k, cli_back_show *show) {
    int code = CLI_OK;
    int told = !k->err.code || impossible(k) || any_step(k);
    if (show)
        code = cli_back_show_rest(show);
    else if (told)
        code = cli_json_line(cli_back_json(k), stdout, "standard output");
    if (code) return code;
    if (!k->err.code) cli_back_show_summary(k);
    return verdict(k);
}

int cli_backward(const cli_flags *f) {
    cli_back k = {.f = f};
    cli_back_show *show = NULL;
    int code = prepare(&k);
    if (!code) {
        if (!cli_on(f, "json")) show = cli_back_show_new(&k);
        cli_run_begins();
        k.start = cli_clock();
        if (show) cli_back_show_begin(show);
        code = loop(&k, show);
        k.end = cli_clock();
        cli_run_ends();
        if (!code) code = finish(&k, show);
    }
    cli_back_show_free(show);
    retrace_backward_free(k.b);
    retrace_bigram_close(k.chain);
    retrace_free(k.ids);
    cli_buf_free(&k.suffix);
    retrace_model_close(k.model);
    free(k.uri);
    return code;
}
