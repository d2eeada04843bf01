/* gbnf_write.c - texts and ranges of numbers as GBNF.
 *
 * A range of whole numbers is cut where the number of digits changes, and then digit by digit:
 * those that begin as the lower end does, those between, those that begin as the upper end does. */
#include "gbnf_write.h"

#include <stdio.h>
#include <string.h>

enum { DIGITS = 20, UNBOUNDED_DIGITS = 16 };

void rt_write_bytes(rt_writer *w, const char *s, size_t n) {
    if (w->rc == RETRACE_OK) w->rc = rt_buf_add(&w->buf, s, n);
}

void rt_write(rt_writer *w, const char *fmt, ...) {
    char line[256];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    rt_write_bytes(w, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
}

void rt_write_literal(rt_writer *w, const char *s, size_t n) {
    rt_write_bytes(w, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < ' ' || c == '"' || c == '\\' || c == 0x7f)
            rt_write(w, "\\x%02x", c);
        else
            rt_write_bytes(w, s + i, 1);
    }
    rt_write_bytes(w, "\"", 1);
}

/* ==== Whole numbers ==== */

/* Separates alternatives. */
static void bar(rt_writer *w, int *any) {
    if (*any) rt_write_bytes(w, " | ", 3);
    *any = 1;
}

static int all_are(const char *s, char c) {
    while (*s == c) s++;
    return *s == 0;
}

static void write_any_digits(rt_writer *w, size_t n) {
    if (n) rt_write(w, " [0-9]{%d}", (int)n);
}

/* Alternatives for the digits from a to b, which are equally many. */
static void write_digits(rt_writer *w, const char *a, const char *b) {
    size_t n = strlen(a), same = 0;
    while (same < n && a[same] == b[same]) same++;
    if (same) {
        rt_write_literal(w, a, same);
        rt_write_bytes(w, " ", 1);
    }
    a += same;
    b += same;
    n -= same;
    if (n == 0) return;
    if (same) rt_write_bytes(w, "(", 1);
    int any = 0;
    char first = a[0], last = b[0];
    char edge[DIGITS];
    if (!all_are(a + 1, '0')) {
        bar(w, &any);
        rt_write(w, "\"%c\" (", first++);
        memset(edge, '9', n - 1);
        edge[n - 1] = 0;
        write_digits(w, a + 1, edge);
        rt_write_bytes(w, ")", 1);
    }
    int upper = !all_are(b + 1, '9');
    last = (char)(last - upper);
    if (first <= last) {
        bar(w, &any);
        rt_write(w, "[%c-%c]", first, last);
        write_any_digits(w, n - 1);
    }
    if (upper) {
        bar(w, &any);
        rt_write(w, "\"%c\" (", b[0]);
        memset(edge, '0', n - 1);
        edge[n - 1] = 0;
        write_digits(w, edge, b + 1);
        rt_write_bytes(w, ")", 1);
    }
    if (same) rt_write_bytes(w, ")", 1);
}

static int digits_of(uint64_t x, char out[DIGITS + 4]) {
    return snprintf(out, DIGITS + 4, "%llu", (unsigned long long)x);
}

/* Magnitudes a..b, or all from a on. */
static void write_magnitudes(rt_writer *w, uint64_t a, uint64_t b, int bounded, int *any) {
    char low[DIGITS + 4], high[DIGITS + 4], top[DIGITS + 4];
    int n = digits_of(a, low), last = digits_of(b, high);
    if (!bounded) {
        last = n;
        memset(high, '9', (size_t)n);
        high[n] = 0;
    }
    for (; n <= last; n++) {
        const char *to = high;
        if (n < last) {
            memset(top, '9', (size_t)n);
            top[n] = 0;
            to = top;
        }
        bar(w, any);
        write_digits(w, low, to);
        memset(low, '0', (size_t)n + 1);
        low[0] = '1';
        low[n + 1] = 0;
    }
    if (bounded) return;
    bar(w, any);
    rt_write(w, "[1-9] [0-9]{%d,%d}", last, last < UNBOUNDED_DIGITS ? UNBOUNDED_DIGITS - 1 : last);
}

/* Without a sign: 0 - x may not overflow. */
static uint64_t magnitude(int64_t x) {
    return x < 0 ? (uint64_t)0 - (uint64_t)x : (uint64_t)x;
}

int rt_write_integers(rt_writer *w, const rt_bounds *given) {
    rt_bounds b = *given;
    int any = 0;
    if (b.has_low && b.open_low && b.low++ == INT64_MAX) return 0;
    if (b.has_high && b.open_high && b.high-- == INT64_MIN) return 0;
    if (b.has_low && b.has_high && b.low > b.high) return 0;
    if (!b.has_high || b.high >= 0)
        write_magnitudes(w, b.has_low && b.low > 0 ? (uint64_t)b.low : 0,
                         b.has_high ? (uint64_t)b.high : 0, b.has_high, &any);
    if (!b.has_low || b.low < 0) {
        int inner = 0;
        bar(w, &any);
        rt_write_bytes(w, "\"-\" (", 5);
        write_magnitudes(w, b.has_high && b.high < 0 ? magnitude(b.high) : 1,
                         b.has_low ? magnitude(b.low) : 0, b.has_low, &inner);
        rt_write_bytes(w, ")", 1);
    }
    return 1;
}

/* ==== Decimal fractions ==== */

/* One side of zero: magnitudes from low to high. */
typedef struct side {
    uint64_t low, high;
    int open_low, open_high, bounded;
    int places; /* digits of a fraction, such that no rounding reaches a bound */
} side;

static void write_side(rt_writer *w, const side *s, int *any) {
    uint64_t from = s->low + (s->open_low != 0);
    if (!s->bounded || from < s->high) {
        int inner = 0;
        bar(w, any);
        rt_write_bytes(w, "(", 1);
        write_magnitudes(w, from, s->bounded ? s->high - 1 : 0, s->bounded, &inner);
        rt_write(w, ") (\".\" [0-9]{1,%d})?", s->places);
    }
    if (s->open_low && (!s->bounded || s->low < s->high)) {
        bar(w, any);
        int half = (s->places - 1) / 2;
        rt_write(w, "\"%llu.\" \"0\"{0,%d} [1-9] [0-9]{0,%d}", (unsigned long long)s->low, half,
                 half);
    }
    if (s->bounded && !s->open_high && from <= s->high) {
        bar(w, any);
        rt_write(w, "\"%llu\" (\".\" \"0\"{1,%d})?", (unsigned long long)s->high, s->places);
    }
}

static int places_for(uint64_t largest) {
    char digits[DIGITS + 4];
    int n = 15 - digits_of(largest, digits);
    return n < 1 ? 1 : n > 10 ? 10 : n;
}

int rt_write_decimals(rt_writer *w, const rt_bounds *b) {
    int any = 0, places = 10;
    if (b->has_low) places = places_for(magnitude(b->low));
    if (b->has_high && places_for(magnitude(b->high)) < places)
        places = places_for(magnitude(b->high));
    if (!b->has_high || b->high >= 0) {
        int positive = b->has_low && b->low >= 0;
        side s = {positive ? (uint64_t)b->low : 0,
                  b->has_high ? (uint64_t)b->high : 0,
                  positive && b->open_low,
                  b->open_high,
                  b->has_high,
                  places};
        write_side(w, &s, &any);
    }
    if (!b->has_low || b->low < 0) {
        int negative = b->has_high && b->high <= 0;
        rt_writer part = {{0}, RETRACE_OK};
        int inner = 0;
        side s = {negative ? magnitude(b->high) : 0,
                  b->has_low ? magnitude(b->low) : 0,
                  negative && b->open_high,
                  b->open_low,
                  b->has_low,
                  places};
        write_side(&part, &s, &inner);
        if (inner) {
            bar(w, &any);
            rt_write_bytes(w, "\"-\" (", 5);
            rt_write_bytes(w, part.buf.s, part.buf.n);
            rt_write_bytes(w, ")", 1);
        }
        if (part.rc) w->rc = part.rc;
        rt_buf_free(&part.buf);
    }
    return any;
}
