/* scope.c - see scope.h. Two small machines; each reads every byte once. */
#include "scope.h"
#include "fold.h"
#include "utf8.h"

#include <utf8proc.h>

/* ==== Fences ==== */

enum { FENCE_MIN = 3, INDENT_MAX = 3 };

/* What the line is as far as it is read. */
enum { LINE_INDENT, LINE_RUN, LINE_REST, LINE_PLAIN };

static void end_line(rt_scope_state *st) {
    int fence = (st->line == LINE_RUN || st->line == LINE_REST) && st->run >= FENCE_MIN;
    if (fence && !st->fence) {
        st->fence = st->run;
        st->fence_mark = st->run_mark;
    } else if (fence && st->run_mark == st->fence_mark && st->run >= st->fence) {
        st->fence = 0;
    }
    st->line = LINE_INDENT;
    st->indent = 0;
    st->run = 0;
}

/* May this stand behind the run of a line that opens, or closes, a block? */
static int fits_rest(const rt_scope_state *st, char c) {
    if (st->fence) return c == ' ' || c == '\t';
    return !(c == '`' && st->run_mark == '`');
}

static void begin_run(rt_scope_state *st, char c) {
    st->line = LINE_RUN;
    st->run_mark = c;
    st->run = 1;
}

static void read_code(rt_scope_state *st, char c) {
    if (c == '\n' || c == '\r') {
        end_line(st);
    } else if (st->line == LINE_INDENT) {
        if (c == ' ' && st->indent < INDENT_MAX)
            st->indent++;
        else if (c == '`' || c == '~')
            begin_run(st, c);
        else
            st->line = LINE_PLAIN;
    } else if (st->line == LINE_RUN && c == st->run_mark) {
        if (st->run < UINT32_MAX) st->run++;
    } else if (st->line != LINE_PLAIN) {
        st->line = fits_rest(st, c) ? LINE_REST : LINE_PLAIN;
    }
}

/* ==== Sentences ==== */

enum { AT_START, BEHIND_END, INSIDE };

enum { IS_BREAK, IS_WHITE, IS_MARK, IS_END, IS_WIDE_END, IS_OTHER };

static int is_mark(uint32_t cp) {
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PD: return 1;
    default: break;
    }
    switch (cp) {
    case '"':
    case '\'':
    case '*':
    case '_':
    case '~':
    case '`':
    case '#':
    case '>':
    case 0x2022: /* bullet */
    case 0xA1:
    case 0xBF: /* ! and ? upside down */ return 1;
    default: return 0;
    }
}

static int kind_of(uint32_t cp) {
    switch (cp) {
    case '\n':
    case '\r':
    case 0x85:
    case 0x2028:
    case 0x2029: return IS_BREAK;
    case '.':
    case '!':
    case '?':
    case 0x2026: return IS_END;
    case 0x3002:
    case 0xFF01:
    case 0xFF1F: return IS_WIDE_END;
    case RT_UTF8_BAD: return IS_OTHER;
    default: break;
    }
    if (rt_is_white(cp)) return IS_WHITE;
    return is_mark(cp) ? IS_MARK : IS_OTHER;
}

static void step(rt_scope_state *st, int kind) {
    switch (kind) {
    case IS_BREAK:
    case IS_WIDE_END: st->sentence = AT_START; break;
    case IS_END: st->sentence = BEHIND_END; break;
    case IS_OTHER: st->sentence = INSIDE; break;
    case IS_WHITE:
        if (st->sentence == BEHIND_END) st->sentence = AT_START;
        break;
    default: break;
    }
}

static int leads(int kind) {
    return kind == IS_BREAK || kind == IS_WHITE || kind == IS_MARK;
}

/* The next byte; returns 1, having read nothing of it, when the character that is complete with it
 * is none that may lead and `lead` is set. */
static int read_byte(rt_scope_state *st, char byte, int lead) {
    char bytes[RT_UTF8_MAX];
    uint32_t cp;
    size_t n = st->n_part;
    for (size_t i = 0; i < n; i++) bytes[i] = st->part[i];
    bytes[n] = byte;
    int len = rt_utf8_decode(bytes, n + 1, &cp);
    if (len == 0) {
        st->part[st->n_part++] = byte;
        return 0;
    }
    int kind = len > 0 ? kind_of(cp) : IS_OTHER;
    if (lead && !leads(kind)) return 1;
    st->n_part = 0;
    step(st, kind);
    /* What broke off is read as single bytes, and the byte that is none of it begins anew. */
    return len < 0 && n > 0 ? read_byte(st, byte, lead) : 0;
}

/* ==== Both ==== */

void rt_scope_read(int scope, rt_scope_state *st, const char *s, size_t n) {
    if (scope == RT_SCOPE_OUTSIDE_CODE)
        for (size_t i = 0; i < n; i++) read_code(st, s[i]);
    if (scope == RT_SCOPE_SENTENCE_START)
        for (size_t i = 0; i < n; i++) read_byte(st, s[i], 0);
}

/* Reads up to the first letter: 1 when there is one. */
static int read_lead(rt_scope_state *st, const retrace_text parts[2]) {
    /* A phrase begins with a character: what was incomplete before it stays so. */
    if (st->n_part) st->sentence = INSIDE;
    st->n_part = 0;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < parts[k].n; i++)
            if (read_byte(st, parts[k].s[i], 1)) return 1;
    return 0;
}

int rt_scope_admits(int scope, const rt_scope_state *st, const retrace_text parts[2], int whole) {
    if (scope == RT_SCOPE_OUTSIDE_CODE) return st->fence == 0;
    if (scope == RT_SCOPE_ANSWER) return 1;
    rt_scope_state at = *st;
    return (!read_lead(&at, parts) && !whole) || at.sentence == AT_START;
}
