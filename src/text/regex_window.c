/* regex_window.c - see regex_window.h.
 *
 * Text is read in parts of at most PART bytes, so that beginnings soon meet in equal states. For
 * each part a new list of entries is made from the one before it: every entry goes on, and every
 * character that may begin a match does. The list is a row of ints: pattern, first and last
 * beginning, number of states, states. */
#include "regex_window.h"
#include "utf8.h"

#include <limits.h>
#include <string.h>

enum {
    PART = 32,
    HEAD = 4,         /* ints of an entry before its states */
    NOTED = -1,       /* as a number of states: the pattern has been outgrown */
    SUBSTITUTE = 0x1A /* for a byte that is no character */
};

/* What one call may cost, in states looked at. */
static const int64_t work_base = 4000000, work_byte = 20000;

struct rt_regex_live {
    int holders, n;
    int v[];
};

typedef struct list {
    int *v;
    int n, cap;
} list;

/* Text made valid, from byte `base` on. */
typedef struct window {
    char *s;
    int cap;
    ptrdiff_t base;
    size_t n;
} window;

struct rt_regexes {
    rt_regex *v;
    int n, n_start; /* patterns, and those that know the beginning of the answer */
    rt_regex_tools *tools;
    list now, next; /* of the call */
    window text, back;
    rt_states states, other;
};

/* A call. */
typedef struct reading {
    rt_regexes *set;
    const rt_regex_text *t;
    rt_regex_news *news;
    retrace_error *err;
    size_t limit;
    int silent;         /* hits are of no interest */
    int alone;          /* the patterns now read see the answer alone */
    int ends;           /* nothing follows */
    ptrdiff_t from, to; /* all that is read */
    ptrdiff_t at, part; /* the part that is read now */
    int own;            /* in set->next: where this pattern's entries begin */
    int noted;          /* this pattern has been outgrown */
    int64_t work, budget;
    int rc;
} reading;

/* ==== Lists ==== */

rt_regex_live *rt_regex_live_take(rt_regex_live *live) {
    if (live) live->holders++;
    return live;
}

void rt_regex_live_drop(rt_regex_live *live) {
    if (live && --live->holders == 0) retrace_free(live);
}

static int add(list *l, const int *v, int n) {
    if (rt_grow(&l->v, &l->cap, l->n + n, sizeof *l->v)) return RETRACE_ENOMEM;
    memcpy(l->v + l->n, v, (size_t)n * sizeof *v);
    l->n += n;
    return RETRACE_OK;
}

static int entry_size(const int *entry) {
    return HEAD + (entry[3] > 0 ? entry[3] * RT_REGEX_STATE : 0);
}

static int load(list *l, const rt_regex_live *live) {
    l->n = 0;
    return live ? add(l, live->v, live->n) : RETRACE_OK;
}

/* Puts the list in the place of *live. */
static int store(const list *l, rt_regex_live **live) {
    size_t bytes = (size_t)l->n * sizeof *l->v;
    rt_regex_live *fresh = NULL;
    if (*live && (*live)->n == l->n && memcmp((*live)->v, l->v, bytes) == 0) return RETRACE_OK;
    if (l->n) {
        fresh = retrace_alloc(sizeof *fresh + bytes);
        if (!fresh) return RETRACE_ENOMEM;
        fresh->holders = 1;
        fresh->n = l->n;
        memcpy(fresh->v, l->v, bytes);
    }
    rt_regex_live_drop(*live);
    *live = fresh;
    return RETRACE_OK;
}

/* ==== Text ==== */

static char byte_at(const rt_regex_text *t, ptrdiff_t i) {
    return i < 0 ? t->before.s[(ptrdiff_t)t->before.n + i] : t->s[i];
}

static ptrdiff_t begin(const reading *r) {
    return r->alone ? 0 : -(ptrdiff_t)r->t->before.n;
}

/* Where the whole characters of the text up to `end` end. */
static ptrdiff_t whole(const reading *r, ptrdiff_t end) {
    char tail[3];
    size_t n = 0;
    ptrdiff_t from = end - 3 > begin(r) ? end - 3 : begin(r);
    for (ptrdiff_t i = from; i < end; i++) tail[n++] = byte_at(r->t, i);
    return end - (ptrdiff_t)rt_utf8_tail(tail, n);
}

/* The first place from i on where a character may begin: bytes that go on with one come in threes
 * at most. */
static ptrdiff_t boundary(const reading *r, ptrdiff_t i, ptrdiff_t to) {
    if (i <= begin(r)) return begin(r);
    for (int k = 0; k < 3 && i < to && ((unsigned char)byte_at(r->t, i) & 0xC0) == 0x80; k++) i++;
    return i;
}

/* Fills w with the text from `from` or a little before it up to `to`. */
static int fill(const reading *r, window *w, ptrdiff_t from, ptrdiff_t to) {
    w->base = boundary(r, from, to);
    w->n = (size_t)(to - w->base);
    if (w->n > INT_MAX / 2 || rt_grow(&w->s, &w->cap, (int)w->n + 1, 1)) return RETRACE_ENOMEM;
    size_t before = w->base < 0 ? (size_t)-w->base : 0; /* of them stand before the answer */
    if (before > w->n) before = w->n;
    if (before) memcpy(w->s, r->t->before.s + ((ptrdiff_t)r->t->before.n + w->base), before);
    if (w->n > before) memcpy(w->s + before, r->t->s + (w->base > 0 ? w->base : 0), w->n - before);
    for (size_t i = 0; i < w->n;) {
        uint32_t cp;
        int len = rt_utf8_decode(w->s + i, w->n - i, &cp);
        if (len <= 0) w->s[i] = SUBSTITUTE;
        i += len > 0 ? (size_t)len : 1;
    }
    return RETRACE_OK;
}

/* The place after the character at i. */
static ptrdiff_t after(const window *w, ptrdiff_t i) {
    uint32_t cp;
    size_t at = (size_t)(i - w->base);
    int len = rt_utf8_decode(w->s + at, w->n - at, &cp);
    return i + (len > 0 ? len : 1);
}

/* The end of a part that begins at i. */
static ptrdiff_t part_end(const window *w, ptrdiff_t i, ptrdiff_t to) {
    if (to - i <= PART) return to;
    for (i += PART; ((unsigned char)w->s[i - w->base] & 0xC0) == 0x80;) i--;
    return i;
}

/* ==== Entries ==== */

static void fail(reading *r, int p, int rc) {
    if (r->rc) return;
    r->rc = rc;
    r->news->bad = rc == RETRACE_ENOMEM ? -1 : p;
    if (rc == RETRACE_ENOMEM)
        rt_nomem(r->err);
    else
        retrace_fail(r->err, rc, "it takes too many steps on this text");
}

static void keep(reading *r, int p, ptrdiff_t first, ptrdiff_t last, const rt_states *states) {
    list *l = &r->set->next;
    int n = states->n;
    for (int i = r->own; n > 0 && i < l->n; i += entry_size(l->v + i)) {
        int *entry = l->v + i;
        r->work += 4;
        if (entry[3] != n ||
            memcmp(entry + HEAD, states->v, (size_t)n * RT_REGEX_STATE * sizeof *states->v) != 0)
            continue;
        if (first < entry[1]) entry[1] = (int)first;
        if (last > entry[2]) entry[2] = (int)last;
        return;
    }
    const int head[HEAD] = {p, (int)first, (int)last, n};
    int rc = add(l, head, HEAD);
    if (rc == RETRACE_OK && n > 0) rc = add(l, states->v, n * RT_REGEX_STATE);
    if (rc) fail(r, p, rc);
}

static void outgrow(reading *r, int p) {
    if (r->noted) return;
    r->noted = 1;
    if (!r->silent) r->news->outgrown = p;
    const int head[HEAD] = {p, 0, 0, NOTED};
    int rc = add(&r->set->next, head, HEAD);
    if (rc) fail(r, p, rc);
}

/* One step in w from byte `from` to byte `to`. */
static rt_step step(reading *r, int p, const window *w, ptrdiff_t from, ptrdiff_t to,
                    rt_states *states, ptrdiff_t *end) {
    rt_piece piece = {w->s, (size_t)(to - w->base), w->n, r->ends};
    size_t got = 0;
    int rc = RETRACE_OK;
    rt_step s = rt_regex_step(r->set->tools, &r->set->v[p], &piece, (size_t)(from - w->base),
                              states, &got, &r->work, &rc);
    if (r->work > r->budget && s != RT_STEP_FAILED) {
        s = RT_STEP_FAILED;
        rc = RETRACE_EUSAGE;
    }
    if (s == RT_STEP_FAILED) fail(r, p, rc);
    *end = w->base + (ptrdiff_t)got;
    return s;
}

/* Does the match that begins at c end at `end`? */
static int ends_there(reading *r, int p, const window *w, ptrdiff_t c, ptrdiff_t end) {
    rt_states *states = &r->set->other;
    ptrdiff_t got = 0, to = w->base + (ptrdiff_t)w->n;
    states->n = 0;
    for (ptrdiff_t at = c; at < to || r->ends;) {
        ptrdiff_t part = part_end(w, at, to);
        int ends = r->ends;
        r->ends = ends && at == to;
        rt_step s = step(r, p, w, at, part, states, &got);
        r->ends = ends;
        if (s != RT_STEP_LIVE) return s == RT_STEP_HIT && got == end;
        if (at == to) return 0;
        at = part;
    }
    return 0;
}

/* Of the beginnings from `first` to `last`, which have had equal states, the first one that the
 * window still holds. `last` is one if none is found before it. */
static ptrdiff_t find_start(reading *r, int p, ptrdiff_t first, ptrdiff_t last, ptrdiff_t end) {
    const rt_regex *re = &r->set->v[p];
    window *w = &r->set->back;
    ptrdiff_t low = end - RT_REGEX_WINDOW > first ? end - RT_REGEX_WINDOW : first;
    if (fill(r, w, low - re->behind, r->to)) fail(r, p, RETRACE_ENOMEM);
    for (ptrdiff_t c = w->base; c < last && !r->rc; c = after(w, c)) {
        if (c < low || !rt_regex_begins(re, (unsigned char)w->s[c - w->base])) continue;
        if (ends_there(r, p, w, c, end)) return c;
    }
    return last;
}

static void hit(reading *r, int p, ptrdiff_t first, ptrdiff_t last, ptrdiff_t end) {
    rt_regex_news *news = r->news;
    if (end <= 0 || r->silent || (size_t)end >= r->limit) return;
    if (end - last > RT_REGEX_WINDOW) {
        outgrow(r, p);
        return;
    }
    if (end - first > RT_REGEX_WINDOW) {
        outgrow(r, p);
        first = find_start(r, p, first, last, end);
    }
    rt_regex_hit *best = &news->first;
    if (news->found && (best->start < first || (best->start == first && best->end <= end))) return;
    news->found = 1;
    *best = (rt_regex_hit){p, first, end};
}

/* Reads on from `from` to the end of the part; the outcome is kept or told. */
static void go_on(reading *r, int p, ptrdiff_t first, ptrdiff_t last, ptrdiff_t from) {
    rt_states *states = &r->set->states;
    ptrdiff_t end = 0;
    rt_step s = step(r, p, &r->set->text, from, r->part, states, &end);
    if (s == RT_STEP_HIT) hit(r, p, first, last, end);
    if (s != RT_STEP_LIVE) return;
    if (r->part - first > RT_REGEX_WINDOW) outgrow(r, p);
    if (r->part - last <= RT_REGEX_WINDOW) keep(r, p, first, last, states);
}

static void old_entry(reading *r, const int *entry) {
    int p = entry[0];
    rt_states *states = &r->set->states;
    if (entry[3] == NOTED) {
        r->noted = 1;
        if (add(&r->set->next, entry, HEAD)) fail(r, p, RETRACE_ENOMEM);
        return;
    }
    states->n = entry[3];
    memcpy(states->v, entry + HEAD, (size_t)states->n * RT_REGEX_STATE * sizeof *states->v);
    go_on(r, p, entry[1], entry[2], states->n ? r->at : entry[1]);
}

static void new_entries(reading *r, int p, ptrdiff_t from) {
    const rt_regex *re = &r->set->v[p];
    const window *w = &r->set->text;
    ptrdiff_t to = re->only_start && r->part > 1 ? 1 : r->part;
    for (ptrdiff_t c = from; c < to && !r->rc; c++) {
        unsigned char byte = (unsigned char)w->s[c - w->base];
        if ((byte & 0xC0) == 0x80 || !rt_regex_begins(re, byte)) continue;
        r->set->states.n = 0;
        go_on(r, p, c, c, c);
    }
}

/* ==== Reading ==== */

/* A pattern that looks ahead is read when the last part is there, over all parts. */
static void read_pattern(reading *r, int p, const int **entry, const int *end) {
    const rt_regex *re = &r->set->v[p];
    int other = re->facts.start != r->alone || (re->facts.ahead && r->part < r->to);
    r->own = r->set->next.n;
    r->noted = 0;
    for (; *entry < end && (*entry)[0] == p && !r->rc; *entry += entry_size(*entry)) {
        if (!other)
            old_entry(r, *entry);
        else if (add(&r->set->next, *entry, entry_size(*entry)))
            fail(r, p, RETRACE_ENOMEM);
    }
    if (!other) new_entries(r, p, re->facts.ahead ? r->from : r->at);
}

static void read_part(reading *r) {
    list *now = &r->set->now, *next = &r->set->next, done = *now;
    const int *entry = now->v, *end = now->n ? now->v + now->n : now->v;
    next->n = 0;
    for (int p = 0; p < r->set->n && !r->rc; p++) read_pattern(r, p, &entry, end);
    *now = *next;
    *next = done;
}

/* The window that the patterns now read need to go on at r->from. */
static int open_window(reading *r) {
    const list *now = &r->set->now;
    ptrdiff_t low = r->from;
    int behind = RT_UTF8_MAX;
    for (int p = 0; p < r->set->n; p++)
        if (r->set->v[p].behind > behind) behind = r->set->v[p].behind;
    for (int i = 0; i < now->n; i += entry_size(now->v + i)) {
        const int *entry = now->v + i;
        int mine = r->set->v[entry[0]].facts.start == r->alone;
        if (mine && entry[3] == 0 && entry[1] < low) low = entry[1];
    }
    return fill(r, &r->set->text, low - behind, r->to);
}

/* Reads from r->from to r->to with the patterns that see the answer alone, or with the others. */
static void read_view(reading *r) {
    if (r->from >= r->to || r->rc) return;
    if (open_window(r)) {
        fail(r, -1, RETRACE_ENOMEM);
        return;
    }
    for (r->at = r->from; r->at < r->to && !r->rc; r->at = r->part) {
        r->part = part_end(&r->set->text, r->at, r->to);
        read_part(r);
    }
}

/* The text from `from` to `to`, of which the parts of characters at both ends are left out, with
 * `broken` only at the beginning; that is then all of it. */
static void read_views(reading *r, ptrdiff_t from, ptrdiff_t to, int broken) {
    int views = r->set->n_start && to > 0 ? 2 : 1;
    r->budget += (to - from) * work_byte;
    for (r->alone = 0; r->alone < views; r->alone++) {
        ptrdiff_t low = from > begin(r) ? from : begin(r);
        r->from = whole(r, low);
        r->to = broken ? to : whole(r, to);
        read_view(r);
    }
}

/* Only what is at the very end decides: the entries are read once more, from the end on. */
static void read_end(reading *r, ptrdiff_t to) {
    list *now = &r->set->now;
    r->ends = 1;
    for (r->alone = 0; r->alone < 2 && !r->rc; r->alone++) {
        r->from = r->at = r->part = r->to = to;
        if (open_window(r)) fail(r, -1, RETRACE_ENOMEM);
        r->set->next.n = r->own = 0;
        r->noted = 1; /* the notes were made before */
        for (int i = 0; i < now->n && !r->rc; i += entry_size(now->v + i)) {
            const int *entry = now->v + i;
            if (r->set->v[entry[0]].facts.start == r->alone) old_entry(r, entry);
        }
    }
}

static int open_reading(reading *r, const rt_regex_live *live) {
    *r->news = (rt_regex_news){.outgrown = -1, .bad = -1};
    r->budget = work_base;
    if (r->t->n > INT_MAX / 4 || r->t->before.n > INT_MAX / 4)
        return retrace_fail(r->err, RETRACE_EUSAGE, "the text is too long");
    return load(&r->set->now, live) ? rt_nomem(r->err) : RETRACE_OK;
}

static int close_reading(reading *r, rt_regex_live **live) {
    if (r->rc) return r->rc;
    return store(&r->set->now, live) ? rt_nomem(r->err) : RETRACE_OK;
}

int rt_regexes_start(rt_regexes *set, const rt_regex_text *t, rt_regex_live **live,
                     rt_regex_news *news, retrace_error *err) {
    reading r = {.set = set, .t = t, .news = news, .err = err, .limit = SIZE_MAX, .silent = 1};
    int rc = open_reading(&r, NULL);
    if (rc) return rc;
    ptrdiff_t n = (ptrdiff_t)t->before.n;
    read_views(&r, boundary(&r, n > RT_REGEX_WINDOW ? -RT_REGEX_WINDOW : -n, 0), 0, 0);
    return close_reading(&r, live);
}

int rt_regexes_read(rt_regexes *set, const rt_regex_text *t, size_t from, size_t limit,
                    rt_regex_live **live, rt_regex_news *news, retrace_error *err) {
    reading r = {.set = set, .t = t, .news = news, .err = err, .limit = limit};
    int rc = open_reading(&r, *live);
    if (rc) return rc;
    read_views(&r, (ptrdiff_t)from, (ptrdiff_t)t->n, 0);
    return close_reading(&r, live);
}

int rt_regexes_end(rt_regexes *set, const rt_regex_text *t, size_t from, rt_regex_live **live,
                   rt_regex_news *news, retrace_error *err) {
    reading r = {.set = set, .t = t, .news = news, .err = err, .limit = SIZE_MAX, .silent = 1};
    int rc = open_reading(&r, *live);
    if (rc) return rc;
    ptrdiff_t to = (ptrdiff_t)t->n;
    read_views(&r, (ptrdiff_t)from, to, 0);
    r.silent = 0;
    read_views(&r, to, to, 1);
    read_end(&r, to);
    return close_reading(&r, live);
}

ptrdiff_t rt_regexes_hold(const rt_regex_live *live, const rt_regex_text *t) {
    reading r = {.t = t};
    ptrdiff_t n = (ptrdiff_t)t->n, low = n - RT_REGEX_WINDOW, first = whole(&r, n);
    for (int i = 0; live && i < live->n; i += entry_size(live->v + i)) {
        const int *entry = live->v + i;
        ptrdiff_t start = entry[1] > low ? entry[1] : low;
        if (entry[3] != NOTED && start < first) first = start;
    }
    return first;
}

/* ==== The set ==== */

int rt_regexes_new(rt_regexes **out, const retrace_text *patterns, int n, int fold, int *bad,
                   retrace_error *err) {
    rt_regexes *set = retrace_calloc(1, sizeof *set);
    *out = set;
    *bad = -1;
    if (!set) return rt_nomem(err);
    set->v = retrace_calloc((size_t)n + 1, sizeof *set->v);
    if (!set->v) return rt_nomem(err);
    int rc = rt_regex_tools_new(&set->tools, err);
    for (int i = 0; i < n && rc == RETRACE_OK; i++) {
        rc = rt_regex_new(&set->v[set->n++], set->tools, patterns[i], fold, err);
        set->n_start += set->v[i].facts.start;
        if (rc == RETRACE_EUSAGE) *bad = i;
    }
    return rc;
}

void rt_regexes_free(rt_regexes *set) {
    if (!set) return;
    for (int i = 0; i < set->n; i++) rt_regex_free(&set->v[i]);
    retrace_free(set->v);
    rt_regex_tools_free(set->tools);
    retrace_free(set->now.v);
    retrace_free(set->next.v);
    retrace_free(set->text.s);
    retrace_free(set->back.s);
    retrace_free(set);
}
