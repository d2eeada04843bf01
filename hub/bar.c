/* bar.c - how far a file is: a bar on a terminal, ten times a second at most; elsewhere a line
 * every tenth of the way; nothing under -q. All on standard error. */
#define _DEFAULT_SOURCE
#include "hub.h"

#include "../cli/screen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void hub_bytes(cli_buf *b, int64_t n) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double x = (double)n;
    int u = 0;
    for (; u < 6 && x >= (u ? 999.5 : 1000); u++) x /= 1000;
    cli_printf(b, u && x < 9.95 ? "%.1f %s" : "%.0f %s", x, units[u]);
}

static int on_terminal(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

static int width(void) {
    struct winsize w;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col == 0) return 79;
    return w.ws_col - 1;
}

/* Bytes a second of what came in this try. */
static double rate(const hub_bar *b) {
    double s = cli_clock() - b->began;
    return s > 0 ? (double)(b->at - b->from) / s : 0;
}

static double share(const hub_bar *b) {
    return b->size ? (double)b->at / (double)b->size : 1;
}

/* "1:05", "2:03:04" left to go. */
static void put_left(cli_buf *to, const hub_bar *b) {
    double speed = rate(b), left = speed > 0 ? (double)(b->size - b->at) / speed : INFINITY;
    if (!(left < 360000)) {
        cli_puts(to, "--:--");
        return;
    }
    int s = (int)left;
    if (s >= 3600)
        cli_printf(to, "%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
    else
        cli_printf(to, "%d:%02d", s / 60, s % 60);
}

/* "42 %  1.2 GB of 2.9 GB  85 MB/s  0:20" */
static void put_figures(cli_buf *to, const hub_bar *b) {
    cli_printf(to, "%3d %%  ", (int)(100 * share(b)));
    hub_bytes(to, b->at);
    cli_puts(to, " of ");
    hub_bytes(to, b->size);
    cli_puts(to, "  ");
    hub_bytes(to, (int64_t)rate(b));
    cli_puts(to, "/s  ");
    put_left(to, b);
}

/* The name takes what the figures leave, a bar what both leave. */
static void draw(const hub_bar *b) {
    cli_buf line = {0}, figures = {0};
    int most = width();
    put_figures(&figures, b);
    int room = most - (int)figures.n - 2, used = 0;
    if (room >= 8) {
        retrace_text name = {b->name, strlen(b->name)};
        int fits = room >= 50 ? room - 22 : room;
        used = cli_put_cells(&line, name, fits);
        int bar = room - used - 3;
        if (bar >= 10) {
            if (bar > 40) bar = 40;
            int full = (int)(share(b) * bar);
            cli_puts(&line, " [");
            for (int i = 0; i < bar; i++) cli_puts(&line, i < full ? "#" : ".");
            cli_puts(&line, "]");
        }
        cli_puts(&line, "  ");
    }
    if (room >= -2) cli_puts(&line, figures.s);
    cli_progress("%s", line.s ? line.s : "");
    cli_buf_free(&line);
    cli_buf_free(&figures);
}

/* One line for all the tenths that are new. */
static void tell(hub_bar *b) {
    int tenth = (int)(10 * share(b));
    if (tenth <= b->tenth || tenth >= 10) return;
    b->tenth = tenth;
    cli_buf line = {0};
    put_figures(&line, b);
    cli_say("%s: %s", b->name, line.s);
    cli_buf_free(&line);
}

void hub_bar_begin(hub_bar *b, const char *verb, const char *name, int64_t from, int64_t size) {
    *b = (hub_bar){.verb = verb, .name = name, .from = from, .at = from, .size = size};
    b->began = cli_clock();
    b->tenth = (int)(10 * share(b));
    if (on_terminal()) draw(b);
}

void hub_bar_at(hub_bar *b, int64_t at) {
    b->at = at;
    if (cli_quiet) return;
    if (!on_terminal()) {
        tell(b);
        return;
    }
    double now = cli_clock();
    if (now - b->drawn < 0.1) return;
    b->drawn = now;
    draw(b);
}

void hub_bar_end(hub_bar *b) {
    cli_buf line = {0};
    double s = cli_clock() - b->began;
    cli_progress_end();
    hub_bytes(&line, b->size);
    cli_printf(&line, " in %.1f s", s);
    cli_say("%s: %s, %s", b->name, b->verb, line.s);
    cli_buf_free(&line);
}
