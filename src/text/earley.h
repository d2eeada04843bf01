/* earley.h - which bytes may follow, by a grammar, after any text: Earley's sets of items, each
 * kept once.
 *
 * A *state* is all that matters of a text. Equal states are the same object, so that within a
 * JSON string, say, character after character leads to the same one, and what was found out about
 * it (the tokens that may follow) is found out once. A state never changes. Those who keep one
 * count it; the matcher forgets others when it has used its memory, and finds them again when they
 * are asked for.
 *
 * Any grammar is fine: ambiguous, left- or right-recursive, with empty parts. */
#ifndef RT_EARLEY_H
#define RT_EARLEY_H

#include "grammar.h"

typedef struct rt_earley rt_earley;
typedef struct rt_earley_state rt_earley_state;

enum {
    RT_EARLEY_MAX_ITEMS = 1 << 16, /* of one state */
    RT_EARLEY_MAX_WORK = 1 << 19   /* items tried for one byte */
};

/* A matcher; `g` is its own from here on, even after a failure. `budget`: bytes it may use before
 * it forgets. `what` begins its messages and outlives it. */
int rt_earley_new(rt_earley **out, rt_grammar *g, size_t budget, const char *what,
                  retrace_error *err);
void rt_earley_free(rt_earley *m); /* and all states, counted or not */

/* The state of the empty text; it lives as long as the matcher. */
rt_earley_state *rt_earley_start(const rt_earley *m);

/* The state after one more byte, or *to NULL when no text of the grammar goes on like that. Keep
 * *to (rt_earley_keep) before the next step, which may forget it. EUSAGE: so ambiguous that
 * the limits above are passed. */
int rt_earley_step(rt_earley *m, rt_earley_state *from, unsigned char byte, rt_earley_state **to,
                   retrace_error *err);
/* The same for n bytes. */
int rt_earley_feed(rt_earley *m, rt_earley_state *from, const char *s, size_t n,
                   rt_earley_state **to, retrace_error *err);

/* 1 when the text is complete. */
int rt_earley_can_end(const rt_earley_state *s);

/* Counts; NULL is fine. */
void rt_earley_keep(rt_earley_state *s);
void rt_earley_drop(rt_earley_state *s);

/* A note that somebody made on a state, under that key, or NULL. It lives until the state is
 * forgotten or another note is made. */
void *rt_earley_note(const rt_earley_state *s, uint64_t key);
/* Makes one: `note` is a block of retrace_alloc of that size, the matcher's from here on. */
void rt_earley_note_put(rt_earley *m, rt_earley_state *s, uint64_t key, void *note, size_t size);

/* Figures: states known now, and bytes they take. */
void rt_earley_figures(const rt_earley *m, int *states, size_t *bytes);

#endif
