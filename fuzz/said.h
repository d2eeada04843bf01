/* said.h - what the program's functions say on stderr, caught and held against what is promised of
 * every message. Included once by each target that calls them; what such a function asks of main.c
 * is here too. */
#ifndef RT_SAID_H
#define RT_SAID_H

#include "cli.h"
#include "must.h"

static FILE *said_loud, *said_stream;
static char *said_text;
static size_t said_size;

/* From here on stderr is a text in memory. It is one stream for all calls: opening one costs more
 * than most calls. */
static inline void said_begin(void) {
    if (!said_stream) said_stream = open_memstream(&said_text, &said_size);
    must(said_stream != NULL, "no stream");
    rewind(said_stream);
    said_loud = stderr;
    stderr = said_stream;
}

/* A failure is told, in at most three lines of text that cannot drive a terminal. The message. */
static inline retrace_text said_end(int code) {
    stderr = said_loud;
    must(fflush(said_stream) == 0, "no memory for a message");
    retrace_text t = {said_text, said_size};
    int lines = 0;
    for (size_t i = 0; i < t.n; i++) {
        lines += t.s[i] == '\n';
        must(t.s[i] == '\n' || t.s[i] == '\t' || ((unsigned char)t.s[i] >= 32 && t.s[i] != 127),
             "a message with a control character");
    }
    must(cli_utf8_check(t) == t.n, "a message that is not UTF-8");
    must(t.n == 0 || t.s[t.n - 1] == '\n', "a message without an end of line");
    must(code == CLI_OK || (t.n > 0 && lines <= 3), "a failure in no line, or in more than three");
    must(code == CLI_OK || strncmp(t.s, "retrace: ", 9) == 0,
         "a failure that is not the program's");
    return t;
}

double cli_clock(void) {
    return 0;
}

int cli_interrupted(void) {
    return 0;
}

void cli_run_begins(void) {
}

void cli_run_ends(void) {
}

#endif
