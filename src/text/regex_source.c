/* regex_source.c - see regex_source.h. One pass over the pattern that knows escapes, classes,
 * \Q...\E and what follows "(?"; it is made twice, because \b is written out only where the pattern
 * looks ahead. Errors of syntax are PCRE2's to find. */
#include "regex_source.h"

#include <string.h>

enum { MOST_DEPTH = 256 };

typedef struct scan {
    const char *s, *end;
    rt_buf *out;
    rt_regex_facts *facts;
    int looks;      /* the pattern is known to look ahead */
    int quantified; /* the last item was a quantifier */
    int lines;      /* (?m) is on: $ is also the end of a line */
    int depth;
    unsigned char outer[MOST_DEPTH]; /* was it on outside the groups that are open? */
    int nomem;
    const char *why;
} scan;

static void put(scan *r, const char *s, size_t n) {
    if (rt_buf_add(r->out, s, n)) r->nomem = 1;
}

static void say(scan *r, const char *s) {
    put(r, s, strlen(s));
}

/* Copies up to `to` and goes on from there. */
static void copy_to(scan *r, const char *to) {
    put(r, r->s, (size_t)(to - r->s));
    r->s = to;
}

static int at(const scan *r, const char *word) {
    size_t n = strlen(word);
    return (size_t)(r->end - r->s) >= n && memcmp(r->s, word, n) == 0;
}

static const char *find(const scan *r, char c) {
    const char *p = memchr(r->s, c, (size_t)(r->end - r->s));
    return p ? p + 1 : r->end;
}

/* ==== Escapes ==== */

/* Characters that are taken as they are. */
static void quote(scan *r) {
    const char *from = r->s + 2, *p = from;
    while (p < r->end && !(p + 1 < r->end && p[0] == '\\' && p[1] == 'E')) p++;
    if (p > from) r->quantified = 0;
    copy_to(r, p < r->end ? p + 2 : p);
}

static const char *refuse_escape(char c) {
    if (c >= '1' && c <= '9') return "back references are not supported";
    switch (c) {
    case 'k': return "back references are not supported";
    case 'g': return "back references and subroutine calls are not supported";
    case 'K': return "\\K is not supported";
    case 'C': return "\\C is not supported";
    case 'G': return "\\G is not supported";
    case 'X': return "\\X is not supported";
    default: return NULL;
    }
}

/* \x{...}, \p{...} and the like with what belongs to them, anything else with one character. */
static void plain_escape(scan *r) {
    const char *to = r->s + 2;
    char c = r->s[1];
    if (strchr("xopPN", c) && to < r->end && *to == '{') {
        r->s += 2;
        say(r, (const char[]){'\\', c, '\0'});
        to = find(r, '}');
    } else if (c == 'c' && to < r->end) {
        to++;
    }
    copy_to(r, to);
}

/* In other words; NULL: as it is. */
static const char *reword(const scan *r, char c) {
    switch (c) {
    case 'b': return r->looks ? "(?:(?<=\\w)(?!\\w)|(?<!\\w)(?=\\w))" : NULL;
    case 'B': return r->looks ? "(?:(?<=\\w)(?=\\w)|(?<!\\w)(?!\\w))" : NULL;
    case 'Z': return "(?:\\z|\\n\\z)";
    case 'R': return "(?:\\r\\n|[\\n\\x0b\\f\\r\\x{85}\\x{2028}\\x{2029}])";
    default: return NULL;
    }
}

static void escape(scan *r) {
    if (r->s + 1 == r->end) {
        copy_to(r, r->end);
        return;
    }
    char c = r->s[1];
    if (c == 'Q') {
        quote(r);
        return;
    }
    if (c == 'E') { /* of no quote: nothing */
        copy_to(r, r->s + 2);
        return;
    }
    r->quantified = 0;
    r->why = refuse_escape(c);
    r->facts->start |= c == 'A';
    r->facts->edge |= (c == 'b' || c == 'B') && !r->looks;
    const char *words = reword(r, c);
    if (!words) {
        plain_escape(r);
        return;
    }
    say(r, words);
    r->s += 2;
}

/* ==== Classes and groups ==== */

/* [:name:] inside a class: its end, or NULL. */
static const char *posix_name(const scan *r) {
    if (!at(r, "[:") && !at(r, "[.") && !at(r, "[=")) return NULL;
    char kind = r->s[1];
    for (const char *p = r->s + 2; p + 1 < r->end && *p != ']'; p++)
        if (p[0] == kind && p[1] == ']') return p + 2;
    return NULL;
}

static void in_class(scan *r) {
    r->quantified = 0;
    copy_to(r, r->s + 1);
    if (at(r, "^")) copy_to(r, r->s + 1);
    if (at(r, "]")) copy_to(r, r->s + 1);
    while (r->s < r->end && *r->s != ']') {
        const char *name = posix_name(r);
        if (name)
            copy_to(r, name);
        else if (at(r, "\\Q"))
            quote(r);
        else if (*r->s == '\\' && r->s + 1 < r->end)
            plain_escape(r);
        else
            copy_to(r, r->s + 1);
    }
    if (r->s < r->end) copy_to(r, r->s + 1);
}

static const char *flags_end(const scan *r) {
    const char *p = r->s;
    while (p < r->end && *p && strchr("imsnU-^", *p)) p++;
    return p;
}

/* What cannot stand behind "(?". */
static const char *refuse_group(const scan *r) {
    if (at(r, ">")) return "atomic groups are not supported";
    if (at(r, "(")) return "conditions are not supported";
    if (at(r, "*") || at(r, "<*")) return "(?* and (?<* are not supported";
    if (at(r, "C")) return "callouts are not supported";
    if (at(r, "P=")) return "back references are not supported";
    if (at(r, "P>") || at(r, "R") || at(r, "&") || at(r, "+"))
        return "recursion and subroutine calls are not supported";
    if (r->s < r->end && *r->s >= '0' && *r->s <= '9')
        return "recursion and subroutine calls are not supported";
    if (at(r, "-") && r->s + 1 < r->end && r->s[1] >= '0' && r->s[1] <= '9')
        return "recursion and subroutine calls are not supported";
    if (at(r, ":") || at(r, "|") || at(r, "=") || at(r, "!") || at(r, "<") || at(r, "'") ||
        at(r, "P<"))
        return NULL;
    const char *end = flags_end(r);
    if (end < r->end && *end != ')' && *end != ':') return "of flags only i m s n U are supported";
    return NULL;
}

static void open_group(scan *r) {
    if (r->depth < MOST_DEPTH)
        r->outer[r->depth++] = (unsigned char)r->lines;
    else
        r->why = "its groups are nested too deeply";
}

/* Flags for the rest of the group that is open, "(?m)", or for one of their own, "(?m:". */
static void flags(scan *r) {
    const char *end = flags_end(r);
    int on = 1;
    if (end == r->end || *end == ':') open_group(r);
    for (const char *p = r->s; p < end; p++) {
        if (*p == '^') r->lines = 0;
        if (*p == '-') on = 0;
        if (*p == 'm') r->lines = on;
    }
    copy_to(r, end < r->end ? end + 1 : end);
}

static void group(scan *r) {
    if (at(r, "(?#")) { /* a comment is nothing */
        copy_to(r, find(r, ')'));
        return;
    }
    r->quantified = 0;
    if (at(r, "(*")) r->why = "(*...) is not supported";
    if (!at(r, "(?")) {
        open_group(r);
        copy_to(r, r->s + 1);
        return;
    }
    copy_to(r, r->s + 2);
    r->why = refuse_group(r);
    if (at(r, ":") || flags_end(r) > r->s) {
        flags(r);
        return;
    }
    open_group(r);
    if (at(r, "=") || at(r, "!")) r->facts->ahead = 1;
    if (r->s < r->end) copy_to(r, r->s + 1);
    if (at(r, "=") || at(r, "!")) copy_to(r, r->s + 1); /* of a lookbehind */
}

/* ==== The rest ==== */

/* {n,m}; any other brace is a character. */
static void brace(scan *r) {
    const char *p = r->s + 1;
    int number = 0;
    for (; p < r->end && strchr("0123456789, ", *p) && *p; p++) {
        number = *p >= '0' && *p <= '9' && number < 100000 ? number * 10 + (*p - '0') : 0;
        if (number > r->facts->most) r->facts->most = number;
    }
    r->quantified = p < r->end && *p == '}' && p > r->s + 1;
    copy_to(r, r->quantified ? p + 1 : r->s + 1);
}

static void quantifier(scan *r) {
    char c = *r->s;
    if (r->quantified && c == '+') r->why = "possessive quantifiers are not supported";
    r->quantified = !r->quantified; /* a lazy one ends here */
    copy_to(r, r->s + 1);
}

static void item(scan *r) {
    switch (*r->s) {
    case '\\': escape(r); return;
    case '[': in_class(r); return;
    case '(': group(r); return;
    case '{': brace(r); return;
    case '*':
    case '+':
    case '?': quantifier(r); return;
    case '$':
        say(r, r->lines ? "$" : "(?:\\z|\\n\\z)");
        r->s++;
        break;
    case ')':
        if (r->depth > 0) r->lines = r->outer[--r->depth];
        copy_to(r, r->s + 1);
        break;
    default: r->facts->start |= *r->s == '^'; copy_to(r, r->s + 1);
    }
    r->quantified = 0;
}

static int pass(retrace_text pattern, rt_buf *out, rt_regex_facts *facts, int looks,
                const char **why) {
    scan r = {
        .s = pattern.s, .end = pattern.s + pattern.n, .out = out, .facts = facts, .looks = looks};
    out->n = 0;
    *facts = (rt_regex_facts){0};
    while (r.s < r.end && !r.why && !r.nomem) item(&r);
    *why = r.why;
    return r.nomem ? RETRACE_ENOMEM : RETRACE_OK;
}

int rt_regex_read(retrace_text pattern, rt_buf *out, rt_regex_facts *facts, const char **why) {
    int rc = pass(pattern, out, facts, 0, why);
    if (rc || *why || !facts->ahead || !facts->edge) return rc;
    return pass(pattern, out, facts, 1, why);
}
