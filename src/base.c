/* base.c - allocator, errors, growing buffers, UTF-8 checks and the keyed generator.
 *
 * The allocator is realloc-shaped and may be replaced (retrace_set_alloc). Each block carries its
 * size in front, so callers free without knowing it and a replacement can account for every byte.
 */
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ==== Memory ==== */

enum { HEAD = 16 }; /* keeps malloc's alignment */

static void *std_alloc(void *ud, void *ptr, size_t old_size, size_t new_size) {
    (void)ud;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_size);
}

static retrace_alloc_fn *alloc_fn = std_alloc;
static void *alloc_ud;

void retrace_set_alloc(retrace_alloc_fn *fn, void *ud) {
    alloc_fn = fn ? fn : std_alloc;
    alloc_ud = fn ? ud : NULL;
}

static size_t block_size(const void *p) {
    size_t n;
    memcpy(&n, (const char *)p - HEAD, sizeof n);
    return n;
}

void *retrace_realloc(void *p, size_t size) {
    if (size == 0 || size > SIZE_MAX / 2) return NULL;
    size_t old = p ? block_size(p) + HEAD : 0;
    char *head = alloc_fn(alloc_ud, p ? (char *)p - HEAD : NULL, old, size + HEAD);
    if (!head) return NULL;
    memcpy(head, &size, sizeof size);
    return head + HEAD;
}

void *retrace_alloc(size_t size) {
    return retrace_realloc(NULL, size);
}

void *retrace_calloc(size_t n, size_t size) {
    if (size && n > SIZE_MAX / 2 / size) return NULL;
    void *p = retrace_alloc(n * size);
    if (p) memset(p, 0, n * size);
    return p;
}

void retrace_free(void *p) {
    if (p) alloc_fn(alloc_ud, (char *)p - HEAD, block_size(p) + HEAD, 0);
}

char *rt_copy(const char *s, size_t n) {
    char *out = retrace_alloc(n + 1);
    if (!out) return NULL;
    if (n) memcpy(out, s, n);
    out[n] = '\0';
    return out;
}

int rt_buf_add(rt_buf *b, const void *s, size_t n) {
    if (n == 0) return RETRACE_OK;
    size_t ceiling = b->ceiling ? b->ceiling : SIZE_MAX / 2;
    if (n > ceiling - b->n) return RETRACE_ENOMEM;
    if (b->n + n > b->cap) {
        size_t cap = b->cap ? b->cap : 64;
        while (cap < b->n + n) cap *= 2;
        char *grown = retrace_realloc(b->s, cap);
        if (!grown) return RETRACE_ENOMEM;
        b->s = grown;
        b->cap = cap;
    }
    memcpy(b->s + b->n, s, n);
    b->n += n;
    return RETRACE_OK;
}

void rt_buf_free(rt_buf *b) {
    retrace_free(b->s);
    *b = (rt_buf){0};
}

int rt_grow(void *p, int *cap, int need, size_t size) {
    if (need <= *cap) return RETRACE_OK;
    if (need > INT32_MAX / 2) return RETRACE_ENOMEM;
    int more = *cap ? *cap : 16;
    while (more < need) more *= 2;
    void *old;
    memcpy(&old, p, sizeof old);
    char *grown = retrace_realloc(old, (size_t)more * size);
    if (!grown) return RETRACE_ENOMEM;
    memset(grown + (size_t)*cap * size, 0, (size_t)(more - *cap) * size);
    memcpy(p, &grown, sizeof grown);
    *cap = more;
    return RETRACE_OK;
}

/* ==== Errors ==== */

int retrace_fail(retrace_error *err, int code, const char *fmt, ...) {
    if (!err) return code;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, args);
    va_end(args);
    err->code = code;
    if (n >= (int)sizeof err->msg) {
        size_t len = sizeof err->msg - 1;
        err->msg[len - rt_utf8_tail(err->msg, len)] = '\0';
    }
    return code;
}

int rt_nomem(retrace_error *err) {
    return retrace_fail(err, RETRACE_ENOMEM, "out of memory");
}

void rt_clear(retrace_error *err) {
    if (!err) return;
    err->code = 0;
    err->msg[0] = '\0';
}

const char *retrace_version(void) {
    return "0.1.0";
}

/* ==== UTF-8 ==== */

/* Length of the character that begins with this byte; 0 when none can. */
static int char_length(unsigned char c) {
    if (c < 0x80) return 1;
    if (c < 0xC2) return 0;
    if (c < 0xE0) return 2;
    if (c < 0xF0) return 3;
    return c < 0xF5 ? 4 : 0;
}

/* Can `second` follow `first`? Excludes overlong forms, surrogates and what lies beyond U+10FFFF.
 */
static int second_fits(unsigned char first, unsigned char second) {
    unsigned lo = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned hi = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    return second >= lo && second <= hi;
}

/* 1 when s[0..n), n >= 1, is a whole character or the beginning of one of `len` bytes. */
static int char_fits(const unsigned char *s, size_t n, int len) {
    for (size_t i = 1; i < n && i < (size_t)len; i++) {
        if (i == 1 ? !second_fits(s[0], s[1]) : (s[i] & 0xC0) != 0x80) return 0;
    }
    return 1;
}

size_t rt_utf8_check(const char *s, size_t n) {
    const unsigned char *u = (const unsigned char *)s;
    size_t i = 0;
    while (i < n) {
        int len = char_length(u[i]);
        if (len == 0 || n - i < (size_t)len || !char_fits(u + i, n - i, len)) return i;
        i += (size_t)len;
    }
    return n;
}

size_t rt_utf8_tail(const char *s, size_t n) {
    const unsigned char *u = (const unsigned char *)s;
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        int len = char_length(u[n - back]);
        if (len <= 1 && (u[n - back] & 0xC0) != 0x80) return 0;
        if (len > 1) return (size_t)len > back && char_fits(u + n - back, back, len) ? back : 0;
    }
    return 0;
}

/* ==== Chance ==== */

/* Finalizer of splitmix64 (Steele, Lea, Flood 2014, variant 13 of Stafford): a bijection whose
 * output passes the usual batteries on counters. */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static uint64_t absorb(uint64_t h, uint64_t x) {
    return mix(h + 0x9E3779B97F4A7C15u + mix(x + 0x9E3779B97F4A7C15u) * 3);
}

double rt_uniform(uint64_t seed, uint64_t head, uint64_t purpose, uint64_t pos, uint64_t attempt) {
    uint64_t h = absorb(0, seed);
    h = absorb(h, head);
    h = absorb(h, purpose);
    h = absorb(h, pos);
    h = absorb(h, attempt);
    return (double)(h >> 11) * 0x1p-53;
}

uint64_t rt_digest(uint64_t h, const char *s, size_t n) {
    uint64_t word;
    for (size_t i = 0; i < n; i += sizeof word) {
        word = 0;
        memcpy(&word, s + i, n - i < sizeof word ? n - i : sizeof word);
        h = absorb(h, word);
    }
    return absorb(h, n);
}

uint64_t rt_purpose(uint64_t digest, int number) {
    uint64_t h = absorb(digest, (uint64_t)number);
    return h ? h : 1;
}
