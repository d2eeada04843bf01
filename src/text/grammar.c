/* grammar.c - grammars over bytes: sets, characters as bytes, repetition, and what follows from the
 * productions.
 *
 * Repetition without a bound recurs on the left and repetition with one on the right, in which form
 * both cost the matcher (earley.c) the same for every further character. */
#include "grammar.h"
#include "base.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2 * RT_GRAMMAR_MAX_SETS, LAST_CHAR = 0x10ffff };

void rt_grammar_free(rt_grammar *g) {
    if (!g) return;
    retrace_free(g->body);
    retrace_free(g->starts);
    retrace_free(g->first);
    retrace_free(g->nullable);
    retrace_free(g->productive);
    retrace_free(g->sets);
    retrace_free(g);
}

/* ==== The builder ==== */

void rt_builder_init(rt_builder *b, const char *what, retrace_error *err) {
    *b = (rt_builder){.what = what, .err = err};
    b->slots = retrace_calloc(SLOTS, sizeof *b->slots);
    if (!b->slots) b->rc = rt_nomem(err);
}

void rt_builder_free(rt_builder *b) {
    retrace_free(b->stack);
    retrace_free(b->body);
    retrace_free(b->productions);
    retrace_free(b->sets);
    retrace_free(b->slots);
    *b = (rt_builder){0};
}

static int grow(rt_builder *b, void *p, int *cap, int need, size_t size) {
    if (b->rc) return 0;
    if (need > RT_GRAMMAR_MAX_BODY)
        b->rc = retrace_fail(b->err, RETRACE_EUSAGE, "%s: more than %d elements", b->what,
                             RT_GRAMMAR_MAX_BODY);
    else if (rt_grow(p, cap, need, size))
        b->rc = rt_nomem(b->err);
    return b->rc == RETRACE_OK;
}

int32_t rt_builder_symbol(rt_builder *b) {
    return b->n_symbols++;
}

void rt_builder_push(rt_builder *b, int32_t element) {
    if (grow(b, &b->stack, &b->cap_stack, b->n_stack + 1, sizeof *b->stack))
        b->stack[b->n_stack++] = element;
}

void rt_builder_emit(rt_builder *b, int32_t symbol, int mark) {
    int n = b->n_stack - mark;
    if (!grow(b, &b->body, &b->cap_body, b->n_body + n + 1, sizeof *b->body)) return;
    if (!grow(b, &b->productions, &b->cap_productions, b->n_productions + 1,
              sizeof *b->productions))
        return;
    b->productions[b->n_productions++] = (rt_production){symbol, b->n_body};
    if (n) memcpy(b->body + b->n_body, b->stack + mark, (size_t)n * sizeof *b->body);
    b->n_body += n;
    b->body[b->n_body++] = RT_GRAMMAR_END;
    b->n_stack = mark;
}

/* The set's number; equal sets have the same. */
static int set_number(rt_builder *b, const rt_byteset *s) {
    if (b->rc) return 0;
    uint64_t h = rt_digest(1, (const char *)s->bits, sizeof s->bits);
    int32_t *slot;
    for (;; h++) {
        slot = &b->slots[h % SLOTS];
        if (!*slot) break;
        if (memcmp(&b->sets[*slot - 1], s, sizeof *s) == 0) return *slot - 1;
    }
    if (b->n_sets == RT_GRAMMAR_MAX_SETS)
        b->rc =
            retrace_fail(b->err, RETRACE_EUSAGE, "%s: more than %d different sets of characters",
                         b->what, RT_GRAMMAR_MAX_SETS);
    if (!grow(b, &b->sets, &b->cap_sets, b->n_sets + 1, sizeof *b->sets)) return 0;
    b->sets[b->n_sets++] = *s;
    *slot = b->n_sets;
    return b->n_sets - 1;
}

static void add_bytes(rt_byteset *s, unsigned first, unsigned last) {
    for (unsigned c = first; c <= last; c++) s->bits[c >> 6] |= (uint64_t)1 << (c & 63);
}

static void push_range(rt_builder *b, unsigned char first, unsigned char last) {
    rt_byteset s = {{0}};
    add_bytes(&s, first, last);
    rt_builder_push(b, rt_grammar_set(set_number(b, &s)));
}

void rt_builder_push_byte(rt_builder *b, unsigned char byte) {
    push_range(b, byte, byte);
}

void rt_builder_push_char(rt_builder *b, uint32_t cp) {
    char bytes[RT_UTF8_MAX];
    int n = rt_utf8_encode(cp, bytes);
    for (int i = 0; i < n; i++) rt_builder_push_byte(b, (unsigned char)bytes[i]);
}

/* ==== Classes of characters ==== */

static int by_first(const void *a, const void *b) {
    uint32_t x = ((const rt_span *)a)->first, y = ((const rt_span *)b)->first;
    return (x > y) - (x < y);
}

/* Sorted and joined, in place; returns how many there are. */
static int join(rt_span *spans, int n) {
    int kept = 0;
    if (n) qsort(spans, (size_t)n, sizeof *spans, by_first);
    for (int i = 0; i < n; i++) {
        if (kept && spans[i].first <= spans[kept - 1].last + 1) {
            if (spans[i].last > spans[kept - 1].last) spans[kept - 1].last = spans[i].last;
        } else {
            spans[kept++] = spans[i];
        }
    }
    return kept;
}

/* symbol ::= the characters first..last, of more than one byte, as sequences of byte ranges: split
 * until all that begins with the same bytes ends in full ranges. */
static void emit_span(rt_builder *b, int32_t symbol, uint32_t first, uint32_t last) {
    static const uint32_t longest[] = {0x7f, 0x7ff, 0xffff};
    for (int i = 0; i < 3; i++) {
        if (first > longest[i] || last <= longest[i]) continue;
        emit_span(b, symbol, first, longest[i]);
        emit_span(b, symbol, longest[i] + 1, last);
        return;
    }
    for (int bits = 6; bits <= 18 && first > 0x7f; bits += 6) {
        uint32_t low = ((uint32_t)1 << bits) - 1;
        if ((first & ~low) == (last & ~low)) continue;
        uint32_t cut = first & low ? (first | low) + 1 : (last & low) != low ? last & ~low : 0;
        if (!cut) continue;
        emit_span(b, symbol, first, cut - 1);
        emit_span(b, symbol, cut, last);
        return;
    }
    char from[RT_UTF8_MAX], to[RT_UTF8_MAX];
    int n = rt_utf8_encode(first, from), mark = b->n_stack;
    rt_utf8_encode(last, to);
    for (int i = 0; i < n; i++) push_range(b, (unsigned char)from[i], (unsigned char)to[i]);
    rt_builder_emit(b, symbol, mark);
}

/* The characters of a class: those of one byte in a set, the others as productions of a symbol that
 * is made when it is needed. */
typedef struct class_parts {
    rt_byteset ascii;
    int any_ascii;
    int32_t symbol; /* -1: no others */
} class_parts;

static void add_span(rt_builder *b, class_parts *c, uint32_t first, uint32_t last) {
    if (first > last) return;
    if (first <= 0x7f) {
        add_bytes(&c->ascii, first, last < 0x7f ? last : 0x7f);
        c->any_ascii = 1;
        first = 0x80;
    }
    if (first > last) return;
    if (c->symbol < 0) c->symbol = rt_builder_symbol(b);
    /* No character has a number of the surrogates. */
    if (first < 0xd800) emit_span(b, c->symbol, first, last < 0xd800 ? last : 0xd7ff);
    if (last > 0xdfff) emit_span(b, c->symbol, first > 0xdfff ? first : 0xe000, last);
}

int rt_builder_push_class(rt_builder *b, rt_span *spans, int n, int negated) {
    class_parts c = {.symbol = -1};
    uint32_t next = 0;
    n = join(spans, n);
    for (int i = 0; i < n; i++) {
        if (!negated)
            add_span(b, &c, spans[i].first, spans[i].last);
        else if (spans[i].first > 0)
            add_span(b, &c, next, spans[i].first - 1);
        next = spans[i].last + 1;
    }
    if (negated) add_span(b, &c, next, LAST_CHAR);
    if (!c.any_ascii && c.symbol < 0) return 0;
    int mark = b->n_stack;
    if (c.any_ascii) rt_builder_push(b, rt_grammar_set(set_number(b, &c.ascii)));
    if (c.symbol >= 0) {
        if (c.any_ascii) rt_builder_emit(b, c.symbol, mark);
        rt_builder_push(b, c.symbol);
    }
    return 1;
}

/* ==== Repetition ==== */

/* symbol ::= a b, or less of that. */
static void emit2(rt_builder *b, int32_t symbol, int n, int32_t first, int32_t second) {
    int mark = b->n_stack;
    if (n > 0) rt_builder_push(b, first);
    if (n > 1) rt_builder_push(b, second);
    rt_builder_emit(b, symbol, mark);
}

/* Up to n of x: t ::= | x t' */
static int32_t up_to(rt_builder *b, int32_t x, int n) {
    int32_t inner = -1;
    for (int i = 0; i < n && !b->rc; i++) {
        int32_t t = rt_builder_symbol(b);
        emit2(b, t, 0, 0, 0);
        emit2(b, t, i == 0 ? 1 : 2, x, inner);
        inner = t;
    }
    return inner;
}

/* min (0 or 1) or more of x: t ::= | t x */
static int32_t any_from(rt_builder *b, int32_t x, int min) {
    int32_t t = rt_builder_symbol(b);
    emit2(b, t, min, x, 0);
    emit2(b, t, 2, t, x);
    return t;
}

void rt_builder_repeat(rt_builder *b, int mark, int min, int max) {
    if (b->rc) return;
    int32_t x = b->n_stack == mark + 1 ? b->stack[mark] : rt_builder_symbol(b);
    if (b->n_stack == mark + 1)
        b->n_stack = mark;
    else
        rt_builder_emit(b, x, mark);
    int fixed = max < 0 && min > 0 ? min - 1 : min;
    for (int i = 0; i < fixed && !b->rc; i++) rt_builder_push(b, x);
    if (max < 0)
        rt_builder_push(b, any_from(b, x, min > 0));
    else if (max > min)
        rt_builder_push(b, up_to(b, x, max - min));
}

/* ==== What follows from the productions ==== */

/* Sorts the productions by symbol. */
static int arrange(const rt_builder *b, rt_grammar *g) {
    int32_t *fill = retrace_calloc((size_t)g->n_symbols + 1, sizeof *fill);
    if (!fill) return RETRACE_ENOMEM;
    for (int i = 0; i < g->n_productions; i++) g->first[b->productions[i].symbol + 1]++;
    for (int s = 0; s < g->n_symbols; s++) g->first[s + 1] += g->first[s];
    for (int i = 0; i < g->n_productions; i++) {
        int32_t s = b->productions[i].symbol;
        g->starts[g->first[s] + fill[s]++] = b->productions[i].at;
    }
    retrace_free(fill);
    return RETRACE_OK;
}

/* Where each symbol is used: the productions uses[at[s]] .. uses[at[s + 1] - 1]. */
typedef struct usage {
    int32_t *at, *uses, *left, *queue;
    int n_queue;
} usage;

static int usage_new(usage *u, const rt_builder *b, const rt_grammar *g) {
    u->at = retrace_calloc((size_t)g->n_symbols + 2, sizeof *u->at);
    u->uses = retrace_calloc((size_t)g->n_body + 1, sizeof *u->uses);
    u->left = retrace_calloc((size_t)g->n_productions + 1, sizeof *u->left);
    u->queue = retrace_calloc((size_t)g->n_symbols + 1, sizeof *u->queue);
    if (!u->at || !u->uses || !u->left || !u->queue) return RETRACE_ENOMEM;
    for (int i = 0; i < g->n_body; i++)
        if (g->body[i] >= 0) u->at[g->body[i] + 2]++;
    for (int s = 0; s < g->n_symbols; s++) u->at[s + 2] += u->at[s + 1];
    for (int p = 0; p < g->n_productions; p++) {
        const int32_t *e = g->body + b->productions[p].at;
        for (; *e != RT_GRAMMAR_END; e++)
            if (*e >= 0) u->uses[u->at[*e + 1]++] = p;
    }
    return RETRACE_OK;
}

static void usage_free(usage *u) {
    retrace_free(u->at);
    retrace_free(u->uses);
    retrace_free(u->left);
    retrace_free(u->queue);
}

static void settle_symbol(usage *u, unsigned char *is, int32_t symbol) {
    if (is[symbol]) return;
    is[symbol] = 1;
    u->queue[u->n_queue++] = symbol;
}

/* is[s]: some production of s has nothing but symbols that are, and bytes only if `bytes`. */
static void solve(usage *u, const rt_builder *b, const rt_grammar *g, int bytes,
                  unsigned char *is) {
    u->n_queue = 0;
    for (int p = 0; p < g->n_productions; p++) {
        u->left[p] = 0;
        const int32_t *e = g->body + b->productions[p].at;
        for (; *e != RT_GRAMMAR_END; e++) u->left[p] += *e >= 0 || !bytes;
        if (u->left[p] == 0) settle_symbol(u, is, b->productions[p].symbol);
    }
    for (int i = 0; i < u->n_queue; i++) {
        int32_t s = u->queue[i];
        for (int32_t k = u->at[s]; k < u->at[s + 1]; k++)
            if (--u->left[u->uses[k]] == 0) settle_symbol(u, is, b->productions[u->uses[k]].symbol);
    }
}

/* Splits the classes of bytes by every set. */
static void find_classes(rt_grammar *g) {
    g->n_classes = 1;
    for (int k = 0; k < g->n_sets; k++) {
        int inside[256], n = 0;
        unsigned char seen[256] = {0};
        for (int c = 0; c < 256; c++) inside[c] = -1;
        /* A class keeps its number for the first kind of member found. */
        for (int c = 0; c < 256; c++) {
            int old = g->class_of[c], has = rt_byteset_has(&g->sets[k], (unsigned char)c);
            if (!(seen[old] & 4)) seen[old] = (unsigned char)(4 | has);
            if ((seen[old] & 1) == has) continue;
            if (inside[old] < 0) inside[old] = g->n_classes + n++;
            g->class_of[c] = (unsigned char)inside[old];
        }
        g->n_classes += n;
    }
}

static int fill(rt_builder *b, rt_grammar *g) {
    usage u = {0};
    g->nullable = retrace_calloc((size_t)g->n_symbols, 1);
    g->productive = retrace_calloc((size_t)g->n_symbols, 1);
    g->first = retrace_calloc((size_t)g->n_symbols + 1, sizeof *g->first);
    g->starts = retrace_calloc((size_t)g->n_productions + 1, sizeof *g->starts);
    int rc = g->nullable && g->productive && g->first && g->starts ? arrange(b, g) : RETRACE_ENOMEM;
    if (rc == RETRACE_OK) rc = usage_new(&u, b, g);
    if (rc == RETRACE_OK) {
        solve(&u, b, g, 0, g->nullable);
        solve(&u, b, g, 1, g->productive);
        find_classes(g);
    }
    usage_free(&u);
    return rc;
}

int rt_builder_finish(rt_builder *b, int32_t root, rt_grammar **out) {
    int32_t start = rt_builder_symbol(b);
    emit2(b, start, 1, root, 0);
    if (b->rc) return b->rc;
    rt_grammar *g = retrace_calloc(1, sizeof *g);
    if (!g) return b->rc = rt_nomem(b->err);
    g->start = start;
    g->n_symbols = b->n_symbols;
    g->n_productions = b->n_productions;
    g->n_body = b->n_body;
    g->n_sets = b->n_sets;
    g->body = b->body;
    g->sets = b->sets;
    b->body = NULL;
    b->sets = NULL;
    b->n_body = b->cap_body = b->n_sets = b->cap_sets = 0;
    if (fill(b, g)) {
        rt_grammar_free(g);
        return b->rc = rt_nomem(b->err);
    }
    *out = g;
    return RETRACE_OK;
}
