/* lexicon.c - see lexicon.h. Phrases are brought to the form that a text has for the matcher:
 * folded, white space in single units, marks in canonical order; written as UTF-8, they become the
 * automaton's words. */
#include "lexicon.h"
#include "base.h"
#include "utf8.h"

#include <string.h>

/* ==== One phrase to its units ==== */

typedef struct unit_list {
    rt_unit *v;
    int n, cap;
} unit_list;

/* Marks in rising order, equal ones as they came: an insertion sort, for runs are short. */
static void place(unit_list *list, rt_unit u) {
    int i = list->n++;
    for (; u.order && i > 0 && list->v[i - 1].order > u.order; i--) list->v[i] = list->v[i - 1];
    list->v[i] = u;
}

static int fold_phrase(const rt_lexicon *l, retrace_text phrase, unit_list *list,
                       retrace_error *err) {
    list->n = 0;
    for (size_t i = 0; i < phrase.n;) {
        uint32_t cp;
        i += (size_t)rt_utf8_decode(phrase.s + i, phrase.n - i, &cp);
        rt_unit units[RT_FOLD_MAX];
        int n = rt_lexicon_fold(l, cp, units);
        if (rt_grow(&list->v, &list->cap, list->n + n, sizeof *list->v)) return rt_nomem(err);
        for (int k = 0; k < n; k++) {
            int repeats = units[k].flags & RT_UNIT_WHITE && list->n &&
                          list->v[list->n - 1].flags & RT_UNIT_WHITE;
            if (!repeats) place(list, units[k]);
        }
    }
    return RETRACE_OK;
}

/* ==== All of them ==== */

/* What is needed while compiling. */
typedef struct workshop {
    unit_list units;
    rt_buf pool; /* the words' text, one after the other */
    rt_word *words;
    uint8_t *used; /* bit c: a phrase holds the unit c */
} workshop;

static void close_workshop(workshop *w) {
    retrace_free(w->units.v);
    rt_buf_free(&w->pool);
    retrace_free(w->words);
    retrace_free(w->used);
}

static int has(const uint8_t *set, uint32_t cp) {
    return cp < RT_UTF8_BAD && set[cp / 8] >> (cp % 8) & 1;
}

static int add_word(workshop *w, uint32_t id, retrace_error *err) {
    size_t start = w->pool.n;
    for (int i = 0; i < w->units.n; i++) {
        uint32_t cp = w->units.v[i].cp;
        char bytes[RT_UTF8_MAX];
        if (rt_buf_add(&w->pool, bytes, (size_t)rt_utf8_encode(cp, bytes))) return rt_nomem(err);
        w->used[cp / 8] |= (uint8_t)(1u << cp % 8);
    }
    int starts = w->units.v[0].flags & RT_UNIT_WORD;
    int ends = w->units.v[w->units.n - 1].flags & RT_UNIT_WORD;
    w->words[id] = (rt_word){.n = (uint32_t)(w->pool.n - start),
                             .id = id,
                             .flags = (starts ? RT_WORD_STARTS : 0) | (ends ? RT_WORD_ENDS : 0)};
    return RETRACE_OK;
}

static int add_words(workshop *w, const rt_lexicon *l, const retrace_text *phrases, uint32_t n,
                     uint32_t *bad, retrace_error *err) {
    for (uint32_t i = 0; i < n; i++) {
        int rc = fold_phrase(l, phrases[i], &w->units, err);
        if (rc) return rc;
        if (w->units.v[0].flags & RT_UNIT_EXTENDS) {
            *bad = i;
            return retrace_fail(err, RETRACE_EUSAGE, "a phrase begins with a mark");
        }
        rc = add_word(w, i, err);
        if (rc) return rc;
    }
    const char *s = w->pool.s;
    for (uint32_t i = 0; i < n; i++) {
        w->words[i].s = s;
        s += w->words[i].n;
    }
    return RETRACE_OK;
}

/* ==== The characters that matter ==== */

/* Blocks of ideographs, surrogates and private use, and the planes beyond: characters that keep
 * themselves whatever is folded. They are most of Unicode, and looking each up would take as long
 * as compiling thousands of phrases. */
static int is_plain(uint32_t cp) {
    return (cp >= 0x3400 && cp <= 0x9FFF) || (cp >= 0xD800 && cp <= 0xF8FF) ||
           (cp >= 0x17000 && cp <= 0x1AFFF) || (cp >= 0x20000 && cp <= 0x2F7FF) || cp >= 0x30000;
}

static int matters(const rt_lexicon *l, const uint8_t *used, uint32_t cp) {
    if (is_plain(cp) || rt_fold_keeps(l->how, cp)) return has(used, cp);
    rt_unit units[RT_FOLD_MAX];
    int n = rt_fold(l->how, cp, units);
    for (int i = 0; i < n; i++) {
        if (has(used, units[i].cp)) return 1;
    }
    return 0;
}

static int list_characters(rt_lexicon *l, const uint8_t *used, retrace_error *err) {
    int cap = 0;
    for (uint32_t cp = 128; cp < RT_UTF8_BAD; cp++) {
        if (is_plain(cp) && !used[cp / 8]) cp |= 7;
        if (!matters(l, used, cp)) continue;
        if (rt_grow(&l->characters, &cap, (int)l->n_characters + 1, sizeof *l->characters))
            return rt_nomem(err);
        l->characters[l->n_characters++] = cp;
    }
    return RETRACE_OK;
}

/* ==== The whole ==== */

static void fold_ascii(rt_lexicon *l) {
    for (uint32_t c = 0; c < 128; c++) {
        rt_unit units[RT_FOLD_MAX];
        rt_fold(l->how, c, units);
        l->ascii[c] = units[0];
    }
}

int rt_lexicon_new(rt_lexicon **out, const retrace_text *phrases, uint32_t n, int how, int edge,
                   uint32_t *bad, retrace_error *err) {
    *bad = n;
    rt_lexicon *l = retrace_calloc(1, sizeof *l);
    workshop w = {.words = retrace_calloc(n + (size_t)1, sizeof *w.words),
                  .used = retrace_calloc(RT_UTF8_BAD / 8, 1)};
    int rc = l && w.words && w.used ? RETRACE_OK : rt_nomem(err);
    if (rc == RETRACE_OK) {
        l->how = how;
        l->edge = edge;
        fold_ascii(l);
        rc = add_words(&w, l, phrases, n, bad, err);
    }
    if (rc == RETRACE_OK) rc = rt_automaton_new(&l->words, w.words, n, err);
    if (rc == RETRACE_OK && n) rc = list_characters(l, w.used, err);
    close_workshop(&w);
    if (rc)
        rt_lexicon_free(l);
    else
        *out = l;
    return rc;
}

void rt_lexicon_free(rt_lexicon *l) {
    if (!l) return;
    rt_automaton_free(l->words);
    retrace_free(l->characters);
    retrace_free(l);
}
