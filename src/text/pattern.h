/* pattern.h - regular expressions as GBNF, for the keyword `pattern` of JSON schemas. */
#ifndef RT_PATTERN_H
#define RT_PATTERN_H

#include "gbnf_write.h"

/* Writes an expression for the JSON strings, without their quotes, in which the pattern is found.
 * Known: characters, . [classes] [^others] \d \w \s \D \W \S, escapes, groups, |, * + ? {m,n}, and
 * ^ and $ at the ends. Anything else is EUSAGE and named; `what` begins the message. What a class
 * stands for beyond plain characters (control characters, \s other than a blank) is left out: fewer
 * texts, all of them right. */
int rt_pattern_write(rt_writer *w, retrace_text pattern, const char *what, retrace_error *err);

#endif
