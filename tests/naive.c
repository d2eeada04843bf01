/* naive.c - see naive.h. */
#include "naive.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

enum { BAD = -1 };

/* A character of the decomposed text, then a unit of the folded one. */
typedef struct item {
    int cp, order;
    int word, white, extends;
    int more; /* white space that stands for a longer run */
    long from, to;
} item;

typedef struct items {
    item *v;
    int n, cap;
} items;

struct naive {
    naive_rules rules;
    items *phrases;
    int n;
    items characters, apart, folded, units; /* room that is used again and again */
};

static void push(items *list, item it) {
    if (list->n == list->cap) {
        list->cap = list->cap ? 2 * list->cap : 16;
        list->v = realloc(list->v, (size_t)list->cap * sizeof *list->v);
        assert(list->v && list->cap <= NAIVE_MAX);
    }
    list->v[list->n++] = it;
}

/* ==== Characters ==== */

static int starts_character(const unsigned char *s, long n) {
    static const unsigned char some[] = {0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF};
    unsigned char longer[8];
    utf8proc_int32_t cp;
    if (n > 3) return 0;
    memcpy(longer, s, (size_t)n);
    for (size_t i = 0; i < sizeof some; i++) {
        longer[n] = some[i];
        if (utf8proc_iterate(longer, n + 1, &cp) == n + 1 || starts_character(longer, n + 1))
            return 1;
    }
    return 0;
}

/* An incomplete character at the end is left out: it decides nothing yet, and if the text ends with
 * it, its bytes are bad ones, which decide what the end decides. */
static void take_apart(naive_bytes text, items *out) {
    const unsigned char *s = (const unsigned char *)text.s;
    long n = (long)text.n;
    for (long i = 0; i < n;) {
        utf8proc_int32_t cp;
        long len = (long)utf8proc_iterate(s + i, n - i, &cp);
        if (len < 1) {
            if (starts_character(s + i, n - i)) return;
            cp = BAD;
            len = 1;
        }
        push(out, (item){.cp = cp, .from = i, .to = i + len});
        i += len;
    }
}

/* ==== Units ==== */

static int category(int cp) {
    return cp == BAD ? 'X' : utf8proc_category_string(cp)[0];
}

static void spell(items *out, item it, int options) {
    utf8proc_int32_t parts[32];
    int last = 0;
    long n = it.cp == BAD ? 0
                          : (long)utf8proc_decompose_char(it.cp, parts, 32,
                                                          (utf8proc_option_t)options, &last);
    if (n <= 0) push(out, it);
    for (long i = 0; i < n; i++) {
        it.cp = parts[i];
        push(out, it);
    }
}

static void decompose(const items *in, items *out) {
    for (int i = 0; i < in->n; i++) {
        int at = out->n;
        spell(out, in->v[i], UTF8PROC_DECOMPOSE);
        for (; at < out->n; at++) {
            item *it = &out->v[at];
            if (it->cp == BAD) continue;
            it->order = utf8proc_get_property(it->cp)->combining_class;
            int selector =
                (it->cp >= 0xFE00 && it->cp <= 0xFE0F) || (it->cp >= 0xE0100 && it->cp <= 0xE01EF);
            int jamo =
                (it->cp >= 0x1160 && it->cp <= 0x11FF) || (it->cp >= 0xD7B0 && it->cp <= 0xD7FF);
            it->extends = jamo || (category(it->cp) == 'M' && !selector);
        }
    }
    for (int pass = 0; pass < out->n; pass++) {
        for (int i = 1; i < out->n; i++) {
            if (!out->v[i].order || out->v[i - 1].order <= out->v[i].order) continue;
            item swap = out->v[i];
            out->v[i] = out->v[i - 1];
            out->v[i - 1] = swap;
        }
    }
}

static int among(int cp, const char *set) {
    const unsigned char *s = (const unsigned char *)set;
    utf8proc_int32_t x;
    for (long len; *s; s += len) {
        len = (long)utf8proc_iterate(s, -1, &x);
        if (x == cp) return 1;
    }
    return 0;
}

static void dress(const naive_rules *r, item *it) {
    if (r->quotes && among(it->cp, "‘’‚‛′‵ʹʼ＇")) it->cp = '\'';
    if (r->quotes && among(it->cp, "“”„‟″‶ʺ〝〞〟＂")) it->cp = '"';
    if (r->space &&
        among(it->cp, "\t\n\v\f\r \xC2\x85\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005"
                      "\u2006\u2007\u2008\u2009\u200A\u2028\u2029\u202F\u205F\u3000")) {
        it->cp = ' ';
        it->white = 1;
    }
    int c = category(it->cp);
    it->word = c == 'L' || c == 'M' || c == 'N';
}

/* The units of a text, in v->units. */
static void find_units(naive *v, naive_bytes text) {
    items *out = &v->units;
    v->characters.n = v->apart.n = v->folded.n = out->n = 0;
    take_apart(text, &v->characters);
    if (v->rules.nfc) decompose(&v->characters, &v->apart);
    const items *in = v->rules.nfc ? &v->apart : &v->characters;
    for (int i = 0; i < in->n; i++) {
        int at = v->folded.n;
        spell(&v->folded, in->v[i], v->rules.fold ? UTF8PROC_CASEFOLD : 0);
        for (int k = at + 1; k < v->folded.n; k++)
            v->folded.v[k].extends = v->folded.v[k].order = 0;
    }
    for (int i = 0; i < v->folded.n; i++) {
        dress(&v->rules, &v->folded.v[i]);
        item *last = out->n ? &out->v[out->n - 1] : NULL;
        if (v->folded.v[i].white && last && last->white)
            last->more = 1;
        else
            push(out, v->folded.v[i]);
    }
}

naive *naive_new(naive_rules rules, const naive_bytes *phrases, int n) {
    naive *v = calloc(1, sizeof *v);
    assert(v);
    v->rules = rules;
    v->n = n;
    v->phrases = calloc((size_t)n + 1, sizeof *v->phrases);
    assert(v->phrases);
    for (int i = 0; i < n; i++) {
        find_units(v, phrases[i]);
        v->phrases[i] = v->units;
        v->units = (items){0};
    }
    return v;
}

void naive_free(naive *v) {
    for (int i = 0; i < v->n; i++) free(v->phrases[i].v);
    free(v->phrases);
    free(v->characters.v);
    free(v->apart.v);
    free(v->folded.v);
    free(v->units.v);
    free(v);
}

/* ==== Search ==== */

/* 1: a hit; 0: none; -1: it depends on what follows. */
static int hits_at(const naive_rules *r, const items *text, const items *phrase, int at) {
    int last = at + phrase->n - 1;
    if (last >= text->n) return 0;
    for (int i = 0; i < phrase->n; i++) {
        if (text->v[at + i].cp != phrase->v[i].cp) return 0;
    }
    if (text->v[at].extends) return 0;
    if (r->edge_left && phrase->v[0].word && at > 0 && text->v[at - 1].word) return 0;
    int edge = r->edge_right && phrase->v[phrase->n - 1].word;
    if (text->v[last].more) return 1; /* the space after a space is not part of it */
    const item *next = last + 1 < text->n ? &text->v[last + 1] : NULL;
    if (next) return !(r->nfc && next->extends) && !(edge && next->word);
    return r->nfc || edge ? -1 : 1;
}

static int same(const items *a, const items *b) {
    if (a->n != b->n) return 0;
    for (int i = 0; i < a->n; i++) {
        if (a->v[i].cp != b->v[i].cp) return 0;
    }
    return 1;
}

static int order(const void *x, const void *y) {
    const naive_hit *a = x, *b = y;
    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    if (a->end != b->end) return a->end < b->end ? -1 : 1;
    return (a->phrase > b->phrase) - (a->phrase < b->phrase);
}

static int find_one(const naive_rules *r, const items *text, const items *phrase, int which,
                    long zero, int wanted, naive_hit *out, int n) {
    for (int at = 0; at < text->n; at++) {
        if (hits_at(r, text, phrase, at) != wanted) continue;
        long end = 0;
        for (int i = 0; i < phrase->n; i++) {
            if (text->v[at + i].to > end) end = text->v[at + i].to;
        }
        if (end <= zero) continue;
        assert(n < NAIVE_MAX);
        out[n++] = (naive_hit){which, text->v[at].from - zero, end - zero};
    }
    return n;
}

int naive_find(naive *v, naive_bytes text, long zero, int ended, naive_hit out[NAIVE_MAX]) {
    find_units(v, text);
    int n = 0;
    for (int p = 0; p < v->n; p++) {
        int repeated = 0;
        for (int q = 0; q < p; q++) repeated |= same(&v->phrases[q], &v->phrases[p]);
        if (!repeated)
            n = find_one(&v->rules, &v->units, &v->phrases[p], p, zero, ended ? -1 : 1, out, n);
    }
    qsort(out, (size_t)n, sizeof *out, order);
    return n;
}

/* ==== For inventing continuations ==== */

size_t naive_spelt(const naive *v, int p, char *out, size_t *ends, int *n_units) {
    size_t n = 0;
    *n_units = v->phrases[p].n;
    for (int i = 0; i < *n_units; i++) {
        n += (size_t)utf8proc_encode_char(v->phrases[p].v[i].cp, (utf8proc_uint8_t *)out + n);
        ends[i] = n;
    }
    return n;
}

int naive_matters(naive *v, int cp) {
    char s[4];
    size_t n = (size_t)utf8proc_encode_char(cp, (utf8proc_uint8_t *)s);
    find_units(v, (naive_bytes){s, n});
    for (int p = 0; p < v->n; p++) {
        for (int i = 0; i < v->phrases[p].n; i++) {
            for (int k = 0; k < v->units.n; k++) {
                if (v->units.v[k].cp == v->phrases[p].v[i].cp) return 1;
            }
        }
    }
    return 0;
}
