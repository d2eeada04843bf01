/* test_fold.c - what folds to what: chosen characters, and the laws that the matcher relies on for
 * every character of Unicode. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "text/fold.h"
#include "text/utf8.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static rt_unit units[RT_FOLD_MAX];

static void folds_to(int how, uint32_t cp, int n, const uint32_t *want) {
    assert_int_equal(rt_fold(how, cp, units), n);
    for (int i = 0; i < n; i++) assert_int_equal(units[i].cp, want[i]);
}

#define FOLDS(how, cp, ...)                                                                        \
    folds_to(how, cp, COUNT(((uint32_t[]){__VA_ARGS__})), (uint32_t[]){__VA_ARGS__})

static void cases(void **state) {
    (void)state;
    FOLDS(0, 'K', 'K');
    FOLDS(RT_FOLD_CASE, 'K', 'k');
    FOLDS(RT_FOLD_CASE, 0x212A, 'k'); /* Kelvin sign */
    FOLDS(RT_FOLD_CASE, 0xDF, 's', 's');
    FOLDS(RT_FOLD_CASE, 0x1E9E, 's', 's'); /* capital sharp s */
    FOLDS(RT_FOLD_CASE, 0x3C2, 0x3C3);     /* final sigma */
    FOLDS(RT_FOLD_CASE, 0xFB03, 'f', 'f', 'i');
    FOLDS(RT_FOLD_CASE, 0x130, 'i', 0x307);
    FOLDS(RT_FOLD_CASE, 0x131, 0x131); /* dotless i stays itself */
    FOLDS(RT_FOLD_CASE, 0x10400, 0x10428);
    FOLDS(RT_FOLD_CASE, 0x1F600, 0x1F600);
    FOLDS(RT_FOLD_CASE, RT_UTF8_BAD, RT_UTF8_BAD);
}

static void decompositions(void **state) {
    (void)state;
    FOLDS(0, 0xE9, 0xE9);
    FOLDS(RT_FOLD_NFC, 0xE9, 'e', 0x301);
    FOLDS(RT_FOLD_NFC, 0xC9, 'E', 0x301);
    FOLDS(RT_FOLD_NFC | RT_FOLD_CASE, 0xC9, 'e', 0x301);
    FOLDS(RT_FOLD_NFC, 0x212B, 'A', 0x30A); /* Angstrom sign */
    FOLDS(RT_FOLD_NFC, 0xAC01, 0x1100, 0x1161, 0x11A8);
    FOLDS(RT_FOLD_NFC, 0xFB01, 0xFB01); /* a compatible form is no canonical one */
    FOLDS(RT_FOLD_NFC | RT_FOLD_CASE, 0x1FB3, 0x3B1, 0x3B9);
    rt_fold(RT_FOLD_NFC, 0x1EC7, units); /* e with circumflex and dot below */
    assert_int_equal(units[1].order, 220);
    assert_int_equal(units[2].order, 230);
}

static void quotes_and_space(void **state) {
    (void)state;
    static const uint32_t single[] = {0x2018, 0x2019, 0x201A, 0x201B,
                                      0x2032, 0x2035, 0x2BC,  0xFF07};
    static const uint32_t doubles[] = {0x201C, 0x201D, 0x201E, 0x201F, 0x2033, 0x2036, 0xFF02};
    static const uint32_t white[] = {'\t',   '\n',   '\r',   ' ',    0x85,  0xA0,
                                     0x1680, 0x2003, 0x2028, 0x202F, 0x3000};
    for (int i = 0; i < COUNT(single); i++) {
        FOLDS(0, single[i], single[i]);
        FOLDS(RT_FOLD_QUOTES, single[i], '\'');
    }
    for (int i = 0; i < COUNT(doubles); i++) FOLDS(RT_FOLD_QUOTES, doubles[i], '"');
    for (int i = 0; i < COUNT(white); i++) {
        FOLDS(0, white[i], white[i]);
        assert_int_equal(units[0].flags & RT_UNIT_WHITE, 0);
        FOLDS(RT_FOLD_SPACE, white[i], ' ');
        assert_true(units[0].flags & RT_UNIT_WHITE);
    }
    FOLDS(RT_FOLD_QUOTES | RT_FOLD_CASE, 0x149, '\'', 'n');
    FOLDS(RT_FOLD_SPACE, 0x200B, 0x200B); /* zero width space is no white space */
    FOLDS(RT_FOLD_SPACE | RT_FOLD_NFC, 0x2001, ' ');
}

static int flags_of(int how, uint32_t cp) {
    rt_fold(how, cp, units);
    return units[0].flags;
}

static void kinds(void **state) {
    (void)state;
    static const uint32_t word[] = {'a',   'Z',    '0',    0xE9,   0x301,
                                    0x663, 0x2160, 0x6B6A, 0xAC00, 0x93F};
    static const uint32_t other[] = {' ', '_', '-', '\'', 0x2019, 0x1F600, 0xA0, 0, RT_UTF8_BAD};
    static const uint32_t extends[] = {0x301, 0x323, 0x93F, 0x20DD, 0x1161, 0x11A8, 0xE31};
    static const uint32_t stands[] = {'a', 0xE9, 0x1100, 0xAC00, 0xFE0F, 0xE0100, 0x200D};
    for (int i = 0; i < COUNT(word); i++) assert_true(flags_of(0, word[i]) & RT_UNIT_WORD);
    for (int i = 0; i < COUNT(other); i++) assert_false(flags_of(0, other[i]) & RT_UNIT_WORD);
    for (int i = 0; i < COUNT(extends); i++) {
        assert_true(flags_of(RT_FOLD_NFC, extends[i]) & RT_UNIT_EXTENDS);
        assert_false(flags_of(RT_FOLD_CASE, extends[i]) & RT_UNIT_EXTENDS);
    }
    for (int i = 0; i < COUNT(stands); i++)
        assert_false(flags_of(RT_FOLD_NFC, stands[i]) & RT_UNIT_EXTENDS);
    assert_false(flags_of(RT_FOLD_QUOTES, 0x2BC) & RT_UNIT_WORD); /* no letter any more */
}

/* A unit's own character folds to that unit, so what the automaton holds can be written as text. */
static void stable(int how, uint32_t cp) {
    rt_unit again[RT_FOLD_MAX];
    int n = rt_fold(how, cp, units);
    assert_in_range(n, 1, RT_FOLD_MAX - 1);
    if (n > 1 || units[0].cp != cp) assert_false(rt_fold_keeps(how, cp));
    for (int i = 0; i < n; i++) {
        assert_int_equal(rt_fold(how, units[i].cp, again), 1);
        assert_int_equal(again[0].cp, units[i].cp);
        if (i > 0 && units[i - 1].order) assert_int_not_equal(units[i].order, 0);
        if (units[i].order) assert_true(units[i].flags & RT_UNIT_EXTENDS);
        if (units[i].flags & RT_UNIT_WHITE) assert_int_equal(n, 1);
        if (i > 0 && units[i - 1].order) assert_true(units[i].order >= units[i - 1].order);
    }
}

static void every_character(void **state) {
    (void)state;
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        if (cp == 0xD800) cp = 0xE000;
        for (int how = 0; how < 16; how += cp < 0x3400 || cp > 0xF900 ? 1 : 5) stable(how, cp);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases),
        cmocka_unit_test(decompositions),
        cmocka_unit_test(quotes_and_space),
        cmocka_unit_test(kinds),
        cmocka_unit_test(every_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
