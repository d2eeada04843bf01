/* matcher.h - phrases found in a text that arrives in pieces and may be taken back.
 *
 * What is known about a text that is being read is its *state*, a few plain bytes: copying it keeps
 * the place, and going back to a copy is going back in the text. Everything else is read from the
 * text itself, which the caller still has: the state says how far back a phrase begins in units
 * (fold.h), and looking back at the characters says at which byte.
 *
 * A text has two parts: what stands before the answer, and the answer. Positions are bytes of the
 * answer; those before it are negative.
 *
 * What counts as found: the units of the phrase occur in the units of the text. Under RT_FOLD_NFC a
 * hit neither begins nor ends inside a character with its marks. What depends on what follows - a
 * word edge on the right, or whether a mark still belongs to the last character - is found when
 * that has arrived, or at the end of the text. */
#ifndef RT_MATCHER_H
#define RT_MATCHER_H

#include "lexicon.h"

/* The state of an empty text is all zero. */
typedef struct rt_match_state {
    uint32_t node;  /* of the automaton; the marks below are not read yet */
    uint32_t marks; /* bytes of the last characters while their marks may still change places */
    uint32_t white; /* bytes of the run of white space at the end, where that is one unit */
    char part[3];   /* the beginning of a character */
    uint8_t n_part;
    uint8_t pending; /* 1: what ends at `node` depends on what follows */
} rt_match_state;

/* The text as far as it is read. */
typedef struct rt_match_text {
    retrace_text before;
    const char *s; /* the answer */
} rt_match_text;

typedef struct rt_hit {
    uint32_t phrase;
    ptrdiff_t start, end;
} rt_hit;

/* Told of every hit that reaches into the answer; of those that end together, the longest first.
 * Returns 1 when the shorter ones among these are of no interest. */
typedef int rt_hit_fn(void *ud, const rt_hit *hit);

/* Reads on from byte `from`, where the state is, to byte `to`. fn may be NULL. */
void rt_match_feed(const rt_lexicon *l, rt_match_state *st, const rt_match_text *t, ptrdiff_t from,
                   ptrdiff_t to, rt_hit_fn *fn, void *ud);

/* Tells of the hits that are decided by the text's ending at byte `at`, where the state is. */
void rt_match_end(const rt_lexicon *l, const rt_match_state *st, const rt_match_text *t,
                  ptrdiff_t at, rt_hit_fn *fn, void *ud);

/* Whether a phrase that begins there is of interest. */
typedef int rt_start_fn(const void *ud, ptrdiff_t start);

/* The first byte that a hit still to come, whatever follows, can reach back to; `at` when there is
 * none. Only beginnings that `wanted` (NULL: all) is interested in. Exact: some continuation does
 * reach back there. */
ptrdiff_t rt_match_hold(const rt_lexicon *l, const rt_match_state *st, const rt_match_text *t,
                        ptrdiff_t at, rt_start_fn *wanted, const void *ud);

#endif
