/* drive_chat.c - plays parts of `retrace chat` for tests/test_chat_line.py and test_chat_view.py.
 *
 *     drive_chat line [PRESET]    reads lines and tells of each on standard output
 *     drive_chat view FILE        shows the events of FILE, one JSON object a line
 *     drive_chat crash HOW        reads a line and then ends in some other way
 *
 * It is no test by itself: a Python test gives it a terminal and looks at what that shows. */
#define _POSIX_C_SOURCE 200809L
#include "../chat/chat.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ==== Lines ==== */

static void wait_ms(double ms) {
    double s = ms / 1000;
    struct timespec t = {.tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)};
    nanosleep(&t, NULL);
}

static void complete(void *ud, const char *line, cli_buf *out) {
    static const char *const words[] = {"/help", "/rule", "/retry", "/rewinds", "/größe"};
    (void)ud;
    const char *word = strrchr(line, ' ') ? strrchr(line, ' ') + 1 : line;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(words[i], word, strlen(word)) == 0) cli_printf(out, "%s\n", words[i]);
}

/* The message as JSON, or the name of what came instead; of a long one its length. */
static void tell(chat_typed what, retrace_text t) {
    static const char *const names[] = {"<text>", "<thrown>", "<end>", "<broken>"};
    if (what == CHAT_TEXT && t.n > 4000) {
        printf("long %zu\n", t.n);
    } else if (what == CHAT_TEXT) {
        json_t *j = cli_json_text(t);
        char *s = json_dumps(j, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
        printf("got %s\n", s);
        free(s);
        json_decref(j);
    } else {
        printf("%s\n", names[what]);
    }
    fflush(stdout);
}

static int drive_lines(const char *preset) {
    chat_line *l;
    retrace_text t;
    chat_typed what;
    chat_tty_guard();
    if (chat_line_open(&l, !getenv("NO_HISTORY"), complete, NULL)) return CLI_IO;
    do {
        what = chat_line_read(l, "> ", preset, &t);
        preset = NULL;
        tell(what, t);
        if (what == CHAT_TEXT && t.n == 4 && memcmp(t.s, "busy", 4) == 0) {
            for (double until = cli_clock() + 1; cli_clock() < until;) wait_ms(10);
            puts("idle");
            fflush(stdout);
        }
    } while (what != CHAT_END);
    printf("%.1f\n", 0.5); /* numbers stay as they are in C */
    chat_line_close(l);
    chat_tty_release();
    return CLI_OK;
}

/* ==== Events ==== */

static cli_buf bytes_of(json_t *o) {
    cli_buf b = {0};
    json_t *text = json_object_get(o, "text"), *list = json_object_get(o, "bytes");
    if (text) cli_put(&b, json_string_value(text), json_string_length(text));
    for (size_t i = 0; i < json_array_size(list); i++) {
        char c = (char)json_integer_value(json_array_get(list, i));
        cli_put(&b, &c, 1);
    }
    return b;
}

static void show_one(chat_view *v, json_t *o) {
    cli_buf b = bytes_of(o);
    retrace_event e = {.text = cli_buf_text(&b)};
    json_t *x;
    if (json_object_get(o, "begin")) {
        chat_view_begin(v, e.text);
    } else if (json_object_get(o, "status")) {
        chat_view_status(v, "%s", b.s ? b.s : "");
    } else if (json_object_get(o, "end")) {
        chat_view_end(v);
    } else if (json_object_get(o, "abort")) {
        abort();
    } else if ((x = json_object_get(o, "sleep"))) {
        wait_ms(json_number_value(x));
    } else {
        x = json_object_get(o, "push");
        e.kind = x ? RETRACE_PUSH : json_object_get(o, "erase") ? RETRACE_ERASE : RETRACE_SETTLE;
        e.pos = (int)json_integer_value(x);
        e.to = (int)json_integer_value(json_object_get(o, "erase"));
        e.rule = json_string_value(json_object_get(o, "rule"));
        chat_view_event(v, &e);
    }
    cli_buf_free(&b);
}

static int drive_view(const char *path) {
    const char *no_colour = getenv("NO_COLOR");
    chat_view_how how = {!getenv("NOT_LIVE"), !getenv("QUIET_REWINDS"), !no_colour};
    json_error_t err;
    chat_tty_guard();
    json_t *all = json_load_file(path, 0, &err);
    if (!all) return cli_fail(CLI_IO, "%s", err.text);
    chat_view *v = chat_view_new(stdout, how);
    double begun = cli_clock();
    for (size_t i = 0; i < json_array_size(all); i++) show_one(v, json_array_get(all, i));
    if (getenv("TIMED"))
        fprintf(stderr, "%.3f us\n", (cli_clock() - begun) * 1e6 / (double)json_array_size(all));
    chat_view_free(v);
    json_decref(all);
    chat_tty_release();
    return CLI_OK;
}

static int drive_crash(const char *how) {
    chat_line *l;
    retrace_text t;
    chat_tty_guard();
    chat_line_open(&l, 0, NULL, NULL);
    chat_line_read(l, "> ", NULL, &t);
    if (strcmp(how, "exit") == 0) exit(7);
    raise((int)strtol(how, NULL, 10));
    return CLI_OK;
}

int main(int argc, char **argv) {
    cli_catch_interrupts();
    const char *what = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : NULL;
    if (strcmp(what, "line") == 0) return drive_lines(arg);
    if (strcmp(what, "view") == 0 && arg) return drive_view(arg);
    if (strcmp(what, "crash") == 0 && arg) return drive_crash(arg);
    return CLI_USAGE;
}
