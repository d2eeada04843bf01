/* keys.c - what was typed: bytes to keys.
 *
 * A terminal sends a character as its UTF-8, and every other key as a sequence that begins with
 * Escape. The key Escape itself is that byte with nothing behind it for a moment. A paste comes
 * between two marks and is one text, whatever it holds. */
#include "screen.h"

#include <string.h>

enum { ESCAPE = 27, ESCAPE_MS = 50, PASTE_MAX = 1 << 20 };

static const char paste_end[] = "\033[201~";

/* More bytes behind those that are there: 1; 0: none came in time; -1: the terminal is gone. */
static int more(cli_keys *k, int ms) {
    char bytes[4096];
    int what;
    do what = cli_screen_wait(ms);
    while (what == CLI_SCREEN_WOKEN && ms >= 0 && !cli_interrupted());
    if (what == CLI_SCREEN_GONE) return -1;
    if (what != CLI_SCREEN_KEY) return 0;
    size_t n = cli_screen_read(bytes, sizeof bytes);
    cli_put(&k->typed, bytes, n);
    return n ? 1 : -1;
}

static void drop(cli_keys *k, size_t n) {
    k->typed.n -= n;
    memmove(k->typed.s, k->typed.s + n, k->typed.n);
}

static cli_key_kind set_text(cli_keys *k, const char *s, size_t n) {
    k->text.n = 0;
    cli_put(&k->text, s, n);
    return CLI_KEY_TEXT;
}

/* ==== Sequences ==== */

/* Line breaks of a paste arrive as carriage returns. */
static cli_key_kind take_paste(cli_keys *k) {
    const size_t n_end = sizeof paste_end - 1;
    size_t n = 0;
    for (;;) {
        while (n + n_end <= k->typed.n && memcmp(k->typed.s + n, paste_end, n_end) != 0) n++;
        if (n + n_end <= k->typed.n) break;
        if (k->typed.n > PASTE_MAX || more(k, 1000) <= 0) {
            k->typed.n = 0;
            return CLI_KEY_OTHER;
        }
    }
    for (size_t i = 0; i < n; i++)
        if (k->typed.s[i] == '\r') k->typed.s[i] = '\n';
    set_text(k, k->typed.s, n);
    drop(k, n + n_end);
    k->pasted = 1;
    return CLI_KEY_TEXT;
}

/* The number of "\033[3~". */
static cli_key_kind numbered(int number) {
    switch (number) {
    case 1:
    case 7: return CLI_KEY_HOME;
    case 3: return CLI_KEY_DELETE;
    case 4:
    case 8: return CLI_KEY_END;
    case 5: return CLI_KEY_PAGE_UP;
    case 6: return CLI_KEY_PAGE_DOWN;
    default: return CLI_KEY_OTHER;
    }
}

static cli_key_kind lettered(char c) {
    switch (c) {
    case 'A': return CLI_KEY_UP;
    case 'B': return CLI_KEY_DOWN;
    case 'C': return CLI_KEY_RIGHT;
    case 'D': return CLI_KEY_LEFT;
    case 'F': return CLI_KEY_END;
    case 'H': return CLI_KEY_HOME;
    case 'M': return CLI_KEY_ENTER; /* of a keypad */
    default: return CLI_KEY_OTHER;
    }
}

/* "\033[1;5A": parameters, then one byte that says what it is. With a modifier it is the same key.
 */
static cli_key_kind take_csi(cli_keys *k) {
    size_t i = 2;
    for (;; i++) {
        while (i >= k->typed.n)
            if (i > 32 || more(k, ESCAPE_MS) <= 0) return k->typed.n = 0, CLI_KEY_OTHER;
        if (k->typed.s[i] >= 0x40 && k->typed.s[i] <= 0x7e) break;
    }
    char last = k->typed.s[i];
    int number = 0;
    for (size_t j = 2; k->typed.s[j] >= '0' && k->typed.s[j] <= '9' && number < 1000; j++)
        number = 10 * number + k->typed.s[j] - '0';
    drop(k, i + 1);
    if (last == '~' && number == 200) return take_paste(k);
    return last == '~' ? numbered(number) : lettered(last);
}

static cli_key_kind take_escape(cli_keys *k) {
    if (k->typed.n < 2 && more(k, ESCAPE_MS) <= 0) return drop(k, 1), CLI_KEY_ESCAPE;
    char c = k->typed.s[1];
    if (c == '[') return take_csi(k);
    if (c == 'O') {
        if (k->typed.n < 3 && more(k, ESCAPE_MS) <= 0) return drop(k, 2), CLI_KEY_OTHER;
        c = k->typed.s[2];
        drop(k, 3);
        return lettered(c);
    }
    drop(k, c == ESCAPE ? 1 : 2); /* Alt with a key: nothing here */
    return c == ESCAPE ? CLI_KEY_ESCAPE : CLI_KEY_OTHER;
}

/* ==== Single bytes ==== */

static cli_key_kind take_control(cli_keys *k, char c) {
    drop(k, 1);
    if (c == '\r') return CLI_KEY_ENTER;
    if (c == '\b' || c == 127) return CLI_KEY_BACKSPACE;
    k->control = (char)(c + 'a' - 1);
    return CLI_KEY_CONTROL;
}

static cli_key_kind take_character(cli_keys *k) {
    uint32_t cp;
    size_t n = cli_utf8(k->typed.s, k->typed.n, &cp);
    while (cp == CLI_CUT && more(k, ESCAPE_MS) > 0) n = cli_utf8(k->typed.s, k->typed.n, &cp);
    if (cp >= CLI_BROKEN) return drop(k, n), CLI_KEY_OTHER;
    set_text(k, k->typed.s, n);
    drop(k, n);
    return CLI_KEY_TEXT;
}

cli_key_kind cli_key_next(cli_keys *k) {
    k->pasted = 0;
    if (k->typed.n == 0) {
        int got = more(k, -1);
        if (got <= 0) return k->kind = got < 0 ? CLI_KEY_GONE : CLI_KEY_NONE;
    }
    unsigned char c = (unsigned char)k->typed.s[0];
    if (c == ESCAPE) return k->kind = take_escape(k);
    if (c < 32 || c == 127) return k->kind = take_control(k, (char)c);
    return k->kind = take_character(k);
}

int cli_key_waits(const cli_keys *k) {
    int what = k->typed.n > 0 ? CLI_SCREEN_KEY : cli_screen_wait(0);
    return what == CLI_SCREEN_KEY || what == CLI_SCREEN_GONE;
}

void cli_keys_free(cli_keys *k) {
    cli_buf_free(&k->typed);
    cli_buf_free(&k->text);
}
