/* banlist.h - a file of phrases, one a line, taken apart in memory. */
#ifndef RT_BANLIST_H
#define RT_BANLIST_H

#include "retrace_ext.h"

typedef struct rt_banlist {
    retrace_text *phrases; /* in `pool`, none of them empty */
    uint32_t *lines;       /* counted from 1 */
    uint32_t n;
    int cap_phrases, cap_lines;
    char *pool;
} rt_banlist;

/* Adds nothing to blank lines and to lines that begin with `#`. White space around a phrase is cut
 * off; a phrase in double quotes keeps it, and \" \\ \n \t in it stand for a quote, a backslash, a
 * line feed and a tab. Line ends may be CRLF; the file may begin with a byte order mark. EUSAGE
 * names the line: bytes that are not UTF-8, a NUL, a quote that does not end or has something
 * behind it, any other backslash in quotes, an empty phrase in quotes, one of more than
 * `most_bytes`, the first phrase beyond `most`. `name` begins the message. Out is set in any case,
 * to be freed. */
int rt_banlist_parse(rt_banlist *out, retrace_text file, const char *name, size_t most_bytes,
                     uint32_t most, retrace_error *err);
void rt_banlist_free(rt_banlist *list);

#endif
