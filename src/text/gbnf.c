/* gbnf.c - reads GBNF: one pass of recursive descent that gives productions to the builder.
 *
 * A name is a symbol from its first mention on; whether it is defined is seen at the end. Each
 * factor leaves elements on the builder's stack, and what follows it (* + ? {}) takes them back. */
#include "gbnf.h"
#include "base.h"
#include "utf8.h"

#include <stdio.h>
#include <string.h>

typedef struct name {
    size_t at, n; /* in the text, where it is mentioned first */
    int32_t symbol;
    int defined, next; /* next: of the same hash; -1: none */
} name;

enum { BUCKETS = 1024 };

typedef struct parser {
    const char *s;
    size_t n, at;
    const char *what;
    rt_builder b;
    name *names;
    int n_names, cap_names, depth;
    int buckets[BUCKETS];
    rt_span *spans; /* of the class that is being read */
    int cap_spans;
    retrace_error *err;
} parser;

/* ==== Failures ==== */

/* "what: line 3, column 7: message" */
static void complain(parser *p, size_t at, const char *message, retrace_text thing) {
    unsigned long line = 1, column = 1;
    if (p->b.rc) return;
    for (size_t i = 0; i < at && i < p->n; i++) {
        column += (p->s[i] & 0xc0) != 0x80;
        if (p->s[i] == '\n') line++, column = 1;
    }
    size_t shown = rt_utf8_cut(thing.s, thing.n, 60);
    p->b.rc =
        retrace_fail(p->err, RETRACE_EUSAGE, "%s: line %lu, column %lu: %s%s%.*s%s", p->what, line,
                     column, message, thing.n ? " '" : "", (int)shown, thing.s, thing.n ? "'" : "");
}

static const retrace_text nothing = {"", 0};

static void complain_here(parser *p, const char *message) {
    complain(p, p->at, message, nothing);
}

static int peek(const parser *p) {
    return p->at < p->n ? (unsigned char)p->s[p->at] : -1;
}

static int failed(const parser *p) {
    return p->b.rc != RETRACE_OK;
}

/* What was found instead of `wanted`. */
static void complain_found(parser *p, const char *wanted) {
    char message[120];
    uint32_t cp;
    size_t n = 0;
    if (p->at < p->n) n = (size_t)rt_utf8_decode(p->s + p->at, p->n - p->at, &cp);
    int c = peek(p);
    const char *instead = c < 0 ? "the end" : c == '\n' || c == '\r' ? "the end of the line" : "";
    if (c >= 0 && c < ' ' && !*instead) instead = "a control character";
    snprintf(message, sizeof message, "expected %s, found%s%s", wanted, *instead ? " " : "",
             instead);
    complain(p, p->at, message, *instead ? nothing : (retrace_text){p->s + p->at, n});
}

/* ==== Blanks and names ==== */

/* Skips blanks and comments, and with `lines` ends of lines. */
static void skip(parser *p, int lines) {
    for (;; p->at++) {
        int c = peek(p);
        if (c == '#')
            while (p->at + 1 < p->n && p->s[p->at + 1] != '\n') p->at++;
        else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r')))
            return;
    }
}

static int is_name_char(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static retrace_text read_word(parser *p) {
    size_t from = p->at;
    while (is_name_char(peek(p))) p->at++;
    return (retrace_text){p->s + from, p->at - from};
}

static int find_name(const parser *p, retrace_text t, unsigned *bucket) {
    *bucket = (unsigned)(rt_digest(1, t.s, t.n) % BUCKETS);
    for (int i = p->buckets[*bucket]; i >= 0; i = p->names[i].next) {
        const name *k = &p->names[i];
        if (k->n == t.n && memcmp(p->s + k->at, t.s, t.n) == 0) return i;
    }
    return -1;
}

/* The entry of a name in the text, made when it is new; -1 after a failure. */
static int entry(parser *p, retrace_text t) {
    unsigned bucket;
    int i = find_name(p, t, &bucket);
    if (i >= 0 || failed(p)) return failed(p) ? -1 : i;
    if (rt_grow(&p->names, &p->cap_names, p->n_names + 1, sizeof *p->names)) {
        p->b.rc = rt_nomem(p->err);
        return -1;
    }
    p->names[p->n_names] =
        (name){(size_t)(t.s - p->s), t.n, rt_builder_symbol(&p->b), 0, p->buckets[bucket]};
    return p->buckets[bucket] = p->n_names++;
}

/* ==== Characters ==== */

static int hex_value(int c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static uint32_t read_hex(parser *p, int digits) {
    uint32_t value = 0;
    size_t from = p->at;
    for (int i = 0; i < digits; i++, p->at++) {
        int d = hex_value(peek(p));
        if (d < 0) {
            complain_found(p, "a hexadecimal digit");
            return 0;
        }
        value = value * 16 + (uint32_t)d;
    }
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        complain(p, from,
                 "no character has this number:", (retrace_text){p->s + from, (size_t)digits});
    return value;
}

/* One character of a text or a class, escapes resolved. */
static uint32_t read_char(parser *p) {
    static const char plain[] = "n\nr\rt\t\"\"\\\\[[]]^^--";
    uint32_t cp;
    if (peek(p) < 0 || peek(p) == '\n') {
        complain_found(p, "a character");
        return 0;
    }
    int n = rt_utf8_decode(p->s + p->at, p->n - p->at, &cp);
    p->at += (size_t)n;
    if (cp != '\\') return cp;
    int c = peek(p);
    for (int i = 0; plain[i]; i += 2) {
        if (c != plain[i]) continue;
        p->at++;
        return (unsigned char)plain[i + 1];
    }
    if (c != 'x' && c != 'u' && c != 'U') {
        complain_found(p, "one of n r t \" \\ [ ] ^ - x u U after \\");
        return 0;
    }
    p->at++;
    return read_hex(p, c == 'x' ? 2 : c == 'u' ? 4 : 8);
}

static void read_literal(parser *p) {
    p->at++;
    while (peek(p) != '"' && !failed(p)) {
        uint32_t cp = read_char(p);
        if (!failed(p)) rt_builder_push_char(&p->b, cp);
    }
    p->at++;
}

static void read_class(parser *p) {
    size_t from = p->at++;
    int n = 0, negated = peek(p) == '^';
    p->at += (size_t)negated;
    while (peek(p) != ']' && !failed(p)) {
        rt_span span = {0};
        size_t at = p->at;
        span.first = span.last = read_char(p);
        if (peek(p) == '-' && p->at + 1 < p->n && p->s[p->at + 1] != ']') {
            p->at++;
            span.last = read_char(p);
        }
        if (span.first > span.last) complain(p, at, "a range runs backwards", nothing);
        if (!failed(p) && rt_grow(&p->spans, &p->cap_spans, n + 1, sizeof *p->spans))
            p->b.rc = rt_nomem(p->err);
        if (!failed(p)) p->spans[n++] = span;
    }
    p->at++;
    if (!failed(p) && !rt_builder_push_class(&p->b, p->spans, n, negated))
        complain(p, from, "no character fits the class", (retrace_text){p->s + from, p->at - from});
}

/* ==== Repetition ==== */

/* Digits; -1 when there are none. */
static int read_count(parser *p) {
    int value = -1;
    size_t from = p->at;
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++) {
        value = (value < 0 ? 0 : value * 10) + peek(p) - '0';
        if (value <= RT_GBNF_MAX_REPEAT) continue;
        complain(p, from, "more than 10000 repetitions", nothing);
        return -1;
    }
    return value;
}

static void read_bounds(parser *p, int *min, int *max) {
    size_t from = p->at++;
    skip(p, 0);
    *min = *max = read_count(p);
    skip(p, 0);
    if (peek(p) == ',') {
        p->at++;
        skip(p, 0);
        *max = read_count(p);
        skip(p, 0);
    } else if (*min < 0) {
        complain_found(p, "a number");
    }
    if (peek(p) != '}') complain_found(p, "}");
    if (*min < 0) *min = 0;
    if (*max >= 0 && *max < *min) complain(p, from, "the upper bound is below the lower", nothing);
    p->at++;
}

/* * + ? {} after the elements from mark on. 0: there is none. */
static int read_repetition(parser *p, int mark) {
    int min = 0, max = -1, c = peek(p);
    if (c == '{') {
        read_bounds(p, &min, &max);
    } else if (c == '*' || c == '+' || c == '?') {
        min = c == '+';
        max = c == '?' ? 1 : -1;
        p->at++;
    } else {
        return 0;
    }
    if (!failed(p)) rt_builder_repeat(&p->b, mark, min, max);
    return 1;
}

/* ==== Rules ==== */

static void read_alternatives(parser *p, int32_t symbol, int nested);

static void read_group(parser *p) {
    size_t from = p->at++;
    int32_t symbol = rt_builder_symbol(&p->b);
    if (++p->depth > RT_GBNF_MAX_DEPTH) complain(p, from, "too many parentheses", nothing);
    if (!failed(p)) read_alternatives(p, symbol, 1);
    if (!failed(p) && peek(p) != ')') {
        if (peek(p) < 0)
            complain(p, from, "this parenthesis is not closed", nothing);
        else
            complain_found(p, ")");
    }
    p->at++;
    p->depth--;
    rt_builder_push(&p->b, symbol);
}

/* Is a rule defined here: a name with ::= behind it? */
static int at_definition(parser *p) {
    size_t from = p->at;
    read_word(p);
    skip(p, 0);
    int is = p->n - p->at >= 3 && memcmp(p->s + p->at, "::=", 3) == 0;
    p->at = from;
    return is;
}

/* 0: here begins no factor. */
static int read_factor(parser *p) {
    static rt_span all[] = {{0, 0x10ffff}};
    int c = peek(p);
    if (c == '"') {
        read_literal(p);
    } else if (c == '[') {
        read_class(p);
    } else if (c == '.') {
        p->at++;
        rt_span any = all[0];
        rt_builder_push_class(&p->b, &any, 1, 0);
    } else if (c == '(') {
        read_group(p);
    } else if (is_name_char(c)) {
        size_t at = p->at;
        if (at_definition(p)) complain(p, at, "a rule begins within another one:", read_word(p));
        int i = entry(p, read_word(p));
        if (i >= 0) rt_builder_push(&p->b, p->names[i].symbol);
    } else {
        if (c == '<' || c == '!') complain_here(p, "tokens in a grammar are not supported");
        return 0;
    }
    return 1;
}

static void read_sequence(parser *p, int nested) {
    for (;;) {
        int mark = p->b.n_stack;
        skip(p, nested);
        if (failed(p) || !read_factor(p)) return;
        do skip(p, nested);
        while (!failed(p) && read_repetition(p, mark));
    }
}

/* At the end of a line of a rule: goes to the | that begins a further one. */
static void find_bar(parser *p) {
    size_t from = p->at;
    skip(p, 1);
    if (peek(p) != '|') p->at = from;
}

static void read_alternatives(parser *p, int32_t symbol, int nested) {
    for (;;) {
        int mark = p->b.n_stack;
        skip(p, 1);
        if (!nested && at_definition(p)) complain_found(p, "what the rule stands for");
        read_sequence(p, nested);
        if (failed(p)) return;
        rt_builder_emit(&p->b, symbol, mark);
        find_bar(p);
        if (peek(p) != '|') return;
        p->at++;
    }
}

static void read_rule(parser *p) {
    size_t from = p->at;
    retrace_text word = read_word(p);
    if (word.n == 0) {
        complain_found(p, "the name of a rule");
        return;
    }
    int i = entry(p, word);
    if (i >= 0 && p->names[i].defined) complain(p, from, "there is already a rule", word);
    skip(p, 0);
    if (p->n - p->at < 3 || memcmp(p->s + p->at, "::=", 3) != 0) complain_found(p, "::=");
    if (failed(p)) return;
    p->at += 3;
    p->names[i].defined = 1;
    read_alternatives(p, p->names[i].symbol, 0);
    if (!failed(p) && peek(p) >= 0 && peek(p) != '\n' && peek(p) != '\r')
        complain_found(p, "the end of the rule");
}

/* ==== All of it ==== */

static int32_t find_root(parser *p, retrace_text root) {
    unsigned bucket;
    int i = find_name(p, root, &bucket);
    if (!failed(p) && (i < 0 || !p->names[i].defined))
        p->b.rc = retrace_fail(p->err, RETRACE_EUSAGE, "%s: there is no rule '%.*s'", p->what,
                               (int)rt_utf8_cut(root.s, root.n, 60), root.s);
    return i < 0 ? 0 : p->names[i].symbol;
}

static void check_defined(parser *p) {
    for (int i = 0; i < p->n_names; i++) {
        const name *k = &p->names[i];
        if (!k->defined)
            complain(p, k->at, "no rule is called", (retrace_text){p->s + k->at, k->n});
    }
}

static void check_productive(parser *p, const rt_grammar *g) {
    for (int i = 0; i < p->n_names; i++) {
        const name *k = &p->names[i];
        if (!g->productive[k->symbol])
            complain(p, k->at, "this rule needs itself and can never be finished:",
                     (retrace_text){p->s + k->at, k->n});
    }
}

static void parse(parser *p, retrace_text root, rt_grammar **out) {
    size_t bad = rt_utf8_check(p->s, p->n);
    if (p->n > RT_GBNF_MAX_TEXT)
        p->b.rc = retrace_fail(p->err, RETRACE_EUSAGE, "%s has more than %d bytes", p->what,
                               RT_GBNF_MAX_TEXT);
    else if (bad < p->n)
        complain(p, bad, "this is not valid UTF-8", nothing);
    if (p->n >= 3 && memcmp(p->s, "\xef\xbb\xbf", 3) == 0) p->at = 3;
    for (skip(p, 1); !failed(p) && peek(p) >= 0; skip(p, 1)) read_rule(p);
    if (!failed(p)) check_defined(p);
    int32_t symbol = find_root(p, root);
    rt_grammar *g = NULL;
    if (failed(p) || rt_builder_finish(&p->b, symbol, &g)) return;
    check_productive(p, g);
    if (failed(p))
        rt_grammar_free(g);
    else
        *out = g;
}

int rt_gbnf_parse(rt_grammar **out, retrace_text text, retrace_text root, const char *what,
                  retrace_error *err) {
    parser *p = retrace_calloc(1, sizeof *p);
    if (!p) return rt_nomem(err);
    p->s = text.s;
    p->n = text.n;
    p->what = what;
    p->err = err;
    for (int i = 0; i < BUCKETS; i++) p->buckets[i] = -1;
    rt_builder_init(&p->b, what, err);
    if (p->b.rc == RETRACE_OK) parse(p, root, out);
    int rc = p->b.rc;
    rt_builder_free(&p->b);
    retrace_free(p->names);
    retrace_free(p->spans);
    retrace_free(p);
    return rc;
}
