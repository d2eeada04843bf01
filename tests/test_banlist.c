/* test_banlist.c - files of phrases: what is read, and which line is named when something is wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/banlist.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static rt_banlist list;

static int parse(const char *s, size_t n, retrace_error *err) {
    *err = (retrace_error){0};
    return rt_banlist_parse(&list, (retrace_text){s, n}, "file 1", 16, 4, err);
}

/* `wants`: the phrases joined by `|`. */
static void reads(const char *s, const char *wants) {
    retrace_error err;
    char got[256] = "";
    if (parse(s, strlen(s), &err)) fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < list.n; i++) {
        if (i) strncat(got, "|", 2);
        strncat(got, list.phrases[i].s, list.phrases[i].n);
    }
    assert_string_equal(got, wants);
    rt_banlist_free(&list);
}

static void good_files(void **state) {
    (void)state;
    reads("", "");
    reads("\n\n", "");
    reads("one", "one");
    reads("one\ntwo\n", "one|two");
    reads("one\r\ntwo\r\n\r\n", "one|two");
    reads("\xEF\xBB\xBFone", "one");
    reads("\xEF\xBB\xBF", "");
    reads("  one\t\n\t# c\n#d\n \n", "one");
    reads("a # b", "a # b");
    reads("a\xC2\xA0", "a\xC2\xA0"); /* no-break space is kept */
    reads("\"  a \"  \r\n", "  a ");
    reads("\"# a\"", "# a");
    reads("\"a\\\"b\\\\\"", "a\"b\\");
    reads("\"a\\nb\\tc\"", "a\nb\tc");
    reads("a\"b\" \\n",
          "a\"b\" \\n"); /* quotes and backslashes inside a plain line are themselves */
    reads("one\none", "one|one");
    reads("1234567890123456", "1234567890123456");
    reads("a\nb\nc\nd\n# e", "a|b|c|d");
}

static void lines_are_kept(void **state) {
    (void)state;
    retrace_error err;
    const char *s = "# c\r\n\r\none\r\n  \r\n\"two\"";
    assert_int_equal(parse(s, strlen(s), &err), RETRACE_OK);
    assert_int_equal(list.n, 2);
    assert_int_equal(list.lines[0], 3);
    assert_int_equal(list.lines[1], 5);
    rt_banlist_free(&list);
}

static void bad_files(void **state) {
    (void)state;
    static const struct {
        const char *s;
        int n; /* 0: up to the NUL */
        const char *wants;
    } cases[] = {
        {"a\n\"b", 0, "file 1, line 2: the quote does not end"},
        {"\"", 0, "file 1, line 1: the quote does not end"},
        {"\"a\\\"", 0, "file 1, line 1: the quote does not end"},
        {"\"a\" b", 0, "file 1, line 1: something follows the closing quote"},
        {"\"a\\x\"", 0, "file 1, line 1: a backslash in quotes stands before \", \\, n or t"},
        {"\"a\\", 0, "file 1, line 1: a backslash in quotes stands before \", \\, n or t"},
        {"a\n\n\"\"", 0, "file 1, line 3: the phrase is empty"},
        {"a\nb\0c", 5, "file 1, line 2: a NUL byte"},
        {"a\n# \0", 5, "file 1, line 2: a NUL byte"},
        {"a\n\xFF\n", 0, "file 1, line 2: not valid UTF-8"},
        {"# \xC3\n", 0, "file 1, line 1: not valid UTF-8"},
        {"a\nb\xC3", 0, "file 1, line 2: not valid UTF-8"},
        {"\xFF\xFE", 0, "file 1, line 1: not valid UTF-8"},
        {"12345678901234567", 0, "file 1, line 1: more than 16 bytes in a phrase"},
        {"a\nb\nc\nd\n\ne\n", 0, "file 1, line 6: more than 4 phrases"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        retrace_error err;
        size_t n = cases[i].n ? (size_t)cases[i].n : strlen(cases[i].s);
        assert_int_equal(parse(cases[i].s, n, &err), RETRACE_EUSAGE);
        assert_int_equal(err.code, RETRACE_EUSAGE);
        assert_string_equal(err.msg, cases[i].wants);
        rt_banlist_free(&list);
    }
}

/* Any bytes: phrases or an error, never a crash; every prefix of a file too. */
static void any_bytes(void **state) {
    (void)state;
    static const char letters[] = "\"\\#\r\n\t ant\xC3\xA9\xEF\xBB\xBF\0";
    uint32_t random = 5;
    for (int round = 0; round < 20000; round++) {
        size_t n = (size_t)round % 13;
        char *s = malloc(n ? n : 1);
        assert_non_null(s);
        for (size_t i = 0; i < n; i++) {
            random = random * 1664525 + 1013904223;
            s[i] = letters[(random >> 16) % (sizeof letters - 1)];
        }
        retrace_error err;
        int rc = parse(s, n, &err);
        assert_true(rc == RETRACE_OK || rc == RETRACE_EUSAGE);
        assert_int_equal(err.code, rc);
        rt_banlist_free(&list);
        free(s);
    }
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
    retrace_set_alloc(failing, NULL);
    int rc = RETRACE_ENOMEM, n = 0;
    for (; rc == RETRACE_ENOMEM; n++) {
        retrace_error err;
        allowed = n;
        rc = parse("a\nb", 3, &err);
        assert_int_equal(err.code, rc);
        rt_banlist_free(&list);
    }
    retrace_set_alloc(NULL, NULL);
    assert_int_equal(rc, RETRACE_OK);
    assert_int_equal(n, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_files), cmocka_unit_test(lines_are_kept), cmocka_unit_test(bad_files),
        cmocka_unit_test(any_bytes),  cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
