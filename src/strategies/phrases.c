/* phrases.c - the rule that bans phrases.
 *
 * Text that completes a phrase is erased from the token that holds the phrase's first byte,
 * whatever tokens spell it, and that token is banned there. A phrase begun in the prompt goes back
 * to the first generated token; one that lies wholly in the prompt is nothing. Of several hits the
 * one that begins first counts. The rule's memory of a run is its mark: the matcher's state and
 * what scope and max_count need.
 *
 * `scope` says what is a hit at all, by where it begins (text/scope.h has the exact terms; the
 * prompt's text, from its last control token on, is read too). Then max_count: phrases that
 * complete at the same byte are one hit, and in the order in which they complete the first
 * max_count hits of the text that stands are let through, for all phrases of the rule together.
 * Then weight: each phrase of a hit beyond those is let through with probability `weight`, by
 * itself; it is not counted.
 *
 * Promise: with weight 0 the answer has at most max_count (by default none) hits in scope, in the
 * sense of the settings. Weight 1 lets all through and holds nothing back. One draw a phrase,
 * with an exception: one that a word edge (or nfc) leaves open at the end of a token is drawn for
 * again when a stop text follows it at once, because it is then decided twice.
 *
 * A word edge is a place where no letter, digit or mark stands on the other side (general
 * categories L, N, M). That is narrower than the word breaks of Unicode's UAX #29, which has
 * "can't" and "3.14" for one word each: a ban of "can" is meant to find it in "can't".
 *
 * With weight 0 the rule is `certain`: whether a hit is rejected depends on the text up to the byte
 * that decides it, its scope and the hits before it included; what follows changes none of that. */
#include "retrace_ext.h"
#include "strategies.h"
#include "reading.h"
#include "text/banlist.h"
#include "text/scope.h"
#include "base.h"

#include <stddef.h>
#include <stdio.h>

enum { MAX_PHRASES = 1000000, MAX_FILE = 1 << 30 };

typedef struct phrases {
    retrace_texts text, file, list;
    int exact, word, quotes, space, nfc, scope;
    int64_t max_count;
    double weight;
    rt_banlist *lists; /* one for each file, then one for each list */
    retrace_text *all; /* the texts, then the phrases of these */
    uint32_t n;
    rt_lexicon *lexicon;
} phrases;

/* ==== Settings ==== */

static int n_lists(const phrases *self) {
    return self->file.n + self->list.n;
}

/* "phrases: file 2": what a person knows list f by. */
static void name_list(const phrases *self, int f, char *out, size_t room) {
    int named = f >= self->file.n;
    snprintf(out, room, "phrases: %s %d", named ? "list" : "file",
             (named ? f - self->file.n : f) + 1);
}

static retrace_text list_of(const phrases *self, int f) {
    return f < self->file.n ? self->file.v[f] : self->list.v[f - self->file.n];
}

/* Writes what a person knows phrase i by. */
static void name_phrase(const phrases *self, uint32_t i, char *out, size_t room) {
    if (i < (uint32_t)self->text.n) {
        snprintf(out, room, "phrases: text %lu", (unsigned long)i + 1);
        return;
    }
    i -= (uint32_t)self->text.n;
    int f = 0;
    for (; i >= self->lists[f].n; f++) i -= self->lists[f].n;
    char list[40];
    name_list(self, f, list, sizeof list);
    snprintf(out, room, "%s, line %lu", list, (unsigned long)self->lists[f].lines[i]);
}

static int check_texts(const phrases *self, retrace_error *err) {
    if (self->text.n > MAX_PHRASES)
        return retrace_fail(err, RETRACE_EUSAGE, "phrases: more than %d phrases", MAX_PHRASES);
    for (int i = 0; i < self->text.n; i++) {
        char name[40];
        snprintf(name, sizeof name, "phrases: text %d", i + 1);
        int rc = rt_reading_check(name, self->text.v[i], err);
        if (rc) return rc;
    }
    return RETRACE_OK;
}

/* Reads the files and lists, and counts. */
static int read_lists(phrases *self, retrace_error *err) {
    self->n = (uint32_t)self->text.n;
    self->lists = retrace_calloc((size_t)n_lists(self) + 1, sizeof *self->lists);
    if (!self->lists) return rt_nomem(err);
    for (int f = 0; f < n_lists(self); f++) {
        char name[40];
        name_list(self, f, name, sizeof name);
        retrace_text file = list_of(self, f);
        if (file.n > MAX_FILE)
            return retrace_fail(err, RETRACE_EUSAGE, "%s has more than %d bytes", name, MAX_FILE);
        int rc = rt_banlist_parse(&self->lists[f], file, name, RT_PHRASE_MAX, MAX_PHRASES - self->n,
                                  err);
        if (rc) return rc;
        self->n += self->lists[f].n;
    }
    return RETRACE_OK;
}

static int gather(phrases *self, retrace_error *err) {
    self->all = retrace_calloc((size_t)self->n + 1, sizeof *self->all);
    if (!self->all) return rt_nomem(err);
    retrace_text *to = self->all;
    for (int i = 0; i < self->text.n; i++) *to++ = self->text.v[i];
    for (int f = 0; f < n_lists(self); f++) {
        for (uint32_t i = 0; i < self->lists[f].n; i++) *to++ = self->lists[f].phrases[i];
    }
    return RETRACE_OK;
}

static int init(void *memory, retrace_error *err) {
    phrases *self = memory;
    int rc = check_texts(self, err);
    if (rc == RETRACE_OK) rc = read_lists(self, err);
    if (rc == RETRACE_OK) rc = gather(self, err);
    if (rc) return rc;
    int how = (self->exact ? 0 : RT_FOLD_CASE) | (self->quotes ? RT_FOLD_QUOTES : 0) |
              (self->space ? RT_FOLD_SPACE : 0) | (self->nfc ? RT_FOLD_NFC : 0);
    uint32_t bad;
    rc = rt_lexicon_new(&self->lexicon, self->all, self->n, how, self->word, &bad, err);
    if (rc && bad < self->n) {
        char name[64];
        name_phrase(self, bad, name, sizeof name);
        return retrace_fail(
            err, rc,
            "%s begins with a mark, which nfc=true takes for part of the character before it",
            name);
    }
    return rc;
}

static void fini(void *memory) {
    phrases *self = memory;
    for (int f = 0; self->lists && f < n_lists(self); f++) rt_banlist_free(&self->lists[f]);
    retrace_free(self->lists);
    retrace_free(self->all);
    rt_lexicon_free(self->lexicon);
}

/* ==== A run ==== */

/* What is known at a place of the text. */
typedef struct mark {
    rt_match_state match;
    rt_scope_state scope;
    int64_t count;  /* hits that max_count let through */
    size_t counted; /* where the last of them ends */
} mark;

static int start(const void *memory, const retrace_view *v, void *mark_, retrace_error *err) {
    (void)err;
    const phrases *self = memory;
    mark *m = mark_;
    rt_reading_start(self->lexicon, v, &m->match);
    rt_scope_read(self->scope, &m->scope, v->before.s, v->before.n);
    return RETRACE_OK;
}

/* ==== Scope ==== */

/* What is known at byte `at`: from the mark of the place before the token that holds it. */
static rt_scope_state scope_at(const phrases *self, const retrace_view *v, ptrdiff_t at) {
    rt_scope_state st = {0};
    if (at < 0) {
        rt_scope_read(self->scope, &st, v->before.s, v->before.n - (size_t)-at);
        return st;
    }
    int k = rt_reading_token(v, at);
    size_t from = k > 0 ? v->ends[k - 1] : 0;
    st = ((const mark *)retrace_view_mark(v, k))->scope;
    rt_scope_read(self->scope, &st, v->text + from, (size_t)at - from);
    return st;
}

/* Does what begins at byte `from` count, as far as the text up to `to` tells? */
static int in_scope(const phrases *self, const retrace_view *v, ptrdiff_t from, ptrdiff_t to,
                    int whole) {
    if (self->scope == RT_SCOPE_ANSWER) return 1;
    retrace_text parts[2] = {{0}};
    if (from < 0)
        parts[0] = (retrace_text){v->before.s + (ptrdiff_t)v->before.n + from, (size_t)-from};
    size_t begin = from < 0 ? 0 : (size_t)from;
    parts[1] = (retrace_text){v->text + begin, (size_t)to - begin};
    rt_scope_state st = scope_at(self, v, from);
    return rt_scope_admits(self->scope, &st, parts, whole);
}

/* ==== Judging ==== */

/* The hits of one judgement. */
typedef struct verdict {
    const phrases *self;
    const retrace_view *v;
    mark *mark;
    int known; /* 1: these were judged before */
    int found;
    rt_hit first;
} verdict;

/* Is the hit one of the first max_count? */
static int is_free(const phrases *self, mark *m, size_t end) {
    if (m->count > 0 && m->counted == end) return 1;
    if (m->count >= self->max_count) return 0;
    m->count++;
    m->counted = end;
    return 1;
}

/* Each hit has its own draw, in the order of their ends; of those refused the first one counts. */
static int hear(void *ud, const rt_hit *hit) {
    verdict *now = ud;
    const phrases *self = now->self;
    if ((size_t)hit->end >= now->v->limit) return 1;
    if (!in_scope(self, now->v, hit->start, hit->end, 1)) return 0;
    if (is_free(self, now->mark, (size_t)hit->end)) return 1;
    if (now->known) return 0;
    double w = self->weight;
    if (w > 0 && retrace_view_choose(now->v, (double[]){w, 1 - w}, 2) == 0) return 0;
    int earlier = hit->start < now->first.start ||
                  (hit->start == now->first.start && hit->end < now->first.end);
    if (!now->found || earlier) now->first = *hit;
    now->found = 1;
    return w == 0;
}

/* What the newest token decided was judged when it came; the ending decides the rest. */
static void read_on(verdict *now) {
    const phrases *self = now->self;
    const retrace_view *v = now->v;
    mark *m = now->mark;
    rt_match_text t = rt_reading_text(v);
    size_t from = retrace_view_start(v), length = retrace_view_length(v);
    now->known = v->ending != RETRACE_GOING;
    int deaf = now->known && self->max_count == 0;
    rt_match_feed(self->lexicon, &m->match, &t, (ptrdiff_t)from, (ptrdiff_t)length,
                  deaf ? NULL : hear, now);
    rt_scope_read(self->scope, &m->scope, v->text + from, length - from);
    if (!now->known) return;
    now->known = 0;
    rt_match_end(self->lexicon, &m->match, &t, (ptrdiff_t)length, hear, now);
}

static int judge(const void *memory, const retrace_view *v, void *mark_, retrace_proposal *p,
                 retrace_error *err) {
    (void)err;
    const phrases *self = memory;
    if (self->weight >= 1 || v->n == 0) return RETRACE_OK;
    verdict now = {.self = self, .v = v, .mark = mark_};
    read_on(&now);
    if (!now.found) return RETRACE_OK;
    rt_reading_propose(v, now.first.start, now.first.end, self->all[now.first.phrase], p);
    return RETRACE_DONE;
}

/* ==== Holding ==== */

/* A rule at a place, for rt_match_hold. */
typedef struct place {
    const phrases *self;
    const retrace_view *v;
} place;

static int may_count(const void *ud, ptrdiff_t begin) {
    const place *at = ud;
    return in_scope(at->self, at->v, begin, (ptrdiff_t)retrace_view_length(at->v), 0);
}

/* Also what max_count would let through as it stands is held: shorter hits may come before it ends
 * and use up the number. */
static int horizon(const void *memory, const retrace_view *v, const void *mark_) {
    const phrases *self = memory;
    if (self->weight >= 1) return v->n;
    place at = {self, v};
    return rt_reading_horizon(self->lexicon, v, &((const mark *)mark_)->match,
                              self->scope == RT_SCOPE_ANSWER ? NULL : may_count, &at);
}

static int certain(const void *memory) {
    const phrases *self = memory;
    return self->weight <= 0 || self->weight >= 1;
}

/* ==== The table ==== */

static const retrace_setting_info settings[] = {
    {"text", RETRACE_TEXTS, offsetof(phrases, text), NULL, 1, RT_PHRASE_MAX, NULL,
     "a phrase that the answer must not contain"},
    {"file", RETRACE_FILE, offsetof(phrases, file), NULL, 0, MAX_FILE, NULL,
     "a file of phrases, one a line; # begins a comment, \"quotes\" keep white space"},
    {"list", RETRACE_LIST, offsetof(phrases, list), NULL, 0, MAX_FILE, NULL,
     "a file of phrases by the name it has among the lists"},
    {"case", RETRACE_CHOICE, offsetof(phrases, exact), "fold", 0, 0, "fold|exact",
     "fold: capitals and small letters are the same, as Unicode folds them"},
    {"word", RETRACE_CHOICE, offsetof(phrases, word), "false", 0, 0, "false|true|start",
     "no letter, digit or mark may touch the phrase; start: on its left"},
    {"quotes", RETRACE_BOOL, offsetof(phrases, quotes), "false", 0, 0, NULL,
     "curly and straight quotes are the same"},
    {"space", RETRACE_BOOL, offsetof(phrases, space), "false", 0, 0, NULL,
     "any run of white space is one space"},
    {"nfc", RETRACE_BOOL, offsetof(phrases, nfc), "false", 0, 0, NULL,
     "a letter with an accent is the same in one character or two"},
    {"weight", RETRACE_REAL, offsetof(phrases, weight), "0", 0, 1, NULL,
     "the probability with which a hit is let through; 0 bans"},
    {"max_count", RETRACE_INT, offsetof(phrases, max_count), "0", 0, 1000000000, NULL,
     "the first so many hits of an answer are let through"},
    {"scope", RETRACE_CHOICE, offsetof(phrases, scope), "answer", 0, 0,
     "answer|outside-code|sentence-start",
     "where a phrase counts: anywhere, not inside ``` blocks, or where it begins a sentence"},
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_phrases = {
    .abi = RETRACE_ABI,
    .name = "phrases",
    .help = "bans phrases, whatever tokens spell them",
    .settings = settings,
    .size = sizeof(phrases),
    .mark_size = sizeof(mark),
    .certain = certain,
    .init = init,
    .fini = fini,
    .start = start,
    .judge = judge,
    .horizon = horizon,
};
