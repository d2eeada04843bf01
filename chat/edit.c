/* edit.c - a line that a person edits on a terminal, by libedit.
 *
 * Bytes are read here and not by libedit: so Ctrl-C, a stop and another window size are seen while
 * it waits, and none between a look and a wait (their signals are blocked outside of it). A paste
 * comes between two marks and goes into the line as one piece, whatever it holds; what is pasted is
 * never sent by itself. Alt-Enter puts a line break into the line; Up and Down move within a line
 * that has some, and else in the history. The user's ~/.editrc is not read: it may bind these keys
 * to something else. */
#define _XOPEN_SOURCE 700
#include "edit.h"

#include "../cli/screen.h"

#include <errno.h>
#include <histedit.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

typedef unsigned char action; /* of libedit: CC_REFRESH, ... */

static const char paste_end[] = "\033[201~";
/* No terminal sends these: they begin what the line itself wants to have done. */
static const wchar_t preset_key[] = L"\033[9001~";

struct chat_edit {
    EditLine *el;
    HistoryW *lines;
    chat_history *history;
    chat_complete_fn *complete;
    void *ud;
    wchar_t prompt[16];
    const char *preset;
    sigset_t unblocked;
    chat_typed ended; /* CHAT_TEXT: nothing yet */
    int columns;      /* of the window when the line was drawn */
    cli_buf typed;    /* bytes not yet taken */
    size_t at;
};

/* ==== Characters ==== */

static void put_char(cli_buf *b, uint32_t c) {
    char s[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; c >>= 6) s[i] = (char)(0x80 | (c & 0x3f));
    s[0] = (char)(first[n] | c);
    cli_put(b, s, n);
}

static void narrow(cli_buf *b, const wchar_t *from, const wchar_t *to) {
    for (; from < to; from++) put_char(b, (uint32_t)*from);
}

/* Ended with 0, to be freed. What is not UTF-8 becomes U+FFFD. */
static wchar_t *widen(retrace_text t) {
    wchar_t *w = cli_alloc((t.n + 1) * sizeof *w);
    size_t n = 0;
    uint32_t c;
    for (size_t i = 0; i < t.n;) {
        i += cli_utf8(t.s + i, t.n - i, &c);
        w[n++] = c >= CLI_BROKEN || c == 0 ? 0xfffd : (wchar_t)c;
    }
    return w;
}

static void insert(EditLine *el, retrace_text t) {
    wchar_t *w = widen(t);
    el_winsertstr(el, w);
    free(w);
}

static chat_edit *edit_of(EditLine *el) {
    void *e = NULL;
    el_wget(el, EL_CLIENTDATA, &e);
    return e;
}

/* ==== Waiting for a key ==== */

/* Rows between the one where the prompt stands and the cursor's, in a window of that width. */
static int rows_above(const chat_edit *e, int columns) {
    const LineInfoW *line = el_wline(e->el);
    cli_buf b = {0};
    int row = 0, column = 0, width;
    narrow(&b, e->prompt, e->prompt + wcslen(e->prompt));
    narrow(&b, line->buffer, line->cursor);
    for (size_t i = 0; i < b.n;) {
        if (b.s[i] == '\n') {
            row++;
            column = 0;
            i++;
            continue;
        }
        i += cli_cell(NULL, b.s + i, b.n - i, &width);
        if (column + width > columns) row++, column = 0;
        column += width;
    }
    cli_buf_free(&b);
    return row + (column >= columns);
}

static void draw_anew(chat_edit *e) {
    el_wset(e->el, EL_REFRESH);
    fflush(stdout);
}

/* Some terminals lay lines out anew, some do not; what stands above the line must not be lost. */
static void take_size(chat_edit *e) {
    int rows, columns, was = rows_above(e, e->columns);
    chat_tty_size(&rows, &columns);
    int now = rows_above(e, columns), up = was < now ? was : now;
    e->columns = columns;
    if (up > rows - 1) up = rows - 1;
    if (up > 0) printf("\033[%dA", up);
    fputs("\033[2G\033[J\r\033[K", stdout); /* see take_up in paint.c */
    el_resize(e->el);
    draw_anew(e);
}

static void see_signals(chat_edit *e) {
    if (cli_interrupted()) {
        e->ended = CHAT_THROWN;
    } else if (chat_tty_continued) {
        chat_tty_continued = chat_tty_resized = 0;
        fputs("\r\033[J", stdout);
        el_resize(e->el);
        draw_anew(e);
    } else if (chat_tty_resized) {
        chat_tty_resized = 0;
        take_size(e);
    }
}

/* More bytes: 1; 0: the line has ended, e->ended says how. */
static int more(chat_edit *e) {
    char bytes[4096];
    if (e->at == e->typed.n) e->at = e->typed.n = 0;
    while (e->ended == CHAT_TEXT) {
        if (!chat_wait_input(&e->unblocked)) {
            see_signals(e);
            continue;
        }
        ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            e->ended = CHAT_END;
            break;
        }
        cli_put(&e->typed, bytes, (size_t)n);
        return 1;
    }
    return 0;
}

static int get_char(EditLine *el, wchar_t *out) {
    chat_edit *e = edit_of(el);
    for (;;) {
        uint32_t c = CLI_CUT;
        size_t left = e->typed.n - e->at, n = 0;
        if (left) n = cli_utf8(e->typed.s + e->at, left, &c);
        if (c == CLI_CUT) {
            if (!more(e)) return -1;
            continue;
        }
        e->at += n;
        *out = c == CLI_BROKEN ? 0xfffd : (wchar_t)c;
        return 1;
    }
}

/* ==== Keys ==== */

/* Line breaks of a paste arrive as carriage returns; no other control character is kept. */
static void clean_paste(cli_buf *to, retrace_text t) {
    for (size_t i = 0; i < t.n; i++) {
        unsigned char c = (unsigned char)t.s[i];
        if (c == '\r' && i + 1 < t.n && t.s[i + 1] == '\n') continue;
        if (c == '\r' || c == '\n')
            cli_puts(to, "\n");
        else if (c == '\t' || (c >= 0x20 && c != 0x7f))
            cli_put(to, t.s + i, 1);
    }
    if (to->n && to->s[to->n - 1] == '\n') to->n--; /* of the last line */
}

static action paste_refused(void) {
    fputs("\r\n", stdout);
    fflush(stdout);
    cli_say("the paste is left out: it is longer than 1 MiB");
    return CC_REDISPLAY;
}

static size_t find_end(const cli_buf *b, size_t from) {
    const size_t n = sizeof paste_end - 1;
    for (; from + n <= b->n; from++) {
        const char *s = memchr(b->s + from, '\033', b->n - from - n + 1);
        if (!s) break;
        from = (size_t)(s - b->s);
        if (memcmp(s, paste_end, n) == 0) return from;
    }
    return SIZE_MAX;
}

static action on_paste(EditLine *el, wint_t key) {
    chat_edit *e = edit_of(el);
    cli_buf all = {0}, text = {0};
    size_t end;
    int too_long = 0;
    (void)key;
    cli_put(&all, e->typed.s + e->at, e->typed.n - e->at);
    size_t looked = 0;
    while ((end = find_end(&all, looked)) == SIZE_MAX) {
        e->at = e->typed.n;
        looked = all.n > sizeof paste_end ? all.n - sizeof paste_end : 0;
        if (all.n > CHAT_LINE_MAX + sizeof paste_end) too_long = 1;
        if (too_long) { /* only its end matters */
            memmove(all.s, all.s + looked, all.n - looked);
            all.n -= looked;
            looked = 0;
        }
        if (!more(e)) break;
        cli_put(&all, e->typed.s + e->at, e->typed.n - e->at);
    }
    if (end != SIZE_MAX) {
        size_t behind = all.n - end - (sizeof paste_end - 1);
        e->at = e->typed.n - behind;
        clean_paste(&text, (retrace_text){all.s, end});
    }
    cli_buf_free(&all);
    if (end == SIZE_MAX) return CC_EOF;
    if (text.n > CHAT_LINE_MAX) too_long = 1;
    if (text.n && !too_long) insert(el, cli_buf_text(&text));
    cli_buf_free(&text);
    return too_long ? paste_refused() : CC_REFRESH;
}

static action on_break(EditLine *el, wint_t key) {
    (void)key;
    el_winsertstr(el, L"\n");
    return CC_REFRESH;
}

static action on_preset(EditLine *el, wint_t key) {
    chat_edit *e = edit_of(el);
    (void)key;
    if (e->preset && *e->preset) insert(el, (retrace_text){e->preset, strlen(e->preset)});
    e->preset = NULL;
    return CC_REFRESH;
}

/* Ctrl-D: on an empty line the end, else what Delete does. */
static action on_end(EditLine *el, wint_t key) {
    chat_edit *e = edit_of(el);
    const LineInfoW *line = el_wline(el);
    (void)key;
    if (line->lastchar == line->buffer) {
        e->ended = CHAT_END;
        return CC_EOF;
    }
    if (line->cursor == line->lastchar) return CC_ERROR;
    el_cursor(el, 1);
    el_wdeletestr(el, 1);
    return CC_REFRESH;
}

/* Within a paste these bytes are text; so they are keys here, and no signals of the terminal's
 * driver. */
static action on_throw(EditLine *el, wint_t key) {
    (void)key;
    edit_of(el)->ended = CHAT_THROWN;
    return CC_EOF;
}

static action on_stop(EditLine *el, wint_t key) {
    chat_edit *e = edit_of(el);
    sigset_t now;
    raise(key == 032 ? SIGTSTP : SIGQUIT);
    sigprocmask(SIG_SETMASK, &e->unblocked, &now); /* here it stops */
    sigprocmask(SIG_SETMASK, &now, NULL);
    see_signals(e);
    return CC_NORM;
}

/* In a line of several the cursor goes a line up, or down; 0: there is none there. */
static int move(EditLine *el, int down) {
    const LineInfoW *line = el_wline(el);
    const wchar_t *begin = line->cursor, *target, *end;
    while (begin > line->buffer && begin[-1] != L'\n') begin--;
    if (down) {
        target = line->cursor;
        while (target < line->lastchar && *target != L'\n') target++;
        if (target++ == line->lastchar) return 0;
    } else {
        if (begin == line->buffer) return 0;
        for (target = begin - 1; target > line->buffer && target[-1] != L'\n';) target--;
    }
    for (end = target; end < line->lastchar && *end != L'\n';) end++;
    ptrdiff_t column = line->cursor - begin;
    if (column > end - target) column = end - target;
    el_cursor(el, (int)(target + column - line->cursor));
    return 1;
}

static action on_up(EditLine *el, wint_t key) {
    (void)key;
    if (move(el, 0)) return CC_REFRESH;
    el_wpush(el, L"\020");
    return CC_NORM;
}

static action on_down(EditLine *el, wint_t key) {
    (void)key;
    if (move(el, 1)) return CC_REFRESH;
    el_wpush(el, L"\016");
    return CC_NORM;
}

/* ==== Completion ==== */

static size_t common(const cli_buf *list) {
    size_t n = strcspn(list->s, "\n");
    for (const char *s = list->s; *s; s += strcspn(s, "\n"), s += *s == '\n') {
        size_t same = 0;
        while (same < n && s[same] == list->s[same]) same++;
        n = same;
    }
    return cli_utf8_whole((retrace_text){list->s, n});
}

static void list_all(const cli_buf *list) {
    int rows, columns, widest = 0, at = 0;
    chat_tty_size(&rows, &columns);
    for (int pass = 0; pass < 2; pass++) {
        for (const char *s = list->s; *s; s += *s == '\n') {
            size_t n = strcspn(s, "\n");
            int width = cli_columns((retrace_text){s, n}) + 2;
            if (pass == 0 && width > widest) widest = width;
            if (pass == 1) {
                if (at == 0 || at + widest > columns) fputs("\r\n", stdout), at = 0;
                printf("%.*s%*s", (int)n, s, widest - width, "");
                at += widest;
            }
            s += n;
        }
    }
    fputs("\r\n", stdout);
    fflush(stdout);
}

static action complete_with(EditLine *el, const cli_buf *list, const wchar_t *word) {
    const LineInfoW *line = el_wline(el);
    cli_buf now = {0}, put = {0};
    size_t n = common(list);
    int only = !strchr(list->s, '\n') || strchr(list->s, '\n')[1] == '\0';
    narrow(&now, word, line->cursor);
    cli_put(&put, list->s, n);
    if (only && line->cursor == line->lastchar) cli_puts(&put, " ");
    int longer = put.n > now.n;
    if (longer) {
        el_wdeletestr(el, (int)(line->cursor - word));
        insert(el, cli_buf_text(&put));
    } else if (!only) {
        list_all(list);
    }
    cli_buf_free(&now);
    cli_buf_free(&put);
    return longer ? CC_REFRESH : only ? CC_NORM : CC_REDISPLAY;
}

static action on_tab(EditLine *el, wint_t key) {
    chat_edit *e = edit_of(el);
    const LineInfoW *line = el_wline(el);
    cli_buf before = {0}, list = {0};
    const wchar_t *word = line->cursor;
    (void)key;
    while (word > line->buffer && word[-1] != L' ' && word[-1] != L'\n') word--;
    narrow(&before, line->buffer, line->cursor);
    if (e->complete) e->complete(e->ud, before.s ? before.s : "", &list);
    action a = list.n ? complete_with(el, &list, word) : CC_ERROR;
    cli_buf_free(&before);
    cli_buf_free(&list);
    return a;
}

/* ==== The whole ==== */

static wchar_t *prompt_of(EditLine *el) {
    return edit_of(el)->prompt;
}

typedef action key_fn(EditLine *el, wint_t key);

static void add_key(EditLine *el, const wchar_t *name, key_fn *fn, const wchar_t *const *keys) {
    el_wset(el, EL_ADDFN, name, L"", fn);
    for (; *keys; keys++) el_wset(el, EL_BIND, *keys, name, NULL);
}

static void bind_keys(EditLine *el) {
    static const wchar_t *const known[][2] = {
        {L"^R", L"em-inc-search-prev"},  {L"^P", L"ed-prev-history"},
        {L"^N", L"ed-next-history"},     {L"\033[H", L"ed-move-to-beg"},
        {L"\033OH", L"ed-move-to-beg"},  {L"\033[1~", L"ed-move-to-beg"},
        {L"\033[F", L"ed-move-to-end"},  {L"\033OF", L"ed-move-to-end"},
        {L"\033[4~", L"ed-move-to-end"}, {L"\033[3~", L"ed-delete-next-char"},
        {L"\033[1;5D", L"ed-prev-word"}, {L"\033[1;5C", L"em-next-word"},
        {L"\033[C", L"ed-next-char"},    {L"\033OC", L"ed-next-char"},
        {L"\033[D", L"ed-prev-char"},    {L"\033OD", L"ed-prev-char"},
        {L"^W", L"ed-delete-prev-word"}, {L"^U", L"vi-kill-line-prev"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        el_wset(el, EL_BIND, known[i][0], known[i][1], NULL);
    add_key(el, L"chat-paste", on_paste, (const wchar_t *const[]){L"\033[200~", NULL});
    add_key(el, L"chat-break", on_break,
            (const wchar_t *const[]){L"\033\r", L"\033\n", L"\033[13;2u", L"\033[13;3u",
                                     L"\033[27;2;13~", NULL});
    add_key(el, L"chat-preset", on_preset, (const wchar_t *const[]){preset_key, NULL});
    add_key(el, L"chat-end", on_end, (const wchar_t *const[]){L"^D", NULL});
    add_key(el, L"chat-throw", on_throw, (const wchar_t *const[]){L"^C", NULL});
    add_key(el, L"chat-stop", on_stop, (const wchar_t *const[]){L"^Z", L"^\\", NULL});
    el_wset(el, EL_SETTY, L"-d", L"-isig", L"-icrnl", L"-inlcr", NULL);
    add_key(el, L"chat-up", on_up, (const wchar_t *const[]){L"\033[A", L"\033OA", NULL});
    add_key(el, L"chat-down", on_down, (const wchar_t *const[]){L"\033[B", L"\033OB", NULL});
    add_key(el, L"chat-tab", on_tab, (const wchar_t *const[]){L"\t", NULL});
}

static void remember(void *ud, retrace_text t) {
    chat_edit *e = ud;
    HistEventW event;
    wchar_t *w = widen(t);
    history_w(e->lines, &event, H_ENTER, w);
    free(w);
}

static int can_edit(void) {
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

chat_edit *chat_edit_open(int history, chat_complete_fn *complete, void *ud) {
    if (!can_edit()) return NULL;
    chat_edit *e = cli_alloc(sizeof *e);
    HistEventW event;
    e->el = el_init("retrace", stdin, stdout, stderr);
    e->lines = history_winit();
    if (!e->el || !e->lines) {
        chat_edit_close(e);
        return NULL;
    }
    e->complete = complete;
    e->ud = ud;
    history_w(e->lines, &event, H_SETSIZE, (int)CHAT_HISTORY_LINES);
    history_w(e->lines, &event, H_SETUNIQUE, 1);
    el_wset(e->el, EL_CLIENTDATA, e);
    el_wset(e->el, EL_PROMPT, prompt_of);
    el_wset(e->el, EL_EDITOR, L"emacs");
    el_wset(e->el, EL_HIST, history_w, e->lines);
    el_wset(e->el, EL_GETCFN, get_char);
    bind_keys(e->el);
    e->history = chat_history_open(history, remember, e);
    return e;
}

/* What was typed is left on the screen, but not mistaken for something that was sent. */
static void throw_away(const chat_edit *e) {
    (void)e;
    fputs("\r\n\033[J", stdout);
    fflush(stdout);
}

chat_typed chat_edit_read(chat_edit *e, const char *prompt, const char *preset, cli_buf *out) {
    int n = 0, rows;
    wchar_t *w = widen((retrace_text){prompt, strlen(prompt)});
    wcsncpy(e->prompt, w, sizeof e->prompt / sizeof *e->prompt - 1);
    free(w);
    e->preset = preset;
    e->ended = CHAT_TEXT;
    chat_tty_size(&rows, &e->columns);
    chat_block_signals(&e->unblocked);
    chat_tty_continued = 0;
    if (chat_tty_resized) el_resize(e->el);
    chat_tty_resized = 0;
    chat_tty_edit(); /* libedit's own settings hold only once it waits for a key */
    if (preset) el_wpush(e->el, preset_key);
    const wchar_t *line = el_wgets(e->el, &n);
    chat_tty_quiet();
    sigprocmask(SIG_SETMASK, &e->unblocked, NULL);
    if (e->ended == CHAT_THROWN) throw_away(e);
    if (e->ended == CHAT_END) putchar('\n');
    if (e->ended != CHAT_TEXT) return e->ended;
    if (!line || n <= 0) return CHAT_END;
    narrow(out, line, line + n);
    if (out->n && out->s[out->n - 1] == '\n') out->n--;
    return CHAT_TEXT;
}

void chat_edit_keep(chat_edit *e, retrace_text t) {
    if (chat_history_add(e->history, t)) remember(e, t);
}

void chat_edit_close(chat_edit *e) {
    if (!e) return;
    if (e->el) el_end(e->el);
    if (e->lines) history_wend(e->lines);
    chat_history_close(e->history);
    cli_buf_free(&e->typed);
    free(e);
}
