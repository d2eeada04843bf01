/* replay.c - a recorded run, run again.
 *
 * The first line says how the run was set up; the draws are not drawn but read from the recorded
 * pushes, and a person's answers from theirs. Everything else - what the rules object to, where the
 * run goes back to, what settles, how probable the model finds each token - is computed afresh and
 * must be what the lines say. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct replay {
    cli_log log;
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

/* ==== Setting up ==== */

/* What the command line says about the engine wins over the trace. */
static int open_model(replay *r, const cli_flags *f) {
    json_t *start = r->log.line[0], *recorded = json_object_get(start, "model"), *engine, *given;
    const char *uri = cli_value(f, "model");
    if (!uri) uri = json_string_value(recorded);
    if (!uri) return cli_log_broken(&r->log, 1, "start names no model: give --model");
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

/* The next token that was drawn; others were forced, or chosen by a person. */
static json_t *next_push(const replay *r) {
    for (int i = r->at; i < r->log.n; i++)
        if (cli_log_is(r->log.line[i], "push") &&
            !json_is_false(json_object_get(r->log.line[i], "drawn")))
            return r->log.line[i];
    return NULL;
}

/* The recorded token's place among the candidates. The end token leaves no push, so behind the last
 * one it is an end token that was drawn. Not recorded are a rule's own draws and those that a
 * constraint refused where nothing was left: the generator makes them. It also does where the
 * recorded token cannot be drawn now, and the push then differs. */
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
    return -1;
}

static void differs(replay *r, const char *key, json_t *was, json_t *is) {
    if (r->differ.n) return;
    char *a = was ? json_dumps(was, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    char *b = is ? json_dumps(is, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    cli_printf(&r->differ, "%s:%d: %s was %.160s, is %.160s now", r->log.path, r->at + 1, key,
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
    return is_text(r->log.line[r->log.n - 1], "finish", "error");
}

/* The first line that is there because the run was stopped from outside. Cancelled, it settles what
 * it cannot take back, takes back the rest, and is done. A settle of before that is delivered
 * together with the push that it follows, so it does no harm to count it in. */
static int tail_of(const replay *r) {
    int i = r->log.n - 1;
    if (broke_off(r)) return i;
    if (!is_text(r->log.line[i], "finish", "cancelled")) return r->log.n;
    if (cli_log_is(r->log.line[i - 1], "erase") && is_text(r->log.line[i - 1], "rule", "cancelled"))
        i--;
    if (cli_log_is(r->log.line[i - 1], "settle")) i--;
    return i;
}

static void compare_all(replay *r, json_t *now, json_t *was) {
    json_t *value;
    const char *key;
    json_object_foreach(now, key, value) {
        json_t *other = json_object_get(was, key);
        if (!other || !same(r, key, other, value)) differs(r, key, other, value);
    }
}

static void compare(replay *r, json_t *now) {
    json_t *was = r->log.line[r->at], *value;
    const char *key;
    compare_all(r, now, was);
    int error = cli_log_is(was, "done") && broke_off(r); /* with the message of what went wrong */
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
    if (r->differ.n || r->at >= r->log.n) return 1;
    json_t *now = cli_trace_object(r->model, e, r->at);
    compare(r, now);
    json_decref(now);
    if (r->differ.n) return 1;
    r->at++;
    stop_where_it_was_stopped(r);
    return 0;
}

/* -1, which is never right, for what does not fit. */
static int int_of(json_t *line, const char *key) {
    json_int_t v = json_integer_value(json_object_get(line, key));
    return v < 0 || v > INT32_MAX ? -1 : (int)v;
}

/* A person's answer is the next line, given at the same place. */
static int feed(replay *r, const retrace_need *need, retrace_error *err) {
    json_t *line = r->log.line[r->at];
    int kind = cli_log_is(line, "choice") ? cli_log_kind(line) : -1;
    if (kind < 0) {
        cli_printf(&r->differ, "%s:%d: no choice, but one is asked for here now", r->log.path,
                   r->at + 1);
        return RETRACE_DONE;
    }
    json_t *place = json_pack("{s:i, s:i}", "pos", need->pos, "node", need->node);
    compare_all(r, place, line);
    json_decref(place);
    json_t *text = json_object_get(line, "text");
    retrace_choice c = {.kind = (retrace_choice_kind)kind};
    c.token = int_of(line, "id");
    c.to = int_of(line, "to");
    if (text) c.text = (retrace_text){json_string_value(text), json_string_length(text)};
    int rc = r->differ.n ? RETRACE_DONE : retrace_run_choose(r->run, &c, err);
    if (rc == RETRACE_EUSAGE) {
        cli_printf(&r->differ, "%s:%d: this choice cannot be made now: %s", r->log.path, r->at + 1,
                   err->msg);
        return RETRACE_DONE;
    }
    r->at++;
    stop_where_it_was_stopped(r);
    return rc;
}

/* RETRACE_DONE: to the end, or to the first difference. */
static int run_all(replay *r, retrace_error *err) {
    retrace_need need;
    int rc;
    while ((rc = retrace_run_next(r->run, &need, err)) == RETRACE_OK) {
        if (need.kind == RETRACE_EVENT)
            rc = each(r, need.event) ? RETRACE_DONE : RETRACE_OK;
        else if (need.kind == RETRACE_NEED_CHOICE)
            rc = feed(r, &need, err);
        else
            rc = retrace_model_eval(r->model, need.queries, need.n_queries, err);
        if (rc) return rc;
    }
    return rc;
}

/* A run that an error ended says nothing itself. */
static void compare_error(replay *r) {
    retrace_event end = {
        .kind = RETRACE_END, .finish = RETRACE_FINISH_ERROR, .text = retrace_run_text(r->run)};
    if (!r->differ.n && r->at == r->log.n - 1 && broke_off(r)) each(r, &end);
}

static int verdict(const replay *r) {
    int n;
    if (r->differ.n) return cli_fail(CLI_INVALID, "%s", r->differ.s);
    if (r->at < r->log.n)
        return cli_fail(CLI_INVALID, "%s:%d: the run ended before this", r->log.path, r->at + 1);
    retrace_run_tokens(r->run, &n);
    printf("ok: %d operations, %d tokens\n", r->log.n - 1, n);
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
    int code = cli_start_prompt(r->log.line[0], r->model, r->where.s);
    if (code) return code;
    r->at = 1;
    stop_where_it_was_stopped(r);
    int rc = run_all(r, &err);
    if (rc >= 0) compare_error(r);
    return rc < 0 && !r->differ.n ? cli_report(&err, NULL) : verdict(r);
}

int cli_replay(const cli_flags *f) {
    replay r = {.tolerance = cli_real(f, "tolerance")};
    cli_printf(&r.where, "%s:1", f->operand);
    int code = cli_log_read(&r.log, f->operand);
    if (!code) code = cli_start_check(r.log.line[0], r.where.s);
    if (!code) {
        r.plan.json = json_incref(r.log.line[0]);
        code = cli_plan_rules(&r.plan, r.where.s);
    }
    if (!code) code = cli_plan_options(&r.plan, r.where.s);
    if (!code) code = open_model(&r, f);
    if (!code) code = go(&r);
    retrace_run_free(r.run);
    cli_plan_free(&r.plan);
    retrace_model_close(r.model);
    cli_log_free(&r.log);
    cli_buf_free(&r.where);
    cli_buf_free(&r.differ);
    return code;
}
