/* bigram_build.c - retrace bigram build: makes a table, with a progress line.
 *
 * Minutes of work, so it may be stopped at any moment: what is done stays in FILE.part, and the
 * same command goes on from there. */
#define _POSIX_C_SOURCE 200809L
#include "backward.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Up to this size weights are expanded to 32 bits: four bytes a parameter, for twice the speed. */
static const int64_t expand_max = (int64_t)1 << 30;

typedef struct build {
    const cli_flags *f;
    cli_buf path;
    retrace_model *model;
    double start;
    double at, share; /* when the speed was last measured, and the share then */
    double speed;     /* share a second, smoothed; 0: not known */
    double drawn;     /* when the line was last written */
    int tenth;        /* of the way, as last told where there is no terminal */
    int terminal, begun;
    retrace_build_stage stage;
    int iteration;
} build;

/* ==== Progress ==== */

static void put_left(const build *b, cli_buf *out, double share) {
    if (b->speed <= 0) return;
    double left = (1 - share) / b->speed;
    if (left < 90)
        cli_printf(out, ", %.0f s left", ceil(left));
    else if (left < 5400)
        cli_printf(out, ", %.0f min left", ceil(left / 60));
    else
        cli_printf(out, ", %.1f h left", left / 3600);
}

static void put_stage(cli_buf *out, const retrace_build_progress *p) {
    if (p->stage == RETRACE_BUILD_STATES) {
        cli_puts(out, "evaluating all tokens");
    } else if (p->stage == RETRACE_BUILD_LAW) {
        cli_printf(out, "law, product %d", p->iteration);
        if (isfinite(p->change)) cli_printf(out, ", change %.1e", p->change);
    } else {
        cli_puts(out, "writing");
    }
}

/* Rounded down; with a decimal while every tenth counts. */
static void put_percent(cli_buf *out, double share) {
    if (share < 0.1)
        cli_printf(out, "%3.1f %%  ", floor(1000 * share) / 10);
    else
        cli_printf(out, "%3.0f %%  ", floor(100 * share));
}

static void put_bar(cli_buf *out, double share) {
    enum { WIDTH = 20 };
    int full = (int)(share * WIDTH);
    cli_puts(out, "[");
    for (int i = 0; i < WIDTH; i++) cli_puts(out, i < full ? "#" : "-");
    cli_puts(out, "] ");
}

/* Seconds that passed long ago count less: stages differ in speed. */
static void measure(build *b, double now, double share) {
    if (!b->begun) {
        b->begun = 1;
        b->share = share;
        b->at = now;
    }
    if (now - b->at < 1 || share <= b->share) return;
    double speed = (share - b->share) / (now - b->at);
    double weight = b->speed > 0 ? 1 - exp(-(now - b->at) / 15) : 1;
    b->speed += weight * (speed - b->speed);
    b->at = now;
    b->share = share;
}

/* On a terminal the line is drawn anew all the time; elsewhere lines are few, and there are none at
 * all when the work takes a moment. */
static int is_due(const build *b, const retrace_build_progress *p, double now, int tenth) {
    if (b->terminal) return now - b->drawn >= 0.1;
    if (cli_verbose && p->stage == RETRACE_BUILD_LAW && p->iteration != b->iteration) return 1;
    return now - b->drawn >= 2 && (tenth > b->tenth || p->stage != b->stage);
}

static void tell(build *b, const retrace_build_progress *p, double now) {
    cli_buf line = {0};
    int tenth = (int)(10 * p->share);
    if (is_due(b, p, now, tenth)) {
        if (b->terminal) put_bar(&line, p->share);
        put_percent(&line, p->share);
        put_stage(&line, p);
        put_left(b, &line, p->share);
        if (b->terminal)
            cli_progress("%s", line.s);
        else
            cli_say("%s", line.s);
        b->drawn = now;
        b->tenth = tenth;
        b->stage = p->stage;
        b->iteration = p->iteration;
    }
    cli_buf_free(&line);
}

static int each(void *ud, const retrace_build_progress *p) {
    build *b = ud;
    double now = cli_clock();
    measure(b, now, p->share);
    tell(b, p, now);
    return cli_interrupted();
}

/* ==== Where it goes ==== */

/* DIR/NAME.bigram */
static int path_in(build *b, const char *dir, const char *uri) {
    if (mkdir(dir, 0777) && errno != EEXIST)
        return cli_fail(CLI_IO, "cannot make the folder '%s': %s", dir, strerror(errno));
    cli_bigram_path(&b->path, dir, uri);
    return CLI_OK;
}

static int is_model(const build *b, const char *uri) {
    struct stat model, table;
    return stat(cli_model_file(uri), &model) == 0 && stat(b->path.s, &table) == 0 &&
           model.st_dev == table.st_dev && model.st_ino == table.st_ino;
}

static int choose_path(build *b, const char *uri) {
    const char *file = cli_value(b->f, "output"), *dir = cli_value(b->f, "output-dir");
    int code = CLI_OK;
    if (file)
        cli_puts(&b->path, file);
    else
        code = path_in(b, dir, uri);
    if (!code && is_model(b, uri))
        code = cli_fail(CLI_USAGE, "--output: '%s' is the model itself", b->path.s);
    return code;
}

/* ==== The model ==== */

static int open_model(build *b, const char *uri) {
    struct stat st;
    json_t *settings = cli_model_settings(b->f, uri);
    if (stat(cli_model_file(uri), &st) == 0 && st.st_size <= expand_max)
        cli_model_prefer(settings, uri, "weights", "f32");
    int code = cli_model_open(&b->model, uri, settings);
    json_decref(settings);
    return code;
}

/* ==== The work ==== */

static int part_exists(const build *b) {
    cli_buf part = {0};
    cli_printf(&part, "%s.part", b->path.s);
    int exists = access(part.s, F_OK) == 0;
    cli_buf_free(&part);
    return exists;
}

static void tell_part(const build *b) {
    if (part_exists(b) && !cli_on(b->f, "restart"))
        cli_say(
            "going on from '%s.part', if it is of the same model, anchor and settings; else anew",
            b->path.s);
}

static int stopped(const build *b) {
    if (!part_exists(b)) return cli_fail(CLI_INTERRUPTED, "stopped; nothing was kept");
    return cli_fail(CLI_INTERRUPTED, "stopped; the same command goes on from '%s.part'", b->path.s);
}

static int work(build *b, retrace_anchor anchor) {
    retrace_error err;
    b->terminal = isatty(STDERR_FILENO);
    b->start = cli_clock();
    if (!b->terminal) b->drawn = b->start;
    cli_run_begins();
    int rc =
        retrace_bigram_build(b->path.s, b->model, anchor, cli_on(b->f, "restart"), each, b, &err);
    cli_run_ends();
    cli_progress_end();
    if (rc == RETRACE_ECANCEL) return stopped(b);
    return rc ? cli_report(&err, NULL) : CLI_OK;
}

static void put_time(cli_buf *out, double seconds) {
    if (seconds < 600)
        cli_printf(out, " in %.1f s", seconds);
    else
        cli_printf(out, " in %.1f min", seconds / 60);
}

/* Reads back what was written. */
static int report(const build *b) {
    retrace_bigram *chain;
    retrace_bigram_info i;
    cli_buf t = {0};
    int code = cli_bigram_read(&chain, b->path.s);
    if (code) return code;
    retrace_bigram_facts(chain, &i);
    cli_put_size(&t, i.size_bytes);
    put_time(&t, cli_clock() - b->start);
    cli_printf(&t, "; %s, ", i.kind);
    if (i.iterations) cli_printf(&t, "%d products, ", i.iterations);
    cli_say("'%s': %sresidual %.2g", b->path.s, t.s, i.residual);
    if (cli_on(b->f, "json"))
        code = cli_json_line(cli_bigram_json(chain, b->model), stdout, "standard output");
    retrace_bigram_close(chain);
    cli_buf_free(&t);
    return code;
}

int cli_bigram_build(const cli_flags *f) {
    build b = {.f = f, .tenth = -1};
    cli_anchor a = {0};
    char *uri = NULL;
    if (!cli_value(f, "output") && !cli_value(f, "output-dir"))
        return cli_fail(CLI_USAGE, "--output is missing: where to put the table");
    int code = cli_model_uri(f, &uri);
    if (!code) code = cli_model_there(uri);
    if (!code) code = open_model(&b, uri);
    if (!code) code = cli_anchor_of(f, b.model, &a);
    if (!code) code = choose_path(&b, uri);
    if (!code) tell_part(&b);
    if (!code) code = work(&b, a.anchor);
    if (!code) code = report(&b);
    cli_anchor_free(&a);
    free(uri);
    cli_buf_free(&b.path);
    retrace_model_close(b.model);
    return code;
}
