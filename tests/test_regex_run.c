/* test_regex_run.c - the rule regex: its settings and their errors, and whole runs. No answer
 * contains a match, by PCRE2's other matcher (regex_reference.h). */
#include "helper.h"

#include "regex_reference.h"

/* ==== Settings ==== */

static void wrong(const char *why, const char *const *pairs) {
    retrace_rule *r = NULL;
    retrace_error err = {0};
    assert_int_equal(try_rule(&r, "regex", pairs, &err), RETRACE_EUSAGE);
    if (!strstr(err.msg, why)) fail_msg("'%s' has no '%s'", err.msg, why);
}

#define WRONG(why, ...) wrong(why, (const char *const[]){__VA_ARGS__, NULL})

static void settings(void **state) {
    (void)state;
    WRONG("regex: pattern 2, 'a(': ", "pattern", "ok", "pattern", "a(");
    WRONG("regex: pattern 1, '(a)\\1': back references are not supported", "pattern", "(a)\\1");
    WRONG("regex: file 1, line 4, 'b*': it can match the empty text", "file",
          "# comment\r\n\r\n  a+  \nb*\n");
    WRONG("regex: file 2, line 1, 'x': it is not valid UTF-8 at byte 1", "file", "a", "file",
          "x\xff");
    WRONG("regex: pattern 1, '': it is not valid UTF-8 at byte 0", "pattern", "\xc3");
    WRONG("pattern", "pattern", "");
    WRONG("weight", "pattern", "a", "weight", "0.5");
    WRONG("case", "pattern", "a", "case", "both");
    static char many[3 * 1025 + 1];
    for (int i = 0; i < 1025; i++) memcpy(many + 3 * i, "a+\n", 4);
    WRONG("more than 1024 patterns", "file", many);
    retrace_rule_free(make_rule("regex", NULL));
    retrace_rule_free(make_rule("regex", (const char *const[]){"file",
                                                               "\xEF\xBB\xBF"
                                                               "a b\n#\n\\#x",
                                                               "case", "fold", NULL}));
}

/* ==== Runs that are told what to draw ==== */

static const char letters[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", \" \", \"d\", {\"bytes\": [195]}, {\"bytes\": [169]}, "
    "\"ab\", "
    "{\"text\": \"</s>\", \"end\": true}], \"rows\": [{\"context\": [], \"next\": {\"a\": 4, "
    "\"b\": 3, "
    "\"c\": 2, \" \": 2, \"d\": 2, \"5\": 1, \"6\": 1, \"ab\": 1, \"</s>\": 1}}]}";

typedef struct wish {
    const char *pattern, *fold, *prompt,
        *draws; /* one letter a token, '.' the end, 'D' the token ab */
    const char *stop, *text;
    int rewinds;
} wish;

static int told(retrace_model *m, const char *draws, retrace_token *out) {
    int n = 0;
    for (; draws[n]; n++) {
        const char name[] = {draws[n], '\0'};
        out[n] = token_of(m, draws[n] == '.' ? "</s>" : draws[n] == 'D' ? "ab" : name);
    }
    return n;
}

static void comes_true(const wish *w, int max_tokens) {
    static answer a;
    retrace_model *m = open_table(letters);
    retrace_rule *r = make_rule("regex", (const char *const[]){"pattern", w->pattern, "case",
                                                               w->fold ? "fold" : "exact", NULL});
    retrace_token draws[32];
    script s = {.want = draws, .n = told(m, w->draws, draws)};
    retrace_text stop = text_of(w->stop ? w->stop : "");
    retrace_options o = plain_options(max_tokens);
    o.rules = &r;
    o.n_rules = 1;
    o.stops = &stop;
    o.n_stops = w->stop != NULL;
    o.choose = choose_script;
    o.choose_ud = &s;
    finish_text(&a, m, &o, w->prompt);
    if (strcmp(a.text, w->text) != 0 || a.stats.rewinds != w->rewinds || s.missed)
        fail_msg("'%s' on '%s': '%s', %d rewinds, %d missed", w->pattern, w->draws, a.text,
                 (int)a.stats.rewinds, s.missed);
    retrace_rule_free(r);
    retrace_model_close(m);
}

static void judged_where_it_is_decided(void **state) {
    (void)state;
    static const wish wishes[] = {
        {"a c", NULL, "", "ba cb.", NULL, "bb", 1}, /* from the token of the first byte */
        {"abc", NULL, "", "cDcb.", NULL, "cb", 1},  /* whatever tokens spell it */
        {"bc", NULL, "", "cDcb.", NULL, "cb", 1},   /* and whatever else is in that token */
        {"B C", "fold", "", "ab cd.", NULL, "ad", 1},
        {"B C", NULL, "", "ab cd.", NULL, "ab cd", 0},
        {"abc", NULL, "ab", "cd.", NULL, "d", 1}, /* begun in the prompt */
        {"ab", NULL, "ab", "cd.", NULL, "cd", 0},
        {"\\bab\\b", NULL, "", "cd ab.d.", NULL, "cd d", 1}, /* the edge is the end of the answer */
        {"\\bab\\b", NULL, "", "abd.", NULL, "abd", 0},
        {"ab$", NULL, "", "cab.c.", NULL, "cc", 1},
        {"ab(?!c)", NULL, "", "ab.c.", NULL, "c", 1},
        {"ab", NULL, "", "ccabc.", "bc", "ccc", 1}, /* before the stop text is complete */
        {"bc", NULL, "", "ccabc.", "ab", "cc", 0},  /* the stop text is complete first */
        {"cc", NULL, "", "dccab.", "ab", "d", 1},
        {"ab\\b", NULL, "", "cabdc.", "d", "cc", 1}, /* the stop text brings the edge */
        {"^c", NULL, "", "ca.", NULL, "a", 1},
        {"^c", NULL, "a", "ca.", NULL, "a", 1},
    };
    for (int i = 0; i < COUNT(wishes); i++) comes_true(&wishes[i], 8);
    static const wish last[] = {
        {"dab", NULL, "", "cdabc", NULL, "ccaa", 1}, /* the last token completes it */
        {"ab\\b", NULL, "", "cdabc", NULL, "cdca", 1},
        {"ab.?$", NULL, "", "cdabc", NULL, "cdca", 1},
    };
    for (int i = 0; i < COUNT(last); i++) comes_true(&last[i], 4);
}

/* ==== The promise ==== */

static const char pieces[] =
    "{\"tokens\": [\"a\", \"b\", \"ab\", \"A\", \" \", \" a\", \"\\n\", \"e\", {\"bytes\": [195]},"
    " {\"bytes\": [169]}, \"\u00e9\", \"c\", \"bc\", \"ba\","
    " {\"text\": \"<c>\", \"control\": true}, {\"text\": \"</s>\", \"end\": true}], \"rows\": ["
    "{\"context\": [], \"next\": {\"0\": 4, \"1\": 3, \"2\": 3, \"3\": 1, \"4\": 3, \"5\": 2, "
    "\"6\": 1, \"7\": 3, \"8\": 2, \"9\": 1, \"10\": 2, \"11\": 2, \"12\": 1, \"13\": 1, \"14\": 1,"
    " \"15\": 1}}, {\"context\": [8], \"next\": {\"9\": 8, \"0\": 1, \"15\": 1}}]}";

static const char *const sought[] = {
    "ab",      "a.*b",       "\\bab\\b",   "\u00e9",     "[^a ]{3}",    "(a|b)+c",
    "b(?= )",  "a(?!b)",     "(?<=a)b\\w", "e+\\B",      "(?m)^a",      "b{2,}",
    "^ ",      "(?i)a\\s+a", "(?:^|\\n)b", "\u00e9.\\b", "(a+)+\u00e9", "\\w+ \\w+ ",
    "(?<!b)c", "a\\z",       "[\\n ]{2}",  "c.{2,4}c",   "\\Bb\\B",     "(?s)e.b"};

/* The text, with U+001A for each byte that is no character. */
static size_t cleaned(const char *s, size_t n, char *out) {
    for (size_t i = 0; i < n; i++) {
        int pair = i + 1 < n && (unsigned char)s[i] == 0xC3 && (unsigned char)s[i + 1] == 0xA9;
        out[i] = (unsigned char)s[i] < 0x80 || pair ? s[i] : 0x1A;
        if (pair) out[i + 1] = s[i + 1], i++;
    }
    return n;
}

static int contains(const char *pattern, const char *before, const char *text, size_t n) {
    static char whole[4 * MAX_ANSWER];
    int alone = strchr(pattern, '^') && !strstr(pattern, "[^");
    size_t at = alone ? 0 : strlen(before);
    memcpy(whole, before, at);
    size_t all = at + cleaned(text, n, whole + at);
    reference r;
    int found = 0;
    reference_open(&r, pattern, 0);
    for (size_t s = 0; s < all && !found; s++) {
        if (((unsigned char)whole[s] & 0xC0) != 0x80) found = shortest(&r, whole, all, s) > at;
    }
    reference_close(&r);
    return found;
}

static void never_contains(void **state) {
    (void)state;
    static answer a;
    retrace_model *m = open_table(pieces);
    uint64_t dice = 4;
    int rewinds = 0, whole = 0;
    for (int round = 0; round < 500; round++) {
        const char *pairs[8] = {NULL}, *const prompts[] = {"a", "ba b", "", " ", "a\n"};
        for (int i = 0; i <= round % 3; i++) {
            pairs[2 * i] = "pattern";
            pairs[2 * i + 1] = sought[roll_from(&dice, COUNT(sought))];
        }
        retrace_rule *r = make_rule("regex", pairs);
        retrace_options o = plain_options(30);
        o.seed = round;
        o.rules = &r;
        o.n_rules = 1;
        o.hold = round % 2 ? RETRACE_HOLD_ALL : RETRACE_HOLD_MINIMAL;
        retrace_text stop = {"cb", 2};
        o.stops = &stop;
        o.n_stops = round % 4 == 3;
        const char *prompt = prompts[round % 5];
        finish_text(&a, m, &o, prompt);
        assert_int_not_equal(a.finish, RETRACE_FINISH_ERROR);
        for (int i = 0; pairs[2 * i] && a.finish != RETRACE_FINISH_STUCK; i++)
            if (contains(pairs[2 * i + 1], prompt, a.text, a.n_text))
                fail_msg("round %d: '%s' in '%s|%s'", round, pairs[2 * i + 1], prompt, a.text);
        rewinds += (int)a.stats.rewinds;
        whole += a.finish != RETRACE_FINISH_STUCK;
        retrace_rule_free(r);
    }
    print_message("  %d rewinds, %d ended well\n", rewinds, whole);
    assert_true(rewinds > 500);
    assert_true(whole > 300);
    retrace_model_close(m);
}

/* ==== What cannot be followed ==== */

static const char only_a[] =
    "{\"tokens\": [\"a\", \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"], \"n_ctx\": 9000, "
    "\"rows\": [{\"context\": [], \"next\": {\"1\": 1}}]}";

static int notes;
static char noted[300];

static int hear(void *ud, const retrace_event *e) {
    (void)ud;
    if (e->kind == RETRACE_NOTE) {
        notes++;
        snprintf(noted, sizeof noted, "%s: %s", e->rule, e->why);
    }
    return 0;
}

static int run_only_a(const char *pattern, int n, retrace_error *err) {
    retrace_model *m = open_table(only_a);
    retrace_rule *r = make_rule("regex", (const char *const[]){"pattern", pattern, NULL});
    retrace_options o = greedy_options(n);
    retrace_run *run = NULL;
    o.rules = &r;
    o.n_rules = 1;
    notes = 0;
    assert_int_equal(retrace_run_new(&run, m, &o, NULL, 0, err), RETRACE_OK);
    int rc = retrace_run_finish(run, hear, NULL, err);
    assert_int_equal(retrace_run_finished(run), rc ? RETRACE_FINISH_ERROR : RETRACE_FINISH_LENGTH);
    retrace_run_free(run);
    retrace_rule_free(r);
    retrace_model_close(m);
    return rc;
}

static void says_what_it_gives_up(void **state) {
    (void)state;
    retrace_error err = {0};
    assert_int_equal(run_only_a("a.*b", 120, &err), RETRACE_OK);
    assert_int_equal(notes, 0);
    assert_int_equal(run_only_a("a.*b", 300, &err), RETRACE_OK);
    assert_int_equal(notes, 1);
    assert_string_equal(noted, "regex: pattern 1, 'a.*b': what began more than 4096 bytes ago "
                               "is given up");
}

static void too_many_steps_fail_the_run(void **state) {
    (void)state;
    retrace_error err = {0};
    assert_int_equal(run_only_a("a(?=.*b)", 200, &err), RETRACE_EUSAGE);
    assert_string_equal(err.msg,
                        "regex: pattern 1, 'a(?=.*b)': it takes too many steps on this text");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings),
        cmocka_unit_test(judged_where_it_is_decided),
        cmocka_unit_test(never_contains),
        cmocka_unit_test(says_what_it_gives_up),
        cmocka_unit_test(too_many_steps_fail_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
