/* base.h - what every file of the library stands on: growing buffers, errors, hashing, numbers.
 * Nothing here does I/O or reads a clock. */
#ifndef RT_BASE_H
#define RT_BASE_H

#include "retrace_ext.h"

#include <stdarg.h>

/* Bytes that grow. Zero-initialised is empty. `cap` doubles, never beyond `ceiling` (0: SIZE_MAX /
 * 2). */
typedef struct rt_buf {
    char *s;
    size_t n, cap, ceiling;
} rt_buf;

int rt_buf_add(rt_buf *b, const void *s,
               size_t n); /* RETRACE_OK or RETRACE_ENOMEM; b stays valid */
void rt_buf_free(rt_buf *b);

/* Makes room for `need` elements of `size` bytes in *p, which has room for *cap. RETRACE_ENOMEM
 * leaves both as they were. New elements are zero. */
int rt_grow(void *p, int *cap, int need, size_t size);

/* retrace_fail for the commonest case. */
int rt_nomem(retrace_error *err);

/* Clears err. */
void rt_clear(retrace_error *err);

/* A copy ended with NUL; NULL when out of memory. */
char *rt_copy(const char *s, size_t n);

/* Offset of the first byte that is not valid UTF-8, or n when all is. */
size_t rt_utf8_check(const char *s, size_t n);
/* How many bytes at the end of s begin a character that is not complete yet (0..3). */
size_t rt_utf8_tail(const char *s, size_t n);

/* The generator: 53 uniform bits in [0, 1) as a pure function of what the draw is for. */
double rt_uniform(uint64_t seed, uint64_t head, uint64_t purpose, uint64_t pos, uint64_t attempt);
/* Mixes bytes and their count into a hash. */
uint64_t rt_digest(uint64_t h, const char *s, size_t n);
/* What a rule's draws are for, from its digest and its number among equal ones; never 0. */
uint64_t rt_purpose(uint64_t digest, int number);

#endif
