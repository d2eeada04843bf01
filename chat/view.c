/* view.c - the answer as it grows, with what is taken back.
 *
 * The answer is a row of bytes. Those before `settled` stay; where text was taken back an item
 * holds it, struck out, until bytes behind that place have settled and it has been there long
 * enough to be seen (0.3 s): then a mark takes its place. What stands before the first item and has
 * settled is handed to paint.c as text that stays; all behind that is its tail, dim:
 *
 *     settled | [struck] settled, unsettled
 *     stays   | tail
 *
 * So settled text behind an item waits for it, for the moment that it takes: only the screen waits,
 * and at the end of an answer the next prompt, unless a key is pressed. What was taken back at one
 * place, one time after another, is one item and leaves one mark. There are about sixty pictures a
 * second; the first events after a pause are drawn at once, so that the last state is shown
 * while the model computes. Where nothing can be redrawn cli/show.c writes what has settled. */
#define _POSIX_C_SOURCE 200809L
#include "paint.h"

#include "../cli/screen.h"

#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char dim[] = "\033[2m", struck[] = "\033[2;9;31m", reset[] = "\033[0m", mark[] = "⟲";
static const double frame_s = 1.0 / 60, seen_s = 0.3;
enum { BURST = 30, STRUCK_MAX = 400 };

/* What was taken back at a place. */
typedef struct item {
    size_t at; /* counted in bytes of the answer */
    cli_buf text;
    double since;
} item;

struct chat_view {
    FILE *out;
    chat_view_how how;
    cli_show *show; /* where nothing is redrawn; then nothing below counts */
    chat_paint paint;
    cli_buf text;          /* of the answer, from `stays` on */
    size_t stays, settled; /* counted from the beginning of the answer */
    size_t *from;          /* where token first + i begins */
    int first, n, cap;
    item *items; /* by place */
    int n_items, cap_items;
    cli_buf status;
    double drawn, credit; /* when; pictures that may be drawn at once */
};

static volatile sig_atomic_t resized;

void chat_view_resized(void) {
    resized = 1;
}

chat_view *chat_view_new(FILE *out, chat_view_how how) {
    chat_view *v = cli_alloc(sizeof *v);
    v->out = out;
    v->how = how;
    v->paint.out = out;
    if (!how.live || !how.rewinds) v->show = cli_show_new(out, isatty(fileno(out)), 0, how.colour);
    return v;
}

static void drop_items(chat_view *v, int from, int to) {
    if (from == to) return;
    for (int i = from; i < to; i++) cli_buf_free(&v->items[i].text);
    memmove(v->items + from, v->items + to, (size_t)(v->n_items - to) * sizeof *v->items);
    v->n_items -= to - from;
}

void chat_view_free(chat_view *v) {
    if (!v) return;
    drop_items(v, 0, v->n_items);
    cli_show_free(v->show);
    chat_paint_free(&v->paint);
    cli_buf_free(&v->text);
    cli_buf_free(&v->status);
    free(v->from);
    free(v->items);
    free(v);
}

/* ==== The answer ==== */

static size_t head(const chat_view *v) {
    return v->stays + v->text.n;
}

static void take_push(chat_view *v, const retrace_event *e) {
    if (v->n == 0) v->first = e->pos;
    if (v->n == v->cap) {
        v->cap = v->cap ? 2 * v->cap : 256;
        v->from = cli_realloc(v->from, (size_t)v->cap * sizeof *v->from);
    }
    v->from[v->n++] = head(v);
    cli_put(&v->text, e->text.s, e->text.n);
}

/* What has settled is as the event has it: where a stop text begins in a token that is less than
 * was pushed. */
static void take_settle(chat_view *v, const retrace_event *e) {
    size_t at = v->settled - v->stays, there = v->text.n - at;
    size_t n = e->text.n < there ? e->text.n : there;
    if (n) memcpy(v->text.s + at, e->text.s, n);
    if (e->text.n > n) cli_put(&v->text, e->text.s + n, e->text.n - n);
    v->settled += e->text.n;
}

/* Items from `cut` on, and the text between and behind them, in the order in which they were
 * drawn. */
static void gather(chat_view *v, size_t cut, int first, cli_buf *b) {
    size_t at = cut;
    for (int i = first; i < v->n_items; i++) {
        item *it = &v->items[i];
        cli_put(b, v->text.s + (at - v->stays), it->at - at);
        cli_put(b, it->text.s, it->text.n);
        at = it->at;
    }
    cli_put(b, v->text.s + (at - v->stays), head(v) - at);
}

/* Many in a row are seen by their end. */
static void keep_end(cli_buf *b) {
    if (b->n <= STRUCK_MAX) return;
    size_t cut = b->n - STRUCK_MAX;
    while (cut < b->n && ((unsigned char)b->s[cut] & 0xc0) == 0x80) cut++;
    b->n -= cut;
    memmove(b->s, b->s + cut, b->n);
}

static void add_item(chat_view *v, item it) {
    if (v->n_items == v->cap_items) {
        v->cap_items = v->cap_items ? 2 * v->cap_items : 16;
        v->items = cli_realloc(v->items, (size_t)v->cap_items * sizeof *v->items);
    }
    v->items[v->n_items++] = it;
}

int chat_is_rewind(const retrace_event *e) {
    static const char *const others[] = {"stop", "rewind", "cancelled", "budget"};
    for (size_t i = 0; e->rule && i < sizeof others / sizeof *others; i++)
        if (strcmp(e->rule, others[i]) == 0) return 0;
    return 1;
}

static void take_erase(chat_view *v, const retrace_event *e) {
    int i = e->to - v->first, first = v->n_items;
    size_t cut = i < 0 ? v->settled : i < v->n ? v->from[i] : head(v);
    if (cut < v->settled) cut = v->settled;
    if (i >= 0 && i < v->n) v->n = i;
    if (cut == head(v)) return;
    while (first > 0 && v->items[first - 1].at >= cut) first--;
    if (chat_is_rewind(e)) {
        item it = {.at = cut, .since = cli_clock()};
        gather(v, cut, first, &it.text);
        keep_end(&it.text);
        drop_items(v, first, v->n_items);
        add_item(v, it);
    } else {
        while (first < v->n_items && v->items[first].at == cut) first++;
        drop_items(v, first, v->n_items);
    }
    v->text.n = cut - v->stays;
}

/* ==== The picture ==== */

/* The first `n` bytes of the text join what stays; a character that is not whole yet waits. */
static void settle_text(chat_view *v, size_t n, int last, cli_buf *to) {
    size_t whole = last ? n : cli_utf8_whole((retrace_text){v->text.s, n});
    if (whole == 0) return;
    cli_escape(to, (retrace_text){v->text.s, whole}, 1);
    v->text.n -= whole;
    memmove(v->text.s, v->text.s + whole, v->text.n);
    v->stays += whole;
}

static void put_mark(const chat_view *v, cli_buf *to) {
    if (v->how.colour) cli_puts(to, dim);
    cli_puts(to, mark);
    if (v->how.colour) cli_puts(to, reset);
}

/* all: however young the items are, and whatever stands behind them. */
static void collect_stays(chat_view *v, double now, int all, cli_buf *to) {
    int done = 0;
    for (; done < v->n_items; done++) {
        const item *it = &v->items[done];
        if (!all && (v->settled <= it->at || now - it->since < seen_s)) break;
        settle_text(v, it->at - v->stays, 1, to);
        put_mark(v, to);
    }
    drop_items(v, 0, done);
    size_t end = v->n_items && v->items[0].at < v->settled ? v->items[0].at : v->settled;
    settle_text(v, end - v->stays, all, to);
}

static void put_dim(const chat_view *v, cli_buf *to, retrace_text t) {
    if (t.n == 0) return;
    if (v->how.colour) cli_puts(to, dim);
    cli_escape(to, t, 1);
    if (v->how.colour) cli_puts(to, reset);
}

static void put_struck(const chat_view *v, cli_buf *to, retrace_text t) {
    if (t.n == 0) return;
    cli_puts(to, v->how.colour ? struck : "[-");
    cli_escape(to, t, 0);
    cli_puts(to, v->how.colour ? reset : "-]");
}

static void collect_tail(const chat_view *v, cli_buf *to) {
    size_t at = v->stays;
    const char *text = v->text.s ? v->text.s : "";
    for (int i = 0; i < v->n_items; i++) {
        const item *it = &v->items[i];
        put_dim(v, to, (retrace_text){text + (at - v->stays), it->at - at});
        put_struck(v, to, cli_buf_text(&it->text));
        at = it->at;
    }
    retrace_text rest = {text + (at - v->stays), head(v) - at};
    rest.n = cli_utf8_whole(rest);
    put_dim(v, to, rest);
    put_dim(v, to, cli_buf_text(&v->status));
}

static void draw(chat_view *v, double now, int all) {
    cli_buf stays = {0}, tail = {0};
    if (resized) {
        resized = 0;
        chat_paint_resized(&v->paint);
    }
    collect_stays(v, now, all, &stays);
    if (!all) collect_tail(v, &tail);
    chat_paint_draw(&v->paint, cli_buf_text(&stays), cli_buf_text(&tail));
    cli_buf_free(&stays);
    cli_buf_free(&tail);
    v->drawn = now;
}

/* Sixty pictures a second, saved up to a few. */
static void draw_in_time(chat_view *v) {
    double now = cli_clock();
    v->credit += (now - v->drawn) / frame_s;
    v->drawn = now;
    if (v->credit > BURST) v->credit = BURST;
    if (v->credit < 1) return;
    v->credit--;
    draw(v, now, 0);
}

static int flushed(const chat_view *v) {
    if (fflush(v->out) == 0 && !ferror(v->out)) return CLI_OK;
    return cli_write_failed();
}

/* ==== From outside ==== */

void chat_view_begin(chat_view *v, retrace_text so_far) {
    retrace_event e = {.kind = RETRACE_SETTLE, .text = so_far};
    if (v->show) {
        if (so_far.n) cli_show_event(v->show, &e);
        return;
    }
    drop_items(v, 0, v->n_items);
    v->text.n = v->status.n = v->stays = v->settled = 0;
    v->n = v->first = 0;
    v->paint.column = 0;
    v->paint.line.n = v->paint.tail.n = 0;
    v->paint.down = v->paint.cut = 0;
    chat_tty_size(&v->paint.rows, &v->paint.columns);
    resized = 0;
    take_settle(v, &e);
    draw(v, cli_clock(), 0);
    v->credit = BURST;
    fflush(v->out);
}

int chat_view_event(chat_view *v, const retrace_event *e) {
    if (v->show) return cli_show_event(v->show, e);
    if (e->kind == RETRACE_PUSH) v->status.n = 0;
    switch (e->kind) {
    case RETRACE_PUSH: take_push(v, e); break;
    case RETRACE_ERASE: take_erase(v, e); break;
    case RETRACE_SETTLE: take_settle(v, e); break;
    default: return CLI_OK;
    }
    draw_in_time(v);
    return flushed(v);
}

void chat_view_status(chat_view *v, const char *fmt, ...) {
    char line[256];
    va_list args;
    if (v->show) return;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    v->status.n = 0;
    cli_put_cells(&v->status, (retrace_text){line, strlen(line)},
                  v->paint.columns > 1 ? v->paint.columns - 1 : 1);
    draw(v, cli_clock(), 0);
    fflush(v->out);
}

/* What was struck out last is seen before it is folded; who types does not wait. */
static void linger(chat_view *v) {
    double until = v->items[v->n_items - 1].since + seen_s, now = cli_clock();
    struct pollfd key = {.fd = STDIN_FILENO, .events = POLLIN};
    draw(v, now, 0);
    fflush(v->out);
    if (now < until && !cli_interrupted()) poll(&key, 1, (int)((until - now) * 1000) + 1);
}

int chat_view_end(chat_view *v) {
    if (v->show) return cli_show_end(v->show);
    v->status.n = 0;
    v->text.n = v->settled - v->stays;
    while (v->n_items && v->items[v->n_items - 1].at > v->settled) /* cannot be */
        drop_items(v, v->n_items - 1, v->n_items);
    if (v->n_items) linger(v);
    draw(v, cli_clock(), 1);
    if (v->paint.line.n) chat_paint_draw(&v->paint, (retrace_text){"\n", 1}, (retrace_text){"", 0});
    return flushed(v);
}
