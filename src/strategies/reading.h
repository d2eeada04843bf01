/* reading.h - what rules that look for phrases or patterns in the answer share: the answer as a
 * text for the matcher, and the way back from bytes to tokens. */
#ifndef RT_READING_H
#define RT_READING_H

#include "text/matcher.h"

rt_match_text rt_reading_text(const retrace_view *v);

/* The token that holds a byte of the answer; 0 for what stands before it. */
int rt_reading_token(const retrace_view *v, ptrdiff_t byte);

/* Reads what stands before the answer. */
void rt_reading_start(const rt_lexicon *l, const retrace_view *v, rt_match_state *st);

/* The token that a hit still to come can reach back to, v->n: none; see rt_match_hold. */
int rt_reading_horizon(const rt_lexicon *l, const retrace_view *v, const rt_match_state *st,
                       rt_start_fn *wanted, const void *ud);

/* Proposes to go back to where a hit begins; people know it by `name`, the phrase or pattern. */
void rt_reading_propose(const retrace_view *v, ptrdiff_t begin, ptrdiff_t end, retrace_text name,
                        retrace_proposal *p);

/* EUSAGE for a phrase that no lexicon takes; `what` begins the message. */
int rt_reading_check(const char *what, retrace_text phrase, retrace_error *err);

#endif
