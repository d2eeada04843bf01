/* frame.c - one picture of a question: the text so far, below it the candidates, a line that says
 * what happened and a line of keys.
 *
 * Every row is written whole and none of them is longer than the screen is wide, so a resized
 * window is a matter of drawing again. In a small window the rows that matter least go first: the
 * keys, the rule between text and candidates, candidates far from the chosen one. */
#include "screen.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char dim[] = "\033[2m", bold[] = "\033[1m", inverse[] = "\033[7m", plain[] = "\033[0m",
                  bar_colour[] = "\033[36m";

typedef struct painter {
    cli_buf *out;
    const cli_frame *f;
    int rows, columns;
    int row;               /* being written, from 1 */
    int at_row, at_column; /* where the cursor is left */
} painter;

static void style(const painter *p, const char *code) {
    if (p->f->colour) cli_puts(p->out, code);
}

static void next_row(painter *p) {
    cli_printf(p->out, "\033[%d;1H\033[2K", ++p->row);
}

static retrace_text text_of(const char *s) {
    return (retrace_text){s, strlen(s)};
}

static void put_line(painter *p, const char *s) {
    cli_put_cells(p->out, text_of(s), p->columns);
}

/* ==== The text ==== */

/* The part of a line that lies in the prompt is dim. */
static void put_text(painter *p, size_t from, size_t to) {
    retrace_text t = p->f->text;
    size_t cut = p->f->n_prompt < from ? from : p->f->n_prompt < to ? p->f->n_prompt : to;
    style(p, dim);
    int filled = cli_put_cells(p->out, (retrace_text){t.s + from, cut - from}, p->columns);
    style(p, plain);
    cli_put_cells(p->out, (retrace_text){t.s + cut, to - cut}, p->columns - filled);
}

/* The last `rows` lines, next to the candidates; the cursor stands where the next token goes. */
static void paint_text(painter *p, int rows) {
    cli_lines lines;
    cli_wrap(&lines, p->f->text, p->columns);
    for (int i = lines.n - rows; i < lines.n; i++) {
        next_row(p);
        if (i < 0) continue;
        put_text(p, lines.from[i], lines.to[i]);
        retrace_text line = {p->f->text.s + lines.from[i], lines.to[i] - lines.from[i]};
        p->at_row = p->row;
        p->at_column = cli_columns(line) + 1;
    }
    cli_lines_free(&lines);
}

/* ==== Candidates ==== */

/* Ten columns, in eighths. */
static void put_bar(painter *p, double x) {
    static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int eighths = (int)lround(x * 80), full = eighths / 8, part = eighths % 8;
    style(p, bar_colour);
    for (int i = 0; i < full; i++) cli_puts(p->out, "█");
    cli_puts(p->out, parts[part]);
    style(p, plain);
    cli_printf(p->out, "%*s", 10 - full - (part > 0) + 2, "");
}

/* The token in quotes; one that is no text by its name. */
static void name_token(cli_buf *b, const retrace_model *m, retrace_token id, int narrow) {
    retrace_text piece = retrace_piece(m, id);
    int ends = retrace_token_ends(m, id);
    if (piece.n > 0 && !ends) {
        cli_puts(b, "\"");
        cli_put_cells(b, piece, INT_MAX / 2); /* by itself: a mark is not one of the quote's */
        cli_puts(b, "\"");
        return;
    }
    retrace_text name = retrace_token_name(m, id);
    cli_put(b, name.s, name.n);
    if (!narrow) cli_puts(b, ends ? "  (ends the answer)" : "  (no text)");
}

static void put_candidate(painter *p, int i) {
    const retrace_candidate *c = &p->f->candidates[i];
    double x = exp(c->logp);
    int narrow = p->columns < 30, chosen = i == p->f->selected;
    cli_buf head = {0}, name = {0};
    const char *less = x > 0 && x < 0.0005 ? "<" : ""; /* than the number that follows */
    double percent = *less ? 0.1 : 100 * x;
    if (narrow)
        cli_printf(&head, "%c%3.0f%% ", chosen ? '>' : ' ', 100 * x);
    else
        cli_printf(&head, "%c %*d  %*s%.1f %%  ", chosen ? '>' : ' ',
                   p->f->n_candidates > 99 ? 4 : 2, i + 1,
                   percent < 9.95    ? 2
                   : percent < 99.95 ? 1
                                     : 0,
                   less, percent);
    if (chosen) style(p, bold);
    int filled = cli_put_cells(p->out, cli_buf_text(&head), p->columns);
    if (chosen) style(p, plain);
    if (p->columns >= 50) {
        put_bar(p, x < 0 ? 0 : x > 1 ? 1 : x);
        filled += 12;
    }
    name_token(&name, p->f->model, c->id, narrow);
    if (chosen) style(p, inverse);
    cli_put_cells(p->out, cli_buf_text(&name), p->columns - filled);
    style(p, plain);
    cli_buf_free(&head);
    cli_buf_free(&name);
}

static void paint_candidates(painter *p, int rows) {
    int n = p->f->n_candidates, first = p->f->selected - rows / 2;
    if (first > n - rows) first = n - rows;
    if (first < 0) first = 0;
    for (int i = first; i < first + rows; i++) {
        next_row(p);
        if (i < n) put_candidate(p, i);
    }
}

/* ==== The lines at the bottom ==== */

static void paint_rule(painter *p) {
    next_row(p);
    style(p, dim);
    for (int i = 0; i < p->columns; i++) cli_puts(p->out, "─");
    style(p, plain);
}

/* What is typed, moved so far to the left that the caret is seen. */
static void paint_edited(painter *p) {
    const retrace_text t = *p->f->edited;
    const char *label = p->columns < 24 ? "> " : "text> ";
    int room = p->columns - (int)strlen(label) - 1, width;
    size_t from = 0;
    while (from < p->f->caret && cli_columns((retrace_text){t.s + from, p->f->caret - from}) > room)
        from += cli_cell(NULL, t.s + from, t.n - from, &width);
    style(p, bold);
    put_line(p, label);
    style(p, plain);
    cli_put_cells(p->out, (retrace_text){t.s + from, t.n - from}, room);
    p->at_row = p->row;
    p->at_column =
        (int)strlen(label) + 1 + cli_columns((retrace_text){t.s + from, p->f->caret - from});
}

static void paint_status(painter *p) {
    next_row(p);
    if (p->f->edited)
        paint_edited(p);
    else
        put_line(p, p->f->status);
}

/* The longest line of keys that fits: keys bright, what they do dim. */
static void paint_help(painter *p) {
    const char *const *help = p->f->help;
    while (help[1] && cli_columns(text_of(*help)) > p->columns) help++;
    int filled = 0;
    next_row(p);
    for (const char *s = *help; *s;) {
        const char *gap = strstr(s, "  ");
        size_t n = gap ? (size_t)(gap - s) + 2 : strlen(s), key = strcspn(s, " ");
        filled += cli_put_cells(p->out, (retrace_text){s, key}, p->columns - filled);
        style(p, dim);
        filled += cli_put_cells(p->out, (retrace_text){s + key, n - key}, p->columns - filled);
        style(p, plain);
        s += n;
    }
}

/* ==== All of it ==== */

void cli_frame_draw(cli_buf *out, const cli_frame *f, int rows, int columns) {
    painter p = {.out = out, .f = f, .rows = rows, .columns = columns, .at_row = 1, .at_column = 1};
    int help = rows >= 5, rule = rows >= 8, status = rows >= 3 || f->edited;
    int left = rows - help - rule - status, list = f->list;
    if (list > (left + 1) / 2) list = (left + 1) / 2;
    if (list == 0 && left > 1 && f->list > 0) list = 1;
    cli_puts(out, "\033[?2026h\033[?25l"); /* where it is known: shown at once, when whole */
    paint_text(&p, left - list);
    if (rule) paint_rule(&p);
    paint_candidates(&p, list);
    if (status) paint_status(&p);
    if (help) paint_help(&p);
    while (p.row < rows) next_row(&p);
    if (p.at_column > columns) p.at_column = columns;
    cli_printf(out, "\033[%d;%dH\033[?2026l\033[?25h", p.at_row, p.at_column);
}
