/* regex.h - patterns, compiled, and one step of matching one of them.
 *
 * PCRE2 has two matchers; this is pcre2_dfa_match, on this evidence. It reads the text once and
 * follows all ways to match side by side, so nothing it does is exponential; it stops at the
 * shortest match, which is the byte where a reader sees the pattern complete; and what it knows at
 * the end of a piece of text, its *states*, are a few numbers from which it goes on when more has
 * come. The backtracking matcher has none of this: it gives up at the first way that reaches the
 * end of the text, whether or not another has matched.
 *
 * What it takes for that: no back references, recursion, atomic groups, possessive quantifiers,
 * conditions, callouts, verbs, \K, \C, \G, \X. They are refused by name. A pattern that looks ahead
 * is matched afresh from its start each time, because PCRE2 leaves the states of those unknown.
 *
 * \b and \B need care: at the end of a piece this matcher takes the end for an edge. Such a match
 * counts only when it is one both before a letter and before a space.
 *
 * States are PCRE2's own (offset in the compiled pattern, count, characters to skip). How they lie
 * in its workspace is not documented, so that is tried out before the first pattern is used. Counts
 * beyond the largest number in the pattern's quantifiers are all the same to it and are made equal,
 * so that what began at different places soon has equal states: the work per byte does not grow
 * with the length of the text. */
#ifndef RT_REGEX_H
#define RT_REGEX_H

#include "regex_source.h"

enum {
    RT_REGEX_WINDOW = 4096, /* bytes: a longer match is not found, but noted */
    RT_REGEX_STATES = 400,  /* most states of one beginning */
    RT_REGEX_STATE = 3      /* ints in one */
};

typedef struct rt_regex {
    struct pcre2_real_code_8 *code;
    rt_regex_facts facts;
    unsigned char first[32]; /* bytes that may begin a match, one bit each */
    int only_start;          /* matches at the beginning of the answer or nowhere */
    int behind;              /* bytes that must be known before the place where matching goes on */
} rt_regex;

/* What matching needs beside the pattern; shared by all. */
typedef struct rt_regex_tools rt_regex_tools;

int rt_regex_tools_new(rt_regex_tools **out, retrace_error *err);
void rt_regex_tools_free(rt_regex_tools *t);

/* Compiles; *out is zeroed first and freed by the caller in any case. EUSAGE says what is wrong
 * with the pattern. */
int rt_regex_new(rt_regex *out, rt_regex_tools *t, retrace_text pattern, int fold,
                 retrace_error *err);
void rt_regex_free(rt_regex *p);

static inline int rt_regex_begins(const rt_regex *p, unsigned char byte) {
    return p->first[byte / 8] >> (byte % 8) & 1;
}

/* A piece of text, valid UTF-8; s[n] may be written to for a moment. */
typedef struct rt_piece {
    char *s;
    size_t n;     /* to be read */
    size_t known; /* what follows is known up to here, at least n */
    int ends;     /* nothing will ever follow */
} rt_piece;

/* States in, states out; n 0: the beginning. */
typedef struct rt_states {
    int n;
    int v[RT_REGEX_STATES * RT_REGEX_STATE];
} rt_states;

typedef enum rt_step { RT_STEP_DEAD, RT_STEP_LIVE, RT_STEP_HIT, RT_STEP_FAILED } rt_step;

/* Reads from byte `from` to the end of the piece. HIT: *end is where the shortest match ends. LIVE:
 * undecided, with the states to go on from (none for a pattern that looks ahead). FAILED: *rc is
 * RETRACE_ENOMEM, or RETRACE_EUSAGE when it took too many steps. *work is increased. */
rt_step rt_regex_step(rt_regex_tools *t, const rt_regex *p, const rt_piece *piece, size_t from,
                      rt_states *states, size_t *end, int64_t *work, int *rc);

#endif
