/* must.h - what fuzz targets hold against the library. Included once by each. */
#ifndef RT_MUST_H
#define RT_MUST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "retrace.h"

static inline void must(int right, const char *what) {
    if (right) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

/* A failure has a code and a message. */
static inline int failed(int rc, const retrace_error *err) {
    if (rc == RETRACE_OK) return 0;
    must(rc < 0 && err->code == rc, "a failure without its code");
    must(err->msg[0] != 0 && strlen(err->msg) < sizeof err->msg, "a failure without a message");
    return 1;
}

#endif
