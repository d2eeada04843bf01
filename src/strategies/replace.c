/* replace.c - the rule that writes another text instead of a phrase.
 *
 * A *match* is `find` in the text, whatever tokens spell it, by `case` and `word` as in phrases.
 * When it is decided, let k be the token that holds its first byte. Tokens k and on are erased and
 * the text of token k before the match, then `replace`, is forced there. If that text is empty, if
 * the match begins in the prompt (k is 0 then), or if no tokens spell the text, nothing is forced:
 * token k is banned there and drawn again. Of several matches decided at once the one that begins
 * first is taken.
 *
 * A match stands, and is as if it were none, when
 *   - it begins before the end of the newest text that the rule itself has put there (so a
 *     replacement that contains `find` is final),
 *   - max_replacements texts of the rule's stand before it,
 *   - it begins before generated token skip_tokens (the first is 0); one begun in the prompt does
 *     when skip_tokens is above 0,
 *   - max_new_tokens_for_replace is not -1 and less than the number of generated tokens when it is
 *     decided, the newest included,
 *   - the model's own probability of token k (temperature 1, no bans), whoever put it there, is
 *     above max_prob.
 *
 * All of that is in the mark or the view, so it is right after rewinds, and each place is gone back
 * to a bounded number of times: once by force, then by bans. A text that was put there leaves its
 * count in the mark; a ban leaves nothing that could be counted, so an empty `replace` goes with
 * max_replacements -1 or 0 only.
 *
 * Promise: `find` stands nowhere but for these reasons. Where other rules refuse the text that is
 * put there, token k is banned instead (the engine does that). */
#include "retrace_ext.h"
#include "strategies.h"
#include "reading.h"
#include "base.h"

#include <math.h>
#include <stddef.h>

typedef struct replacer {
    retrace_text find, replace;
    int fold, word;
    int64_t max_replacements, skip_tokens, max_new_tokens;
    double max_prob;
    rt_lexicon *lexicon;
} replacer;

/* What is known at a place of the text. */
typedef struct mark {
    rt_match_state match;
    ptrdiff_t written; /* where the newest text of the rule's ends; PTRDIFF_MIN: there is none */
    int64_t count;     /* texts of the rule's */
    double p;          /* of the newest token, with max_prob below 1; 0: its distribution is gone */
} mark;

/* ==== Settings ==== */

static int init(void *memory, retrace_error *err) {
    replacer *self = memory;
    int rc = rt_reading_check("replace: find", self->find, err);
    if (rc) return rc;
    if (self->replace.n == 0 && self->max_replacements > 0)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "replace: max_replacements needs a text to replace by");
    size_t at = rt_utf8_check(self->replace.s, self->replace.n);
    if (at < self->replace.n)
        return retrace_fail(err, RETRACE_EUSAGE, "replace: replace is not valid UTF-8 at byte %lu",
                            (unsigned long)at);
    uint32_t bad;
    return rt_lexicon_new(&self->lexicon, &self->find, 1, self->fold ? RT_FOLD_CASE : 0, self->word,
                          &bad, err);
}

static void fini(void *memory) {
    rt_lexicon_free(((replacer *)memory)->lexicon);
}

/* ==== Matches ==== */

static int start(const void *memory, const retrace_view *v, void *mark_, retrace_error *err) {
    (void)err;
    mark *m = mark_;
    rt_reading_start(((const replacer *)memory)->lexicon, v, &m->match);
    m->written = PTRDIFF_MIN;
    return RETRACE_OK;
}

/* A rule at a place. */
typedef struct place {
    const replacer *self;
    const retrace_view *v;
    const mark *mark;
    int found;
    rt_hit first;
} place;

/* May a match that begins there be replaced, as far as that alone decides? */
static int may_begin(const void *ud, ptrdiff_t begin) {
    const place *at = ud;
    if (begin < at->mark->written) return 0;
    return rt_reading_token(at->v, begin) >= at->self->skip_tokens;
}

/* Is anything still replaced that is decided when n tokens have been generated? */
static int is_active(const replacer *self, const mark *m, int n) {
    if (self->max_replacements >= 0 && m->count >= self->max_replacements) return 0;
    return self->max_new_tokens < 0 || n <= self->max_new_tokens;
}

static int is_probable(const place *at, ptrdiff_t begin) {
    if (at->self->max_prob >= 1) return 0;
    int k = rt_reading_token(at->v, begin);
    const mark *m = k + 1 < at->v->n ? retrace_view_mark(at->v, k + 1) : at->mark;
    return m->p > at->self->max_prob;
}

static int hear(void *ud, const rt_hit *hit) {
    place *at = ud;
    if ((size_t)hit->end >= at->v->limit) return 1;
    if (!may_begin(at, hit->start) || is_probable(at, hit->start)) return 0;
    if (!at->found || hit->start < at->first.start) at->first = *hit;
    at->found = 1;
    return 1;
}

/* ==== Judging ==== */

/* Reads the newest token. */
static void read_on(const replacer *self, place *at, mark *m) {
    const retrace_view *v = at->v;
    rt_match_text t = rt_reading_text(v);
    ptrdiff_t from = (ptrdiff_t)retrace_view_start(v), length = (ptrdiff_t)retrace_view_length(v);
    if (v->forced) {
        m->written = length;
        m->count += v->forced == 1;
    }
    int measured = self->max_prob < 1 && v->drawn && !v->forced;
    m->p = measured ? exp(retrace_dist_logp(v->drawn, v->tokens[v->n - 1])) : 0;
    int ending = v->ending != RETRACE_GOING, active = is_active(self, m, v->n);
    rt_match_feed(self->lexicon, &m->match, &t, from, length, active && !ending ? hear : NULL, at);
    if (active && ending) rt_match_end(self->lexicon, &m->match, &t, length, hear, at);
}

/* The text of the first erased token that lies before the match, and the replacement. */
static int force(const place *at, retrace_proposal *p, retrace_error *err) {
    const retrace_view *v = at->v;
    if (at->first.start < 0) return RETRACE_OK;
    size_t from = p->to > 0 ? v->ends[p->to - 1] : 0;
    rt_buf text = {0};
    int rc = rt_buf_add(&text, v->text + from, (size_t)at->first.start - from);
    if (rc == RETRACE_OK) rc = rt_buf_add(&text, at->self->replace.s, at->self->replace.n);
    if (rc) rc = rt_nomem(err);
    if (rc == RETRACE_OK && text.n)
        rc = retrace_view_tokenize(v, (retrace_text){text.s, text.n}, &p->force, &p->n_force, err);
    rt_buf_free(&text);
    return rc == RETRACE_DONE ? RETRACE_OK : rc;
}

static int judge(const void *memory, const retrace_view *v, void *mark_, retrace_proposal *p,
                 retrace_error *err) {
    const replacer *self = memory;
    place at = {.self = self, .v = v, .mark = mark_};
    if (v->n == 0) return RETRACE_OK;
    read_on(self, &at, mark_);
    if (!at.found) return RETRACE_OK;
    rt_reading_propose(v, at.first.start, at.first.end, self->find, p);
    int rc = force(&at, p, err);
    return rc ? rc : RETRACE_DONE;
}

static int horizon(const void *memory, const retrace_view *v, const void *mark_) {
    const replacer *self = memory;
    place at = {.self = self, .v = v, .mark = mark_};
    /* What is undecided here may still be decided by the ending, at this very place. */
    if (!is_active(self, mark_, v->n)) return v->n;
    return rt_reading_horizon(self->lexicon, v, &at.mark->match, may_begin, &at);
}

/* ==== The table ==== */

static const retrace_setting_info settings[] = {
    {"find", RETRACE_TEXT, offsetof(replacer, find), NULL, 1, RT_PHRASE_MAX, NULL,
     "the text to look for"},
    {"replace", RETRACE_TEXT, offsetof(replacer, replace), NULL, 0, RT_PHRASE_MAX, NULL,
     "the text to write instead; empty: none"},
    {"max_replacements", RETRACE_INT, offsetof(replacer, max_replacements), "-1", -1, 1000000000,
     NULL, "replace the first so many; -1: all"},
    {"skip_tokens", RETRACE_INT, offsetof(replacer, skip_tokens), "0", 0, 1000000000, NULL,
     "leave what begins in the first so many tokens alone"},
    {"max_new_tokens_for_replace", RETRACE_INT, offsetof(replacer, max_new_tokens), "-1", -1,
     1000000000, NULL, "leave what is found behind the first so many tokens alone; -1: no limit"},
    {"max_prob", RETRACE_REAL, offsetof(replacer, max_prob), "1", 0, 1, NULL,
     "leave a match alone whose first token is more probable than this"},
    {"case", RETRACE_CHOICE, offsetof(replacer, fold), "exact", 0, 0, "exact|fold",
     "fold: capitals and small letters are the same, as Unicode folds them"},
    {"word", RETRACE_CHOICE, offsetof(replacer, word), "false", 0, 0, "false|true|start",
     "no letter, digit or mark may touch the match; start: on its left"},
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_replace = {
    .abi = RETRACE_ABI,
    .name = "replace",
    .help = "writes another text instead of one",
    .settings = settings,
    .size = sizeof(replacer),
    .mark_size = sizeof(mark),
    .init = init,
    .fini = fini,
    .start = start,
    .judge = judge,
    .horizon = horizon,
};
