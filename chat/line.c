/* line.c - messages and commands as they are typed, or as a pipe brings them.
 *
 * A message is a line. One that ends with a backslash goes on in the next, and three quotes alone
 * on a line begin a message that ends at the next three; both are the same at a terminal and in a
 * pipe. At a terminal a line comes from edit.c and may itself have line breaks; where nothing can
 * be edited (TERM=dumb, output that goes elsewhere) it is what the terminal's driver hands over. A
 * line of a pipe that is no text, or too long, is refused by its number and the next one counts. */
#define _XOPEN_SOURCE 700
#include "edit.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

struct chat_line {
    chat_edit *edit; /* NULL: lines as they come */
    int terminal;
    cli_buf line, message;
    /* As they come: */
    char in[65536];
    size_t at, n_in;
    int number; /* of the line that was read last */
    int ended;
};

/* ==== Waiting ==== */

void chat_block_signals(sigset_t *before) {
    sigset_t these;
    sigemptyset(&these);
    sigaddset(&these, SIGINT);
    sigaddset(&these, SIGTSTP);
    sigaddset(&these, SIGCONT);
    sigaddset(&these, SIGWINCH);
    sigprocmask(SIG_BLOCK, &these, before);
}

int chat_wait_input(const sigset_t *unblocked) {
    fd_set in;
    FD_ZERO(&in);
    FD_SET(STDIN_FILENO, &in);
    return pselect(STDIN_FILENO + 1, &in, NULL, NULL, NULL, unblocked) >= 0 || errno != EINTR;
}

/* ==== Lines as they come ==== */

/* More bytes into l->in. At a terminal Ctrl-C is seen: CHAT_THROWN. */
static chat_typed fill(chat_line *l) {
    sigset_t before;
    chat_typed what = CHAT_TEXT;
    ssize_t n = -1;
    if (l->terminal) chat_block_signals(&before);
    do {
        if (l->terminal && !chat_wait_input(&before)) {
            errno = EINTR;
            if (cli_interrupted()) what = CHAT_THROWN;
        } else {
            n = read(STDIN_FILENO, l->in, sizeof l->in);
        }
    } while (what == CHAT_TEXT && n < 0 && errno == EINTR);
    if (l->terminal) sigprocmask(SIG_SETMASK, &before, NULL);
    l->at = 0;
    l->n_in = n > 0 ? (size_t)n : 0;
    if (what == CHAT_TEXT && n <= 0) l->ended = 1;
    return what;
}

/* Into l->line, without its end; *too_long: only the beginning of it. */
static chat_typed next_bytes(chat_line *l, int *too_long) {
    int any = 0;
    l->line.n = 0;
    *too_long = 0;
    for (;;) {
        if (l->at == l->n_in && !l->ended && fill(l) == CHAT_THROWN) return CHAT_THROWN;
        if (l->ended) return any ? CHAT_TEXT : CHAT_END;
        const char *from = l->in + l->at, *end = memchr(from, '\n', l->n_in - l->at);
        size_t n = end ? (size_t)(end - from) : l->n_in - l->at;
        any = 1;
        if (l->line.n + n > CHAT_LINE_MAX) *too_long = 1;
        if (!*too_long) cli_put(&l->line, from, n);
        l->at += n + (end != NULL);
        if (end) return CHAT_TEXT;
    }
}

static chat_typed refuse_line(const chat_line *l, const char *what) {
    cli_fail(CLI_USAGE, "standard input, line %d: %s", l->number, what);
    return CHAT_BROKEN;
}

static chat_typed plain_line(chat_line *l) {
    int too_long;
    chat_typed what = next_bytes(l, &too_long);
    if (what != CHAT_TEXT) return what;
    cli_buf *b = &l->line;
    if (l->number++ == 0 && b->n >= 3 && memcmp(b->s, "\xef\xbb\xbf", 3) == 0) {
        b->n -= 3;
        memmove(b->s, b->s + 3, b->n);
    }
    if (b->n && b->s[b->n - 1] == '\r') b->n--;
    retrace_text t = cli_buf_text(b);
    if (too_long) return refuse_line(l, "longer than 1 MiB");
    if (cli_utf8_check(t) < t.n) return refuse_line(l, "not UTF-8");
    if (t.n && memchr(t.s, '\0', t.n)) return refuse_line(l, "has a NUL byte in it");
    return CHAT_TEXT;
}

/* ==== Messages ==== */

static void prompt_plainly(const chat_line *l, const char *prompt) {
    if (!l->terminal) return;
    FILE *to = isatty(STDOUT_FILENO) ? stdout : stderr;
    if (!isatty(fileno(to))) return;
    fputs(prompt, to);
    fflush(to);
}

static chat_typed next_line(chat_line *l, const char *prompt, const char *preset) {
    if (l->edit) {
        l->line.n = 0;
        return chat_edit_read(l->edit, prompt, preset, &l->line);
    }
    prompt_plainly(l, prompt);
    return plain_line(l);
}

static int is_fence(const cli_buf *b) {
    size_t n = b->n;
    while (n > 3 && (b->s[n - 1] == ' ' || b->s[n - 1] == '\t')) n--;
    return n == 3 && memcmp(b->s, "\"\"\"", 3) == 0;
}

/* Adds the line to the message; 0: that is too long now. */
static int add(chat_line *l, size_t n, int *lines) {
    if (l->message.n + n + (*lines > 0) > CHAT_LINE_MAX) return 0;
    if ((*lines)++) cli_puts(&l->message, "\n");
    cli_put(&l->message, l->line.s ? l->line.s : "", n);
    return 1;
}

static chat_typed too_long(const chat_line *l) {
    if (!l->terminal) return refuse_line(l, "the message that ends here is longer than 1 MiB");
    cli_fail(CLI_USAGE, "the message is longer than 1 MiB");
    return CHAT_BROKEN;
}

/* What stands between three quotes is a message, whatever it begins with. */
static chat_typed fenced(chat_line *l) {
    int lines = 0, begun = l->number, broken = 0, whole = 1;
    for (;;) {
        chat_typed what = next_line(l, ". ", NULL);
        if (what == CHAT_END && !l->terminal) {
            l->number = begun;
            return refuse_line(l, "\"\"\" has no other that ends it");
        }
        if (what == CHAT_THROWN || what == CHAT_END) return what;
        broken |= what == CHAT_BROKEN;
        if (what == CHAT_BROKEN) continue;
        if (is_fence(&l->line)) break;
        if (lines == 0 && l->line.n && l->line.s[0] == '/') cli_puts(&l->message, "/");
        if (whole) whole = add(l, l->line.n, &lines);
    }
    if (broken) return CHAT_BROKEN;
    return whole ? CHAT_TEXT : too_long(l);
}

static int goes_on(const cli_buf *b) {
    return b->n && b->s[b->n - 1] == '\\';
}

/* Lines that end with a backslash, and the one behind them. */
static chat_typed joined(chat_line *l) {
    int lines = 0, broken = 0, whole = 1;
    for (;;) {
        int more = goes_on(&l->line);
        if (whole) whole = add(l, l->line.n - (size_t)more, &lines);
        if (!more) break;
        chat_typed what = next_line(l, ". ", NULL);
        if (what == CHAT_THROWN) return what;
        if (what == CHAT_END) break;
        broken |= what == CHAT_BROKEN;
    }
    if (broken) return CHAT_BROKEN;
    return whole ? CHAT_TEXT : too_long(l);
}

static chat_typed read_message(chat_line *l, const char *prompt, const char *preset) {
    chat_typed what = next_line(l, prompt, preset);
    l->message.n = 0;
    if (what != CHAT_TEXT) return what;
    return is_fence(&l->line) ? fenced(l) : joined(l);
}

chat_typed chat_line_read(chat_line *l, const char *prompt, const char *preset,
                          retrace_text *text) {
    *text = (retrace_text){"", 0};
    if (l->terminal) {
        cli_run_begins(); /* Ctrl-C is counted, and ends nothing */
        cli_interrupt_forget();
        if (!l->edit) chat_tty_lines();
    }
    chat_typed what = read_message(l, prompt, preset);
    if (l->terminal) {
        chat_tty_quiet();
        if (what == CHAT_THROWN) cli_interrupt_forget();
        if (what == CHAT_THROWN && !l->edit && isatty(STDOUT_FILENO)) {
            putchar('\n');
            fflush(stdout);
        }
    }
    if (what != CHAT_TEXT) return what;
    *text = cli_buf_text(&l->message);
    if (l->edit) chat_edit_keep(l->edit, *text);
    return CHAT_TEXT;
}

/* ==== The whole ==== */

static int utf8_locale(void) {
    wchar_t c;
    return mbtowc(&c, "\xc3\xa9", 2) == 2 && c == 0xe9;
}

/* Characters only: numbers stay as they are in C. */
static void choose_locale(void) {
    if (setlocale(LC_CTYPE, "") && utf8_locale()) return;
    if (setlocale(LC_CTYPE, "C.UTF-8") && utf8_locale()) return;
    if (!setlocale(LC_CTYPE, "en_US.UTF-8") || !utf8_locale()) setlocale(LC_CTYPE, "C");
}

int chat_line_open(chat_line **out, int history, chat_complete_fn *complete, void *ud) {
    chat_line *l = cli_alloc(sizeof *l);
    *out = l;
    l->terminal = chat_tty_find();
    choose_locale();
    if (l->terminal) l->edit = chat_edit_open(history, complete, ud);
    return CLI_OK;
}

int chat_line_is_terminal(const chat_line *l) {
    return l->terminal;
}

void chat_line_close(chat_line *l) {
    if (!l) return;
    chat_edit_close(l->edit);
    if (l->terminal) chat_tty_quiet();
    cli_buf_free(&l->line);
    cli_buf_free(&l->message);
    free(l);
}
