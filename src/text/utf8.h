/* utf8.h - one character at a time, forwards and backwards.
 *
 * Bytes that are not UTF-8 are units of one byte each: a sequence that breaks off gives every byte
 * of its beginning by itself. So both directions find the same characters, wherever they start. */
#ifndef RT_UTF8_H
#define RT_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum {
    RT_UTF8_MAX = 4,       /* bytes of one character */
    RT_UTF8_BAD = 0x110000 /* what stands for a byte that is no character */
};

/* Bytes of the character at s: 1..4, with *cp set; 0 when s[0..n) begins a character that needs
 * more; -1 when s[0] begins none (*cp: RT_UTF8_BAD). n >= 1. */
int rt_utf8_decode(const char *s, size_t n, uint32_t *cp);

/* Bytes of the character that ends where s[0..n) ends: 1..4; 1 with *cp RT_UTF8_BAD for a byte that
 * is none. n >= 1; at most the last four bytes are read. */
int rt_utf8_decode_back(const char *s, size_t n, uint32_t *cp);

/* Writes a character; returns its bytes. */
int rt_utf8_encode(uint32_t cp, char out[RT_UTF8_MAX]);

/* How many bytes rt_utf8_encode writes. */
static inline int rt_utf8_size(uint32_t cp) {
    return cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
}

/* The characters that s[0..n), 1..3 bytes of an incomplete one, can still become: *lo to *hi. */
void rt_utf8_range(const char *s, size_t n, uint32_t *lo, uint32_t *hi);

/* The most bytes of s[0..n), at most `room`, that do not cut a character. */
size_t rt_utf8_cut(const char *s, size_t n, size_t room);

#endif
