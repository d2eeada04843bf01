/* text.c - UTF-8 as the program needs it: checked on the way in, made whole on the way out.
 *
 * What a model writes is bytes. JSON must be valid, so broken bytes become U+FFFD, one for each
 * maximal piece as Unicode recommends. A terminal obeys control characters, so those are spelt out.
 */
#include "cli.h"

#include <string.h>

/* Length of the character that a first byte opens, and the range its second byte must lie in. */
static size_t opens(unsigned char c, unsigned *lo, unsigned *hi) {
    *lo = 0x80;
    *hi = 0xbf;
    if (c < 0x80) return 1;
    if (c >= 0xc2 && c <= 0xdf) return 2;
    if (c >= 0xe0 && c <= 0xef) {
        if (c == 0xe0) *lo = 0xa0; /* no longer form than needed */
        if (c == 0xed) *hi = 0x9f; /* no surrogates */
        return 3;
    }
    if (c >= 0xf0 && c <= 0xf4) {
        if (c == 0xf0) *lo = 0x90;
        if (c == 0xf4) *hi = 0x8f; /* nothing above U+10FFFF */
        return 4;
    }
    return 0;
}

size_t cli_utf8(const char *s, size_t n, uint32_t *cp) {
    const unsigned char *u = (const unsigned char *)s;
    unsigned lo, hi;
    size_t len = opens(u[0], &lo, &hi);
    *cp = CLI_BROKEN;
    if (len == 0) return 1;
    uint32_t value = len == 1 ? u[0] : u[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (i == n) return *cp = CLI_CUT, i;
        if (u[i] < lo || u[i] > hi) return i;
        value = value << 6 | (u[i] & 0x3fu);
        lo = 0x80;
        hi = 0xbf;
    }
    *cp = value;
    return len;
}

size_t cli_utf8_check(retrace_text t) {
    uint32_t cp;
    size_t len;
    for (size_t i = 0; i < t.n; i += len) {
        len = cli_utf8(t.s + i, t.n - i, &cp);
        if (cp >= CLI_BROKEN) return i;
    }
    return t.n;
}

size_t cli_utf8_whole(retrace_text t) {
    uint32_t cp;
    for (size_t back = 1; back <= 3 && back <= t.n; back++) {
        size_t at = t.n - back;
        if (((unsigned char)t.s[at] & 0xc0) == 0x80) continue;
        cli_utf8(t.s + at, back, &cp);
        return cp == CLI_CUT ? at : t.n;
    }
    return t.n;
}

void cli_clean(cli_buf *b, retrace_text t) {
    uint32_t cp;
    size_t len;
    for (size_t i = 0; i < t.n; i += len) {
        len = cli_utf8(t.s + i, t.n - i, &cp);
        if (cp >= CLI_BROKEN)
            cli_puts(b, "\xef\xbf\xbd");
        else
            cli_put(b, t.s + i, len);
    }
}

/* Characters that move the cursor, ring, or turn the direction of the line. */
static int drives(uint32_t cp) {
    return cp < 0x20 || (cp >= 0x7f && cp <= 0x9f) || (cp >= 0x202a && cp <= 0x202e) ||
           (cp >= 0x2066 && cp <= 0x2069) || cp == 0x2028 || cp == 0x2029;
}

void cli_escape(cli_buf *b, retrace_text t, int lines) {
    uint32_t cp;
    size_t len;
    for (size_t i = 0; i < t.n; i += len) {
        len = cli_utf8(t.s + i, t.n - i, &cp);
        if (cp >= CLI_BROKEN)
            cli_puts(b, "\xef\xbf\xbd");
        else if (cp == '\t' || (cp == '\n' && lines))
            cli_put(b, t.s + i, 1);
        else if (cp == '\n')
            cli_puts(b, "\\n");
        else if (cp == '\r')
            cli_puts(b, "\\r");
        else if (drives(cp))
            cli_printf(b, cp < 0x100 ? "\\x%02x" : "\\u{%04x}", (unsigned)cp);
        else
            cli_put(b, t.s + i, len);
    }
}
