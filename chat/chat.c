/* chat.c - the loop: a line is read, and said, or done.
 *
 * On a terminal the chat goes on until the person ends it, whatever was refused. In a pipe what was
 * refused is told at the end by the exit code. */
#define _POSIX_C_SOURCE 200809L
#include "chat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_end(retrace_text t) {
    return t.n == 4 && (memcmp(t.s, "exit", 4) == 0 || memcmp(t.s, "quit", 4) == 0);
}

static int is_blank(retrace_text t) {
    for (size_t i = 0; i < t.n; i++)
        if (!strchr(" \t\r\n", t.s[i])) return 0;
    return 1;
}

/* replaces: the line stands in place of the last message. */
static chat_next one_line(chat_talk *t, chat_view *v, retrace_text line, int replaces, int *code) {
    *code = CLI_OK;
    if (is_blank(line)) return CHAT_GO_ON;
    if (!replaces && is_end(line)) return CHAT_QUIT;
    int slashes = line.n > 1 && line.s[0] == '/' && line.s[1] == '/';
    if (line.s[0] == '/' && !slashes) return chat_command(t, v, line, code);
    retrace_text said = {line.s + slashes, line.n - (size_t)slashes};
    *code = replaces ? chat_talk_edit(t, v, said) : chat_talk_say(t, v, said);
    return CHAT_GO_ON;
}

/* The last message as it would be typed. */
static char *typed(const chat_talk *t) {
    cli_buf b = {0};
    retrace_text last = chat_talk_last(t);
    if (last.n && last.s[0] == '/') cli_puts(&b, "/");
    cli_put(&b, last.s, last.n);
    return b.s;
}

/* A model that failed is told as such; what was refused is bad input. */
static void note(int *worst, int code) {
    if (code && *worst != CLI_MODEL) *worst = code == CLI_MODEL ? CLI_MODEL : CLI_USAGE;
}

static int talk(chat_talk *t, chat_view *v, chat_line *l) {
    chat_next next = CHAT_GO_ON;
    int worst = CLI_OK, code;
    while (next != CHAT_QUIT && !t->failed) {
        retrace_text line;
        char *preset = next == CHAT_EDIT ? typed(t) : NULL;
        int replaces = preset != NULL;
        chat_typed what = chat_line_read(l, "> ", preset, &line);
        free(preset);
        next = CHAT_GO_ON;
        if (what == CHAT_END) break;
        if (what == CHAT_BROKEN) note(&worst, CLI_USAGE);
        if (what != CHAT_TEXT) continue;
        next = one_line(t, v, line, replaces, &code);
        note(&worst, code);
    }
    if (t->failed) return t->failed;
    return t->person ? CLI_OK : worst;
}

static chat_view *open_view(const cli_flags *f, int *marks) {
    const char *term = getenv("TERM");
    int rows, columns;
    chat_tty_size(&rows, &columns);
    chat_view_how how = {
        .live = isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0 && rows >= 3 &&
                columns >= 5,
        .rewinds = !cli_on(f, "quiet-rewinds"),
        .colour = cli_colour(stdout),
    };
    *marks = how.live && how.rewinds;
    return chat_view_new(stdout, how);
}

int cli_chat(const cli_flags *f) {
    chat_talk t = {0};
    chat_line *l = NULL;
    const char *file = cli_value(f, "load");
    int code = chat_talk_open(&t, f);
    if (!code && file) code = chat_file_load(&t, file);
    if (!code) code = chat_line_open(&l, !cli_on(f, "no-history"), chat_command_complete, &t);
    if (!code) {
        t.person = chat_line_is_terminal(l);
        if (t.person) chat_tty_guard();
        int marks;
        chat_view *v = open_view(f, &marks);
        chat_tell_greeting(&t, marks);
        code = talk(&t, v, l);
        chat_view_free(v);
        chat_line_close(l);
        chat_tty_release();
    }
    chat_talk_free(&t);
    return code;
}
