/* generate.c - one answer: from flags to a plan, from the plan to a run, from the run to the
 * screen.
 *
 * Everything that can be wrong with the input is found before anything is written: the trace file
 * is opened only when the run stands. From then on each event goes to the trace, to the screen and,
 * with -v, to stderr; what is left at the end becomes the summary or the JSON object. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct job {
    cli_plan plan;
    retrace_model *model;
    retrace_run *run;
    cli_trace *trace;
    cli_show *show;           /* NULL with --json */
    cli_guide *guide;         /* NULL: no person is asked */
    cli_taken taken;          /* tokens at the head, for messages */
    int failed;               /* exit code of a write that failed */
    double start, first, end; /* clock; first < 0: no text yet */
    retrace_error err;        /* code 0: the run ended by itself */
} job;

/* ==== Before the run ==== */

/* Whether the driver is `guide`, with settings or without. */
static int guided(const cli_flags *f) {
    const char *driver = cli_value(f, "driver");
    return driver && strcspn(driver, ":") == 5 && strncmp(driver, "guide", 5) == 0;
}

static int check_flags(const cli_flags *f) {
    const cli_option *system = cli_option_of(f, "system");
    if (system->n && !system->from_env && !cli_on(f, "chat"))
        return cli_fail(CLI_USAGE, "--system needs --chat");
    if (guided(f)) {
        int code = cli_guide_check();
        if (code) return code;
    }
    if (!cli_on(f, "show-erased")) return CLI_OK;
    if (cli_on(f, "json"))
        return cli_fail(CLI_USAGE, "--show-erased and --json exclude each other");
    if (guided(f))
        return cli_fail(CLI_USAGE, "--show-erased and --driver guide exclude each other");
    if (isatty(STDOUT_FILENO)) return CLI_OK;
    return cli_fail(CLI_USAGE,
                    "--show-erased is for a terminal; --trace writes the same to a file");
}

static int chat_tokens(const cli_flags *f, const retrace_model *m, retrace_text text,
                       retrace_token **out, int *n) {
    retrace_error err;
    retrace_message turns[2];
    int n_turns = 0;
    const char *system = cli_value(f, "system");
    if (system)
        turns[n_turns++] = (retrace_message){.role = "system", .content = {system, strlen(system)}};
    turns[n_turns++] = (retrace_message){.role = "user", .content = text};
    int rc = retrace_chat(m, turns, n_turns, out, n, &err);
    return rc ? cli_report_chat(m, &err, "--chat") : CLI_OK;
}

/* As the model reads it, control tokens spelt out. */
static json_t *spelt(const job *j, const retrace_token *ids, int n) {
    cli_buf b = {0};
    for (int i = 0; i < n; i++) {
        retrace_text name = retrace_token_name(j->model, ids[i]);
        cli_put(&b, name.s, name.n);
    }
    json_t *text = cli_json_text(cli_buf_text(&b));
    cli_buf_free(&b);
    return text;
}

static int put_prompt(job *j, const cli_flags *f, retrace_text text) {
    retrace_token *ids;
    int n;
    int code = cli_on(f, "chat") ? chat_tokens(f, j->model, text, &ids, &n)
                                 : cli_model_tokens(f, j->model, text, &ids, &n);
    if (code) return code;
    json_object_set_new(j->plan.json, "prompt", cli_json_text(text));
    json_object_set_new(j->plan.json, "prompt_tokens", cli_json_ints(ids, n));
    if (cli_on(f, "chat")) json_object_set_new(j->plan.json, "prompt_text", spelt(j, ids, n));
    retrace_free(ids);
    return CLI_OK;
}

static int open_model(job *j, const cli_flags *f) {
    char *uri;
    int code = cli_model_uri(f, &uri);
    if (code) return code;
    json_t *engine = cli_model_settings(f, uri);
    json_object_set_new(j->plan.json, "model", cli_json_text((retrace_text){uri, strlen(uri)}));
    json_object_set_new(json_object_get(j->plan.json, "settings"), "engine", engine);
    code = cli_model_open(&j->model, uri, engine);
    free(uri);
    return code;
}

/* Plan, model, prompt; cheap checks come first. */
static int prepare(job *j, const cli_flags *f) {
    cli_buf text = {0};
    int code = check_flags(f);
    if (!code) code = cli_plan_flags(&j->plan, f);
    if (!code) code = cli_plan_rules(&j->plan, NULL);
    if (!code) code = cli_read_prompt(f, &text);
    if (!code) code = open_model(j, f);
    if (!code) code = put_prompt(j, f, cli_buf_text(&text));
    if (!code) code = cli_plan_options(&j->plan, NULL);
    cli_buf_free(&text);
    return code;
}

/* The start line of a trace has its fields in this order. */
static json_t *start_of(const cli_plan *p) {
    static const char *const order[] = {"model",         "prompt", "prompt_text",
                                        "prompt_tokens", "seed",   "settings"};
    json_t *start = json_object();
    for (int i = 0; i < 6; i++) /* there may be no prompt_text: then nothing is set */
        json_object_set(start, order[i], json_object_get(p->json, order[i]));
    return start;
}

static int open_trace(job *j, const char *path) {
    if (!path) return CLI_OK;
    json_t *start = start_of(&j->plan);
    int code = cli_trace_open(&j->trace, path, j->model, start);
    json_decref(start);
    return code;
}

/* ==== During the run ==== */

static void tell_push(job *j, const retrace_event *e) {
    cli_buf b = {0};
    cli_escape(&b, e->text, 0);
    cli_show_note(j->show, "token %d: %d \"%s\"", e->pos, (int)e->id, b.s ? b.s : "");
    cli_buf_free(&b);
}

static void tell_erase(job *j, const retrace_event *e) {
    int n = j->taken.n - e->to;
    cli_buf b = {0};
    cli_taken_text(&j->taken, e->to, &b);
    cli_printf(&b, " taken back, %d token%s, to %d: %s", n, n == 1 ? "" : "s", e->to, e->rule);
    if (e->why && *e->why) {
        cli_puts(&b, " \"");
        cli_escape(&b, (retrace_text){e->why, strlen(e->why)}, 0);
        cli_puts(&b, "\"");
    }
    cli_show_note(j->show, "rewind: %s", b.s);
    cli_buf_free(&b);
}

static void tell(job *j, const retrace_event *e) {
    if (j->guide && isatty(STDERR_FILENO)) return; /* its screen tells */
    if (e->kind == RETRACE_NOTE)                   /* what a rule says is meant to be read */
        cli_show_note(j->show, "%s: %s", e->rule ? e->rule : "note", e->why ? e->why : "");
    if (cli_verbose < 1) return;
    if (e->kind == RETRACE_ERASE) tell_erase(j, e);
    if (cli_verbose < 2) return;
    if (e->kind == RETRACE_PUSH) tell_push(j, e);
    if (e->kind == RETRACE_SETTLE) cli_show_note(j->show, "settled: %d tokens", e->to);
}

static int each(void *ud, const retrace_event *e) {
    job *j = ud;
    if (j->guide) cli_guide_event(j->guide, e, &j->taken);
    if (e->kind == RETRACE_SETTLE || e->kind == RETRACE_END) cli_screen_leave();
    if (e->kind == RETRACE_SETTLE && e->text.n && j->first < 0) j->first = cli_clock();
    if (j->trace) j->failed = cli_trace_event(j->trace, e);
    if (j->show && !j->failed) j->failed = cli_show_event(j->show, e);
    if (!cli_quiet) tell(j, e);
    cli_taken_event(&j->taken, j->model, e);
    if (j->failed) retrace_run_abort(j->run); /* nothing more settles */
    return cli_interrupted();
}

/* ==== A person's run ==== */

/* Asks until the run takes the answer, or the person has enough. */
static int answer(job *j, const retrace_need *need) {
    retrace_choice choice;
    int pos = need->pos, node = need->node, rc;
    cli_guide_question(j->guide, need);
    do {
        if (!cli_guide_answer(j->guide, &choice)) return retrace_run_cancel(j->run), RETRACE_OK;
        rc = retrace_run_choose(j->run, &choice, &j->err);
        if (rc == RETRACE_EUSAGE) cli_guide_refused(j->guide, j->err.msg);
    } while (rc == RETRACE_EUSAGE);
    if (rc == RETRACE_OK && j->trace) j->failed = cli_trace_choice(j->trace, &choice, pos, node);
    if (j->failed) retrace_run_abort(j->run);
    return rc;
}

static int ask_model(job *j, retrace_need *need) {
    int rc = retrace_model_eval(j->model, need->queries, need->n_queries, &j->err);
    if (rc) retrace_run_abort(j->run);
    return rc;
}

static int run_with(job *j) {
    retrace_need need;
    int rc;
    while ((rc = retrace_run_next(j->run, &need, &j->err)) == RETRACE_OK) {
        if (need.kind == RETRACE_EVENT && each(j, need.event)) retrace_run_cancel(j->run);
        if (need.kind == RETRACE_NEED_MODEL) rc = ask_model(j, &need);
        if (need.kind == RETRACE_NEED_CHOICE) rc = answer(j, &need);
        if (rc) return rc;
    }
    return rc == RETRACE_DONE ? RETRACE_OK : rc;
}

static int open_guide(job *j, const cli_flags *f) {
    cli_buf prompt = {0};
    if (!guided(f)) return CLI_OK;
    cli_puts(&prompt, json_string_value(json_object_get(j->plan.json, "prompt")));
    if (cli_on(f, "chat")) cli_puts(&prompt, "\n\n");
    int code = cli_guide_open(&j->guide, j->model, j->run, cli_buf_text(&prompt),
                              j->plan.options.max_tokens);
    cli_buf_free(&prompt);
    return code;
}

/* ==== After the run ==== */

static double rate(const job *j, const retrace_stats *s) {
    double seconds = j->end - j->start;
    return seconds > 0 ? (double)s->kept / seconds : 0;
}

static int is_exact(const job *j) {
    return j->plan.options.resample == RETRACE_RESAMPLE_EXACT;
}

/* Token rows given to the model for each that was kept; without any, all of them. */
static double cost(const retrace_stats *s) {
    return (double)s->evaluated / (double)(s->kept > 0 ? s->kept : 1);
}

static json_t *stats_of(const job *j) {
    retrace_stats s;
    retrace_run_stats(j->run, &s);
    double first = j->first < 0 ? NAN : j->first - j->start;
    json_t *o = cli_json_stats(&s, first, j->end - j->start);
    if (is_exact(j)) { /* every rejection starts again from the prompt */
        json_object_set_new(o, "restarts", json_integer((json_int_t)s.rewinds));
        json_object_set_new(o, "evaluated_per_token", cli_json_real(cli_rounded(cost(&s), 1e-3)));
    }
    return o;
}

static json_t *logprobs_of(const job *j) {
    int n, n_top;
    double logp;
    const retrace_token *ids = retrace_run_tokens(j->run, &n);
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        json_t *o = json_pack("{s:i}", "id", (int)ids[i]);
        cli_json_bytes(o, retrace_piece(j->model, ids[i]), 0);
        const retrace_candidate *top = retrace_run_logprobs(j->run, i, &logp, &n_top);
        json_object_set_new(o, "logprob", top ? cli_json_logprob(logp) : json_null());
        json_object_set_new(o, "top", cli_json_candidates(j->model, top, top ? n_top : 0));
        json_array_append_new(list, o);
    }
    return list;
}

/* What broke the run off, or NULL. Standard output has no part in it yet, so a write that failed
 * was one to the trace. */
static json_t *error_of(const job *j, const cli_flags *f) {
    cli_buf b = {0};
    if (j->err.code)
        cli_puts(&b, j->err.msg);
    else if (j->failed)
        cli_printf(&b, "cannot write '%s'", cli_value(f, "trace"));
    else
        return NULL;
    json_t *text = cli_json_text(cli_buf_text(&b));
    cli_buf_free(&b);
    return text;
}

static int print_json(const job *j, const cli_flags *f) {
    int n;
    json_t *error = error_of(j, f);
    retrace_finish finish = error ? RETRACE_FINISH_ERROR : retrace_run_finished(j->run);
    const retrace_token *ids = retrace_run_tokens(j->run, &n);
    json_t *o = json_object();
    json_object_set_new(o, "text", cli_json_text(retrace_run_text(j->run)));
    json_object_set_new(o, "tokens", cli_json_ints(ids, n));
    json_object_set_new(o, "finish", json_string(retrace_finish_name(finish)));
    if (error) json_object_set_new(o, "error", error);
    json_object_set_new(o, "seed", json_integer(j->plan.options.seed));
    json_object_set_new(o, "stats", stats_of(j));
    json_object_set_new(o, "rules", cli_json_rule_stats(j->run));
    if (cli_option_of(f, "logprobs")->n && j->plan.options.logprobs >= 0)
        json_object_set_new(o, "logprobs", logprobs_of(j));
    return cli_json_line(o, stdout, "standard output");
}

/* Where a rule gave up, what it last objected to stands. */
static void tell_rules(const job *j) {
    retrace_rule_stats r;
    for (int i = 0; retrace_run_rule_stats(j->run, i, &r); i++)
        cli_say("%s: %lld hit%s, %lld of them went back, %lld token%s taken back, %lld accepted",
                r.name, (long long)r.hits, r.hits == 1 ? "" : "s", (long long)(r.hits - r.accepted),
                (long long)r.erased, r.erased == 1 ? "" : "s", (long long)r.accepted);
}

static void summary(const job *j) {
    retrace_stats s;
    retrace_rule_stats r;
    cli_buf b = {0};
    retrace_run_stats(j->run, &s);
    cli_printf(&b, "%lld kept, %lld evaluated, %lld erased, %lld %s%s", (long long)s.kept,
               (long long)s.evaluated, (long long)s.erased, (long long)s.rewinds,
               is_exact(j) ? "restart" : "rewind", s.rewinds == 1 ? "" : "s");
    if (is_exact(j)) cli_printf(&b, ", %.2f evaluated per token", cost(&s));
    if (!j->guide) cli_printf(&b, ", %.1f tokens/s", rate(j, &s));
    if (s.reevaluated) cli_printf(&b, ", %lld reevaluated", (long long)s.reevaluated);
    if (s.accepted) cli_printf(&b, ", %lld accepted", (long long)s.accepted);
    if (j->first >= 0 && !j->guide)
        cli_printf(&b, ", first text after %.2f s", j->first - j->start);
    cli_printf(&b, ", seed %lld", (long long)j->plan.options.seed);
    for (int i = 0; !cli_verbose && retrace_run_rule_stats(j->run, i, &r); i++) {
        cli_printf(&b, "; %s: %lld hit%s", r.name, (long long)r.hits, r.hits == 1 ? "" : "s");
        if (r.accepted) cli_printf(&b, ", %lld accepted", (long long)r.accepted);
    }
    cli_say("%s", b.s);
    if (cli_verbose) tell_rules(j);
    cli_buf_free(&b);
}

/* The exit code of how it ended, with a word about ends that are no result. */
static int verdict(const job *j) {
    retrace_stats s;
    if (j->err.code) return cli_report(&j->err, NULL);
    retrace_run_stats(j->run, &s);
    switch (retrace_run_finished(j->run)) {
    case RETRACE_FINISH_STUCK:
        if (j->plan.options.on_stuck == RETRACE_STUCK_STOP) {
            cli_say("stuck: nothing acceptable is left; the answer ends here");
            return CLI_OK;
        }
        return cli_fail(CLI_INVALID,
                        "stuck: nothing acceptable is left after token %lld (see --on-stuck)",
                        (long long)s.kept);
    case RETRACE_FINISH_BUDGET:
        return cli_fail(CLI_INVALID,
                        "gave up after %lld %s%s and %lld evaluated tokens "
                        "(see --max-rewinds, --max-evaluated)",
                        (long long)s.rewinds, is_exact(j) ? "restart" : "rewind",
                        s.rewinds == 1 ? "" : "s", (long long)s.evaluated);
    case RETRACE_FINISH_CANCELLED: return CLI_INTERRUPTED;
    case RETRACE_FINISH_ERROR: return CLI_MODEL;
    default: return CLI_OK;
    }
}

/* What had settled stays on the screen; the object tells of it too. */
static int some_text(const job *j) {
    size_t n_bytes;
    return retrace_run_settled(j->run, &n_bytes) > 0 || n_bytes > 0;
}

static int finish(job *j, const cli_flags *f) {
    int code = CLI_OK;
    if (j->err.code && j->trace && !j->failed)
        j->failed = cli_trace_error(j->trace, retrace_run_text(j->run), j->err.msg);
    if (j->show && !j->failed) j->failed = cli_show_end(j->show);
    int broken = j->err.code || j->failed;
    if (!j->show && (!broken || some_text(j))) code = print_json(j, f);
    if (j->failed) return j->failed;
    if (j->show && !cli_quiet && isatty(STDOUT_FILENO) && isatty(STDERR_FILENO)) putc('\n', stderr);
    if (!j->err.code) summary(j);
    int how = verdict(j);
    return code ? code : how;
}

static int go(job *j, const cli_flags *f) {
    int terminal = isatty(STDOUT_FILENO);
    int code = retrace_run_new(&j->run, j->model, &j->plan.options, j->plan.prompt,
                               j->plan.n_prompt, &j->err)
                   ? cli_report(&j->err, NULL)
                   : open_trace(j, cli_value(f, "trace"));
    if (code) return code;
    if (!cli_on(f, "json"))
        j->show = cli_show_new(stdout, terminal, cli_on(f, "show-erased"), cli_colour(stdout));
    cli_run_begins();
    j->first = -1;
    j->start = cli_clock();
    code = open_guide(j, f);
    if (code) return code;
    int rc = j->guide ? run_with(j) : retrace_run_finish(j->run, each, j, &j->err);
    if (rc >= 0) j->err.code = 0;
    cli_screen_leave();
    j->end = cli_clock();
    cli_run_ends();
    return finish(j, f);
}

int cli_generate(const cli_flags *f) {
    job j = {0};
    int code = prepare(&j, f);
    if (!code) code = go(&j, f);
    cli_guide_close(j.guide);
    int closed = cli_trace_close(j.trace);
    cli_show_free(j.show);
    cli_taken_free(&j.taken);
    retrace_run_free(j.run);
    cli_plan_free(&j.plan);
    retrace_model_close(j.model);
    return code ? code : closed;
}
