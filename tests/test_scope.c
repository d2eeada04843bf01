/* test_scope.c - scope and max_count of the rule phrases: fences, beginnings of sentences, the
 * first few hits, over any split and after rewinds, against a reading of the whole text. */
#define HAND_RULE rt_rule_phrases
#include "hand.h"

#include "text/scope.h"

/* ==== Fences ==== */

/* "x" counts only where it is no code: the places of the x that do, as a string. */
static void counts(const char *scope, const char *before, const char *text, const char *want) {
    char got[ROOM] = "";
    size_t n = strlen(text), seen = 0;
    if (try_pairs((const char *const[]){"text", "x", "scope", scope, NULL}))
        fail_msg("%s", now.err.msg);
    start(before);
    for (size_t i = 0; i < n; i++) {
        int to = push_bytes(text + i, 1);
        if (text[i] == 'x')
            got[seen++] = to >= 0 ? '1' : '0';
        else
            assert_int_equal(to, -1);
        if (to >= 0) assert_int_equal(to, i);
    }
    if (strcmp(got, want) != 0) fail_msg("%s: '%s' gave %s, not %s", scope, text, got, want);
}

static void fences(void **state) {
    (void)state;
    static const char scope[] = "outside-code";
    counts(scope, "", "x\n```c x\nx\n```\nx", "1101");
    counts(scope, "", "```\nx\n ```  \t\nx", "01");
    counts(scope, "", "~~~\nx\n```\nx\n~~~\nx", "001");
    counts(scope, "", "````\nx\n```\nx\n`````\nx", "001");
    counts(scope, "", "   ```\nx\n   ```\nx", "01");
    counts(scope, "", "    ```\nx", "1");
    counts(scope, "", "\t```\nx", "1");
    counts(scope, "", "``\nx", "1");
    counts(scope, "", "a ```\nx", "1");
    counts(scope, "", "```x```\nx", "11"); /* code within a line */
    counts(scope, "", "~~~ `x`\nx\n~~~ x\nx\n~~~\nx", "10001");
    counts(scope, "", "```\nx\n``` x\nx\n```x\nx", "00000");
    counts(scope, "", "```\r\nx\r\n```\r\nx", "01");
    counts(scope, "", "```\n```x", "0"); /* the line has not closed it */
    counts(scope, "so:\n```py\n", "x\n```\nx", "01");
    counts(scope, "so:\n``", "`\nx\n```\nx", "01");
    counts(scope, "```\na\n```\n", "x", "1");
}

/* The line on which the hit begins decides. */
static void hits_over_a_fence(void **state) {
    (void)state;
    RULE("text", "a\n```\nb", "scope", "outside-code");
    assert_int_equal(PUSH("a", "\n```", "\n", "b"), 0);
    RULE("text", "b\n```\na", "scope", "outside-code");
    assert_int_equal(PUSH("```\n", "b\n``", "`", "\na"), -1);
    RULE("text", "\nb", "scope", "outside-code");
    assert_int_equal(PUSH("~~~", "\n", "b"), 1);
    assert_int_equal(now.p.end, 5);
    start("~~~");
    assert_int_equal(PUSH("\n", "\n"), -1);
    assert_int_equal(push("b"), -1);
    RULE("text", "c\nd", "scope", "outside-code");
    start("```\nc");
    assert_int_equal(PUSH("\n", "d"), -1);
    start("c");
    assert_int_equal(PUSH("\n", "d"), 0);
}

static void code_is_not_held(void **state) {
    (void)state;
    RULE("text", "abcd", "scope", "outside-code");
    assert_int_equal(PUSH("ab"), -1);
    assert_int_equal(horizon(), 0);
    assert_int_equal(PUSH("\n```\n", "ab"), -1);
    assert_int_equal(horizon(), 3);
    assert_int_equal(PUSH("cd\n```\n", "ab"), -1);
    assert_int_equal(horizon(), 4);
    assert_int_equal(push("cd"), 4);
}

/* ==== Sentences ==== */

static void sentences(void **state) {
    (void)state;
    static const char scope[] = "sentence-start";
    counts(scope, "", "x x. x x.x x! x", "1010001");
    counts(scope, "", "(x) \"x\" *x", "100");
    counts(scope, "", "a? x", "1");
    counts(scope, "", "a\xE2\x80\xA6 x", "1");
    counts(scope, "", "a.\" x.\" x.) (x", "111");
    counts(scope, "", "a.x a.\"x", "00");
    counts(scope, "", "a\xE3\x80\x82x\xEF\xBC\x81x\xEF\xBC\x9Fx", "111");
    counts(scope, "", "a\nx\rx", "11");
    counts(scope, "", "a\n\n  **x", "1");
    counts(scope, "", "# x\n- x\n> x", "111");
    counts(scope, "", "a\xC2\x85x\xE2\x80\xA8x", "11");
    counts(scope, "", "a. \xE2\x80\x9Cx\xE2\x80\x9D x", "10");
    counts(scope, "", "a, x: x; x", "000");
    counts(scope, "", "3.5 x", "0");
    counts(scope, "", "\xC2\xBFx? \xC2\xA1x", "11");
    counts(scope, "He said. ", "x", "1");
    counts(scope, "He said.", " x", "1");
    counts(scope, "He said", ". x", "1");
    counts(scope, "He said", " x", "0");
    counts(scope, "a\xE3\x80", "\x82x", "1");
    counts(scope, "a.\xE3", " x", "0"); /* a byte that is no character is inside */
    counts(scope, "a. \xE3", "x", "0");
    counts(scope, "", "\xE3. x", "1");
}

/* White space and marks that the phrase itself begins with are passed over. */
static void leading_marks(void **state) {
    (void)state;
    RULE("text", " the", "text", "\"so", "text", "---", "scope", "sentence-start");
    assert_int_equal(PUSH("a", ".", " the"), 2);
    start("");
    assert_int_equal(PUSH("a", " the"), -1);
    start("");
    assert_int_equal(PUSH(" the"), 0);
    start("");
    assert_int_equal(PUSH("a. ", "\"", "so"), 1);
    start("");
    assert_int_equal(PUSH("a ", "\"", "so"), -1);
    start("");
    assert_int_equal(PUSH("a ", "--", "-"), -1);
    start("");
    assert_int_equal(PUSH("a. ", "--", "-"), 1);
    start("a.");
    assert_int_equal(PUSH(" ", "the"), 0);
    start("a. ");
    assert_int_equal(PUSH("the"), 0); /* the phrase begins with the blank in the prompt */
}

static void holding_sentences(void **state) {
    (void)state;
    RULE("text", "then again", "text", " nor", "scope", "sentence-start");
    assert_int_equal(PUSH("a", " then"), -1);
    assert_int_equal(horizon(), 2);
    assert_int_equal(PUSH(".", " "), -1);
    assert_int_equal(horizon(), 3); /* " nor" may come */
    assert_int_equal(push("then"), -1);
    assert_int_equal(horizon(), 4);
    assert_int_equal(push(" again"), 4);
    /* Only what follows tells whether it is in scope. */
    RULE("text", "\" the", "text", " \nso", "scope", "sentence-start");
    assert_int_equal(PUSH("a.", "\""), -1);
    assert_int_equal(horizon(), 1);
    assert_int_equal(push(" the"), 1);
    start("");
    assert_int_equal(PUSH("a", " "), -1);
    assert_int_equal(horizon(), 1);
    assert_int_equal(push("\nso"), 1);
}

/* ==== max_count ==== */

static void first_few(void **state) {
    (void)state;
    RULE("text", "ab", "max_count", "2");
    assert_int_equal(PUSH("ab", "a", "b", "a"), -1);
    assert_int_equal(horizon(), 3);
    assert_int_equal(push("b"), 3);
    now.n = 2; /* back to where one stands */
    assert_int_equal(PUSH("c", "ab"), -1);
    assert_int_equal(push("ab"), 4);
    now.n = 0;
    assert_int_equal(push("ababab"), 0);
    assert_int_equal(now.p.end, 6);
    /* Of phrases that complete together one counts. */
    RULE("text", "xab", "text", "ab", "text", "b", "max_count", "1");
    assert_int_equal(PUSH("xa", "b"), -1);
    assert_int_equal(push("b"), 2);
    /* One list, one number. */
    RULE("text", "a", "text", "b", "max_count", "1");
    assert_int_equal(PUSH("a", "c"), -1);
    assert_int_equal(push("b"), 2);
    /* A shorter one may use the number up while a longer one grows. */
    RULE("text", "abcd", "text", "bc", "max_count", "1");
    assert_int_equal(push("a"), -1);
    assert_int_equal(horizon(), 0);
    assert_int_equal(PUSH("b", "c"), -1);
    assert_int_equal(push("d"), 0);
    /* Of a character that is two units, two phrases may complete at its end. */
    RULE("text", "s", "max_count", "1");
    assert_int_equal(push("ß"), -1);
    assert_int_equal(push("s"), 1);
}

static void counted_once_at_the_end(void **state) {
    (void)state;
    RULE("text", "cat", "word", "true", "max_count", "1");
    assert_int_equal(PUSH("cat", " cat"), -1);
    assert_int_equal(end_by(RETRACE_ENDING_LENGTH), 1);
    now.n = 1;
    assert_int_equal(end_by(RETRACE_ENDING_LENGTH), -1);
    RULE("text", "cat", "max_count", "1");
    assert_int_equal(push("cat"), -1);
    assert_int_equal(end_by(RETRACE_ENDING_LENGTH), -1); /* not again */
    start("");
    now.limit = 3;
    assert_int_equal(push("cat"), -1); /* a stop text ends with it */
    assert_int_equal(end_by(RETRACE_ENDING_STOP), -1);
    /* Only hits in scope are counted. */
    RULE("text", "a", "scope", "outside-code", "max_count", "1");
    assert_int_equal(PUSH("```\n", "a", "a\n", "```\n", "a"), -1);
    assert_int_equal(push("a"), 5);
}

/* ==== Any text ==== */

static const char *const bits[] = {"x",    "xy", "y",  "\n",       "`",  "```",
                                   "~~~",  " ",  ". ", ".",        "\"", "\xE3\x80\x82",
                                   "\xE3", "(",  "!",  "y\n```\n", "   "};

/* Is the phrase at s[at..end) in scope, by reading all from the beginning? */
static int naive_scope(int scope, const char *s, size_t at, size_t end) {
    rt_scope_state st = {0};
    retrace_text parts[2] = {{s + at, end - at}, {0}};
    rt_scope_read(scope, &st, s, at);
    return rt_scope_admits(scope, &st, parts, 1);
}

/* The start of the first hit that is one too many, or -1. */
static ptrdiff_t naive_hit(int scope, int most, const char *s, size_t n, size_t n_before) {
    static const char *const phrases[] = {"xy", "y\n", " x"};
    int count = 0;
    for (size_t end = n_before + 1; end <= n; end++) {
        ptrdiff_t first = -1;
        for (int i = 0; i < 3; i++) {
            size_t len = strlen(phrases[i]);
            if (len > end || memcmp(s + end - len, phrases[i], len) != 0) continue;
            if (naive_scope(scope, s, end - len, end)) first = (ptrdiff_t)(end - len);
        }
        if (first >= 0 && count++ >= most) return first;
    }
    return -1;
}

/* Random pieces, random splits, random steps back: proposals are where the naive search has them,
 * and none goes back behind what the horizon has let go. */
static void any_text(void **state) {
    (void)state;
    static const char *const scopes[] = {"answer", "outside-code", "sentence-start"};
    uint64_t seed = 7;
    int hits = 0;
    for (int round = 0; round < 2000; round++) {
        char before[128] = "", all[ROOM], most[2] = {(char)('0' + roll_from(&seed, 3)), '\0'};
        int scope = roll_from(&seed, 3), settled = 0;
        size_t room = 0;
        for (int k = roll_from(&seed, 5); k > 0; k--) {
            const char *bit = bits[roll_from(&seed, COUNT(bits))];
            memcpy(before + room, bit, strlen(bit));
            room += strlen(bit);
        }
        RULE("text", "xy", "text", "y\n", "text", " x", "scope", scopes[scope], "max_count", most);
        start(before);
        size_t n_before = strlen(before);
        memcpy(all, before, n_before);
        for (int k = 0; k < 40 && now.n < MOST_TOKENS - 1; k++) {
            const char *bit = bits[roll_from(&seed, COUNT(bits))];
            int to = push(bit);
            size_t n = now.ends[now.n - 1];
            memcpy(all + n_before, now.text, n);
            ptrdiff_t want = naive_hit(scope, most[0] - '0', all, n_before + n, n_before);
            assert_int_equal(to >= 0, want >= 0);
            if (to < 0) {
                int h = horizon();
                assert_true(h <= now.n);
                /* What has settled is a fixed point over all places. */
                for (int at = h, next; at > settled; at = next) {
                    int keep = now.n;
                    now.n = at;
                    next = horizon();
                    now.n = keep;
                    if (next >= at) {
                        settled = at;
                        break;
                    }
                }
                if (roll_from(&seed, 6) == 0)
                    now.n = settled + roll_from(&seed, now.n - settled + 1);
                continue;
            }
            hits++;
            assert_true(to >= settled);
            size_t begin = to > 0 ? now.ends[to - 1] : 0;
            ptrdiff_t at = want - (ptrdiff_t)n_before;
            assert_true(at < 0 ? to == 0 : begin <= (size_t)at && (size_t)at < now.ends[to]);
            now.n = to;
        }
    }
    assert_true(hits > 5000);
}

/* Whole runs: the answer has no hit beyond the number, and what has settled stays. */
static void any_run(void **state) {
    (void)state;
    static const char *const scopes[] = {"answer", "outside-code", "sentence-start"};
    static const char table[] =
        "{\"tokens\": [\"x\", \"xy\", \"y\", \"\\n\", \"`\", \"```\", \" \", \". \", "
        "\"y\\n```\\n\", "
        "{\"bytes\": [227, 128]}, {\"bytes\": [130]}, {\"text\": \"</s>\", \"end\": true}], "
        "\"rows\": [{\"context\": [], \"next\": {\"0\": 4, \"1\": 2, \"2\": 2, \"3\": 3, \"4\": 1, "
        "\"5\": 2, \"6\": 3, \"7\": 2, \"8\": 2, \"9\": 1, \"10\": 1, \"11\": 1}}]}";
    static answer a;
    static const char prompt[] = "x\n``";
    retrace_model *m = open_table(table);
    uint64_t seed = 3;
    int rewinds = 0;
    for (int round = 0; round < 700; round++) {
        int scope = roll_from(&seed, 3), most = roll_from(&seed, 4);
        char number[] = {(char)('0' + most), '\0'}, all[ROOM];
        const char *pairs[] = {"text",  "xy",          "text",      "y\n",  "text", " x",
                               "scope", scopes[scope], "max_count", number, NULL};
        retrace_rule *r = make_rule("phrases", pairs);
        retrace_options o = plain_options(1 + roll_from(&seed, 40));
        o.seed = round;
        o.on_stuck = RETRACE_STUCK_STOP;
        o.rules = &r;
        o.n_rules = 1;
        finish_text(&a, m, &o, prompt);
        memcpy(all, prompt, sizeof prompt - 1);
        memcpy(all + sizeof prompt - 1, a.text, a.n_text);
        size_t n = sizeof prompt - 1 + a.n_text;
        if (a.finish != RETRACE_FINISH_STUCK)
            assert_int_equal(naive_hit(scope, most, all, n, sizeof prompt - 1), -1);
        rewinds += (int)a.stats.rewinds;
        retrace_rule_free(r);
    }
    retrace_model_close(m);
    assert_true(rewinds > 600);
}

static void certainty(void **state) {
    (void)state;
    RULE("text", "a", "max_count", "3", "scope", "sentence-start");
    assert_int_equal(type->certain(now.self), 1);
    RULE("text", "a", "max_count", "3", "weight", "0.5");
    assert_int_equal(type->certain(now.self), 0);
    RULE("text", "a", "weight", "1");
    assert_int_equal(type->certain(now.self), 1);
}

static int tear_down(void **state) {
    (void)state;
    close_rule();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fences),           cmocka_unit_test(hits_over_a_fence),
        cmocka_unit_test(code_is_not_held), cmocka_unit_test(sentences),
        cmocka_unit_test(leading_marks),    cmocka_unit_test(holding_sentences),
        cmocka_unit_test(first_few),        cmocka_unit_test(counted_once_at_the_end),
        cmocka_unit_test(any_text),         cmocka_unit_test(any_run),
        cmocka_unit_test(certainty),
    };
    return cmocka_run_group_tests(tests, NULL, tear_down);
}
