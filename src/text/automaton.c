/* automaton.c - see automaton.h.
 *
 * Built from the sorted words: every node is a range of them with a common beginning, so the tree
 * is laid out without a search, in a block whose size the common beginnings of neighbours tell
 * beforehand. */
#include "automaton.h"
#include "base.h"
#include "utf8.h"

#include <string.h>

/* ==== Sorting ==== */

static uint64_t head_of(const rt_word *w) {
    uint64_t x = 0;
    for (uint32_t i = 0; i < 8; i++) x = x << 8 | (i < w->n ? (unsigned char)w->s[i] : 0);
    return x;
}

static int precedes(const rt_word *a, const rt_word *b) {
    if (a->head != b->head) return a->head < b->head;
    uint32_t n = a->n < b->n ? a->n : b->n;
    int order = memcmp(a->s, b->s, n);
    return order ? order < 0 : a->n < b->n;
}

/* Merges from[lo..mid) and from[mid..hi) into `to`; of equal words the left one comes first. */
static void merge(const rt_word *from, rt_word *to, uint32_t lo, uint32_t mid, uint32_t hi) {
    uint32_t i = lo, j = mid;
    for (uint32_t k = lo; k < hi; k++) {
        int right = i == mid || (j < hi && precedes(&from[j], &from[i]));
        to[k] = right ? from[j++] : from[i++];
    }
}

static int sort(rt_word *words, uint32_t n, retrace_error *err) {
    rt_word *spare = n ? retrace_alloc(n * sizeof *spare) : NULL;
    if (n && !spare) return rt_nomem(err);
    rt_word *from = words, *to = spare;
    for (uint32_t i = 0; i < n; i++) words[i].head = head_of(&words[i]);
    for (uint64_t half = 1; half < n; half *= 2) {
        for (uint64_t lo = 0; lo < n; lo += 2 * half) {
            uint64_t mid = lo + half < n ? lo + half : n,
                     hi = lo + 2 * half < n ? lo + 2 * half : n;
            merge(from, to, (uint32_t)lo, (uint32_t)mid, (uint32_t)hi);
        }
        rt_word *other = from;
        from = to;
        to = other;
    }
    if (from != words) memcpy(words, from, n * sizeof *words);
    retrace_free(spare);
    return RETRACE_OK;
}

/* Drops repeated words, and those with the same text as an earlier one. */
static uint32_t unique(rt_word *words, uint32_t n) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        const rt_word *last = kept ? &words[kept - 1] : NULL;
        if (!last || last->n != words[i].n || memcmp(last->s, words[i].s, last->n) != 0)
            words[kept++] = words[i];
    }
    return kept;
}

/* ==== Laying out ==== */

/* Characters of w that its predecessor does not begin with. */
static uint32_t new_characters(const rt_word *before, const rt_word *w) {
    uint32_t same = 0, n = 0;
    while (before && same < before->n && same < w->n && before->s[same] == w->s[same]) same++;
    /* A character that differs in a later byte is new as a whole. */
    while (same < w->n && same > 0 && ((unsigned char)w->s[same] & 0xC0) == 0x80) same--;
    for (; same < w->n; same++) n += ((unsigned char)w->s[same] & 0xC0) != 0x80;
    return n;
}

static rt_automaton *reserve(uint32_t n_nodes, uint32_t n_terms) {
    size_t nodes = n_nodes * sizeof(rt_node), terms = (n_terms + (size_t)1) * sizeof(rt_term);
    rt_automaton *a = retrace_alloc(sizeof *a + nodes + terms);
    if (!a) return NULL;
    *a = (rt_automaton){.nodes = (rt_node *)(a + 1)};
    a->terms = (rt_term *)(a->nodes + n_nodes);
    a->terms[0] = (rt_term){0};
    return a;
}

/* While the tree grows, `hits` and `fail` of a node bound the range of words that begin like it,
 * and `first` chains the nodes whose children are still missing. */
static void add_node(rt_automaton *a, uint32_t lo, uint32_t hi, uint32_t depth, uint32_t label) {
    uint32_t q = a->n_nodes++;
    a->nodes[q] = (rt_node){.hits = lo,
                            .fail = hi,
                            .depth = (uint16_t)depth,
                            .row = RT_NO_ROW,
                            .label = label,
                            .first = q + 1};
}

static uint32_t add_term(rt_automaton *a, const rt_word *w) {
    a->terms[++a->n_terms] =
        (rt_term){.id = w->id, .depth = (uint16_t)w->n, .flags = (uint16_t)w->flags};
    return a->n_terms;
}

/* Gives q its word, if it is one, and its children. */
static void add_children(rt_automaton *a, const rt_word *words, uint32_t q) {
    uint32_t lo = a->nodes[q].hits, hi = a->nodes[q].fail, depth = a->nodes[q].depth;
    a->nodes[q].first = a->n_nodes;
    a->nodes[q].hits = lo < hi && words[lo].n == depth ? add_term(a, &words[lo++]) : 0;
    while (lo < hi) {
        const rt_word *w = &words[lo];
        uint32_t cp, from = lo;
        size_t n = (size_t)rt_utf8_decode(w->s + depth, w->n - depth, &cp);
        while (lo < hi && words[lo].n >= depth + n &&
               memcmp(words[lo].s + depth, w->s + depth, n) == 0)
            lo++;
        if (w->flags & RT_WORD_STARTS) cp |= RT_LABEL_STARTS;
        add_node(a, from, lo, depth + (uint32_t)n, cp);
    }
    a->nodes[q].n = a->n_nodes - a->nodes[q].first;
}

/* The first child's whole family comes before its sibling's. */
static void grow(rt_automaton *a, const rt_word *words, uint32_t n) {
    add_node(a, 0, n, 0, 0);
    uint32_t none = UINT32_MAX, next = 0;
    a->nodes[0].first = none;
    while (next != none) {
        rt_node *q = &a->nodes[next];
        uint32_t later = q->first;
        add_children(a, words, next);
        if (q->n) a->nodes[q->first + q->n - 1].first = later;
        next = q->n ? q->first : later;
    }
}

/* ==== Linking ==== */

enum { WIDE = 8, MOST_ROWS = 4096 };

static int reserve_rows(rt_automaton *a, retrace_error *err) {
    size_t n = 1;
    for (uint32_t q = 1; q < a->n_nodes; q++) n += a->nodes[q].n > WIDE;
    if (n > MOST_ROWS) n = MOST_ROWS;
    a->rows = retrace_calloc(n, sizeof *a->rows);
    return a->rows ? RETRACE_OK : rt_nomem(err);
}

/* Where no child of q is, its row says what that of its fail says. */
static void add_row(rt_automaton *a, uint32_t q) {
    rt_node *node = &a->nodes[q];
    if (q && (node->n <= WIDE || a->n_rows == MOST_ROWS)) return;
    uint32_t *row = a->rows[a->n_rows];
    for (uint32_t cp = 0; q && cp < 128; cp++) row[cp] = rt_automaton_step(a, node->fail, cp);
    for (uint32_t c = node->first; c < node->first + node->n; c++) {
        uint32_t cp = a->nodes[c].label & RT_LABEL_CHARACTER;
        if (cp < 128) row[cp] = c;
    }
    node->row = (uint16_t)a->n_rows++;
}

static void link_children(rt_automaton *a, uint32_t q) {
    const rt_node *parent = &a->nodes[q];
    for (uint32_t c = parent->first; c < parent->first + parent->n; c++) {
        rt_node *child = &a->nodes[c];
        uint32_t cp = child->label & RT_LABEL_CHARACTER;
        child->fail = q ? rt_automaton_step(a, parent->fail, cp) : 0;
        uint32_t shorter = a->nodes[child->fail].hits;
        if (child->hits)
            a->terms[child->hits].next = shorter;
        else
            child->hits = shorter;
    }
}

/* Where a node fails to is less deep and has to be complete before it: level by level. */
static int link_all(rt_automaton *a, retrace_error *err) {
    uint32_t *queue = retrace_alloc(a->n_nodes * sizeof *queue), n = 0;
    if (!queue) return rt_nomem(err);
    queue[n++] = 0;
    for (uint32_t i = 0; i < n; i++) {
        const rt_node *q = &a->nodes[queue[i]];
        add_row(a, queue[i]);
        link_children(a, queue[i]);
        for (uint32_t k = 0; k < q->n; k++) queue[n++] = q->first + k;
    }
    retrace_free(queue);
    return RETRACE_OK;
}

int rt_automaton_new(rt_automaton **out, rt_word *words, uint32_t n, retrace_error *err) {
    int rc = sort(words, n, err);
    if (rc) return rc;
    n = unique(words, n);
    uint64_t n_nodes = 1;
    for (uint32_t i = 0; i < n; i++) n_nodes += new_characters(i ? &words[i - 1] : NULL, &words[i]);
    if (n_nodes >= UINT32_MAX)
        return retrace_fail(err, RETRACE_EUSAGE, "too much text in one list");
    rt_automaton *a = reserve((uint32_t)n_nodes, n);
    if (!a) return rt_nomem(err);
    grow(a, words, n);
    a->nodes[0].fail = 0;
    rc = reserve_rows(a, err);
    if (rc == RETRACE_OK) rc = link_all(a, err);
    if (rc)
        rt_automaton_free(a);
    else
        *out = a;
    return rc;
}

void rt_automaton_free(rt_automaton *a) {
    if (a) retrace_free(a->rows);
    retrace_free(a);
}
