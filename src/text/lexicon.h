/* lexicon.h - a list of phrases, compiled once and never changed: the automaton over their units
 * and what a reader of text needs beside it. */
#ifndef RT_LEXICON_H
#define RT_LEXICON_H

#include "automaton.h"
#include "fold.h"

/* Where a word edge is asked for: no letter, digit or mark may touch the phrase there, if the
 * phrase's own edge is one. */
enum { RT_EDGE_NONE, RT_EDGE_BOTH, RT_EDGE_START };

enum { RT_PHRASE_MAX = 4096 }; /* bytes */

typedef struct rt_lexicon {
    int how;             /* RT_FOLD_... */
    int edge;            /* RT_EDGE_... */
    rt_unit ascii[128];  /* folded */
    rt_automaton *words; /* the phrases' units; the ids are their indices */
    /* The characters beyond ASCII that hold a unit of some phrase, rising. */
    uint32_t *characters;
    uint32_t n_characters;
} rt_lexicon;

/* Compiles n phrases: valid UTF-8, not empty, at most RT_PHRASE_MAX bytes each. They are not needed
 * afterwards. EUSAGE: a phrase that RT_FOLD_NFC can find nowhere because it begins with a mark,
 * which is part of the character before it; *bad is its index. After any other failure *bad is n.
 */
int rt_lexicon_new(rt_lexicon **out, const retrace_text *phrases, uint32_t n, int how, int edge,
                   uint32_t *bad, retrace_error *err);
void rt_lexicon_free(rt_lexicon *l);

/* rt_fold by the lexicon's rules, fast for ASCII. */
static inline int rt_lexicon_fold(const rt_lexicon *l, uint32_t cp, rt_unit out[RT_FOLD_MAX]) {
    if (cp >= 128) return rt_fold(l->how, cp, out);
    out[0] = l->ascii[cp];
    return 1;
}

#endif
