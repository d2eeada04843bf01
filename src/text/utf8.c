/* utf8.c - see utf8.h. Overlong forms, surrogates and what lies beyond U+10FFFF are not characters,
 * and neither are their beginnings: a decoder that waits for more is never disappointed by the
 * standard. */
#include "utf8.h"

/* Bytes of a character by its first; 0: none begins so. */
static int length(unsigned char first) {
    if (first < 0x80) return 1;
    if (first < 0xC2) return 0;
    if (first < 0xE0) return 2;
    if (first < 0xF0) return 3;
    return first < 0xF5 ? 4 : 0;
}

static int follows(const unsigned char *s, int i) {
    if (i > 1) return (s[i] & 0xC0) == 0x80;
    unsigned lo = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    unsigned hi = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    return s[1] >= lo && s[1] <= hi;
}

/* The bits that the first of `len` bytes holds. */
static uint32_t payload(unsigned char first, int len) {
    return len == 1 ? first : first & (0x7Fu >> len);
}

int rt_utf8_decode(const char *s, size_t n, uint32_t *cp) {
    const unsigned char *u = (const unsigned char *)s;
    int len = length(u[0]);
    *cp = RT_UTF8_BAD;
    if (len == 0) return -1;
    uint32_t x = payload(u[0], len);
    for (int i = 1; i < len; i++) {
        if ((size_t)i == n) return 0;
        if (!follows(u, i)) return -1;
        x = x << 6 | (u[i] & 0x3Fu);
    }
    *cp = x;
    return len;
}

int rt_utf8_decode_back(const char *s, size_t n, uint32_t *cp) {
    size_t back = 1;
    while (back < RT_UTF8_MAX && back < n && ((unsigned char)s[n - back] & 0xC0) == 0x80) back++;
    if (rt_utf8_decode(s + n - back, back, cp) == (int)back) return (int)back;
    *cp = RT_UTF8_BAD;
    return 1;
}

int rt_utf8_encode(uint32_t cp, char out[RT_UTF8_MAX]) {
    static const unsigned char first[] = {0, 0, 0xC0, 0xE0, 0xF0};
    int len = rt_utf8_size(cp);
    for (int i = len - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (cp & 0x3F));
        cp >>= 6;
    }
    out[0] = (char)(first[len] | cp);
    return len;
}

void rt_utf8_range(const char *s, size_t n, uint32_t *lo, uint32_t *hi) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *u = (const unsigned char *)s;
    int len = length(u[0]);
    uint32_t x = payload(u[0], len);
    for (size_t i = 1; i < n; i++) x = x << 6 | (u[i] & 0x3Fu);
    int open = 6 * (len - (int)n);
    *lo = x << open;
    *hi = *lo + (1u << open) - 1;
    if (*lo < least[len]) *lo = least[len];
}

size_t rt_utf8_cut(const char *s, size_t n, size_t room) {
    if (n <= room) return n;
    size_t at = room;
    while (at > 0 && room - at < RT_UTF8_MAX && ((unsigned char)s[at] & 0xC0) == 0x80) at--;
    return at;
}
