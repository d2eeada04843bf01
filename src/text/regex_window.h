/* regex_window.h - many patterns in a text that arrives in pieces and may be taken back.
 *
 * What is known at a place of the text is the list of beginnings that may still become a match,
 * with the states of each (regex.h). It is shared by the places that have the same one and never
 * changed. Of beginnings with equal states the future is equal too, so they are one entry: the
 * first and the last of them. Most places have none, and the list is NULL.
 *
 * A text has two parts, what stands before the answer and the answer; positions are bytes of the
 * answer, those before it negative. A byte that is no UTF-8 counts as the character U+001A. A
 * character that is not complete yet is not read yet. */
#ifndef RT_REGEX_WINDOW_H
#define RT_REGEX_WINDOW_H

#include "regex.h"

typedef struct rt_regexes rt_regexes;
typedef struct rt_regex_live rt_regex_live;

/* Compiles n patterns; after a failure *bad is the index of the one to blame, or -1. */
int rt_regexes_new(rt_regexes **out, const retrace_text *patterns, int n, int fold, int *bad,
                   retrace_error *err);
void rt_regexes_free(rt_regexes *set);

/* One more, or one less, that holds the list. NULL is fine. */
rt_regex_live *rt_regex_live_take(rt_regex_live *live);
void rt_regex_live_drop(rt_regex_live *live);

typedef struct rt_regex_text {
    retrace_text before;
    const char *s;
    size_t n;
} rt_regex_text;

typedef struct rt_regex_hit {
    int pattern;
    ptrdiff_t start, end;
} rt_regex_hit;

/* What reading has brought. */
typedef struct rt_regex_news {
    int found;
    rt_regex_hit first; /* of the hits, the one that begins first */
    int outgrown;       /* a pattern that had not been outgrown before; -1: none */
    int bad;            /* after a failure the pattern to blame, or -1 */
} rt_regex_news;

/* Reads what stands before the answer, as far as a match can reach back. Matches within it are
 * nothing. */
int rt_regexes_start(rt_regexes *set, const rt_regex_text *t, rt_regex_live **live,
                     rt_regex_news *news, retrace_error *err);

/* Reads on from byte `from`, where *live is, to the end of the text. Hits that end at `limit` or
 * after it do not count. */
int rt_regexes_read(rt_regexes *set, const rt_regex_text *t, size_t from, size_t limit,
                    rt_regex_live **live, rt_regex_news *news, retrace_error *err);

/* The same for a text that ends: only hits that its end decides count, the others having been told
 * by rt_regexes_read. */
int rt_regexes_end(rt_regexes *set, const rt_regex_text *t, size_t from, rt_regex_live **live,
                   rt_regex_news *news, retrace_error *err);

/* The first byte that a hit still to come can reach back to, at least t->n - RT_REGEX_WINDOW; t->n
 * when there is none. */
ptrdiff_t rt_regexes_hold(const rt_regex_live *live, const rt_regex_text *t);

#endif
