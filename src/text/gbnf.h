/* gbnf.h - grammars in GBNF, the notation of llama.cpp.
 *
 *     root   ::= "yes" | "no" ", " reason    # the answer
 *     reason ::= [a-z ]{3,40} "."
 *
 * "texts" with \n \r \t \" \\ \[ \] \xHH \uHHHH \UHHHHHHHH, [classes] and [^others] of characters
 * with ranges, `.` for any character, groups in parentheses, | between alternatives (an empty one
 * is fine, and a line may begin with |), and * + ? {m} {m,} {,n} {m,n} after what they repeat. A
 * rule ends with its line, but not within parentheses nor after ::= or |. Any recursion is fine, on
 * the left too. Names are letters, digits, - and _. Tokens by name or number (<...>) are refused: a
 * grammar speaks about text. */
#ifndef RT_GBNF_H
#define RT_GBNF_H

#include "grammar.h"

enum {
    RT_GBNF_MAX_TEXT = 1 << 20,
    RT_GBNF_MAX_REPEAT = 10000, /* in {m,n} */
    RT_GBNF_MAX_DEPTH = 200     /* of parentheses */
};

/* Reads a grammar whose root is the rule of that name. `what` begins every message. EUSAGE names
 * line, column and thing. */
int rt_gbnf_parse(rt_grammar **out, retrace_text text, retrace_text root, const char *what,
                  retrace_error *err);

#endif
