/* pattern.c - a regular expression, character for character, as GBNF over the text of a JSON
 * string.
 *
 * In such a text the quote and the backslash are written with a backslash before them, so a class
 * that holds them becomes two alternatives. */
#include "pattern.h"
#include "utf8.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 100, MAX_REPEAT = 10000, PLAIN = 0x20, LAST = 0x10ffff };

/* Any character of a JSON string that is not a control character. */
static const char any_char[] = "([^\"\\\\\\x00-\\x1f] | \"\\\\\" [\"\\\\])";

typedef struct parser {
    const char *s;
    size_t n, at;
    int depth, rc;
    rt_writer *w;
    const char *what;
    retrace_error *err;
} parser;

static void refuse(parser *p, size_t at, const char *why) {
    if (p->rc) return;
    p->rc = retrace_fail(p->err, RETRACE_EUSAGE, "%s: pattern: at byte %lu: %s", p->what,
                         (unsigned long)at, why);
}

static int peek(const parser *p) {
    return p->at < p->n ? (unsigned char)p->s[p->at] : -1;
}

/* ==== Sets of characters ==== */

enum { MAX_RANGES = 200 };

typedef struct set {
    uint32_t first[MAX_RANGES], last[MAX_RANGES];
    int n;
} set;

static void add(parser *p, set *s, uint32_t first, uint32_t last) {
    if (s->n == MAX_RANGES) {
        refuse(p, p->at, "too many ranges in one class");
        return;
    }
    s->first[s->n] = first;
    s->last[s->n++] = last;
}

/* Takes one character out of the set. */
static int without(parser *p, set *s, uint32_t c) {
    int had = 0;
    for (int i = 0, n = s->n; i < n; i++) {
        uint32_t first = s->first[i], last = s->last[i];
        if (first > last || c < first || c > last) continue;
        had = 1;
        if (c < last) add(p, s, c + 1, last);
        if (c > first) {
            s->last[i] = c - 1;
        } else {
            s->first[i] = 1;
            s->last[i] = 0;
        }
    }
    return had;
}

static void negate(parser *p, set *s) {
    set out = {.n = 0};
    uint32_t from = PLAIN;
    /* Always the least beginning that has not been passed yet. */
    for (;;) {
        uint32_t start = LAST + 1, end = 0;
        for (int i = 0; i < s->n; i++) {
            if (s->first[i] > s->last[i] || s->last[i] < from) continue;
            uint32_t first = s->first[i] < from ? from : s->first[i];
            if (first < start || (first == start && s->last[i] > end)) {
                start = first;
                end = s->last[i];
            }
        }
        if (start > from) add(p, &out, from, start - 1);
        if (start > LAST) break;
        from = end + 1;
    }
    *s = out;
}

static void write_set(parser *p, set *s) {
    int quote = without(p, s, '"'), slash = without(p, s, '\\'), any = 0;
    rt_write(p->w, "(");
    for (int i = 0; i < s->n; i++) {
        uint32_t first = s->first[i] < PLAIN ? PLAIN : s->first[i];
        if (first > s->last[i]) continue;
        rt_write(p->w, "%s\\U%08x-\\U%08x", any ? "" : "[", first, s->last[i]);
        any = 1;
    }
    if (any) rt_write(p->w, "]");
    if (quote || slash)
        rt_write(p->w, "%s\"\\\\\" [%s%s]", any ? " | " : "", quote ? "\"" : "",
                 slash ? "\\\\" : "");
    rt_write(p->w, ")");
    if (!any && !quote && !slash) refuse(p, p->at, "only control characters fit here");
}

/* ==== Escapes ==== */

static uint32_t read_hex(parser *p, int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        int c = peek(p);
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0) {
            refuse(p, p->at, "expected a hexadecimal digit");
            return 0;
        }
        value = value * 16 + (uint32_t)d;
    }
    if (value >= 0xd800 && value <= 0xdfff) refuse(p, p->at, "half a character");
    return value;
}

/* What \d, \w, \s and the others stand for differs between dialects beyond ASCII. So what is to fit
 * gets the least that they agree on, and what is not to fit the most (`most`). */
static void add_named(parser *p, set *s, int name, int most) {
    static const uint32_t blanks[][2] = {{0x7f, 0xa0},     {0x1680, 0x1680}, {0x180e, 0x180e},
                                         {0x2000, 0x200f}, {0x2028, 0x202f}, {0x205f, 0x206f},
                                         {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    int kind = name | 0x20, negated = name < 'a';
    set named = {.n = 0};
    if (negated) most = !most;
    if (kind == 's') add(p, &named, ' ', ' ');
    if (kind != 's') add(p, &named, '0', '9');
    if (kind == 'w') {
        add(p, &named, 'A', 'Z');
        add(p, &named, '_', '_');
        add(p, &named, 'a', 'z');
    }
    if (most && kind != 's') add(p, &named, 0x80, LAST);
    for (int i = 0; most && kind == 's' && i < 8; i++) add(p, &named, blanks[i][0], blanks[i][1]);
    if (negated) negate(p, &named);
    for (int i = 0; i < named.n; i++) add(p, s, named.first[i], named.last[i]);
}

/* After a backslash; what it stands for goes into the set. */
static void read_escape(parser *p, set *s, int most) {
    static const char plain[] = "nrtfv";
    static const char codes[] = "\n\r\t\f\v";
    size_t from = p->at;
    int c = peek(p);
    p->at++;
    const char *known = c > 0 ? strchr(plain, c) : NULL;
    uint32_t cp = (uint32_t)c;
    if (c > 0 && strchr("dwsDWS", c)) {
        add_named(p, s, c, most);
        return;
    }
    if (known)
        cp = (unsigned char)codes[known - plain];
    else if (c == 'x')
        cp = read_hex(p, 2);
    else if (c == 'u')
        cp = read_hex(p, 4);
    else if (c < 0 || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
             c > 0x7f)
        refuse(p, from, "this escape is not supported");
    add(p, s, cp, cp);
}

/* ==== Classes and characters ==== */

static void read_plain(parser *p, set *s) {
    uint32_t cp;
    int n = rt_utf8_decode(p->s + p->at, p->n - p->at, &cp);
    p->at += (size_t)n;
    add(p, s, cp, cp);
}

/* One character of a class, or what an escape names. */
static void read_member(parser *p, set *s, int negated) {
    if (peek(p) != '\\') {
        if (peek(p) == '[' && p->at + 1 < p->n && p->s[p->at + 1] == ':')
            refuse(p, p->at, "named classes are not supported");
        read_plain(p, s);
        return;
    }
    p->at++;
    if (peek(p) == 'b') refuse(p, p->at, "this escape is not supported");
    read_escape(p, s, negated);
}

static void read_class(parser *p) {
    set s = {.n = 0};
    size_t from = p->at++;
    int negated = peek(p) == '^';
    p->at += (size_t)negated;
    while (peek(p) != ']' && !p->rc) {
        if (peek(p) < 0) {
            refuse(p, from, "this class is not closed");
            return;
        }
        size_t at = p->at;
        int before = s.n;
        read_member(p, &s, negated);
        int single = s.n == before + 1 && s.first[before] == s.last[before];
        if (!single || peek(p) != '-' || p->at + 1 >= p->n || p->s[p->at + 1] == ']') continue;
        p->at++;
        read_member(p, &s, negated);
        if (p->rc) return;
        if (s.n != before + 2 || s.first[before + 1] != s.last[before + 1] ||
            s.first[before] > s.last[before + 1])
            refuse(p, at, "this is no range");
        s.last[before] = s.last[before + 1];
        s.n = before + 1;
    }
    p->at++;
    if (negated) negate(p, &s);
    if (!p->rc) write_set(p, &s);
}

/* ==== Expressions ==== */

static void read_alternatives(parser *p);

static void read_group(parser *p) {
    size_t from = p->at++;
    if (peek(p) == '?') {
        if (p->n - p->at < 2 || p->s[p->at + 1] != ':')
            refuse(p, from, "groups that begin with (? are not supported, but (?:");
        p->at += 2;
    }
    if (++p->depth > MAX_DEPTH) refuse(p, from, "too many parentheses");
    rt_write(p->w, "(");
    if (!p->rc) read_alternatives(p);
    if (peek(p) != ')') refuse(p, from, "this parenthesis is not closed");
    p->at++;
    p->depth--;
    rt_write(p->w, ")");
}

static int read_number(parser *p) {
    int value = -1;
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++) {
        value = (value < 0 ? 0 : value * 10) + peek(p) - '0';
        if (value > MAX_REPEAT) {
            refuse(p, p->at, "more than 10000 repetitions");
            return -1;
        }
    }
    return value;
}

static void read_repetition(parser *p) {
    int c = peek(p);
    size_t from = p->at;
    if (c == '*' || c == '+' || c == '?') {
        rt_write(p->w, "%c", c);
        p->at++;
    } else if (c == '{') {
        p->at++;
        int min = read_number(p), max = min;
        if (peek(p) == ',') {
            p->at++;
            max = read_number(p);
            rt_write(p->w, max < 0 ? "{%d,}" : "{%d,%d}", min, max);
        } else {
            rt_write(p->w, "{%d}", min);
        }
        if (min < 0 || (max >= 0 && max < min) || peek(p) != '}')
            refuse(p, from, "these bounds cannot be read");
        p->at++;
    } else {
        return;
    }
    c = peek(p);
    if (c == '?' || c == '+' || c == '*' || c == '{')
        refuse(p, p->at, "lazy, possessive and double repetition are not supported");
}

static void read_atom(parser *p) {
    int c = peek(p);
    if (c == '(') {
        read_group(p);
    } else if (c == '[') {
        read_class(p);
    } else if (c == '.') {
        p->at++;
        rt_write(p->w, "%s", any_char);
    } else if (c == '^' || c == '$') {
        refuse(p, p->at, "^ and $ are supported only at the two ends");
    } else if (c == '*' || c == '+' || c == '?' || c == '{' || c == '}' || c == ']') {
        refuse(p, p->at, "there is nothing to repeat, or a bracket too many");
    } else {
        set s = {.n = 0};
        if (c == '\\') {
            p->at++;
            read_escape(p, &s, 0);
        } else {
            read_plain(p, &s);
        }
        if (!p->rc) write_set(p, &s);
    }
}

static void read_alternatives(parser *p) {
    for (;;) {
        int any = 0;
        while (!p->rc && peek(p) >= 0 && peek(p) != '|' && peek(p) != ')') {
            if (any++) rt_write(p->w, " ");
            read_atom(p);
            if (!p->rc) read_repetition(p);
        }
        if (!any) rt_write(p->w, "\"\"");
        if (p->rc || peek(p) != '|') return;
        rt_write(p->w, " | ");
        p->at++;
    }
}

/* Does a | stand outside all parentheses and classes? */
static int splits_at_top(const parser *p) {
    int depth = 0, inside = 0;
    for (size_t i = 0; i < p->n; i++) {
        char c = p->s[i];
        if (c == '\\')
            i++;
        else if (inside)
            inside = c != ']';
        else if (c == '[')
            inside = 1;
        else if (c == '|' && depth == 0)
            return 1;
        else
            depth += (c == '(') - (c == ')');
    }
    return 0;
}

/* Is the $ at the end an anchor, and not a character by a backslash? */
static int anchored_end(const parser *p) {
    size_t slashes = 0;
    if (p->n == 0 || p->s[p->n - 1] != '$') return 0;
    while (slashes + 1 < p->n && p->s[p->n - 2 - slashes] == '\\') slashes++;
    return slashes % 2 == 0;
}

int rt_pattern_write(rt_writer *w, retrace_text pattern, const char *what, retrace_error *err) {
    parser p = {.s = pattern.s, .n = pattern.n, .w = w, .what = what, .err = err};
    int start = p.n > 0 && p.s[0] == '^', end = anchored_end(&p);
    if ((start || end) && splits_at_top(&p))
        refuse(&p, 0, "^ or $ beside | outside parentheses is not supported");
    p.at = (size_t)start;
    p.n -= (size_t)end;
    if (!start) rt_write(w, "%s* ", any_char);
    rt_write(w, "(");
    if (!p.rc) read_alternatives(&p);
    if (!p.rc && p.at < p.n) refuse(&p, p.at, "a parenthesis too many");
    rt_write(w, ")");
    if (!end) rt_write(w, " %s*", any_char);
    if (!p.rc && w->rc) p.rc = rt_nomem(err);
    return p.rc;
}
