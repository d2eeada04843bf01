/* cells.c - text in the columns of a terminal.
 *
 * A cell is a character with the marks that follow it; wide ones fill two columns. How wide is what
 * Unicode says; where a terminal disagrees a line may come out shorter than it could, never longer,
 * as long as the terminal does not take more columns than that. What would drive a terminal, and
 * bytes that are no character, are spelt out. */
#include "screen.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static int width_of(uint32_t cp) {
    return cp < 0x80 ? 1 : utf8proc_charwidth((utf8proc_int32_t)cp);
}

static int put_spelt(cli_buf *b, const char *spelt) {
    if (b) cli_puts(b, spelt);
    return (int)strlen(spelt);
}

static int put_bytes(cli_buf *b, const char *s, size_t n) {
    for (size_t i = 0; i < n && b; i++) cli_printf(b, "\\x%02x", (unsigned char)s[i]);
    return 4 * (int)n;
}

/* One character that is more than printable ASCII. */
static int put_odd(cli_buf *b, const char *s, size_t n, uint32_t cp) {
    cli_buf spelt = {0};
    int width;
    if (cp >= CLI_BROKEN) return put_bytes(b, s, n);
    if (cp == '\t') return put_spelt(b, "\\t");
    cli_escape(&spelt, (retrace_text){s, n}, 0);
    int same = spelt.n == n && memcmp(spelt.s, s, n) == 0;
    width = same ? width_of(cp) : (int)spelt.n;
    if (width == 0 && utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_CF) {
        spelt.n = 0; /* unseen, with nothing that it belongs to */
        cli_printf(&spelt, "\\u{%04x}", (unsigned)cp);
        width = (int)spelt.n;
    } else if (width == 0) { /* a mark without a letter stands on a dotted circle */
        if (b) cli_puts(b, "\xe2\x97\x8c");
        width = 1;
    }
    if (b) cli_put(b, spelt.s, spelt.n);
    cli_buf_free(&spelt);
    return width;
}

size_t cli_cell(cli_buf *b, const char *s, size_t n, int *width) {
    uint32_t cp;
    size_t len = cli_utf8(s, n, &cp);
    if (cp >= 0x20 && cp < 0x7f) {
        if (b) cli_put(b, s, 1);
        *width = 1;
    } else {
        *width = put_odd(b, s, len, cp);
        if (cp < 0x20 || cp >= CLI_BROKEN) return len;
    }
    while (len < n) {
        size_t mark = cli_utf8(s + len, n - len, &cp);
        if (cp < 0x300 || cp >= CLI_BROKEN || width_of(cp) > 0) break;
        cli_buf seen = {0};
        cli_escape(&seen, (retrace_text){s + len, mark}, 0);
        int drives = seen.n != mark;
        cli_buf_free(&seen);
        if (drives) break;
        if (b) cli_put(b, s + len, mark);
        len += mark;
    }
    return len;
}

int cli_columns(retrace_text t) {
    int all = 0, width;
    for (size_t i = 0; i < t.n; all += width) i += cli_cell(NULL, t.s + i, t.n - i, &width);
    return all;
}

int cli_put_cells(cli_buf *b, retrace_text t, int columns) {
    int all = 0, width;
    for (size_t i = 0; i < t.n;) {
        size_t before = b->n, len = cli_cell(b, t.s + i, t.n - i, &width);
        if (all + width > columns) {
            b->n = before;
            break;
        }
        all += width;
        i += len;
    }
    return all;
}

/* ==== Lines ==== */

static void add_line(cli_lines *l, size_t from, size_t to) {
    if ((l->n & (l->n - 1)) == 0) {
        size_t room = l->n ? 2 * (size_t)l->n : 1;
        l->from = cli_realloc(l->from, room * sizeof *l->from);
        l->to = cli_realloc(l->to, room * sizeof *l->to);
    }
    l->from[l->n] = from;
    l->to[l->n++] = to;
}

void cli_wrap(cli_lines *lines, retrace_text t, int columns) {
    size_t from = 0, blank = 0; /* behind the last blank of the line */
    int filled = 0, width;
    *lines = (cli_lines){0};
    for (size_t at = 0; at < t.n;) {
        if (t.s[at] == '\n') {
            add_line(lines, from, at++);
            from = blank = at;
            filled = 0;
            continue;
        }
        size_t len = cli_cell(NULL, t.s + at, t.n - at, &width);
        if (filled + width > columns && at > from && t.s[at] != ' ') {
            size_t cut = blank > from ? blank : at;
            add_line(lines, from, cut);
            from = blank = cut;
            filled = cli_columns((retrace_text){t.s + from, at - from});
        }
        filled += width;
        at += len;
        if (t.s[at - len] == ' ') blank = at;
    }
    add_line(lines, from, t.n);
}

void cli_lines_free(cli_lines *lines) {
    free(lines->from);
    free(lines->to);
    *lines = (cli_lines){0};
}
