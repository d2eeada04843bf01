/* phrases.c - the rule that bans phrases.
 *
 * Text that completes a phrase is erased from the token that holds the phrase's first byte,
 * whatever tokens spell it, and that token is banned there. A phrase begun in the prompt goes back
 * to the first generated token; one that lies wholly in the prompt is nothing. Of several hits the
 * one that begins first counts. The rule's memory of a run is the matcher's state.
 *
 * Promise: with weight 0 no answer contains a phrase, in the sense of the settings. With a weight w
 * between, each hit is let through with probability w, by itself; 1 lets all through and holds
 * nothing back. One draw a hit, with an exception: a hit that a word edge (or nfc) leaves open at
 * the end of a token is drawn for again when a stop text follows it at once, because it is then
 * decided twice. */
#include "retrace_ext.h"
#include "strategies.h"
#include "text/banlist.h"
#include "text/matcher.h"
#include "text/utf8.h"
#include "base.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PHRASES = 1000000, MAX_FILE = 1 << 30 };

typedef struct phrases {
    retrace_texts text, file;
    int exact, word, quotes, space, nfc;
    double weight;
    rt_banlist *lists; /* one for each file */
    retrace_text *all; /* the texts, then the files' phrases */
    uint32_t n;
    rt_lexicon *lexicon;
} phrases;

/* ==== Settings ==== */

/* Writes what a person knows phrase i by. */
static void name_phrase(const phrases *self, uint32_t i, char *out, size_t room) {
    if (i < (uint32_t)self->text.n) {
        snprintf(out, room, "phrases: text %lu", (unsigned long)i + 1);
        return;
    }
    i -= (uint32_t)self->text.n;
    int f = 0;
    for (; i >= self->lists[f].n; f++) i -= self->lists[f].n;
    snprintf(out, room, "phrases: file %d, line %lu", f + 1,
             (unsigned long)self->lists[f].lines[i]);
}

static int check_text(retrace_text t, int number, retrace_error *err) {
    if (t.n == 0) return retrace_fail(err, RETRACE_EUSAGE, "phrases: text %d is empty", number);
    if (t.n > RT_PHRASE_MAX)
        return retrace_fail(err, RETRACE_EUSAGE, "phrases: text %d has more than %d bytes", number,
                            RT_PHRASE_MAX);
    size_t at = rt_utf8_check(t.s, t.n);
    if (at < t.n)
        return retrace_fail(err, RETRACE_EUSAGE, "phrases: text %d is not valid UTF-8 at byte %lu",
                            number, (unsigned long)at);
    return RETRACE_OK;
}

/* Checks the texts, reads the files, and counts. */
static int read_lists(phrases *self, retrace_error *err) {
    if (self->text.n > MAX_PHRASES)
        return retrace_fail(err, RETRACE_EUSAGE, "phrases: more than %d phrases", MAX_PHRASES);
    for (int i = 0; i < self->text.n; i++) {
        int rc = check_text(self->text.v[i], i + 1, err);
        if (rc) return rc;
    }
    self->n = (uint32_t)self->text.n;
    self->lists = retrace_calloc((size_t)self->file.n + 1, sizeof *self->lists);
    if (!self->lists) return rt_nomem(err);
    for (int f = 0; f < self->file.n; f++) {
        char name[40];
        snprintf(name, sizeof name, "phrases: file %d", f + 1);
        if (self->file.v[f].n > MAX_FILE)
            return retrace_fail(err, RETRACE_EUSAGE, "%s has more than %d bytes", name, MAX_FILE);
        int rc = rt_banlist_parse(&self->lists[f], self->file.v[f], name, RT_PHRASE_MAX,
                                  MAX_PHRASES - self->n, err);
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
    for (int f = 0; f < self->file.n; f++) {
        for (uint32_t i = 0; i < self->lists[f].n; i++) *to++ = self->lists[f].phrases[i];
    }
    return RETRACE_OK;
}

static int init(void *memory, retrace_error *err) {
    phrases *self = memory;
    int rc = read_lists(self, err);
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
    for (int f = 0; self->lists && f < self->file.n; f++) rt_banlist_free(&self->lists[f]);
    retrace_free(self->lists);
    retrace_free(self->all);
    rt_lexicon_free(self->lexicon);
}

/* ==== A run ==== */

static rt_match_text text_of(const retrace_view *v) {
    return (rt_match_text){v->before, v->text};
}

/* The token that holds a byte of the answer; 0 for what stands before it. */
static int token_at(const retrace_view *v, ptrdiff_t byte) {
    int lo = 0, hi = v->n - 1;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (byte < 0 || v->ends[mid] > (size_t)byte)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static int start(const void *self, const retrace_view *v, void *mark, retrace_error *err) {
    (void)err;
    rt_match_text t = text_of(v);
    rt_match_feed(((const phrases *)self)->lexicon, mark, &t, -(ptrdiff_t)v->before.n, 0, NULL,
                  NULL);
    return RETRACE_OK;
}

/* The hits of one judgement. */
typedef struct verdict {
    const phrases *self;
    const retrace_view *v;
    int found;
    rt_hit first;
} verdict;

/* Each hit has its own draw, in the order of their ends; of those refused the first one counts. */
static int hear(void *ud, const rt_hit *hit) {
    verdict *now = ud;
    double w = now->self->weight;
    if ((size_t)hit->end >= now->v->limit) return 1;
    if (w > 0 && retrace_view_choose(now->v, (double[]){w, 1 - w}, 2) == 0) return 0;
    int earlier = hit->start < now->first.start ||
                  (hit->start == now->first.start && hit->end < now->first.end);
    if (!now->found || earlier) now->first = *hit;
    now->found = 1;
    return w == 0;
}

static void propose(const verdict *now, retrace_proposal *p) {
    retrace_text phrase = now->self->all[now->first.phrase];
    size_t n = rt_utf8_cut(phrase.s, phrase.n, sizeof p->why - 1);
    memcpy(p->why, phrase.s, n);
    p->why[n] = '\0';
    p->to = token_at(now->v, now->first.start);
    p->end = (size_t)now->first.end;
}

static int judge(const void *memory, const retrace_view *v, void *mark, retrace_proposal *p,
                 retrace_error *err) {
    (void)err;
    const phrases *self = memory;
    if (self->weight >= 1 || v->n == 0) return RETRACE_OK;
    verdict now = {.self = self, .v = v};
    rt_match_text t = text_of(v);
    ptrdiff_t from = (ptrdiff_t)retrace_view_start(v), length = (ptrdiff_t)retrace_view_length(v);
    /* What the newest token decided was judged when it came; the ending decides the rest. */
    int ending = v->ending != RETRACE_GOING;
    rt_match_feed(self->lexicon, mark, &t, from, length, ending ? NULL : hear, &now);
    if (ending) rt_match_end(self->lexicon, mark, &t, length, hear, &now);
    if (!now.found) return RETRACE_OK;
    propose(&now, p);
    return RETRACE_DONE;
}

static int horizon(const void *memory, const retrace_view *v, const void *mark) {
    const phrases *self = memory;
    if (self->weight >= 1 || v->n == 0) return v->n;
    rt_match_text t = text_of(v);
    ptrdiff_t length = (ptrdiff_t)retrace_view_length(v);
    ptrdiff_t first = rt_match_hold(self->lexicon, mark, &t, length);
    return first == length ? v->n : token_at(v, first);
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
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_phrases = {
    .abi = RETRACE_ABI,
    .name = "phrases",
    .help = "bans phrases, whatever tokens spell them",
    .settings = settings,
    .size = sizeof(phrases),
    .mark_size = sizeof(rt_match_state),
    .certain = certain,
    .init = init,
    .fini = fini,
    .start = start,
    .judge = judge,
    .horizon = horizon,
};
