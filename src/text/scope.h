/* scope.h - where in a text a phrase counts: what must be known about the text before it.
 *
 * RT_SCOPE_OUTSIDE_CODE: not on the lines of a fenced block. A line that has at most three spaces
 * and then a run of three or more ` or ~ opens one, unless the run is of ` and another ` follows it
 * on the line. The next line that has at most three spaces, a run of the same character that is at
 * least as long, and nothing but spaces and tabs behind it closes the block. Lines end at \n and at
 * \r; the text's beginning begins a line. The lines behind the opening one, up to the closing one
 * and with it, are code; the opening line is not.
 *
 * RT_SCOPE_SENTENCE_START: the first letter begins a sentence. What is read puts the place after it
 *     at a start:  the text's beginning, a line break (\n \r U+0085 U+2028 U+2029), one of 。！？
 *     behind an end:  one of . ! ? …
 *     inside:  anything else;
 * white space behind an end makes a start; other white space and *marks* change nothing. Marks are
 * the characters of the general categories Ps Pe Pi Pf Pd and " ' * _ ~ ` # > • ¡ ¿. */
#ifndef RT_SCOPE_H
#define RT_SCOPE_H

#include "retrace.h"

enum { RT_SCOPE_ANSWER, RT_SCOPE_OUTSIDE_CODE, RT_SCOPE_SENTENCE_START };

/* The state of an empty text is all zero. */
typedef struct rt_scope_state {
    uint32_t fence; /* characters of the run that opened the block; 0: outside */
    uint32_t run;   /* characters of the run that the line has begun with */
    char fence_mark, run_mark;
    uint8_t line;     /* how far the line may be a fence */
    uint8_t indent;   /* spaces */
    uint8_t sentence; /* start, behind an end, inside */
    uint8_t n_part;
    char part[3]; /* the beginning of a character */
} rt_scope_state;

/* Reads on. */
void rt_scope_read(int scope, rt_scope_state *st, const char *s, size_t n);

/* Does a phrase count that begins here? `parts`: the text from there on, one after the other; for
 * SENTENCE_START its first letter is the first character that is neither white space nor a mark, or
 * its end when all are. Where the text ends without one, a phrase that is not `whole` may count. */
int rt_scope_admits(int scope, const rt_scope_state *st, const retrace_text parts[2], int whole);

#endif
