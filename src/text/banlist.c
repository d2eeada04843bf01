/* banlist.c - see banlist.h. The phrases are copied one after the other into one pool, which is
 * never larger than the file. */
#include "banlist.h"
#include "base.h"

#include <string.h>

/* What is read and where it goes. */
typedef struct reading {
    rt_banlist *list;
    const char *name;
    size_t most_bytes;
    uint32_t most, line;
    char *to; /* in the pool */
    retrace_error *err;
} reading;

static int fail(const reading *r, const char *what) {
    return retrace_fail(r->err, RETRACE_EUSAGE, "%s, line %lu: %s", r->name, (unsigned long)r->line,
                        what);
}

static int is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static retrace_text trim(retrace_text t) {
    while (t.n && is_blank(t.s[0])) t = (retrace_text){t.s + 1, t.n - 1};
    while (t.n && is_blank(t.s[t.n - 1])) t.n--;
    return t;
}

/* The character that a backslash and this one stand for; 0: none. */
static char unescape(char c) {
    switch (c) {
    case '"':
    case '\\': return c;
    case 'n': return '\n';
    case 't': return '\t';
    default: return 0;
    }
}

/* Copies what a quoted line holds. */
static int take_quoted(reading *r, retrace_text t) {
    size_t i = 1;
    for (; i < t.n && t.s[i] != '"'; i++) {
        char c = t.s[i];
        if (c == '\\') {
            c = ++i < t.n ? unescape(t.s[i]) : 0;
            if (!c) return fail(r, "a backslash in quotes stands before \", \\, n or t");
        }
        *r->to++ = c;
    }
    if (i >= t.n) return fail(r, "the quote does not end");
    if (i + 1 < t.n) return fail(r, "something follows the closing quote");
    return RETRACE_OK;
}

static int take_phrase(reading *r, retrace_text t) {
    rt_banlist *list = r->list;
    char *start = r->to;
    int rc = RETRACE_OK;
    if (t.s[0] == '"') {
        rc = take_quoted(r, t);
        if (rc) return rc;
    } else {
        memcpy(r->to, t.s, t.n);
        r->to += t.n;
    }
    size_t n = (size_t)(r->to - start);
    if (n == 0) return fail(r, "the phrase is empty");
    if (n > r->most_bytes || list->n == r->most) {
        int long_one = n > r->most_bytes;
        return retrace_fail(r->err, RETRACE_EUSAGE, "%s, line %lu: more than %lu %s", r->name,
                            (unsigned long)r->line,
                            (unsigned long)(long_one ? r->most_bytes : r->most),
                            long_one ? "bytes in a phrase" : "phrases");
    }
    int need = (int)list->n + 1;
    if (rt_grow(&list->phrases, &list->cap_phrases, need, sizeof *list->phrases) ||
        rt_grow(&list->lines, &list->cap_lines, need, sizeof *list->lines))
        return rt_nomem(r->err);
    list->phrases[list->n] = (retrace_text){start, n};
    list->lines[list->n++] = r->line;
    return RETRACE_OK;
}

static int take_line(reading *r, retrace_text line) {
    if (rt_utf8_check(line.s, line.n) < line.n) return fail(r, "not valid UTF-8");
    if (line.n && memchr(line.s, '\0', line.n)) return fail(r, "a NUL byte");
    line = trim(line);
    return line.n == 0 || line.s[0] == '#' ? RETRACE_OK : take_phrase(r, line);
}

int rt_banlist_parse(rt_banlist *out, retrace_text file, const char *name, size_t most_bytes,
                     uint32_t most, retrace_error *err) {
    *out = (rt_banlist){0};
    out->pool = retrace_alloc(file.n + 1);
    if (!out->pool) return rt_nomem(err);
    reading r = {out, name, most_bytes, most, 0, out->pool, err};
    int rc = RETRACE_OK;
    if (file.n >= 3 && memcmp(file.s, "\xEF\xBB\xBF", 3) == 0)
        file = (retrace_text){file.s + 3, file.n - 3};
    while (file.n && rc == RETRACE_OK) {
        const char *end = memchr(file.s, '\n', file.n);
        size_t n = end ? (size_t)(end - file.s) : file.n;
        r.line++;
        rc = take_line(&r, (retrace_text){file.s, n});
        file.s += end ? n + 1 : n;
        file.n -= end ? n + 1 : n;
    }
    return rc;
}

void rt_banlist_free(rt_banlist *list) {
    retrace_free(list->phrases);
    retrace_free(list->lines);
    retrace_free(list->pool);
    *list = (rt_banlist){0};
}
