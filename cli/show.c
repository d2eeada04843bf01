/* show.c - the answer as it is drawn.
 *
 * Text is written when it settles and is never taken back: a pipe gets exactly the answer, a
 * terminal never has its cursor moved. To show what was erased, tokens wait in a queue in the order
 * in which they were drawn,
 *
 *     a [live, settled]  b [live]  c d [erased]  e [live]
 *
 * and its front is written as far as it is decided: `a` now; once `b` settles, `b`, then `c d`
 * struck out; `e` when it settles. So erased text stands where it once stood. On a terminal control
 * characters are spelt out, in the answer too: a model must not drive it. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct token {
    int pos;
    size_t n; /* bytes */
    int erased;
} token;

struct cli_show {
    FILE *out;
    int terminal, erased, colour;
    int open;     /* the line has text in it */
    cli_buf part; /* an incomplete character that waits for its rest */
    cli_buf text; /* of the queue */
    token *queue;
    int n, cap;
};

cli_show *cli_show_new(FILE *out, int terminal, int erased, int colour) {
    cli_show *s = cli_alloc(sizeof *s);
    *s = (cli_show){.out = out, .terminal = terminal, .erased = erased, .colour = colour};
    return s;
}

void cli_show_free(cli_show *s) {
    if (!s) return;
    cli_buf_free(&s->part);
    cli_buf_free(&s->text);
    free(s->queue);
    free(s);
}

int cli_colour(FILE *f) {
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    return (!f || isatty(fileno(f))) && !(none && *none) && term && strcmp(term, "dumb") != 0;
}

/* ==== Writing ==== */

static void write_out(cli_show *s, const cli_buf *b) {
    if (b->n == 0) return;
    fwrite(b->s, 1, b->n, s->out);
    s->open = b->s[b->n - 1] != '\n';
}

/* The answer's own bytes; an incomplete character at the end waits, unless there is no more. */
static void plain(cli_show *s, retrace_text t, int last) {
    cli_buf b = {0};
    cli_put(&s->part, t.s, t.n);
    retrace_text all = cli_buf_text(&s->part);
    size_t n = last ? all.n : cli_utf8_whole(all);
    if (s->terminal)
        cli_escape(&b, (retrace_text){all.s, n}, 1);
    else
        cli_clean(&b, (retrace_text){all.s, n});
    write_out(s, &b);
    if (n) memmove(s->part.s, s->part.s + n, s->part.n - n);
    s->part.n -= n;
    cli_buf_free(&b);
}

static void struck(cli_show *s, retrace_text t) {
    cli_buf b = {0};
    if (t.n == 0) return;
    cli_puts(&b, s->colour ? "\033[2;9;31m" : "[-");
    cli_escape(&b, t, 0);
    cli_puts(&b, s->colour ? "\033[0m" : "-]");
    write_out(s, &b);
    cli_buf_free(&b);
}

/* ==== The queue ==== */

static void queue(cli_show *s, int pos, retrace_text t) {
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->queue = cli_realloc(s->queue, (size_t)s->cap * sizeof *s->queue);
    }
    s->queue[s->n++] = (token){pos, t.n, 0};
    cli_put(&s->text, t.s, t.n);
}

static void drop(cli_show *s, int n, size_t bytes) {
    s->n -= n;
    memmove(s->queue, s->queue + n, (size_t)s->n * sizeof *s->queue);
    s->text.n -= bytes;
    memmove(s->text.s, s->text.s + bytes, s->text.n);
}

/* Writes the decided front of the queue: erased tokens struck out, and of the live ones those
 * before `to`, whose text is what settled now. */
static void advance(cli_show *s, int to, retrace_text settled) {
    size_t at = 0, run = 0;
    int i = 0;
    for (; i < s->n && (s->queue[i].erased || s->queue[i].pos < to); i++) {
        const token *t = &s->queue[i];
        if (t->erased) {
            run += t->n;
        } else {
            size_t n = t->n < settled.n ? t->n : settled.n;
            struck(s, (retrace_text){s->text.s + at - run, run});
            plain(s, (retrace_text){settled.s, n}, 0);
            settled.s += n;
            settled.n -= n;
            run = 0;
        }
        at += t->n;
    }
    if (run) struck(s, (retrace_text){s->text.s + at - run, run});
    plain(s, settled, 0);
    if (i) drop(s, i, at);
}

static void mark_erased(cli_show *s, int to) {
    for (int i = 0; i < s->n; i++)
        if (s->queue[i].pos >= to) s->queue[i].erased = 1;
}

/* ==== Events ==== */

static void take(cli_show *s, const retrace_event *e) {
    static const retrace_text none = {"", 0};
    switch (e->kind) {
    case RETRACE_PUSH:
        if (s->erased) queue(s, e->pos, e->text);
        break;
    case RETRACE_ERASE:
        mark_erased(s, e->to);
        advance(s, 0, none);
        break;
    case RETRACE_SETTLE:
        if (s->erased)
            advance(s, e->to, e->text);
        else
            plain(s, e->text, 0);
        break;
    case RETRACE_NOTE: break;
    case RETRACE_END: /* what did not become part of the answer counts as taken back */
        mark_erased(s, 0);
        advance(s, 0, none);
        plain(s, none, 1);
        break;
    }
}

int cli_show_event(cli_show *s, const retrace_event *e) {
    take(s, e);
    if (fflush(s->out) == 0 && !ferror(s->out)) return CLI_OK;
    return cli_write_failed();
}

/* A terminal's next line begins below the answer. */
int cli_show_end(cli_show *s) {
    if (s->terminal && s->open) putc('\n', s->out);
    s->open = 0;
    return cli_flush();
}

void cli_show_note(cli_show *s, const char *fmt, ...) {
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (s && isatty(STDERR_FILENO)) cli_show_end(s);
    cli_say("%s", line);
}
