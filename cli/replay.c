/* replay.c - a recorded run, run again.
 *
 * The first line says how the run was set up; the draws are not drawn but read from the recorded
 * pushes. Everything else - what the rules object to, where the run goes back to, what settles, how
 * probable the model finds each token - is computed afresh and must be what the lines say. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct replay {
    const char *path;
    json_t **line; /* one object a line */
    int n;
    int at;    /* the line that the next event must equal */
    int tail;  /* where the run was stopped from outside, or n */
    int n_top; /* candidates that a push names; the run here finds one more */
    double tolerance;
    cli_plan plan;
    retrace_model *model;
    retrace_run *run;
    cli_buf where;  /* "FILE:1", for messages about the first line */
    cli_buf differ; /* how the first difference reads; empty: none */
} replay;

/* ==== Reading ==== */

static int broken(const replay *r, int line, const char *what) {
    return cli_fail(CLI_USAGE, "%s:%d: %s", r->path, line, what);
}

static const char *op_of(json_t *line) {
    const char *op = json_string_value(json_object_get(line, "op"));
    return op ? op : "";
}

static int is_op(json_t *line, const char *op) {
    return strcmp(op_of(line), op) == 0;
}

static int has_ints(json_t *line, const char *const *names) {
    for (; *names; names++)
        if (!json_is_integer(json_object_get(line, *names))) return 0;
    return 1;
}

static const char *wrong_with(json_t *line) {
    static const char *const push[] = {"node", "parent", "pos", "id", NULL};
    static const char *const erase[] = {"to", "node", NULL}, *const settle[] = {"to", NULL};
    static const char *const start[] = {"seed", NULL};
    if (is_op(line, "push")) return has_ints(line, push) ? NULL : "a push lacks a number";
    if (is_op(line, "erase")) return has_ints(line, erase) ? NULL : "an erase lacks a number";
    if (is_op(line, "settle")) return has_ints(line, settle) ? NULL : "a settle lacks a number";
    if (is_op(line, "note")) return NULL;
    if (is_op(line, "done")) {
        if (!json_is_string(json_object_get(line, "finish"))) return "done lacks its finish";
        return json_is_string(json_object_get(line, "text")) ? NULL : "done lacks its text";
    }
    if (!is_op(line, "start")) return "not an operation";
    if (!json_is_object(json_object_get(line, "settings"))) return "start lacks its settings";
    return has_ints(line, start) ? NULL : "start lacks its seed";
}

static int check_line(const replay *r, int i) {
    json_t *line = r->line[i];
    if (!json_is_object(line)) return broken(r, i + 1, "not a JSON object");
    json_t *seq = json_object_get(line, "seq");
    if (!json_is_integer(seq) || json_integer_value(seq) != i)
        return broken(r, i + 1, "seq does not follow the line before");
    const char *wrong = wrong_with(line);
    if (wrong) return broken(r, i + 1, wrong);
    if ((i == 0) != is_op(line, "start"))
        return broken(r, i + 1, i ? "a second start" : "the first operation is not start");
    if (is_op(line, "done") && i + 1 < r->n) return broken(r, i + 2, "something follows done");
    return CLI_OK;
}

static int parse_lines(replay *r, const cli_buf *file) {
    const char *s = file->s, *end = s + file->n;
    while (s < end) {
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        size_t n = (size_t)((stop ? stop : end) - s);
        json_error_t at;
        json_t *j = json_loadb(s, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &at);
        if (!j) return broken(r, r->n + 1, at.text);
        r->line = cli_realloc(r->line, (size_t)(r->n + 1) * sizeof(*r->line));
        r->line[r->n++] = j;
        s += n + 1;
    }
    return CLI_OK;
}

static int read_lines(replay *r) {
    cli_buf file = {0};
    int code = cli_read_file(r->path, (size_t)1 << 30, &file);
    if (!code && file.n == 0) code = broken(r, 1, "the trace is empty");
    if (!code) code = parse_lines(r, &file);
    cli_buf_free(&file);
    for (int i = 0; i < r->n && !code; i++) code = check_line(r, i);
    if (!code && !is_op(r->line[r->n - 1], "done"))
        code = broken(r, r->n, "the trace ends without done: it was cut short");
    return code;
}

/* ==== Setting up ==== */

/* What the command line says about the engine wins over the trace. */
static int open_model(replay *r, const cli_flags *f) {
    json_t *start = r->line[0], *recorded = json_object_get(start, "model"), *engine, *given;
    const char *uri = cli_value(f, "model");
    if (!uri) uri = json_string_value(recorded);
    if (!uri) return broken(r, 1, "start names no model: give --model");
    given = cli_model_settings(f, uri);
    engine = json_deep_copy(json_object_get(json_object_get(start, "settings"), "engine"));
    if (!json_is_object(engine)) {
        json_decref(engine);
        engine = json_object();
    }
    json_object_update(engine, given);
    int code = cli_model_open(&r->model, uri, engine);
    json_decref(engine);
    json_decref(given);
    return code;
}

/* ==== Running ==== */

static json_t *next_push(const replay *r) {
    for (int i = r->at; i < r->n; i++)
        if (is_op(r->line[i], "push")) return r->line[i];
    return NULL;
}

/* The recorded token's place among the candidates. The end token leaves no push, so behind the last
 * one it is an end token that was drawn. A rule's own draws are not recorded: the generator makes
 * them. */
static int choose(void *ud, const double *p, const retrace_token *ids, int n, uint64_t purpose,
                  int pos, int attempt) {
    replay *r = ud;
    (void)pos;
    (void)attempt;
    if (purpose != 0) return -1;
    json_t *push = next_push(r);
    json_int_t wanted = push ? json_integer_value(json_object_get(push, "id")) : -1;
    for (int i = 0; i < n; i++) {
        retrace_token id = ids ? ids[i] : i;
        if (p[i] > 0 && (push ? id == wanted : retrace_token_ends(r->model, id))) return i;
    }
    if (!r->differ.n)
        cli_printf(&r->differ, "%s:%d: token %lld was drawn, but cannot be drawn now", r->path,
                   r->at + 1, (long long)wanted);
    return n;
}

static void differs(replay *r, const char *key, json_t *was, json_t *is) {
    if (r->differ.n) return;
    char *a = was ? json_dumps(was, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    char *b = is ? json_dumps(is, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    cli_printf(&r->differ, "%s:%d: %s was %.160s, is %.160s now", r->path, r->at + 1, key,
               a ? a : "absent", b ? b : "absent");
    free(a);
    free(b);
}

static int near(const replay *r, json_t *was, json_t *is) {
    if (!json_is_number(was) || !json_is_number(is)) return json_equal(was, is);
    return fabs(json_number_value(was) - json_number_value(is)) <= r->tolerance;
}

static int same_candidate(const replay *r, json_t *was, json_t *is) {
    return json_equal(json_object_get(was, "id"), json_object_get(is, "id")) &&
           json_equal(json_object_get(was, "text"), json_object_get(is, "text")) &&
           near(r, json_object_get(was, "logprob"), json_object_get(is, "logprob"));
}

/* Candidates that lie close together may change places, the last one with the one behind it, which
 * is why `is` may hold one more. */
static int near_top(const replay *r, json_t *was, json_t *is) {
    json_t *a, *b;
    size_t i, k, n = json_array_size(is);
    if (json_array_size(was) != (n > (size_t)r->n_top ? (size_t)r->n_top : n)) return 0;
    json_array_foreach(was, i, a) {
        json_t *here = json_array_get(is, i);
        if (!near(r, json_object_get(a, "logprob"), json_object_get(here, "logprob"))) return 0;
        int found = 0;
        json_array_foreach(is, k, b) found = found || same_candidate(r, a, b);
        if (!found) return 0;
    }
    return 1;
}

static int same(const replay *r, const char *key, json_t *was, json_t *is) {
    if (strcmp(key, "seq") == 0) return 1;
    if (strcmp(key, "logprob") == 0) return near(r, was, is);
    if (strcmp(key, "top") == 0) return near_top(r, was, is);
    return json_equal(was, is);
}

static int is_text(json_t *line, const char *key, const char *wanted) {
    const char *s = json_string_value(json_object_get(line, key));
    return s && strcmp(s, wanted) == 0;
}

/* An error ends a run where it stands. */
static int broke_off(const replay *r) {
    return is_text(r->line[r->n - 1], "finish", "error");
}

/* The first line that is there because the run was stopped from outside. Cancelled, it settles what
 * it cannot take back, takes back the rest, and is done. A settle of before that is delivered
 * together with the push that it follows, so it does no harm to count it in. */
static int tail_of(const replay *r) {
    int i = r->n - 1;
    if (broke_off(r)) return i;
    if (!is_text(r->line[i], "finish", "cancelled")) return r->n;
    if (is_op(r->line[i - 1], "erase") && is_text(r->line[i - 1], "rule", "cancelled")) i--;
    if (is_op(r->line[i - 1], "settle")) i--;
    return i;
}

static void compare(replay *r, json_t *now) {
    json_t *was = r->line[r->at], *value;
    const char *key;
    json_object_foreach(now, key, value) {
        json_t *other = json_object_get(was, key);
        if (!other || !same(r, key, other, value)) differs(r, key, other, value);
    }
    int error = is_op(was, "done") && broke_off(r); /* with the message of what went wrong */
    json_object_foreach(was, key, value) {
        if (error && strcmp(key, "error") == 0) continue;
        if (!json_object_get(now, key)) differs(r, key, value, NULL);
    }
}

static void stop_where_it_was_stopped(replay *r) {
    if (r->at != r->tail) return;
    if (broke_off(r))
        retrace_run_abort(r->run);
    else
        retrace_run_cancel(r->run);
}

static int each(void *ud, const retrace_event *e) {
    replay *r = ud;
    if (r->differ.n || r->at >= r->n) return 1;
    json_t *now = cli_trace_object(r->model, e, r->at);
    compare(r, now);
    json_decref(now);
    if (r->differ.n) return 1;
    r->at++;
    stop_where_it_was_stopped(r);
    return 0;
}

/* A run that an error ended says nothing itself. */
static void compare_error(replay *r) {
    retrace_event end = {
        .kind = RETRACE_END, .finish = RETRACE_FINISH_ERROR, .text = retrace_run_text(r->run)};
    if (!r->differ.n && r->at == r->n - 1 && broke_off(r)) each(r, &end);
}

static int verdict(const replay *r) {
    int n;
    if (r->differ.n) return cli_fail(CLI_INVALID, "%s", r->differ.s);
    if (r->at < r->n)
        return cli_fail(CLI_INVALID, "%s:%d: the run ended before this", r->path, r->at + 1);
    retrace_run_tokens(r->run, &n);
    printf("ok: %d operations, %d tokens\n", r->n - 1, n);
    return cli_flush();
}

static int go(replay *r) {
    retrace_error err;
    r->plan.options.choose = choose;
    r->plan.options.choose_ud = r;
    r->n_top = (int)r->plan.options.logprobs;
    if (r->n_top > 0 && r->n_top < 1000) r->plan.options.logprobs++;
    r->tail = tail_of(r);
    if (retrace_run_new(&r->run, r->model, &r->plan.options, r->plan.prompt, r->plan.n_prompt,
                        &err))
        return cli_report(&err, r->where.s);
    int code = cli_start_prompt(r->line[0], r->model, r->where.s);
    if (code) return code;
    r->at = 1;
    stop_where_it_was_stopped(r);
    int rc = retrace_run_finish(r->run, each, r, &err);
    if (rc >= 0) compare_error(r);
    return rc < 0 && !r->differ.n ? cli_report(&err, NULL) : verdict(r);
}

int cli_replay(const cli_flags *f) {
    replay r = {.path = f->operand, .tolerance = cli_real(f, "tolerance")};
    cli_printf(&r.where, "%s:1", r.path);
    int code = read_lines(&r);
    if (!code) code = cli_start_check(r.line[0], r.where.s);
    if (!code) {
        r.plan.json = json_incref(r.line[0]);
        code = cli_plan_rules(&r.plan, r.where.s);
    }
    if (!code) code = cli_plan_options(&r.plan, r.where.s);
    if (!code) code = open_model(&r, f);
    if (!code) code = go(&r);
    retrace_run_free(r.run);
    cli_plan_free(&r.plan);
    retrace_model_close(r.model);
    for (int i = 0; i < r.n; i++) json_decref(r.line[i]);
    free(r.line);
    cli_buf_free(&r.where);
    cli_buf_free(&r.differ);
    return code;
}
