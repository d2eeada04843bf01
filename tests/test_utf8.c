/* test_utf8.c - every byte sequence of up to four bytes from the corners of UTF-8, against
 * utf8proc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "text/utf8.h"

#include <utf8proc.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* Bytes on both sides of every limit in the table of well-formed sequences. */
static const unsigned char corners[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                        0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
                                        0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};

/* The character at the beginning of s by utf8proc; its bytes or -1. */
static int reference(const char *s, int n, uint32_t *cp) {
    utf8proc_int32_t x;
    int len = (int)utf8proc_iterate((const utf8proc_uint8_t *)s, n, &x);
    *cp = len > 0 ? (uint32_t)x : RT_UTF8_BAD;
    return len > 0 ? len : -1;
}

/* Do some further bytes make a character of s[0..n)? */
static int completes(const char *s, int n) {
    char longer[8];
    uint32_t cp;
    memcpy(longer, s, (size_t)n);
    for (int i = 0; i < COUNT(corners); i++) {
        longer[n] = (char)corners[i];
        if (reference(longer, n + 1, &cp) == n + 1) return 1;
        if (n < 3 && completes(longer, n + 1)) return 1;
    }
    return 0;
}

static void check_sequence(const char *s, int n) {
    uint32_t cp, want;
    int len = rt_utf8_decode(s, (size_t)n, &cp);
    int expected = reference(s, n, &want);
    if (expected < 0 && n < 4 && completes(s, n)) expected = 0;
    assert_int_equal(len, expected);
    assert_int_equal(cp, want);
    if (len > 0) {
        char back[RT_UTF8_MAX];
        assert_int_equal(rt_utf8_encode(cp, back), len);
        assert_memory_equal(back, s, (size_t)len);
        assert_int_equal(rt_utf8_size(cp), len);
    }
}

static void every_corner(void **state) {
    (void)state;
    char s[4];
    for (int a = 0; a < COUNT(corners); a++) {
        s[0] = (char)corners[a];
        check_sequence(s, 1);
        for (int b = 0; b < COUNT(corners); b++) {
            s[1] = (char)corners[b];
            check_sequence(s, 2);
            for (int c = 0; c < COUNT(corners); c++) {
                s[2] = (char)corners[c];
                check_sequence(s, 3);
                for (int d = 0; d < COUNT(corners); d++) {
                    s[3] = (char)corners[d];
                    check_sequence(s, 4);
                }
            }
        }
    }
}

static void every_character(void **state) {
    (void)state;
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        if (cp == 0xD800) cp = 0xE000;
        char s[RT_UTF8_MAX];
        uint32_t back;
        int n = rt_utf8_encode(cp, s);
        assert_int_equal(rt_utf8_decode(s, (size_t)n, &back), n);
        assert_int_equal(back, cp);
    }
}

/* Forwards and backwards find the same characters in any bytes. */
static void both_directions(void **state) {
    (void)state;
    uint32_t random = 1;
    for (int round = 0; round < 20000; round++) {
        char s[12];
        uint32_t forward[12], cp;
        int sizes[12], n = 0;
        for (int i = 0; i < 12; i++) {
            random = random * 1664525 + 1013904223;
            s[i] = (char)corners[(random >> 16) % COUNT(corners)];
        }
        for (int i = 0; i < 12; n++) {
            sizes[n] = rt_utf8_decode(s + i, (size_t)(12 - i), &forward[n]);
            if (sizes[n] < 1) sizes[n] = 1;
            i += sizes[n];
        }
        for (int i = 12; i > 0;) {
            int len = rt_utf8_decode_back(s, (size_t)i, &cp);
            n--;
            assert_int_equal(len, sizes[n]);
            assert_int_equal(cp, forward[n]);
            i -= len;
        }
    }
}

/* The range of an incomplete character holds what begins with its bytes and nothing else. */
static void ranges(void **state) {
    (void)state;
    uint32_t last_lo[4] = {0}, last_hi[4] = {0};
    char last[4][RT_UTF8_MAX] = {{0}};
    for (uint32_t cp = 0x80; cp < 0x110000; cp++) {
        if (cp == 0xD800) cp = 0xE000;
        char s[RT_UTF8_MAX];
        int n = rt_utf8_encode(cp, s);
        for (int k = 1; k < n; k++) {
            uint32_t lo, hi;
            rt_utf8_range(s, (size_t)k, &lo, &hi);
            assert_true(lo <= cp && cp <= hi);
            int same = memcmp(last[k], s, (size_t)k) == 0;
            if (same) assert_true(lo == last_lo[k] && hi == last_hi[k]);
            if (!same) assert_true(lo > last_hi[k]);
            memcpy(last[k], s, (size_t)k);
            last_lo[k] = lo;
            last_hi[k] = hi;
        }
    }
}

static void cutting(void **state) {
    (void)state;
    const char *s = "a\xC3\xA9\xE6\xAD\xAA\xF0\x9F\x98\x80";
    static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
    for (size_t room = 0; room < 12; room++)
        assert_int_equal(rt_utf8_cut(s, 10, room), whole[room]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_corner),    cmocka_unit_test(every_character),
        cmocka_unit_test(both_directions), cmocka_unit_test(ranges),
        cmocka_unit_test(cutting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
