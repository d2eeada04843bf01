/* out.c - what leaves the program: messages on stderr, JSON and text on stdout, and the memory for
 * them.
 *
 * Messages never contain control characters, whatever a file or a model put into them. A write that
 * fails is noticed: a full disk is exit 4, a reader that left ends the program as SIGPIPE would. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cli_quiet;
int cli_verbose;

/* ==== Memory ==== */

static void *or_die(void *p) {
    if (p) return p;
    cli_screen_leave();
    fputs("retrace: out of memory\n", stderr);
    exit(CLI_IO);
}

void *cli_alloc(size_t n) {
    return or_die(calloc(1, n ? n : 1));
}

void *cli_realloc(void *p, size_t n) {
    return or_die(realloc(p, n ? n : 1));
}

char *cli_copy(const char *s, size_t n) {
    char *copy = cli_alloc(n + 1);
    memcpy(copy, s, n);
    return copy;
}

static void room(cli_buf *b, size_t more) {
    if (more > SIZE_MAX / 4 - b->n) or_die(NULL);
    if (b->n + more + 1 <= b->cap) return;
    b->cap = (b->n + more + 1) * 2;
    b->s = cli_realloc(b->s, b->cap);
}

void cli_put(cli_buf *b, const char *s, size_t n) {
    room(b, n);
    if (n) memcpy(b->s + b->n, s, n);
    b->n += n;
    b->s[b->n] = '\0';
}

void cli_puts(cli_buf *b, const char *s) {
    cli_put(b, s, strlen(s));
}

static void put_args(cli_buf *b, const char *fmt, va_list args) {
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    if (n > 0) {
        room(b, (size_t)n);
        vsnprintf(b->s + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
}

void cli_printf(cli_buf *b, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    put_args(b, fmt, args);
    va_end(args);
}

void cli_buf_free(cli_buf *b) {
    free(b->s);
    *b = (cli_buf){0};
}

retrace_text cli_buf_text(const cli_buf *b) {
    return (retrace_text){b->s ? b->s : "", b->n};
}

/* ==== Messages ==== */

/* Prints one line on stderr, with control characters spelt out. */
static void line(const char *opening, const char *fmt, va_list args) {
    cli_buf raw = {0}, safe = {0};
    put_args(&raw, fmt, args);
    cli_puts(&safe, opening);
    cli_escape(&safe, cli_buf_text(&raw), 0);
    cli_puts(&safe, "\n");
    fwrite(safe.s, 1, safe.n, stderr);
    cli_buf_free(&raw);
    cli_buf_free(&safe);
}

int cli_fail(int code, const char *fmt, ...) {
    va_list args;
    cli_progress_end();
    cli_screen_leave();
    va_start(args, fmt);
    line("retrace: ", fmt, args);
    va_end(args);
    return code;
}

void cli_say(const char *fmt, ...) {
    if (cli_quiet) return;
    va_list args;
    va_start(args, fmt);
    line("", fmt, args);
    va_end(args);
}

int cli_exit_code(int status) {
    switch (status) {
    case RETRACE_EUSAGE: return CLI_USAGE;
    case RETRACE_EMODEL: return CLI_MODEL;
    case RETRACE_ECANCEL: return CLI_INTERRUPTED;
    default: return CLI_IO;
    }
}

int cli_report(const retrace_error *err, const char *about) {
    return cli_fail(cli_exit_code(err->code), "%s%s%s", about ? about : "", about ? ": " : "",
                    err->msg);
}

static int progress_shown;

void cli_progress(const char *fmt, ...) {
    const char *term = getenv("TERM");
    if (cli_quiet || !isatty(STDERR_FILENO) || !term || strcmp(term, "dumb") == 0) return;
    cli_buf raw = {0}, safe = {0};
    va_list args;
    va_start(args, fmt);
    put_args(&raw, fmt, args);
    va_end(args);
    cli_escape(&safe, cli_buf_text(&raw), 0);
    fprintf(stderr, "\r\033[K%s", safe.s ? safe.s : "");
    progress_shown = 1;
    cli_buf_free(&raw);
    cli_buf_free(&safe);
}

void cli_progress_end(void) {
    if (progress_shown) fputs("\r\033[K", stderr);
    progress_shown = 0;
}

/* ==== JSON ==== */

json_t *cli_json_text(retrace_text t) {
    cli_buf b = {0};
    cli_clean(&b, t);
    json_t *j = or_die(json_stringn(b.s ? b.s : "", b.n));
    cli_buf_free(&b);
    return j;
}

json_t *cli_json_real(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

json_t *cli_json_ints(const retrace_token *v, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, json_integer(v[i]));
    return list;
}

json_t *cli_json_logprob(double x) {
    return x == -INFINITY ? json_real(-9999.0) : cli_json_real(x);
}

json_t *cli_json_octets(retrace_text t) {
    json_t *list = json_array();
    for (size_t i = 0; i < t.n; i++)
        json_array_append_new(list, json_integer((unsigned char)t.s[i]));
    return list;
}

void cli_json_bytes(json_t *to, retrace_text text, int always) {
    json_object_set_new(to, "text", cli_json_text(text));
    if (!always && cli_utf8_check(text) == text.n) return;
    json_object_set_new(to, "bytes", cli_json_octets(text));
}

double cli_rounded(double x, double unit) {
    return round(x / unit) * unit;
}

json_t *cli_json_stats(const retrace_stats *s, double first_s, double seconds) {
    json_t *o =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "prompt", (json_int_t)s->prompt,
                  "prompt_evaluated", (json_int_t)s->prompt_evaluated, "kept", (json_int_t)s->kept,
                  "evaluated", (json_int_t)s->evaluated, "reevaluated", (json_int_t)s->reevaluated,
                  "erased", (json_int_t)s->erased, "accepted", (json_int_t)s->accepted, "rewinds",
                  (json_int_t)s->rewinds, "held_max_bytes", (json_int_t)s->held_max_bytes);
    double rate = seconds > 0 ? (double)s->kept / seconds : 0;
    json_object_set_new(o, "first_text_s", cli_json_real(cli_rounded(first_s, 1e-6)));
    json_object_set_new(o, "seconds", cli_json_real(cli_rounded(seconds, 1e-6)));
    json_object_set_new(o, "tokens_per_s", cli_json_real(cli_rounded(rate, 1e-3)));
    return o;
}

json_t *cli_json_rule_stats(const retrace_run *run) {
    retrace_rule_stats s;
    json_t *list = json_array();
    for (int i = 0; retrace_run_rule_stats(run, i, &s); i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I}", "name", s.name, "hits",
                                              (json_int_t)s.hits, "erased", (json_int_t)s.erased,
                                              "accepted", (json_int_t)s.accepted));
    return list;
}

json_t *cli_json_candidates(const retrace_model *m, const retrace_candidate *v, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        json_t *c = json_pack("{s:i}", "id", (int)v[i].id);
        cli_json_bytes(c, retrace_piece(m, v[i].id), 0);
        json_object_set_new(c, "logprob", cli_json_logprob(v[i].logp));
        json_array_append_new(list, c);
    }
    return list;
}

int cli_write_all(int fd, const char *s, size_t n) {
    while (n > 0) {
        ssize_t done = write(fd, s, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return done < 0 ? errno : EIO;
        s += done;
        n -= (size_t)done;
    }
    return 0;
}

int cli_write_failed(void) {
    if (errno == EPIPE) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    return cli_fail(CLI_IO, "cannot write to standard output: %s", strerror(errno));
}

int cli_flush(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return CLI_OK;
    return cli_write_failed();
}

/* 15 digits: what a person typed comes back as typed, and a probability is far finer than it is
 * sure. */
int cli_json_line(json_t *j, FILE *f, const char *name) {
    size_t how = JSON_REAL_PRECISION(15) | (f == stdout ? 0 : JSON_COMPACT);
    int bad = json_dumpf(j, f, how) != 0 || putc('\n', f) == EOF || fflush(f) != 0;
    json_decref(j);
    if (!bad) return CLI_OK;
    if (f == stdout) return cli_write_failed();
    return cli_fail(CLI_IO, "cannot write '%s': %s", name, strerror(errno));
}
