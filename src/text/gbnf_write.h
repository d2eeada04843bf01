/* gbnf_write.h - pieces of GBNF: texts quoted, and numbers within bounds digit by digit. */
#ifndef RT_GBNF_WRITE_H
#define RT_GBNF_WRITE_H

#include "base.h"

/* Text that grows; the first failure stays and later calls do nothing. */
typedef struct rt_writer {
    rt_buf buf;
    int rc;
} rt_writer;

void rt_write(rt_writer *w, const char *fmt, ...) RETRACE_PRINTF(2, 3); /* at most 255 bytes */
void rt_write_bytes(rt_writer *w, const char *s, size_t n);
/* "..." with escapes. */
void rt_write_literal(rt_writer *w, const char *s, size_t n);

/* What bounds a number; without has_*: nothing does. */
typedef struct rt_bounds {
    int64_t low, high;
    int has_low, has_high;
    int open_low, open_high; /* the bound itself is outside */
} rt_bounds;

/* Alternatives for the whole numbers within, as JSON writes them, at most 16 digits beyond a bound.
 * 0: there is none, and nothing is written. */
int rt_write_integers(rt_writer *w, const rt_bounds *b);
/* The same for decimal fractions, without exponents. */
int rt_write_decimals(rt_writer *w, const rt_bounds *b);

#endif
