/* matcher.c - see matcher.h.
 *
 * Reading goes character by character: fold it, let its first unit decide what was pending, step
 * the automaton with each unit. Marks (units with an order) wait until the next unit without one,
 * because a mark that comes later may have to be read first; they are read from the text again
 * then.
 *
 * A hit needs its first byte, which is found by walking back as many units as the phrase has: the
 * sum of units is the same in whatever order the marks of a character stand. */
#include "matcher.h"
#include "utf8.h"

#include <assert.h>

/* ==== The text ==== */

/* The text that is walked back: `extra`, when there is one, stands for what comes at byte `cut`. */
typedef struct around {
    rt_match_text t;
    const char *extra;
    ptrdiff_t cut;
} around;

static char byte_at(const around *a, ptrdiff_t pos) {
    if (pos < 0) return a->t.before.s[(ptrdiff_t)a->t.before.n + pos];
    return a->extra && pos >= a->cut ? a->extra[pos - a->cut] : a->t.s[pos];
}

/* The character that ends at pos; returns where it begins: pos at the beginning of the text. */
static ptrdiff_t back(const around *a, ptrdiff_t pos, uint32_t *cp) {
    ptrdiff_t least = -(ptrdiff_t)a->t.before.n;
    *cp = RT_UTF8_BAD;
    if (pos <= least) return pos;
    char last = byte_at(a, pos - 1);
    if ((unsigned char)last < 0x80) {
        *cp = (unsigned char)last;
        return pos - 1;
    }
    char bytes[RT_UTF8_MAX];
    size_t n = pos - least < RT_UTF8_MAX ? (size_t)(pos - least) : RT_UTF8_MAX;
    for (size_t i = 0; i < n; i++) bytes[i] = byte_at(a, pos - (ptrdiff_t)n + (ptrdiff_t)i);
    return pos - rt_utf8_decode_back(bytes, n, cp);
}

/* The character that begins at pos, which is a whole one; returns where it ends. */
static ptrdiff_t forth(const around *a, ptrdiff_t pos, ptrdiff_t end, uint32_t *cp) {
    assert(pos < end);
    char bytes[RT_UTF8_MAX];
    size_t n = 0;
    for (; n < RT_UTF8_MAX && pos + (ptrdiff_t)n < end; n++)
        bytes[n] = byte_at(a, pos + (ptrdiff_t)n);
    int len = rt_utf8_decode(bytes, n, cp);
    return pos + (len > 0 ? len : 1);
}

/* ==== Reading ==== */

/* One reading of one text. */
typedef struct reader {
    const rt_lexicon *l;
    rt_match_state st;
    around a;
    rt_hit_fn *fn;
    void *ud;
    rt_start_fn *wanted;
    const void *wanted_ud;
} reader;

static uint32_t size_of(const rt_unit *units, int n) {
    uint32_t size = 0;
    for (int i = 0; i < n; i++) size += (uint32_t)rt_utf8_size(units[i].cp);
    return size;
}

/* ==== Looking back ==== */

/* The place in the text where a phrase begins: a character and how many bytes of its units lie
 * before that. For white space that is one unit, the character is the run. */
typedef struct origin {
    ptrdiff_t pos;
    rt_unit units[RT_FOLD_MAX];
    int n;
    uint32_t inside;
} origin;

static int is_white(const reader *r, uint32_t cp) {
    rt_unit units[RT_FOLD_MAX];
    rt_lexicon_fold(r->l, cp, units);
    return units[0].flags & RT_UNIT_WHITE;
}

/* Goes to the character before; of white space to the first of its run. */
static void step_back(const reader *r, origin *o) {
    uint32_t cp;
    o->pos = back(&r->a, o->pos, &cp);
    o->n = rt_lexicon_fold(r->l, cp, o->units);
    if (!(o->units[0].flags & RT_UNIT_WHITE)) return;
    for (;;) {
        ptrdiff_t before = back(&r->a, o->pos, &cp);
        if (before == o->pos || !is_white(r, cp)) return;
        o->pos = before;
    }
}

/* Goes to the next character, or that behind a run of white space. */
static void step_on(const reader *r, origin *o, ptrdiff_t end) {
    uint32_t cp;
    int white = o->units[0].flags & RT_UNIT_WHITE;
    ptrdiff_t next = forth(&r->a, o->pos, end, &cp);
    do {
        o->pos = next;
        next = forth(&r->a, o->pos, end, &cp);
    } while (white && is_white(r, cp));
    o->n = rt_lexicon_fold(r->l, cp, o->units);
}

/* Where `need` >= 1 bytes of units before pos begin. `white`: bytes of the run of white space that
 * ends at pos, when that is known; it may be long. */
static origin look_back(const reader *r, ptrdiff_t pos, uint32_t white, uint32_t need) {
    origin o = {.pos = pos};
    if (white) {
        o.pos -= white;
        o.n = rt_lexicon_fold(r->l, ' ', o.units);
        need--;
    }
    while (need > 0) {
        step_back(r, &o);
        uint32_t size = size_of(o.units, o.n);
        o.inside = need < size ? size - need : 0;
        need -= need < size ? need : size;
    }
    return o;
}

/* Goes on by `by` bytes of units, to a place before `end`. */
static void look_on(const reader *r, origin *o, uint32_t by, ptrdiff_t end) {
    o->inside += by;
    for (uint32_t size; o->inside >= (size = size_of(o->units, o->n));) {
        o->inside -= size;
        step_on(r, o, end);
    }
}

/* May a phrase begin there? `starts`: its first unit is a letter, digit or mark. */
static int may_begin(const reader *r, const origin *o, int starts) {
    int i = 0;
    for (uint32_t at = 0; i + 1 < o->n; i++) {
        at += (uint32_t)rt_utf8_size(o->units[i].cp);
        if (at > o->inside) break;
    }
    if (o->units[i].flags & RT_UNIT_EXTENDS) return 0;
    if (r->l->edge == RT_EDGE_NONE || !starts) return 1;
    if (i > 0) return !(o->units[i - 1].flags & RT_UNIT_WORD);
    uint32_t cp;
    rt_unit units[RT_FOLD_MAX];
    if (back(&r->a, o->pos, &cp) == o->pos) return 1;
    int n = rt_lexicon_fold(r->l, cp, units);
    return !(units[n - 1].flags & RT_UNIT_WORD);
}

/* ==== Hits ==== */

/* Tells of the words that end at st.node. `end`: where they are complete; from `pos`, `after` bytes
 * of units are to be passed over to come to the last of the words'. */
static void tell(const reader *r, ptrdiff_t end, ptrdiff_t pos, uint32_t after) {
    const rt_automaton *words = r->l->words;
    uint32_t first = words->nodes[r->st.node].hits;
    if (!r->fn || end <= 0 || !first) return;
    uint32_t depth = words->terms[first].depth;
    origin o = look_back(r, pos, 0, depth + after);
    for (uint32_t i = first; i; i = words->terms[i].next) {
        const rt_term *term = &words->terms[i];
        look_on(r, &o, depth - term->depth, pos);
        depth = term->depth;
        if (!may_begin(r, &o, term->flags & RT_WORD_STARTS)) continue;
        rt_hit hit = {term->id, o.pos, end};
        if (r->fn(r->ud, &hit)) return;
    }
}

/* Does what ends at st.node depend on what follows? All words that end there have the same last
 * unit. */
static int depends(const reader *r) {
    uint32_t term = r->l->words->nodes[r->st.node].hits;
    if (!term) return 0;
    if (r->l->how & RT_FOLD_NFC) return 1;
    return r->l->edge == RT_EDGE_BOTH && r->l->words->terms[term].flags & RT_WORD_ENDS;
}

/* What is pending is decided by a unit with these flags. */
static void decide(reader *r, int flags, ptrdiff_t end, ptrdiff_t pos, uint32_t after) {
    if (!r->st.pending) return;
    r->st.pending = 0;
    if (flags & RT_UNIT_EXTENDS) return;
    uint32_t term = r->l->words->nodes[r->st.node].hits;
    int edge = r->l->edge == RT_EDGE_BOTH && r->l->words->terms[term].flags & RT_WORD_ENDS;
    if (edge && flags & RT_UNIT_WORD) return;
    tell(r, end, pos, after);
}

/* ==== Marks ==== */

/* A walk over the marks between two bytes in canonical order: by class, equal ones as they stand.
 */
typedef struct mark_walk {
    ptrdiff_t from, to; /* whole characters */
    ptrdiff_t pos;
    int unit;
    int order; /* the class that is being collected */
} mark_walk;

static mark_walk walk_marks(const reader *r, ptrdiff_t at) {
    return (mark_walk){at - r->st.marks, at, at, 0, 0};
}

/* The lowest class above the one collected; 0: none. */
static int higher_order(const reader *r, const mark_walk *w) {
    int least = 0;
    for (ptrdiff_t pos = w->from; pos < w->to;) {
        uint32_t cp;
        rt_unit units[RT_FOLD_MAX];
        pos = forth(&r->a, pos, w->to, &cp);
        int n = rt_lexicon_fold(r->l, cp, units);
        for (int i = 0; i < n; i++) {
            if (units[i].order > w->order && (!least || units[i].order < least))
                least = units[i].order;
        }
    }
    return least;
}

static int next_mark(const reader *r, mark_walk *w, rt_unit *mark) {
    for (;;) {
        while (w->pos < w->to) {
            uint32_t cp;
            rt_unit units[RT_FOLD_MAX];
            ptrdiff_t end = forth(&r->a, w->pos, w->to, &cp);
            int n = rt_lexicon_fold(r->l, cp, units);
            while (w->unit < n) {
                *mark = units[w->unit++];
                if (mark->order && mark->order == w->order) return 1;
            }
            w->pos = end;
            w->unit = 0;
        }
        w->order = higher_order(r, w);
        if (!w->order) return 0;
        w->pos = w->from;
    }
}

/* Reads the marks that were waiting; none can come before them any more. */
static void read_marks(reader *r, ptrdiff_t at) {
    if (!r->st.marks) return;
    mark_walk w = walk_marks(r, at);
    rt_unit mark;
    while (next_mark(r, &w, &mark))
        r->st.node = rt_automaton_step(r->l->words, r->st.node, mark.cp);
    r->st.marks = 0;
    r->st.pending = r->l->words->nodes[r->st.node].hits != 0;
}

/* ==== Characters ==== */

/* A unit of the character that ends at `to`; `after`: bytes of its units that follow. */
static void take_unit(reader *r, rt_unit u, uint32_t length, ptrdiff_t to, uint32_t after) {
    if (u.flags & RT_UNIT_WHITE) {
        r->st.white += length;
        if (r->st.white > length) return;
    } else {
        r->st.white = 0;
    }
    r->st.node = rt_automaton_step(r->l->words, r->st.node, u.cp);
    if (!r->l->words->nodes[r->st.node].hits) return;
    if (depends(r))
        r->st.pending = 1;
    else
        tell(r, to, to, after);
}

/* The character from byte `from` to byte `to`, or a byte that is none. */
static void take(reader *r, uint32_t cp, ptrdiff_t from, ptrdiff_t to) {
    rt_unit units[RT_FOLD_MAX];
    int n = rt_lexicon_fold(r->l, cp, units), i = 0;
    uint32_t length = (uint32_t)(to - from);
    if (units[0].order) {
        r->st.marks += length;
        r->st.white = 0;
        return;
    }
    read_marks(r, from);
    decide(r, units[0].flags, from, from, 0);
    uint32_t after = size_of(units, n);
    while (i < n && !units[i].order) {
        if (i > 0) decide(r, units[i].flags, to, to, after);
        after -= (uint32_t)rt_utf8_size(units[i].cp);
        take_unit(r, units[i++], length, to, after);
    }
    r->st.marks = i < n ? length : 0;
}

/* ==== Bytes ==== */

/* The byte at pos goes on with a character that was begun; returns where to read on. */
static ptrdiff_t take_part(reader *r, char byte, ptrdiff_t pos) {
    char bytes[RT_UTF8_MAX];
    int n = r->st.n_part;
    for (int i = 0; i < n; i++) bytes[i] = r->st.part[i];
    bytes[n] = byte;
    uint32_t cp;
    int len = rt_utf8_decode(bytes, (size_t)n + 1, &cp);
    if (len == 0) {
        r->st.part[r->st.n_part++] = byte;
        return pos + 1;
    }
    r->st.n_part = 0;
    if (len > 0) {
        take(r, cp, pos - n, pos + 1);
        return pos + 1;
    }
    for (int i = n; i > 0; i--) take(r, RT_UTF8_BAD, pos - i, pos - i + 1);
    return pos;
}

/* What begins at pos, s[0..n); returns where to read on. */
static ptrdiff_t take_whole(reader *r, const char *s, size_t n, ptrdiff_t pos) {
    uint32_t cp;
    int len = rt_utf8_decode(s, n, &cp);
    if (len == 0) {
        while (r->st.n_part < n) {
            r->st.part[r->st.n_part] = s[r->st.n_part];
            r->st.n_part++;
        }
        return pos + (ptrdiff_t)n;
    }
    if (len < 0) len = 1;
    take(r, cp, pos, pos + len);
    return pos + len;
}

/* The common case: ASCII that neither ends a phrase nor stands behind something undecided. Returns
 * where it ends. */
static ptrdiff_t skim(reader *r, const char *s, ptrdiff_t pos, ptrdiff_t to) {
    const rt_automaton *words = r->l->words;
    uint32_t q = r->st.node;
    ptrdiff_t from = pos;
    while (pos < to && (unsigned char)s[pos] < 0x80) {
        const rt_unit *u = &r->l->ascii[(unsigned char)s[pos]];
        uint32_t next = rt_automaton_step(words, q, u->cp);
        if (u->flags & RT_UNIT_WHITE || words->nodes[next].hits) break;
        q = next;
        pos++;
    }
    r->st.node = q;
    if (pos > from) r->st.white = 0;
    return pos;
}

void rt_match_feed(const rt_lexicon *l, rt_match_state *st, const rt_match_text *t, ptrdiff_t from,
                   ptrdiff_t to, rt_hit_fn *fn, void *ud) {
    assert(from >= 0 || to <= 0);
    reader r = {.l = l, .st = *st, .a = {*t, NULL, 0}, .fn = fn, .ud = ud};
    const char *s = from < 0 ? t->before.s + t->before.n : t->s;
    for (ptrdiff_t pos = from; pos < to;) {
        if (!r.st.n_part && !r.st.marks && !r.st.pending) pos = skim(&r, s, pos, to);
        if (pos == to) break;
        if (r.st.n_part)
            pos = take_part(&r, s[pos], pos);
        else
            pos = take_whole(&r, s + pos, (size_t)(to - pos), pos);
    }
    *st = r.st;
}

static void finish(reader *r, ptrdiff_t at) {
    at -= r->st.n_part;
    read_marks(r, at);
    decide(r, 0, at, at, 0);
}

void rt_match_end(const rt_lexicon *l, const rt_match_state *st, const rt_match_text *t,
                  ptrdiff_t at, rt_hit_fn *fn, void *ud) {
    reader r = {.l = l, .st = *st, .a = {*t, NULL, 0}, .fn = fn, .ud = ud};
    finish(&r, at);
}

/* ==== Holding ==== */

/* Can q, with the marks of the walk still to be read and others yet to come among them, become a
 * word or lead on to one? `grown`: one that is yet to come was assumed. The way down the tree is in
 * canonical order too, so each node is met once at most. */
static int survives(const reader *r, uint32_t q, mark_walk w, int grown, ptrdiff_t at) {
    const rt_automaton *words = r->l->words;
    mark_walk ahead = w;
    rt_unit mark;
    if (!next_mark(r, &ahead, &mark)) return words->nodes[q].n > 0 || grown || at > 0;
    uint32_t child = rt_automaton_child(words, q, mark.cp);
    if (child && survives(r, child, ahead, grown, at)) return 1;
    const rt_node *node = &words->nodes[q];
    for (uint32_t c = node->first; c < node->first + node->n; c++) {
        rt_unit units[RT_FOLD_MAX];
        rt_lexicon_fold(r->l, words->nodes[c].label & RT_LABEL_CHARACTER, units);
        int earlier = units[0].order && units[0].order < mark.order;
        if (earlier && survives(r, c, w, 1, at)) return 1;
    }
    return 0;
}

/* Can the beginning of a phrase that q stands for still become a hit? */
static int is_live(const reader *r, uint32_t q, ptrdiff_t at) {
    const rt_automaton *words = r->l->words;
    if (r->st.marks) return survives(r, q, walk_marks(r, at), 0, at);
    return words->nodes[q].n > 0 || (r->st.pending && rt_automaton_is_word(words, q) && at > 0);
}

/* Where st.node ends: before the marks that wait, some of which may be part of its own character.
 */
static ptrdiff_t node_end(const reader *r, ptrdiff_t at, uint32_t *after) {
    *after = 0;
    ptrdiff_t pos = at - r->st.marks;
    if (pos == at) return pos;
    uint32_t cp;
    rt_unit units[RT_FOLD_MAX];
    ptrdiff_t end = forth(&r->a, pos, at, &cp);
    int n = rt_lexicon_fold(r->l, cp, units), i = 0;
    if (units[0].order) return pos;
    while (!units[i].order) i++;
    *after = size_of(units + i, n - i);
    return end;
}

static int is_wanted(const reader *r, ptrdiff_t start) {
    return !r->wanted || r->wanted(r->wanted_ud, start);
}

/* rt_match_hold for a text of whole characters. The deeper a node, the earlier its phrase begins.
 */
static ptrdiff_t hold_whole(const reader *r, ptrdiff_t at) {
    const rt_node *nodes = r->l->words->nodes;
    uint32_t after, depth = 0;
    ptrdiff_t pos = node_end(r, at, &after);
    origin o = {0};
    for (uint32_t q = r->st.node; q; q = nodes[q].fail) {
        if (!is_live(r, q, at)) continue;
        if (depth)
            look_on(r, &o, depth - nodes[q].depth, pos);
        else
            o = look_back(r, pos, r->st.white, nodes[q].depth + after);
        depth = nodes[q].depth;
        if (!may_begin(r, &o, nodes[q].label & RT_LABEL_STARTS)) continue;
        if (is_wanted(r, o.pos)) return o.pos;
    }
    return at;
}

/* The earliest hit. */
typedef struct earliest {
    const reader *r;
    ptrdiff_t start;
} earliest;

static int keep_least(void *ud, const rt_hit *hit) {
    earliest *e = ud;
    if (hit->start < e->start && is_wanted(e->r, hit->start)) e->start = hit->start;
    return 0;
}

static uint32_t first_at_least(const rt_lexicon *l, uint32_t cp) {
    uint32_t lo = 0, hi = l->n_characters;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (l->characters[mid] < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The incomplete character becomes cp: what can be reached then. */
static ptrdiff_t hold_as(const reader *whole, uint32_t cp, ptrdiff_t from) {
    earliest found = {whole, PTRDIFF_MAX};
    char bytes[RT_UTF8_MAX];
    ptrdiff_t to = from + rt_utf8_encode(cp, bytes);
    reader r = *whole;
    r.a.extra = bytes;
    r.a.cut = from;
    r.fn = keep_least;
    r.ud = &found;
    take(&r, cp, from, to);
    ptrdiff_t later = hold_whole(&r, to);
    return later < to && later < found.start ? later : found.start;
}

ptrdiff_t rt_match_hold(const rt_lexicon *l, const rt_match_state *st, const rt_match_text *t,
                        ptrdiff_t at, rt_start_fn *wanted, const void *ud) {
    reader r = {.l = l, .st = *st, .a = {*t, NULL, 0}, .wanted = wanted, .wanted_ud = ud};
    if (!st->n_part) return hold_whole(&r, at);
    uint32_t lo, hi;
    rt_utf8_range(st->part, st->n_part, &lo, &hi);
    /* It may also stay incomplete, and then decides what is pending as the end does. */
    earliest found = {&r, at};
    reader broken = r;
    broken.fn = keep_least;
    broken.ud = &found;
    finish(&broken, at);
    ptrdiff_t least = found.start;
    r.st.n_part = 0;
    for (uint32_t i = first_at_least(l, lo); i < l->n_characters && l->characters[i] <= hi; i++) {
        ptrdiff_t reached = hold_as(&r, l->characters[i], at - st->n_part);
        if (reached < least) least = reached;
    }
    return least;
}
