/* test_gbnf.c - the notation of grammars: what is read and how, what is refused and where, and
 * characters as bytes. */
#include "helper.h"
#include "matching.h"

#include "base.h"

/* ==== What is read ==== */

/* Texts one after the other, each with what it is in front. */
static const struct {
    const char *gbnf;
    const char *texts[12];
} read_as[] = {
    {"root ::= \"yes\" | \"no\"", {"yyes", "yno", "bye", "b", "nnot", "nyesno"}},
    {"root::=\"a\"\"b\" \"c\"", {"yabc", "bab", "nac"}},
    {"# first\nroot ::= a-1 | B_2 # tail\n\n  a-1 ::= \"x\"\r\nB_2 ::= \"y\"", {"yx", "yy", "nxy"}},
    {"root ::= \"\\n\\r\\t\\\"\\\\\\x41\\u00e9\\U0001F600\\[\\]\"",
     {"y\n\r\t\"\\A\u00e9\U0001F600[]", "b\n\r\t\"\\A\xc3"}},
    {"root ::= [a-cx\\]-]+", {"ya", "ycbax]-", "b", "nd", "nay"}},
    {"root ::= [^a-c\\n]", {"yd", "y\u00e9", "y\U0001F600", "b\xf0\x9f", "na", "n\n", "n\xff"}},
    {"root ::= [\\u00e0-\\u00ff\\x41]", {"yA", "y\u00e9", "n\u00df", "nB"}},
    {"root ::= .", {"ya", "y\n", "y\u4e2d", "nab", "n\xc0", "n\xed\xa0", "n\xf4\x90"}},
    {"root ::= [-a]", {"y-", "ya"}},
    {"root ::= [a^]", {"y^", "ya"}},
    {"root ::= \"a\"*", {"y", "ya", "yaaaa", "nb"}},
    {"root ::= \"ab\"+", {"b", "yab", "yabab", "baba", "naa"}},
    {"root ::= \"ab\" ? \"c\"", {"yc", "yabc", "na c"}},
    {"root ::= [0-9]{3}", {"b12", "y123", "n1234"}},
    {"root ::= [0-9]{2,}", {"b1", "y12", "y1234567"}},
    {"root ::= [0-9]{,2}", {"y", "y1", "y12", "n123"}},
    {"root ::= [0-9]{ 1 , 3 } \".\"", {"b", "b1", "y1.", "y123.", "n1234"}},
    {"root ::= \"x\"{0} \"y\"{0,0} \"z\"", {"yz", "nx"}},
    {"root ::= (\"a\" | \"b\" {2}){2}", {"yaa", "yabb", "ybba", "ybbbb", "nba", "nbbbbb"}},
    {"root ::= \"a\"*?", {"y", "yaa"}},
    {"root ::= ( \"a\"\n  \"b\" # c\n | \"c\" )\n", {"yab", "yc"}},
    {"root ::= \"a\" |\n \"b\"\n  | \"c\"\n | \n other\nother ::= \"d\"", {"ya", "yb", "yc", "yd"}},
    {"root ::=\n  \"a\"", {"ya"}},
    {"root ::= | \"a\"", {"y", "ya"}},
    {"root ::= (\"a\" | ) \"b\"", {"yb", "yab"}},
    {"root ::= \"\" ", {"y", "na"}},
    {"root ::= root \"a\" | \"b\"", {"yb", "ybaa", "na"}},
    {"root ::= \"a\" root | \"b\"", {"yb", "yaab", "ba"}},
    {"root ::= root root | \"a\" | ", {"y", "ya", "yaaaaaaa", "nb"}},
    {"root ::= root | \"a\"", {"ya", "naa"}},
    {"root ::= \"a\"\nunused ::= \"b\"", {"ya", "nb"}},
    {"\xef\xbb\xbfroot ::= \"a\"", {"ya"}},
};

static void grammars_mean_what_they_say(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(read_as); i++) {
        rt_earley *m = make_matcher(read_as[i].gbnf, 1 << 20);
        for (int k = 0; k < COUNT(read_as[i].texts) && read_as[i].texts[k]; k++) {
            const char *t = read_as[i].texts[k];
            /* The letter in front is left out where it says all there is: no text at all. */
            if (fits(m, t + 1) != t[0])
                fail_msg("%s\n'%s' is %c", read_as[i].gbnf, t, fits(m, t + 1));
        }
        rt_earley_free(m);
    }
}

/* ==== What is refused ==== */

static const struct {
    const char *gbnf, *message;
} refused[] = {
    {"", "grammar: there is no rule 'root'"},
    {"a ::= \"b\"", "grammar: there is no rule 'root'"},
    {"root ::= a\n  b", "grammar: line 2, column 4: expected ::=, found the end"},
    {"root ::= x", "grammar: line 1, column 10: no rule is called 'x'"},
    {"root ::= \"a\"\nroot ::= \"b\"", "grammar: line 2, column 1: there is already a rule 'root'"},
    {"root ::= \"a", "grammar: line 1, column 12: expected a character, found the end"},
    {"root ::= \"a\n\"", "found the end of the line"},
    {"root ::= [a", "expected a character, found the end"},
    {"root ::= []", "grammar: line 1, column 10: no character fits the class '[]'"},
    {"root ::= [^\\x00-\\U0010FFFF]", "no character fits the class"},
    {"root ::= [z-a]", "grammar: line 1, column 11: a range runs backwards"},
    {"root ::= \"\\q\"", "grammar: line 1, column 12: expected one of n r t"},
    {"root ::= \"\\x4\"", "expected a hexadecimal digit, found '\"'"},
    {"root ::= \"\\ud800\"", "no character has this number: 'd800'"},
    {"root ::= \"\\U00110000\"", "no character has this number"},
    {"root ::= (\"a\"", "grammar: line 1, column 10: this parenthesis is not closed"},
    {"root ::= \"a\")", "grammar: line 1, column 13: expected the end of the rule, found ')'"},
    {"root ::= \"a\" b ::= \"c\"",
     "grammar: line 1, column 14: a rule begins within another one: 'b'"},
    {"root ::= \nb ::= \"c\"", "grammar: line 2, column 1: expected what the rule stands for"},
    {"root \"a\"", "grammar: line 1, column 6: expected ::=, found '\"'"},
    {"\u00e9 ::= \"a\"", "grammar: line 1, column 1: expected the name of a rule, found '\u00e9'"},
    {"root ::= \"\u00e9\u00e9\" \u00e9",
     "grammar: line 1, column 15: expected the end of the rule"},
    {"root ::= *", "expected the end of the rule, found '*'"},
    {"root ::= \"a\"{", "expected a number, found the end"},
    {"root ::= \"a\"{2", "expected }, found the end"},
    {"root ::= \"a\"{3,2}", "grammar: line 1, column 13: the upper bound is below the lower"},
    {"root ::= \"a\"{10001}", "more than 10000 repetitions"},
    {"root ::= \"a\"{99999999999}", "more than 10000 repetitions"},
    {"root ::= <think>", "tokens in a grammar are not supported"},
    {"root ::= root",
     "grammar: line 1, column 1: this rule needs itself and can never be finished: 'root'"},
    {"root ::= \"a\" | b\nb ::= \"x\" b", "can never be finished: 'b'"},
    {"root ::= \"a\"\nb ::= c\nc ::= b", "can never be finished"},
    {"root ::= \x01", "found a control character"},
    {"root ::= \"\xff\"", "grammar: line 1, column 11: this is not valid UTF-8"},
};

static void what_is_wrong_is_named(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(refused); i++) {
        rt_earley *m = NULL;
        retrace_error err = {0};
        int rc = try_matcher(&m, refused[i].gbnf, 1 << 20, &err);
        if (rc != RETRACE_EUSAGE || m) fail_msg("%s: %d", refused[i].gbnf, rc);
        if (!strstr(err.msg, refused[i].message))
            fail_msg("%s\n'%s'\nnot '%s'", refused[i].gbnf, err.msg, refused[i].message);
    }
}

static void repeat(char *out, const char *unit, int n) {
    size_t k = strlen(unit);
    for (int i = 0; i < n; i++) memcpy(out + (size_t)i * k, unit, k);
    out[(size_t)n * k] = 0;
}

static void sizes_are_limited(void **state) {
    (void)state;
    static char text[RT_GBNF_MAX_TEXT + 64];
    rt_earley *m = NULL;
    retrace_error err = {0};
    memcpy(text, "root ::= ", 9);
    repeat(text + 9, "(", RT_GBNF_MAX_DEPTH + 1);
    assert_int_equal(try_matcher(&m, text, 1, &err), RETRACE_EUSAGE);
    assert_non_null(strstr(err.msg, "too many parentheses"));
    repeat(text + 9, "\"a\"{10000} ", 300);
    assert_int_equal(try_matcher(&m, text, 1, &err), RETRACE_EUSAGE);
    assert_non_null(strstr(err.msg, "more than 2097152 elements"));
    repeat(text + 9, " ", RT_GBNF_MAX_TEXT);
    assert_int_equal(try_matcher(&m, text, 1, &err), RETRACE_EUSAGE);
    assert_non_null(strstr(err.msg, "has more than 1048576 bytes"));
    size_t n = 9;
    for (int i = 0; i < 5000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "[%c\\U%08x] ", 'a' + i % 26, 0x4e00 + i);
    text[n] = 0;
    int rc = try_matcher(&m, text, 1, &err);
    assert_int_equal(rc, RETRACE_OK); /* of 26 letters and some hundred bytes */
    rt_earley_free(m);
    repeat(text + 9, "(", RT_GBNF_MAX_DEPTH);
    n = 9 + RT_GBNF_MAX_DEPTH;
    memcpy(text + n, "\"a\"", 3);
    repeat(text + n + 3, ")", RT_GBNF_MAX_DEPTH);
    m = make_matcher(text, 1 << 20);
    assert_int_equal(fits(m, "a"), 'y');
    rt_earley_free(m);
}

/* ==== Characters ==== */

static int put_char(uint32_t c, char *out) {
    int n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (n == 1) return out[0] = (char)c, 1;
    for (int i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00 >> n & 0xff & ~(0xff >> n)) | (int)c);
    return n;
}

static int in_class(const uint32_t *spans, int n, uint32_t c) {
    for (int i = 0; i < n; i++)
        if (c >= spans[2 * i] && c <= spans[2 * i + 1]) return 1;
    return 0;
}

static uint64_t seed;

static uint32_t some_char(void) {
    static const uint32_t edges[] = {0x20, 0x7f, 0x7ff, 0xfff, 0xd7ff, 0xffff, 0x3ffff, 0x10ffff};
    uint32_t edge = edges[roll_from(&seed, 8)], c;
    if (roll_from(&seed, 2))
        c = (uint32_t)roll_from(&seed, (int)edge + 1);
    else
        c = edge - (edge > 3 ? (uint32_t)roll_from(&seed, 3) : 0) +
            (edge < 0x10fff0 ? (uint32_t)roll_from(&seed, 3) : 0);
    return c >= 0xd800 && c <= 0xdfff ? 0xe000 : c;
}

static void classes_hold_what_they_name(void **state) {
    (void)state;
    for (seed = 1; seed < 300;) {
        uint64_t round = seed;
        uint32_t spans[8];
        char gbnf[200], text[8];
        int n = 1 + roll_from(&seed, 4), negated = roll_from(&seed, 2);
        int at = snprintf(gbnf, sizeof gbnf, "root ::= [%s", negated ? "^" : "");
        for (int i = 0; i < n; i++) {
            uint32_t a = some_char(), b = some_char();
            spans[2 * i] = a < b ? a : b;
            spans[2 * i + 1] = a < b ? b : a;
            at += snprintf(gbnf + at, sizeof gbnf - (size_t)at, "\\U%08x-\\U%08x", spans[2 * i],
                           spans[2 * i + 1]);
        }
        snprintf(gbnf + at, sizeof gbnf - (size_t)at, "]");
        rt_earley *m = make_matcher(gbnf, 1 << 20);
        for (int k = 0; k < 300; k++) {
            uint32_t c = k < 2 * n ? spans[k] : some_char();
            int length = put_char(c, text), is = in_class(spans, n, c) != negated;
            if ((fits_bytes(m, text, (size_t)length) == 'y') != is)
                fail_msg("%s: %x should be %d", gbnf, c, is);
        }
        rt_earley_free(m);
        seed = round + 1;
    }
}

/* Beginnings of characters and nothing else are beginnings of texts. */
static void any_character_is_any_and_nothing_more(void **state) {
    (void)state;
    rt_earley *m = make_matcher("root ::= .*", 1 << 20);
    seed = 7;
    for (int round = 0; round < 20000; round++) {
        char s[6];
        size_t n = 1 + (size_t)roll_from(&seed, 5);
        for (size_t i = 0; i < n; i++)
            s[i] =
                (char)(roll_from(&seed, 3) ? 0x80 | roll_from(&seed, 128) : roll_from(&seed, 256));
        size_t good = rt_utf8_check(s, n);
        size_t tail = rt_utf8_tail(s, n);
        char is = good == n ? 'y' : good == n - tail ? 'b' : 'n';
        assert_int_equal(fits_bytes(m, s, n), is);
    }
    rt_earley_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grammars_mean_what_they_say),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(sizes_are_limited),
        cmocka_unit_test(classes_hold_what_they_name),
        cmocka_unit_test(any_character_is_any_and_nothing_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
