/* regex_source.h - a regular expression as a person writes it, before it is compiled.
 *
 * Patterns are matched piece by piece, over text that arrives and is taken back. What cannot be
 * matched so is refused here by name; what PCRE2 would decide too early at the end of a piece is
 * written in other words. */
#ifndef RT_REGEX_SOURCE_H
#define RT_REGEX_SOURCE_H

#include "base.h"

/* What a pattern holds. */
typedef struct rt_regex_facts {
    int start; /* ^ or \A: the beginning of the answer */
    int ahead; /* looks ahead, (?=...) or (?!...) */
    int edge;  /* \b or \B, left as they are */
    int most;  /* the largest number in a quantifier {n,m} */
} rt_regex_facts;

/* Writes to `out` the pattern to be compiled. *why: NULL, or what is refused. RETRACE_OK or
 * RETRACE_ENOMEM. In a pattern that looks ahead, \b and \B become lookarounds; \Z, and $ without
 * (?m), take a final newline with them; \R becomes the newlines it stands for. */
int rt_regex_read(retrace_text pattern, rt_buf *out, rt_regex_facts *facts, const char **why);

#endif
