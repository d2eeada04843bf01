/* serve.c - retrace serve: the server as a whole, from the flags to the end.
 *
 * What can be wrong is found in the order of its cost: flags and ban lists, the port, the table,
 * the model. Only when everything is there the server says that it listens. */
#define _POSIX_C_SOURCE 200809L
#include "front.h"
#include "../cli/backward.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* ==== The model and its table ==== */

static json_t *model_settings(const srv *s, const char *uri) {
    retrace_bigram_info has = {0};
    char number[16];
    json_t *settings = cli_model_settings(s->config.flags, uri);
    if (s->table) retrace_bigram_facts(s->table, &has);
    snprintf(number, sizeof number, "%d", s->config.parallel);
    cli_model_prefer(settings, uri, "parallel", number);
    cli_model_prefer(settings, uri, "deterministic", "false");
    if (has.weights) cli_model_prefer(settings, uri, "weights", has.weights);
    return settings;
}

/* A table model is small enough for its chain to be made here. */
static void chain_in_memory(srv *s) {
    retrace_error err;
    retrace_anchor by_itself = {NULL, -1};
    if (s->table || strcmp(s->facts.backend, "table") != 0) return;
    if (retrace_bigram_of(&s->table, s->model, by_itself, &err)) s->table = NULL;
}

static int check_table(srv *s) {
    retrace_error err;
    if (!s->table || !retrace_bigram_fits(s->table, s->model, 0, &err)) return CLI_OK;
    return cli_fail(cli_exit_code(err.code), "--table: %s", err.msg);
}

static int open_model(srv *s) {
    char *uri = NULL;
    int code = cli_model_uri(s->config.flags, &uri);
    if (!code) code = cli_model_there(uri);
    if (!code && s->config.table) code = cli_bigram_read(&s->table, s->config.table);
    if (!code) {
        json_t *settings = model_settings(s, uri);
        code = cli_model_open(&s->model, uri, settings);
        json_decref(settings);
    }
    free(uri);
    if (code) return code;
    retrace_model_facts(s->model, &s->facts);
    code = check_table(s);
    if (!code) chain_in_memory(s);
    return code;
}

static void name_model(srv *s) {
    cli_buf name = {0};
    const char *given = s->facts.name && *s->facts.name ? s->facts.name : "model";
    cli_clean(&name, (retrace_text){given, strlen(given)});
    s->name = name.s;
    s->created = (int64_t)time(NULL);
}

/* ==== The process ==== */

/* Each connection is a file to the system. */
static void raise_files(void) {
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) != 0 || l.rlim_cur == l.rlim_max) return;
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
}

static void say_plan(const srv *s) {
    double mib = 1024.0 * 1024.0;
    const srv_config *c = &s->config;
    cli_say("retrace: %s, %d tokens of context, %d answers side by side", s->name, s->facts.n_ctx,
            c->parallel);
    cli_say("retrace: memory: model %.0f MiB and its context; at most %.0f MiB for %d connections, "
            "%.0f MiB for bodies",
            (double)s->facts.size_bytes / mib, (double)srv_front_most(s->front) * POOL_BYTES / mib,
            srv_front_most(s->front), (double)c->max_body * BODIES / mib);
    if (c->n_keys == 0) cli_say("retrace: no --api-key: every program on this machine may ask");
}

static void say_ready(const srv *s) {
    const char *host = s->config.host;
    int six = strchr(host, ':') != NULL;
    fprintf(stderr, "listening on http://%s%s%s:%d\n", six ? "[" : "", host, six ? "]" : "",
            srv_front_port(s->front));
}

static int start(srv *s, const cli_flags *f) {
    int code = srv_config_read(&s->config, f);
    if (!code) code = srv_lists_new(&s->lists, &s->config);
    if (!code) code = srv_log_open(&s->log, s->config.access_log);
    s->metrics = srv_metrics_new();
    s->compiled = srv_compiled_new();
    if (!code) code = srv_front_new(&s->front, s);
    if (!code) code = open_model(s);
    if (code) return code;
    name_model(s);
    s->rules = cli_rules_json(NULL);
    s->openapi = srv_openapi(s);
    code = srv_worker_new(&s->worker, s);
    if (!code) code = srv_prep_new(&s->prep, s);
    return code ? code : srv_front_listen(s->front);
}

/* The threads first; what they have told their clients by then is still delivered. The front may
 * still meet signals and the ends of bodies meanwhile: it looks whether there is a prep. */
static void stop(srv *s) {
    srv_prep_free(s->prep);
    s->prep = NULL;
    srv_worker_free(s->worker);
    srv_front_free(s->front);
    srv_lists_free(s->lists);
    srv_compiled_free(s->compiled);
    srv_log_close(s->log);
    srv_metrics_free(s->metrics);
    json_decref(s->rules);
    json_decref(s->openapi);
    retrace_bigram_close(s->table);
    retrace_model_close(s->model);
    free(s->name);
    srv_config_free(&s->config);
}

int cli_serve(const cli_flags *f) {
    srv *s = cli_alloc(sizeof *s);
    srv_signals_catch();
    raise_files();
    int code = start(s, f);
    if (!code) {
        say_plan(s);
        say_ready(s);
        code = srv_front_run(s->front);
        if (!code && srv_front_signal(s->front) == SIGINT) code = CLI_INTERRUPTED;
    }
    stop(s);
    free(s);
    return code;
}
