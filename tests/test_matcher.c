/* test_matcher.c - the matcher against a naive search (naive.h), for random phrases, texts and
 * pieces: the same hits at the same moment, the same state whatever the pieces, and a hold that is
 * exact - no byte is given up that a continuation could still reach, none is held that none can.
 *
 * RETRACE_LONG=1 runs it fifty times longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "naive.h"
#include "text/matcher.h"
#include "text/utf8.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* ==== Random cases ==== */

/* Symbols that have something to do with each other, in groups; a case takes its alphabet from two.
 */
static const char *const groups[][8] = {
    {"a", "b", "A", "c", " ", "B", "-", "aa"},
    {"s", "S", "ß", "ẞ", "ſ", "st", "ﬆ", "t"},
    {"k", "K", "\u212A", "i", "İ", "I", "\u0307", "ǰ"},
    {"e", "é", "É", "\u0301", "\u0323", "ẹ", "ẹ\u0301", "E"},
    {"α", "ᾳ", "\u0345", "\u0301", "ι", "Α", "ᾴ", "a"},
    {"'", "’", "ʼ", "n", "ŉ", "\"", "“", "′"},
    {" ", "\n", "\u00A0", "\u2003", "  ", "a", "\t", "\u0301"},
    {"歪", "歩", "\xE6\xAD", "\xAA", "\xE6", "😀", "😁", "\xF0\x9F"},
    {"\xFF", "\xC3", "a", "\xC3\xA9", "e", "\x80", "\xE2\x84", "\xC2"},
    {"\u1100", "\u1161", "\u11A8", "가", "각", "\uFE0F", "\u1100\u1161", "a"},
};

enum { MOST_SYMBOLS = 6, MOST_PHRASES = 4, ROOM = 256 };

typedef struct round {
    uint32_t random;
    const char *symbols[MOST_SYMBOLS];
    int n_symbols;
    char store[MOST_PHRASES][ROOM];
    naive_bytes phrases[MOST_PHRASES];
    int n_phrases;
    naive_rules rules;
    naive *naive;
    rt_lexicon *lexicon;
    char whole[2 * ROOM]; /* what stands before, then the answer */
    size_t n_before, n_text;
} round;

static int below(round *r, int n) {
    r->random = r->random * 1664525 + 1013904223;
    return (int)((r->random >> 8) % (unsigned)n);
}

static size_t add_symbols(round *r, char *out, int n) {
    size_t len = 0;
    for (int i = 0; i < n; i++) {
        const char *s = r->symbols[below(r, r->n_symbols)];
        memcpy(out + len, s, strlen(s));
        len += strlen(s);
    }
    return len;
}

static int is_whole(const char *s, size_t n) {
    uint32_t cp;
    for (size_t i = 0; i < n;) {
        int len = rt_utf8_decode(s + i, n - i, &cp);
        if (len < 1) return 0;
        i += (size_t)len;
    }
    return 1;
}

/* Half of them are cut from the text. */
static void invent_phrases(round *r) {
    int wanted = 1 + below(r, MOST_PHRASES);
    for (int tries = 0; tries < 50 && r->n_phrases < wanted; tries++) {
        char *s = r->store[r->n_phrases];
        size_t n = add_symbols(r, s, 1 + below(r, 4)), all = r->n_before + r->n_text;
        if (below(r, 2)) {
            size_t from = (size_t)below(r, (int)all);
            n = 1 + (size_t)below(r, all - from < 8 ? (int)(all - from) : 8);
            memcpy(s, r->whole + from, n);
        }
        if (n > 0 && is_whole(s, n)) r->phrases[r->n_phrases++] = (naive_bytes){s, n};
    }
}

static int how_of(const naive_rules *r) {
    return (r->fold ? RT_FOLD_CASE : 0) | (r->quotes ? RT_FOLD_QUOTES : 0) |
           (r->space ? RT_FOLD_SPACE : 0) | (r->nfc ? RT_FOLD_NFC : 0);
}

/* 0 when a phrase is refused: it begins with a mark. */
static int compile(round *r) {
    retrace_text phrases[MOST_PHRASES];
    for (int i = 0; i < r->n_phrases; i++)
        phrases[i] = (retrace_text){r->phrases[i].s, r->phrases[i].n};
    int edge = r->rules.edge_right  ? RT_EDGE_BOTH
               : r->rules.edge_left ? RT_EDGE_START
                                    : RT_EDGE_NONE;
    uint32_t bad;
    retrace_error err = {0};
    int rc = rt_lexicon_new(&r->lexicon, phrases, (uint32_t)r->n_phrases, how_of(&r->rules), edge,
                            &bad, &err);
    if (rc == RETRACE_OK) return 1;
    assert_int_equal(rc, RETRACE_EUSAGE);
    assert_true(r->rules.nfc && bad < (uint32_t)r->n_phrases);
    return 0;
}

static int invent(round *r, uint32_t seed) {
    memset(r, 0, sizeof *r);
    r->random = seed * 2654435761u + 12345;
    int first = below(r, COUNT(groups)), second = below(r, COUNT(groups));
    r->n_symbols = 3 + below(r, MOST_SYMBOLS - 2);
    for (int i = 0; i < r->n_symbols; i++)
        r->symbols[i] = groups[below(r, 3) ? first : second][below(r, 8)];
    int edge = below(r, 3);
    r->rules =
        (naive_rules){below(r, 3) > 0, below(r, 2), below(r, 2), below(r, 2), edge > 0, edge > 1};
    r->n_before = add_symbols(r, r->whole, below(r, 4));
    r->n_text = add_symbols(r, r->whole + r->n_before, 4 + below(r, 8));
    invent_phrases(r);
    if (!r->n_phrases || !compile(r)) return 0;
    r->naive = naive_new(r->rules, r->phrases, r->n_phrases);
    return 1;
}

static void forget(round *r) {
    naive_free(r->naive);
    rt_lexicon_free(r->lexicon);
}

/* ==== Both sides ==== */

typedef struct hits {
    naive_hit v[NAIVE_MAX];
    int n;
} hits;

static int note(void *ud, const rt_hit *hit) {
    hits *h = ud;
    assert_true(h->n < NAIVE_MAX);
    h->v[h->n++] = (naive_hit){(int)hit->phrase, (long)hit->start, (long)hit->end};
    return 0;
}

static int order(const void *x, const void *y) {
    const naive_hit *a = x, *b = y;
    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    if (a->end != b->end) return a->end < b->end ? -1 : 1;
    return (a->phrase > b->phrase) - (a->phrase < b->phrase);
}

static void find(const round *r, const char *whole, size_t n, int ended, hits *out) {
    out->n = naive_find(r->naive, (naive_bytes){whole, n}, (long)r->n_before, ended, out->v);
}

static void print_round(const round *r, size_t at);

/* What `later` has and `earlier` has not, in its place. All of `earlier` must be there. */
static void subtract(const round *r, hits *later, const hits *earlier) {
    int kept = 0, i = 0;
    for (int k = 0; k < later->n; k++) {
        if (i < earlier->n && order(&later->v[k], &earlier->v[i]) == 0)
            i++;
        else
            later->v[kept++] = later->v[k];
    }
    if (i < earlier->n) {
        print_round(r, r->n_text);
        fail_msg("the naive search takes a hit back");
    }
    later->n = kept;
}

static void print_round(const round *r, size_t at) {
    print_error("\nfold %d quotes %d space %d nfc %d edges %d %d; at %zu, before %zu: ",
                r->rules.fold, r->rules.quotes, r->rules.space, r->rules.nfc, r->rules.edge_left,
                r->rules.edge_right, at, r->n_before);
    for (size_t i = 0; i < r->n_before + r->n_text; i++)
        print_error("%02x ", (unsigned char)r->whole[i]);
    for (int p = 0; p < r->n_phrases; p++) {
        print_error("\nphrase: ");
        for (size_t i = 0; i < r->phrases[p].n; i++)
            print_error("%02x ", (unsigned char)r->phrases[p].s[i]);
    }
    print_error("\n");
}

static void same_hits(const round *r, size_t at, const char *what, hits *got, const hits *want) {
    qsort(got->v, (size_t)got->n, sizeof got->v[0], order);
    int equal = got->n == want->n;
    for (int i = 0; equal && i < got->n; i++) equal = order(&got->v[i], &want->v[i]) == 0;
    if (equal) return;
    print_round(r, at);
    for (int i = 0; i < got->n; i++)
        print_error("got %d: %ld to %ld\n", got->v[i].phrase, got->v[i].start, got->v[i].end);
    for (int i = 0; i < want->n; i++)
        print_error("want %d: %ld to %ld\n", want->v[i].phrase, want->v[i].start, want->v[i].end);
    fail_msg("%s hits differ", what);
}

/* ==== Hold by trying continuations ==== */

/* Continuations of the text at one place. */
typedef struct trial {
    round *r;
    const hits *now;
    char whole[4 * ROOM];
    size_t n; /* of the text so far */
    long at, least;
    hits found;
} trial;

/* The text goes on with `more`, in one push, and ends there. */
static void try_one(trial *t, const char *more, size_t n) {
    memcpy(t->whole + t->n, more, n);
    find(t->r, t->whole, t->n + n, 0, &t->found);
    subtract(t->r, &t->found, t->now);
    for (int i = 0; i < t->found.n; i++)
        if (t->found.v[i].start < t->least) t->least = t->found.v[i].start;
    find(t->r, t->whole, t->n + n, 1, &t->found);
    for (int i = 0; i < t->found.n; i++)
        if (t->found.v[i].start < t->least) t->least = t->found.v[i].start;
}

/* After `rest`: the ends of every phrase; under nfc, where marks move, all that is left of a phrase
 * when some of its units are left out. */
static void try_phrases(trial *t, const char *rest, size_t n_rest) {
    char spelt[4 * ROOM], more[4 * ROOM];
    size_t ends[ROOM];
    int n_units;
    memcpy(more, rest, n_rest);
    for (int p = 0; p < t->r->n_phrases; p++) {
        size_t n = naive_spelt(t->r->naive, p, spelt, ends, &n_units);
        for (int i = 0; i <= n_units; i++) {
            size_t from = i ? ends[i - 1] : 0;
            memcpy(more + n_rest, spelt + from, n - from);
            try_one(t, more, n_rest + n - from);
        }
        if (!t->r->rules.nfc) continue;
        for (int set = 0; set < 1 << n_units; set++) {
            size_t len = n_rest;
            for (int i = 0; i < n_units; i++) {
                size_t from = i ? ends[i - 1] : 0;
                if (set >> i & 1) memcpy(more + len, spelt + from, ends[i] - from);
                if (set >> i & 1) len += ends[i] - from;
            }
            try_one(t, more, len);
        }
    }
}

static void try_symbols(trial *t) {
    for (int i = 0; i < t->r->n_symbols; i++) {
        const char *a = t->r->symbols[i];
        try_one(t, a, strlen(a));
        for (int k = 0; k < t->r->n_symbols; k++) {
            char both[64];
            int n = snprintf(both, sizeof both, "%s%s", a, t->r->symbols[k]);
            try_one(t, both, (size_t)n);
        }
    }
}

/* Every character that the incomplete one at the end can become and that has to do with a phrase.
 */
static void try_characters(trial *t, const rt_match_state *st) {
    uint32_t lo, hi;
    rt_utf8_range(st->part, st->n_part, &lo, &hi);
    if (hi > 0x1FFFF) hi = 0x1FFFF;
    for (uint32_t cp = lo; cp <= hi; cp++) {
        char s[RT_UTF8_MAX];
        if ((cp >= 0xD800 && cp < 0xE000) || !naive_matters(t->r->naive, (int)cp)) continue;
        size_t n = (size_t)rt_utf8_encode(cp, s);
        try_phrases(t, s + st->n_part, n - st->n_part);
    }
}

static void check_hold(round *r, const rt_match_state *st, size_t at, const hits *now, long hold) {
    static trial t;
    t.r = r;
    t.now = now;
    t.n = r->n_before + at;
    t.at = t.least = (long)at;
    memcpy(t.whole, r->whole, t.n);
    try_one(&t, "", 0);
    try_phrases(&t, "", 0);
    try_symbols(&t);
    if (st->n_part) try_characters(&t, st);
    if (hold == t.least) return;
    print_round(r, at);
    fail_msg("hold is %ld, not %ld", hold, t.least);
}

/* ==== The comparison ==== */

static rt_match_text text_of(const round *r) {
    return (rt_match_text){{r->whole, r->n_before}, r->whole + r->n_before};
}

static rt_match_state start_of(const round *r) {
    rt_match_state st = {0};
    rt_match_text t = text_of(r);
    rt_match_feed(r->lexicon, &st, &t, -(ptrdiff_t)r->n_before, 0, note, &(hits){.n = NAIVE_MAX});
    return st;
}

static void same_state(const rt_match_state *a, const rt_match_state *b) {
    assert_int_equal(a->node, b->node);
    assert_int_equal(a->marks, b->marks);
    assert_int_equal(a->white, b->white);
    assert_int_equal(a->n_part, b->n_part);
    assert_memory_equal(a->part, b->part, a->n_part);
    if (!a->marks) assert_int_equal(a->pending, b->pending);
}

/* Feeds the text in random pieces and compares after each. */
static void compare(round *r, int with_hold) {
    static hits before, now, got;
    rt_match_state st = start_of(r);
    rt_match_text t = text_of(r);
    find(r, r->whole, r->n_before, 0, &before);
    assert_int_equal(before.n, 0);
    for (size_t at = 0; at < r->n_text;) {
        size_t to = at + (size_t)below(r, 6);
        if (to > r->n_text) to = r->n_text;
        got.n = 0;
        rt_match_feed(r->lexicon, &st, &t, (ptrdiff_t)at, (ptrdiff_t)to, note, &got);
        find(r, r->whole, r->n_before + to, 0, &now);
        hits all = now;
        subtract(r, &now, &before);
        same_hits(r, to, "new", &got, &now);
        before = all;
        got.n = 0;
        rt_match_end(r->lexicon, &st, &t, (ptrdiff_t)to, note, &got);
        find(r, r->whole, r->n_before + to, 1, &now);
        same_hits(r, to, "last", &got, &now);
        rt_match_state whole = start_of(r);
        rt_match_feed(r->lexicon, &whole, &t, 0, (ptrdiff_t)to, NULL, NULL);
        same_state(&st, &whole);
        ptrdiff_t hold = rt_match_hold(r->lexicon, &st, &t, (ptrdiff_t)to, NULL, NULL);
        assert_true(hold <= (ptrdiff_t)to);
        if (with_hold) check_hold(r, &st, to, &before, (long)hold);
        at = to;
    }
}

static int rounds(int n) {
    const char *longer = getenv("RETRACE_LONG");
    return longer && *longer == '1' ? 50 * n : n;
}

static void hits_as_naive(void **state) {
    (void)state;
    static round r;
    int done = 0;
    for (int i = 0; i < rounds(1200); i++) {
        if (!invent(&r, (uint32_t)i)) continue;
        compare(&r, 0);
        forget(&r);
        done++;
    }
    assert_true(done > rounds(1200) / 2);
}

/* Under nfc every choice of a phrase's units is tried, so it must not have many. */
static int can_try(const round *r) {
    char spelt[4 * ROOM];
    size_t ends[ROOM];
    int n_units, most = 0;
    for (int p = 0; p < r->n_phrases; p++) {
        naive_spelt(r->naive, p, spelt, ends, &n_units);
        if (n_units > most) most = n_units;
    }
    return !r->rules.nfc || most <= 7;
}

static void hold_is_exact(void **state) {
    (void)state;
    static round r;
    for (int i = 0; i < rounds(60); i++) {
        if (!invent(&r, (uint32_t)i + 1000000)) continue;
        if (can_try(&r)) compare(&r, 1);
        forget(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits_as_naive),
        cmocka_unit_test(hold_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
