/* test_automaton.c - the automaton against a search for every word at every place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/automaton.h"
#include "text/utf8.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

enum { MOST = 64 };

static rt_automaton *build(const char *const *texts, int n) {
    rt_word words[MOST];
    rt_automaton *a = NULL;
    for (int i = 0; i < n; i++)
        words[i] = (rt_word){.s = texts[i], .n = (uint32_t)strlen(texts[i]), .id = (uint32_t)i};
    assert_int_equal(rt_automaton_new(&a, words, (uint32_t)n, NULL), RETRACE_OK);
    return a;
}

static int is_suffix(const char *s, size_t n, const char *word) {
    size_t len = strlen(word);
    return len <= n && memcmp(s + n - len, word, len) == 0;
}

/* The longest word that ends at s + n and is shorter than `below`; of equal ones the first. -1:
 * none. */
static int longest(const char *const *texts, int n_texts, const char *s, size_t n, size_t below) {
    int best = -1;
    for (int i = 0; i < n_texts; i++) {
        if (strlen(texts[i]) >= below || !is_suffix(s, n, texts[i])) continue;
        if (best < 0 || strlen(texts[i]) > strlen(texts[best])) best = i;
    }
    return best;
}

/* Bytes of the longest end of s[0..n) that begins a word. */
static size_t begun(const char *const *texts, int n_texts, const char *s, size_t n) {
    for (size_t from = 0; from < n; from++) {
        for (int i = 0; i < n_texts; i++) {
            if (((unsigned char)s[from] & 0xC0) != 0x80 &&
                strncmp(texts[i], s + from, n - from) == 0)
                return n - from;
        }
    }
    return 0;
}

/* Reads s, a string, and compares every place. */
static void compare(const char *const *texts, int n_texts, const char *s) {
    rt_automaton *a = build(texts, n_texts);
    uint32_t q = 0, cp;
    for (size_t i = 0, n = strlen(s); i < n;) {
        i += (size_t)rt_utf8_decode(s + i, n - i, &cp);
        q = rt_automaton_step(a, q, cp);
        char so_far[256];
        memcpy(so_far, s, i);
        so_far[i] = '\0';
        assert_int_equal(a->nodes[q].depth, begun(texts, n_texts, so_far, i));
        size_t below = SIZE_MAX;
        for (uint32_t t = a->nodes[q].hits; t; t = a->terms[t].next) {
            assert_int_equal(a->terms[t].id, longest(texts, n_texts, s, i, below));
            below = a->terms[t].depth;
        }
        assert_int_equal(longest(texts, n_texts, s, i, below), -1);
    }
    rt_automaton_free(a);
}

static void cases(void **state) {
    (void)state;
    static const char *const she[] = {"he", "she", "his", "hers"};
    static const char *const same[] = {"ab", "a", "ab", "abc", "a"};
    static const char *const wide[] = {"é", "éa", "aé", "歪é", "è", "😀", "😀😁"};
    compare(she, COUNT(she), "ushers hishe");
    compare(same, COUNT(same), "aabcab");
    compare(wide, COUNT(wide), "aéaè歪é😀😁😀é");
    compare(she, 0, "anything");
}

static void random_words(void **state) {
    (void)state;
    static const char *const letters[] = {"a", "b", "c", "é", "è", "歪"};
    uint32_t random = 7;
    for (int round = 0; round < 400; round++) {
        char store[MOST][32], text[200] = "";
        const char *texts[MOST];
        int n = 0;
        for (int i = 0; i < 24 + round % 40; i++) {
            char *s = i < 24 ? text : store[n];
            if (i >= 24) s[0] = '\0';
            for (int k = 0; k < (i < 24 ? 1 : 1 + round % 5); k++) {
                random = random * 1664525 + 1013904223;
                strncat(s, letters[(random >> 20) % (2 + (unsigned)round % 5)], 4);
            }
            if (i >= 24) texts[n] = store[n], n++;
        }
        compare(texts, n, text);
    }
}

/* A node's children are found whatever their number. */
static void many_children(void **state) {
    (void)state;
    enum { N = 2000 };
    static char text[N][8];
    static rt_word words[N];
    for (uint32_t i = 0; i < N; i++) {
        int n = rt_utf8_encode(0x4E00 + 7 * i, text[i]);
        words[N - 1 - i] = (rt_word){.s = text[i], .n = (uint32_t)n, .id = i};
    }
    rt_automaton *a = NULL;
    assert_int_equal(rt_automaton_new(&a, words, N, NULL), RETRACE_OK);
    assert_int_equal(a->n_nodes, N + 1);
    for (uint32_t cp = 0x4E00 - 3; cp < 0x4E00 + 7 * N + 3; cp++) {
        uint32_t q = rt_automaton_child(a, 0, cp);
        int there = cp >= 0x4E00 && (cp - 0x4E00) % 7 == 0 && cp < 0x4E00 + 7 * N;
        assert_int_equal(q != 0, there);
        if (q) assert_int_equal(a->terms[a->nodes[q].hits].id, (cp - 0x4E00) / 7);
        if (q) assert_true(rt_automaton_is_word(a, q) && !a->nodes[q].n);
    }
    rt_automaton_free(a);
}

static void flags(void **state) {
    (void)state;
    rt_word words[] = {{.s = "ab-", .n = 3, .id = 0, .flags = RT_WORD_STARTS},
                       {.s = "-ab", .n = 3, .id = 1, .flags = RT_WORD_ENDS}};
    rt_automaton *a = NULL;
    assert_int_equal(rt_automaton_new(&a, words, 2, NULL), RETRACE_OK);
    uint32_t q = rt_automaton_step(a, 0, 'a');
    assert_true(a->nodes[q].label & RT_LABEL_STARTS);
    q = rt_automaton_step(a, rt_automaton_step(a, q, 'b'), '-');
    assert_true(a->nodes[q].label & RT_LABEL_STARTS);
    assert_int_equal(a->terms[a->nodes[q].hits].flags, RT_WORD_STARTS);
    q = rt_automaton_step(a, q, 'a');
    assert_int_equal(a->nodes[q].depth, 2); /* "-a" */
    assert_false(a->nodes[q].label & RT_LABEL_STARTS);
    rt_automaton_free(a);
}

/* ==== Memory ==== */

static int allowed;

static void *failing(void *ud, void *ptr, size_t old_size, size_t new_size) {
    (void)ud, (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return allowed-- > 0 ? realloc(ptr, new_size) : NULL;
}

static void out_of_memory(void **state) {
    (void)state;
    rt_word words[] = {{.s = "b", .n = 1}, {.s = "a", .n = 1, .id = 1}};
    rt_automaton *a = NULL;
    retrace_set_alloc(failing, NULL);
    int failures = 0;
    for (int n = 0; !a; n++) {
        allowed = n;
        retrace_error err = {0};
        int rc = rt_automaton_new(&a, words, 2, &err);
        assert_int_equal(rc, a ? RETRACE_OK : RETRACE_ENOMEM);
        assert_int_equal(err.code, rc);
        failures += !a;
    }
    rt_automaton_free(a);
    retrace_set_alloc(NULL, NULL);
    assert_int_equal(failures, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases), cmocka_unit_test(random_words),  cmocka_unit_test(many_children),
        cmocka_unit_test(flags), cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
