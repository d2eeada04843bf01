/* taken.c - what a rewind takes back, in words.
 *
 * An erase names a position; a person wants to read the text that is gone. So the tokens at the
 * head are kept here with the place at which each begins. A token without text is called by its
 * name, and of a long text the two ends are told. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { EDGE = 36 }; /* bytes told of either end of a long text */

void cli_taken_event(cli_taken *t, const retrace_model *m, const retrace_event *e) {
    if (e->kind == RETRACE_ERASE && e->to < t->n) {
        t->text.n = t->from[e->to];
        t->n = e->to;
    }
    if (e->kind != RETRACE_PUSH || e->pos != t->n) return;
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 64;
        t->from = cli_realloc(t->from, (size_t)t->cap * sizeof *t->from);
    }
    t->from[t->n++] = t->text.n;
    retrace_text piece = e->text.n ? e->text : retrace_token_name(m, e->id);
    cli_put(&t->text, piece.s, piece.n);
}

/* The length of the longest beginning of whole characters that has at most n bytes. */
static size_t whole(retrace_text t, size_t n) {
    return cli_utf8_whole((retrace_text){t.s, n});
}

static void excerpt(cli_buf *b, retrace_text t) {
    if (t.n <= 2 * EDGE + 5) {
        cli_escape(b, t, 0);
        return;
    }
    size_t from = t.n - EDGE;
    while (from < t.n && ((unsigned char)t.s[from] & 0xc0) == 0x80) from++;
    cli_escape(b, (retrace_text){t.s, whole(t, EDGE)}, 0);
    cli_puts(b, " ... ");
    cli_escape(b, (retrace_text){t.s + from, t.n - from}, 0);
}

void cli_taken_text(const cli_taken *t, int to, cli_buf *b) {
    size_t from = to < t->n ? t->from[to] : t->text.n;
    cli_puts(b, "\"");
    excerpt(b, (retrace_text){t->text.s ? t->text.s + from : "", t->text.n - from});
    cli_puts(b, "\"");
}

void cli_taken_free(cli_taken *t) {
    cli_buf_free(&t->text);
    free(t->from);
    *t = (cli_taken){0};
}
