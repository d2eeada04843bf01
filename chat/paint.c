/* paint.c - placing text on a terminal: what stays is written once, what stands behind it is drawn
 * anew as it changes.
 *
 * Where lines end is left to the terminal, so that they can be copied whole; here only is counted
 * in which row and column each character comes to stand. A terminal that has filled its last column
 * goes to the next row not until another character comes, and forgets that when its cursor is
 * moved: to take up a text there its last character is written again. The tail may be higher than
 * the window: then its end is shown. After a change of the window's size the last line of the text
 * that stays is written again, from a row that is its own whether the terminal lays lines out anew
 * or not: some of it may stand there twice, none is lost. */
#include "paint.h"

#include "../cli/screen.h"

#include <string.h>
#include <utf8proc.h>

static const char sync_begin[] = "\033[?2026h\033[?25l", sync_end[] = "\033[?25h\033[?2026l",
                  reset[] = "\033[0m";
enum { TAB = 8, LINE_MAX_KEPT = 1 << 16 };

/* A place, and the style there. */
typedef struct place {
    int row, column;
    const char *style; /* in the text; NULL: none */
    size_t n_style;
} place;

/* ==== Where characters come to stand ==== */

static int width_of(uint32_t c) {
    return c < 0x80 ? 1 : utf8proc_charwidth((utf8proc_int32_t)c);
}

static void go_right(place *at, int width, int columns) {
    if (width > 0 && at->column + width > columns) {
        at->row++;
        at->column = 0;
    }
    at->column += width;
}

/* Every tab ends before a column that is a multiple of eight; as blanks, because terminals differ
 * in what a tab does at the right edge. */
static void put_tab(cli_buf *out, place *at, int columns) {
    int from = at->column == columns ? 0 : at->column;
    for (int n = TAB - from % TAB; n > 0; n--) {
        if (out) cli_puts(out, " ");
        go_right(at, 1, columns);
    }
}

static size_t style_length(const char *s, size_t n) {
    const char *end = memchr(s, 'm', n);
    return end ? (size_t)(end - s) + 1 : n;
}

/* One character, or a style. Bytes taken. */
static size_t step(cli_buf *out, const char *s, size_t n, place *at, int columns) {
    uint32_t c;
    size_t len = 1;
    if (*s == '\n') {
        at->row++;
        at->column = 0;
    } else if (*s == '\033') {
        len = style_length(s, n);
        at->style = s;
        at->n_style = len;
    } else if (*s == '\t') {
        put_tab(out, at, columns);
        return 1;
    } else {
        len = cli_utf8(s, n, &c);
        go_right(at, width_of(c), columns);
    }
    if (out) cli_put(out, s, len);
    return len;
}

static void walk(cli_buf *out, retrace_text t, place *at, int columns) {
    for (size_t i = 0; i < t.n;) i += step(out, t.s + i, t.n - i, at, columns);
}

/* ==== The end of the text that stays ==== */

/* Its last character with the marks that follow it, and the style in force before it. */
static size_t last_cell(const chat_paint *p, int *width, place *style) {
    size_t from = 0;
    place at = {0};
    *width = 0;
    for (size_t i = 0; i < p->line.n;) {
        place before = at;
        size_t len = step(NULL, p->line.s + i, p->line.n - i, &at, p->columns);
        int moved = at.column != before.column || at.row != before.row;
        if (moved) {
            from = i;
            *style = before;
            *width = at.row == before.row ? at.column - before.column : at.column;
        }
        i += len;
    }
    return from;
}

/* The cursor stands in the right row. */
static void take_up(const chat_paint *p, cli_buf *b) {
    if (p->column == 0) { /* a screen that is cleared from its corner on is kept by some */
        cli_puts(b, "\033[2G\033[J\033[1G\033[K");
        return;
    }
    if (p->column < p->columns || p->line.n == 0) {
        cli_printf(b, "\033[%dG\033[J", p->column + 1);
        return;
    }
    int width;
    place style = {0};
    size_t from = last_cell(p, &width, &style);
    if (p->line.s[from] == '\t') width = 1;
    cli_printf(b, "\033[%dG\033[J", p->columns - width + 1);
    if (style.style) cli_put(b, style.style, style.n_style);
    if (p->line.s[from] == '\t')
        cli_puts(b, " ");
    else
        cli_put(b, p->line.s + from, p->line.n - from);
    cli_puts(b, reset);
}

static void keep_line(chat_paint *p, retrace_text stays) {
    size_t from = stays.n;
    while (from > 0 && stays.s[from - 1] != '\n') from--;
    if (from > 0) p->line.n = 0;
    cli_put(&p->line, stays.s + from, stays.n - from);
}

/* A line that never ends would have to be counted through again and again: whole rows are dropped
 * from its beginning. */
static void shorten_line(chat_paint *p) {
    if (p->line.n < LINE_MAX_KEPT) return;
    place at = {0};
    size_t i = 0, cut = 0;
    while (i < p->line.n / 2) {
        int row = at.row;
        size_t len = step(NULL, p->line.s + i, p->line.n - i, &at, p->columns);
        if (at.row != row) cut = i;
        i += len;
    }
    p->line.n -= cut;
    memmove(p->line.s, p->line.s + cut, p->line.n);
}

static void put_stays(chat_paint *p, cli_buf *b, retrace_text stays) {
    place at = {.column = p->column};
    walk(b, stays, &at, p->columns);
    if (at.style) cli_puts(b, reset);
    p->column = at.column;
    keep_line(p, stays);
    shorten_line(p);
}

/* ==== The tail ==== */

/* How many of its rows, behind the one in which the text that stays ends, can be shown. */
static int room(const chat_paint *p) {
    return p->rows > 1 ? p->rows - 1 : 0;
}

/* Its last rows, below a mark that says so. */
static void put_end(chat_paint *p, cli_buf *b, int rows) {
    place at = {.column = p->column};
    retrace_text t = cli_buf_text(&p->tail);
    int skipped = p->column == p->columns, first = rows - room(p) + 1 + skipped;
    size_t i = 0;
    while (i < t.n) {
        place next = at;
        size_t len = step(NULL, t.s + i, t.n - i, &next, p->columns);
        if (next.row >= first) break;
        at = next;
        i += len;
    }
    if (i < t.n && t.s[i] == '\n') i++;
    cli_puts(b, "…\n");
    if (at.style) cli_put(b, at.style, at.n_style);
    at.row = skipped + 1;
    at.column = 0;
    walk(b, (retrace_text){t.s + i, t.n - i}, &at, p->columns);
    p->down = at.row;
    p->cut = 1;
}

static void put_tail(chat_paint *p, cli_buf *b) {
    place at = {.column = p->column};
    retrace_text t = cli_buf_text(&p->tail);
    size_t begun = b->n;
    p->down = p->cut = 0;
    if (t.n == 0) return;
    walk(b, t, &at, p->columns);
    p->down = at.row;
    if (at.row > room(p)) {
        b->n = begun;
        if (room(p) > 1)
            put_end(p, b, at.row);
        else
            p->down = 0;
    }
    if (at.style) cli_puts(b, reset);
}

/* The tail has only become longer: nothing need be drawn again. */
static int grow(chat_paint *p, cli_buf *b, retrace_text tail) {
    size_t had = p->tail.n;
    if (had == 0 || p->cut || tail.n <= had || memcmp(tail.s, p->tail.s, had) != 0) return 0;
    place at = {.column = p->column};
    walk(NULL, (retrace_text){tail.s, had}, &at, p->columns);
    size_t begun = b->n;
    if (at.style) cli_put(b, at.style, at.n_style);
    walk(b, (retrace_text){tail.s + had, tail.n - had}, &at, p->columns);
    if (at.row > room(p)) {
        b->n = begun;
        return 0;
    }
    if (at.style) cli_puts(b, reset);
    cli_put(&p->tail, tail.s + had, tail.n - had);
    p->down = at.row;
    return 1;
}

static void redraw(chat_paint *p, cli_buf *b, retrace_text stays, retrace_text tail) {
    int drawn = p->tail.n > 0;
    if (drawn) cli_puts(b, sync_begin);
    if (p->down > 0) cli_printf(b, "\033[%dA", p->down);
    if (drawn) take_up(p, b);
    put_stays(p, b, stays);
    p->tail.n = 0;
    cli_put(&p->tail, tail.s, tail.n);
    put_tail(p, b);
    if (drawn) cli_puts(b, sync_end);
}

void chat_paint_draw(chat_paint *p, retrace_text stays, retrace_text tail) {
    cli_buf b = {0};
    int same = tail.n == p->tail.n && (!tail.n || memcmp(tail.s, p->tail.s, tail.n) == 0);
    if (same && stays.n == 0) return;
    if (!p->columns) chat_tty_size(&p->rows, &p->columns);
    if (stays.n || !grow(p, &b, tail)) redraw(p, &b, stays, tail);
    if (b.n) fwrite(b.s, 1, b.n, p->out);
    cli_buf_free(&b);
}

/* ==== Another size ==== */

/* Rows from the beginning of the last line to the cursor, were the window so wide. */
static int height(const chat_paint *p, int columns) {
    place at = {0};
    walk(NULL, cli_buf_text(&p->line), &at, columns);
    if (!p->cut) walk(NULL, cli_buf_text(&p->tail), &at, columns);
    return at.row;
}

void chat_paint_resized(chat_paint *p) {
    int rows, columns;
    chat_tty_size(&rows, &columns);
    if (!p->columns || (columns == p->columns && rows == p->rows)) return;
    int was = height(p, p->columns), now = height(p, columns), up = was < now ? was : now;
    if (p->cut) up = 0;
    if (up > rows - 1) up = rows - 1;
    cli_buf b = {0};
    place at = {0};
    cli_puts(&b, sync_begin);
    if (up > 0) cli_printf(&b, "\033[%dA", up);
    cli_puts(&b, p->cut ? "\n" : "\r");
    p->rows = rows;
    p->columns = columns;
    walk(&b, cli_buf_text(&p->line), &at, columns);
    p->column = at.column;
    take_up(p, &b);
    put_tail(p, &b);
    cli_puts(&b, sync_end);
    fwrite(b.s, 1, b.n, p->out);
    cli_buf_free(&b);
}

void chat_paint_free(chat_paint *p) {
    cli_buf_free(&p->line);
    cli_buf_free(&p->tail);
}
