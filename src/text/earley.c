/* earley.c - states, the steps between them, and forgetting.
 *
 * An item says: the text so far fits a production up to the dot, and when the rest has been read,
 * symbol `gives` has been found that began at state `at`. A new item gives its production's symbol
 * at the state itself (at NULL). Two things differ from the textbook:
 *
 * What an item gives is passed on at once to who waits for it, when only one item waits and that
 * needs nothing more (a tail call, Leo's right recursion). So the states of a right-recursive or a
 * counted repetition do not hang on each other, and are few. And of all states in which the same
 * items wait for a symbol, the first stands for all as the place where that symbol began: a text
 * that can be split into words in many ways has few states too.
 *
 * Items that are finished are not part of a state, since nothing looks at them again. So states
 * after different texts are often equal. They are kept in a table and exist once; equal means equal
 * items, compared by the places of the states that they point to.
 *
 * Steps are remembered at the state they start from, by class of bytes. These pointers do not
 * count, so loops are no trouble: what is neither counted nor pointed to by an item of a living
 * state is forgotten in a sweep, when the memory in use has reached the limit. */
#include "earley.h"
#include "base.h"

#include <stdlib.h>
#include <string.h>

typedef struct item {
    int32_t dot;   /* in the grammar's body */
    int32_t gives; /* a symbol */
    rt_earley_state *at;
} item;

/* Who is told in the end that a symbol was found that began here. */
typedef struct target {
    int32_t symbol, gives;
    rt_earley_state *at;
} target;

struct rt_earley_state {
    uint64_t hash, number; /* number: in the order of making */
    rt_earley_state *same_slot, *older;
    rt_earley_state **steps;  /* by class; NULL: none known */
    rt_earley_state *reached; /* the next one whose items have not been followed in the sweep */
    target *targets;          /* those known, by symbol */
    int n_targets, cap_targets;
    void *note;
    uint64_t note_key;
    size_t note_size;
    int count, n;
    unsigned char ends, alive;
    item items[]; /* by the element after the dot, then dot, gives, at */
};

enum { FINISHED = INT32_MAX }; /* as a dot: all of it has been read */

typedef struct tried {
    item i;
    uint32_t round;
} tried;

/* A state that stands for all in which the same items wait for the symbol. */
typedef struct place {
    uint64_t hash;
    int32_t symbol;
    rt_earley_state *at; /* NULL: an empty slot */
} place;

struct rt_earley {
    rt_grammar *g;
    const char *what;
    rt_earley_state *start, *newest;
    rt_earley_state *none; /* a step that leads nowhere; no state of the table */
    rt_earley_state **table;
    int n_table, n_states;
    place *places; /* a hash table */
    int n_places, cap_places;
    uint64_t numbers;
    size_t bytes, limit, budget;
    /* The state that is being made. */
    item *work;
    int n_work, cap_work, ends;
    tried *seen; /* a hash table; entries of other rounds are empty */
    int cap_seen;
    uint32_t round;
    uint32_t *predicted; /* by symbol: the round */
    long tries;
};

/* ==== Waiting items ==== */

static int32_t after(const rt_earley *m, const item *i) {
    return m->g->body[i->dot];
}

/* The first item of a state whose next element is `element` or a later one. */
static int find_items(const rt_earley *m, const rt_earley_state *s, int32_t element) {
    int lo = 0, hi = s->n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (after(m, &s->items[mid]) < element)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

static uint64_t hash_item(const item *i) {
    uint64_t h = mix((uint32_t)i->dot, (uint32_t)i->gives);
    return mix(h, i->at ? i->at->number : 0);
}

static int same_item(const item *a, const item *b) {
    return a->dot == b->dot && a->gives == b->gives && a->at == b->at;
}

/* ==== Places ==== */

/* The first target of a state for the symbol or a later one. */
static int find_target(const rt_earley_state *s, int32_t symbol) {
    int lo = 0, hi = s->n_targets;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (s->targets[mid].symbol < symbol)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Without memory it is found again every time. */
static void remember_target(rt_earley *m, rt_earley_state *s, const target *t) {
    int old = s->cap_targets, k = find_target(s, t->symbol);
    if (k < s->n_targets && s->targets[k].symbol == t->symbol) return;
    if (rt_grow(&s->targets, &s->cap_targets, s->n_targets + 1, sizeof *t)) return;
    m->bytes += (size_t)(s->cap_targets - old) * sizeof *t;
    memmove(s->targets + k + 1, s->targets + k, (size_t)(s->n_targets++ - k) * sizeof *t);
    s->targets[k] = *t;
}

/* The symbols that are being looked up, as they may wait for each other in a circle. */
typedef struct path {
    const struct path *up;
    int32_t symbol;
    int depth;
} path;

enum { MAX_PATH = 40 };

static target resolve(rt_earley *m, rt_earley_state *s, int32_t symbol, const path *up);

/* An item that waits for the path's symbol, with the one who is told; at NULL: that is the symbol
 * itself again. */
static item waiting(rt_earley *m, rt_earley_state *s, const item *w, const path *here) {
    if (w->at) return *w;
    if (w->gives == here->symbol) return (item){w->dot, here->symbol, NULL};
    target t = resolve(m, s, w->gives, here);
    int itself = t.at == s && t.gives == here->symbol;
    return (item){w->dot, t.gives, itself ? NULL : t.at};
}

static int waits(const rt_earley *m, const rt_earley_state *s, int k, int32_t symbol) {
    return k < s->n && after(m, &s->items[k]) == symbol;
}

/* Do the same items wait in both states? */
static int same_waiting(rt_earley *m, rt_earley_state *a, rt_earley_state *b, const path *here) {
    int i = find_items(m, a, here->symbol), k = find_items(m, b, here->symbol);
    for (; waits(m, a, i, here->symbol) && waits(m, b, k, here->symbol); i++, k++) {
        item x = waiting(m, a, &a->items[i], here), y = waiting(m, b, &b->items[k], here);
        if (!same_item(&x, &y)) return 0;
    }
    return !waits(m, a, i, here->symbol) && !waits(m, b, k, here->symbol);
}

static void put_place(place *table, int cap, place p) {
    uint64_t h = p.hash;
    while (table[h & (uint64_t)(cap - 1)].at) h++;
    table[h & (uint64_t)(cap - 1)] = p;
}

/* Without memory nothing is added, and states are more than need be. */
static void add_place(rt_earley *m, place p) {
    if (2 * m->n_places >= m->cap_places) {
        int cap = m->cap_places ? 2 * m->cap_places : 64;
        place *grown = retrace_calloc((size_t)cap, sizeof *grown);
        if (!grown) return;
        for (int k = 0; k < m->cap_places; k++)
            if (m->places[k].at) put_place(grown, cap, m->places[k]);
        retrace_free(m->places);
        m->places = grown;
        m->cap_places = cap;
    }
    put_place(m->places, m->cap_places, p);
    m->n_places++;
}

/* The state that stands for s as the place where the symbol began. */
static rt_earley_state *find_place(rt_earley *m, rt_earley_state *s, int32_t symbol,
                                   const path *up) {
    path here = {up, symbol, up ? up->depth + 1 : 0};
    if (here.depth > MAX_PATH) return s;
    for (; up; up = up->up)
        if (up->symbol == symbol) return s;
    uint64_t hash = mix(1, (uint32_t)symbol);
    for (int k = find_items(m, s, symbol); waits(m, s, k, symbol); k++) {
        item w = waiting(m, s, &s->items[k], &here);
        hash = mix(hash, hash_item(&w));
    }
    for (uint64_t h = hash; m->cap_places; h++) {
        const place *p = &m->places[h & (uint64_t)(m->cap_places - 1)];
        rt_earley_state *at = p->at;
        if (!at) break;
        if (p->hash == hash && p->symbol == symbol && same_waiting(m, s, at, &here)) return at;
    }
    add_place(m, (place){hash, symbol, s});
    return s;
}

/* Who is told in the end that the symbol was found that began in state s: passed on while only one
 * item waits, and that one has nothing after it. */
static target resolve(rt_earley *m, rt_earley_state *s, int32_t symbol, const path *up) {
    int known = find_target(s, symbol);
    if (known < s->n_targets && s->targets[known].symbol == symbol) return s->targets[known];
    target t = {symbol, symbol, s};
    for (int n = 0; t.at == s && n < s->n; n++) { /* bounded: they might wait in a circle */
        int k = find_items(m, s, t.gives);
        if (!waits(m, s, k, t.gives) || waits(m, s, k + 1, t.gives)) break;
        const item *w = &s->items[k];
        if (m->g->body[w->dot + 1] != RT_GRAMMAR_END) break;
        t.gives = w->gives;
        if (w->at) t.at = w->at;
    }
    if (t.at == s) t.at = find_place(m, s, t.gives, up);
    remember_target(m, s, &t);
    return t;
}

static void pass_on(rt_earley *m, rt_earley_state *s, item *i) {
    if (i->at) return;
    target t = resolve(m, s, i->gives, NULL);
    i->gives = t.gives;
    i->at = t.at;
}

/* ==== Making a state ==== */

static int grow_seen(rt_earley *m) {
    int cap = m->cap_seen ? 2 * m->cap_seen : 1024;
    tried *grown = retrace_calloc((size_t)cap, sizeof *grown);
    if (!grown) return RETRACE_ENOMEM;
    for (int k = 0; k < m->n_work; k++) {
        uint64_t h = hash_item(&m->work[k]);
        while (grown[h & (uint64_t)(cap - 1)].round == m->round) h++;
        grown[h & (uint64_t)(cap - 1)] = (tried){m->work[k], m->round};
    }
    retrace_free(m->seen);
    m->seen = grown;
    m->cap_seen = cap;
    return RETRACE_OK;
}

/* Adds an item unless it is there. */
static int add(rt_earley *m, int32_t dot, int32_t gives, rt_earley_state *at) {
    item i = {dot, gives, at};
    m->tries++;
    if (m->g->body[dot] == RT_GRAMMAR_END) {
        if (gives == m->g->start) m->ends = 1;
        if (gives == m->g->start || !at) return RETRACE_OK;
        i.dot = FINISHED;
    }
    if (m->n_work * 2 >= m->cap_seen && grow_seen(m)) return RETRACE_ENOMEM;
    uint64_t h = hash_item(&i), mask = (uint64_t)m->cap_seen - 1;
    for (; m->seen[h & mask].round == m->round; h++)
        if (same_item(&m->seen[h & mask].i, &i)) return RETRACE_OK;
    if (rt_grow(&m->work, &m->cap_work, m->n_work + 1, sizeof *m->work)) return RETRACE_ENOMEM;
    m->seen[h & mask] = (tried){i, m->round};
    m->work[m->n_work++] = i;
    return RETRACE_OK;
}

/* An item of state s with the element after its dot read. */
static int advance(rt_earley *m, rt_earley_state *s, const item *old) {
    item i = *old;
    pass_on(m, s, &i);
    return add(m, i.dot + 1, i.gives, i.at);
}

static int predict(rt_earley *m, int32_t symbol) {
    if (m->predicted[symbol] == m->round) return RETRACE_OK;
    m->predicted[symbol] = m->round;
    int rc = RETRACE_OK;
    for (int p = m->g->first[symbol]; rc == RETRACE_OK && p < m->g->first[symbol + 1]; p++)
        rc = add(m, m->g->starts[p], symbol, NULL);
    return rc;
}

/* All that follows from one item. */
static int follow(rt_earley *m, item i) {
    int rc = RETRACE_OK;
    if (i.dot == FINISHED) {
        int k = find_items(m, i.at, i.gives);
        for (; rc == RETRACE_OK && waits(m, i.at, k, i.gives); k++)
            rc = advance(m, i.at, &i.at->items[k]);
        return rc;
    }
    int32_t element = after(m, &i);
    if (element < 0) return RETRACE_OK;
    rc = predict(m, element);
    /* What may be empty has been read already. */
    if (rc == RETRACE_OK && m->g->nullable[element]) rc = add(m, i.dot + 1, i.gives, i.at);
    return rc;
}

static void begin(rt_earley *m) {
    m->round++;
    if (m->round == 0) { /* once in four billion steps */
        memset(m->seen, 0, (size_t)m->cap_seen * sizeof *m->seen);
        memset(m->predicted, 0, (size_t)m->g->n_symbols * sizeof *m->predicted);
        m->round = 1;
    }
    m->n_work = m->ends = 0;
    m->tries = 0;
}

static int follow_all(rt_earley *m, retrace_error *err) {
    for (int k = 0; k < m->n_work; k++) {
        if (follow(m, m->work[k])) return rt_nomem(err);
        if (m->n_work > RT_EARLEY_MAX_ITEMS || m->tries > RT_EARLEY_MAX_WORK)
            return retrace_fail(err, RETRACE_EUSAGE,
                                "%s: there are too many ways to read the text by the grammar",
                                m->what);
    }
    return RETRACE_OK;
}

/* ==== The table of states ==== */

static size_t size_of(const rt_earley *m, const rt_earley_state *s) {
    size_t steps = s->steps ? (size_t)m->g->n_classes * sizeof(void *) : 0;
    return sizeof *s + (size_t)s->n * sizeof(item) + steps + s->note_size +
           (size_t)s->cap_targets * sizeof(target);
}

static int grow_table(rt_earley *m) {
    int n = m->n_table ? 2 * m->n_table : 256;
    rt_earley_state **grown = retrace_calloc((size_t)n, sizeof *grown);
    if (!grown) return RETRACE_ENOMEM;
    for (rt_earley_state *s = m->newest; s; s = s->older) {
        rt_earley_state **slot = &grown[s->hash & (uint64_t)(n - 1)];
        s->same_slot = *slot;
        *slot = s;
    }
    retrace_free(m->table);
    m->table = grown;
    m->n_table = n;
    return RETRACE_OK;
}

/* Sorting keeps the element after the dot beside the item. */
typedef struct keyed {
    item i;
    int32_t element;
} keyed;

static int by_element(const void *a, const void *b) {
    const keyed *x = a, *y = b;
    if (x->element != y->element) return x->element < y->element ? -1 : 1;
    if (x->i.dot != y->i.dot) return x->i.dot < y->i.dot ? -1 : 1;
    if (x->i.gives != y->i.gives) return x->i.gives < y->i.gives ? -1 : 1;
    uint64_t p = x->i.at ? x->i.at->number : 0, q = y->i.at ? y->i.at->number : 0;
    return (p > q) - (p < q);
}

/* Leaves the unfinished items in m->work, sorted. */
static int sort_items(rt_earley *m) {
    int n = 0;
    keyed *sorted = retrace_alloc((size_t)(m->n_work ? m->n_work : 1) * sizeof *sorted);
    if (!sorted) return RETRACE_ENOMEM;
    for (int k = 0; k < m->n_work; k++)
        if (m->work[k].dot != FINISHED) sorted[n++] = (keyed){m->work[k], after(m, &m->work[k])};
    qsort(sorted, (size_t)n, sizeof *sorted, by_element);
    for (int k = 0; k < n; k++) m->work[k] = sorted[k].i;
    m->n_work = n;
    retrace_free(sorted);
    return RETRACE_OK;
}

static rt_earley_state *find_state(const rt_earley *m, uint64_t hash) {
    rt_earley_state *s = m->table[hash & (uint64_t)(m->n_table - 1)];
    for (; s; s = s->same_slot) {
        int k = 0;
        if (s->hash != hash || s->n != m->n_work || s->ends != m->ends) continue;
        while (k < s->n && same_item(&s->items[k], &m->work[k])) k++;
        if (k == s->n) return s;
    }
    return NULL;
}

/* The state that has the items in m->work; NULL: out of memory. */
static rt_earley_state *intern(rt_earley *m) {
    if (sort_items(m)) return NULL;
    if (m->n_work == 0 && !m->ends) return m->none;
    uint64_t hash = (uint64_t)m->ends;
    for (int k = 0; k < m->n_work; k++) hash = mix(hash, hash_item(&m->work[k]));
    if (m->n_states >= m->n_table && grow_table(m)) return NULL;
    rt_earley_state *s = find_state(m, hash);
    if (s) return s;
    size_t items = (size_t)m->n_work * sizeof(item);
    s = retrace_alloc(sizeof *s + items);
    if (!s) return NULL;
    *s = (rt_earley_state){.hash = hash, .number = ++m->numbers, .n = m->n_work};
    s->ends = m->ends != 0;
    if (items) memcpy(s->items, m->work, items);
    rt_earley_state **slot = &m->table[hash & (uint64_t)(m->n_table - 1)];
    s->same_slot = *slot;
    *slot = s;
    s->older = m->newest;
    m->newest = s;
    m->n_states++;
    m->bytes += size_of(m, s);
    return s;
}

/* ==== Forgetting ==== */

static void forget(rt_earley *m, rt_earley_state *s) {
    m->bytes -= size_of(m, s);
    m->n_states--;
    retrace_free(s->steps);
    retrace_free(s->targets);
    retrace_free(s->note);
    retrace_free(s);
}

static void reach(rt_earley_state *s, rt_earley_state **todo) {
    if (s->alive) return;
    s->alive = 1;
    s->reached = *todo;
    *todo = s;
}

static void mark_alive(rt_earley *m) {
    rt_earley_state *todo = NULL;
    for (rt_earley_state *s = m->newest; s; s = s->older)
        if (s->count > 0) reach(s, &todo);
    while (todo) {
        rt_earley_state *s = todo;
        todo = s->reached;
        for (int k = 0; k < s->n; k++)
            if (s->items[k].at) reach(s->items[k].at, &todo);
    }
}

/* Pointers that do not count, of a state, to states that will be gone. */
static void cut_pointers(const rt_earley *m, rt_earley_state *s) {
    for (int c = 0; s->steps && c < m->g->n_classes; c++)
        if (s->steps[c] && s->steps[c] != m->none && !s->steps[c]->alive) s->steps[c] = NULL;
    int n = 0;
    for (int k = 0; k < s->n_targets; k++)
        if (s->targets[k].at->alive) s->targets[n++] = s->targets[k];
    s->n_targets = n;
}

static void cut_places(rt_earley *m) {
    place *kept = m->places;
    int n = 0, cap = m->cap_places;
    m->places = NULL;
    m->n_places = m->cap_places = 0;
    for (int k = 0; k < cap; k++)
        if (kept[k].at && kept[k].at->alive) kept[n++] = kept[k];
    for (int k = 0; k < n; k++) add_place(m, kept[k]);
    retrace_free(kept);
}

static void sweep(rt_earley *m) {
    mark_alive(m);
    for (rt_earley_state *s = m->newest; s; s = s->older) cut_pointers(m, s);
    cut_places(m);
    memset(m->table, 0, (size_t)m->n_table * sizeof *m->table);
    rt_earley_state **link = &m->newest;
    for (rt_earley_state *s = m->newest, *older; s; s = older) {
        older = s->older;
        if (!s->alive) {
            forget(m, s);
            continue;
        }
        rt_earley_state **slot = &m->table[s->hash & (uint64_t)(m->n_table - 1)];
        s->alive = 0;
        s->same_slot = *slot;
        *slot = s;
        *link = s;
        link = &s->older;
    }
    *link = NULL;
    m->limit = 2 * m->bytes > m->budget ? 2 * m->bytes : m->budget;
}

/* ==== Steps ==== */

static int make_step(rt_earley *m, rt_earley_state *from, unsigned char byte, retrace_error *err) {
    int c = m->g->class_of[byte];
    if (!from->steps) {
        from->steps = retrace_calloc((size_t)m->g->n_classes, sizeof(void *));
        if (!from->steps) return rt_nomem(err);
        m->bytes += (size_t)m->g->n_classes * sizeof(void *);
    }
    begin(m);
    for (int k = 0; k < from->n; k++) {
        int32_t element = after(m, &from->items[k]);
        if (element >= 0) break; /* byte sets come first */
        if (!rt_byteset_has(&m->g->sets[rt_grammar_set_of(element)], byte)) continue;
        if (advance(m, from, &from->items[k])) return rt_nomem(err);
    }
    int rc = follow_all(m, err);
    if (rc) return rc;
    rt_earley_state *to = intern(m);
    if (!to) return rt_nomem(err);
    from->steps[c] = to;
    return RETRACE_OK;
}

int rt_earley_step(rt_earley *m, rt_earley_state *from, unsigned char byte, rt_earley_state **to,
                   retrace_error *err) {
    int c = m->g->class_of[byte];
    if (!from->steps || !from->steps[c]) {
        from->count++;
        if (m->bytes > m->limit) sweep(m);
        int rc = make_step(m, from, byte, err);
        from->count--;
        if (rc) return rc;
    }
    *to = from->steps[c] == m->none ? NULL : from->steps[c];
    return RETRACE_OK;
}

int rt_earley_feed(rt_earley *m, rt_earley_state *from, const char *s, size_t n,
                   rt_earley_state **to, retrace_error *err) {
    *to = from;
    for (size_t i = 0; *to && i < n; i++) {
        int rc = rt_earley_step(m, *to, (unsigned char)s[i], to, err);
        if (rc) return rc;
    }
    return RETRACE_OK;
}

int rt_earley_can_end(const rt_earley_state *s) {
    return s->ends;
}

void rt_earley_keep(rt_earley_state *s) {
    if (s) s->count++;
}

void rt_earley_drop(rt_earley_state *s) {
    if (s) s->count--;
}

/* ==== Notes and figures ==== */

void *rt_earley_note(const rt_earley_state *s, uint64_t key) {
    return s->note && s->note_key == key ? s->note : NULL;
}

void rt_earley_note_put(rt_earley *m, rt_earley_state *s, uint64_t key, void *note, size_t size) {
    m->bytes += size - s->note_size;
    retrace_free(s->note);
    s->note = note;
    s->note_key = key;
    s->note_size = size;
}

void rt_earley_figures(const rt_earley *m, int *states, size_t *bytes) {
    *states = m->n_states;
    *bytes = m->bytes;
}

/* ==== The matcher ==== */

static int make_start(rt_earley *m, retrace_error *err) {
    begin(m);
    if (predict(m, m->g->start)) return rt_nomem(err);
    int rc = follow_all(m, err);
    if (rc) return rc;
    m->start = intern(m);
    if (!m->start) return rt_nomem(err);
    m->start->count = 1;
    return RETRACE_OK;
}

int rt_earley_new(rt_earley **out, rt_grammar *g, size_t budget, const char *what,
                  retrace_error *err) {
    rt_earley *m = retrace_calloc(1, sizeof *m);
    if (!m) {
        rt_grammar_free(g);
        return rt_nomem(err);
    }
    m->g = g;
    m->what = what;
    m->budget = m->limit = budget;
    m->predicted = retrace_calloc((size_t)g->n_symbols, sizeof *m->predicted);
    m->none = retrace_calloc(1, sizeof *m->none);
    int rc = m->predicted && m->none ? make_start(m, err) : rt_nomem(err);
    if (rc)
        rt_earley_free(m);
    else
        *out = m;
    return rc;
}

void rt_earley_free(rt_earley *m) {
    if (!m) return;
    for (rt_earley_state *s = m->newest, *older; s; s = older) {
        older = s->older;
        forget(m, s);
    }
    rt_grammar_free(m->g);
    retrace_free(m->none);
    retrace_free(m->places);
    retrace_free(m->table);
    retrace_free(m->work);
    retrace_free(m->seen);
    retrace_free(m->predicted);
    retrace_free(m);
}

rt_earley_state *rt_earley_start(const rt_earley *m) {
    return m->start;
}
