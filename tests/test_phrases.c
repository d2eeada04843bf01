/* test_phrases.c - the rule itself: settings and their errors, and what it proposes and holds back,
 * token by token, on a view made by hand. Where hits are, test_matcher.c compares with a naive
 * search. */
#define HAND_RULE rt_rule_phrases
#include "hand.h"

/* ==== Matching over any split ==== */

static void every_split(void **state) {
    (void)state;
    const char *word = "badword";
    RULE("text", "badWord");
    for (int cuts = 0; cuts < 1 << 6; cuts++) {
        start("");
        assert_int_equal(push("my "), -1);
        int from = 0;
        for (int i = 1; i <= 7; i++) {
            if (i < 7 && !(cuts >> (i - 1) & 1)) continue;
            int to = push_bytes(word + from, (size_t)(i - from));
            assert_int_equal(to, i == 7 ? 1 : -1);
            if (i < 7) assert_int_equal(horizon(), 1);
            from = i;
        }
        assert_string_equal(now.p.why, "badWord");
        assert_int_equal(now.p.end, 10);
    }
}

static void token_of_the_first_byte(void **state) {
    (void)state;
    RULE("text", "exaggerated");
    assert_int_equal(PUSH("an", " exaggerated"), 1);
    start("");
    assert_int_equal(PUSH("an ", "ex", "agger", "ated"), 1);
    RULE("text", "London");
    assert_int_equal(PUSH("London"), 0);
    start("");
    assert_int_equal(PUSH("in", " London"), 1);
    start("");
    assert_int_equal(PUSH("in", " ", "LON", "", "don"), 2);
    start("");
    assert_int_equal(PUSH("", "a", "", "", "lon", "", "do", "n, a long one"),
                     4); /* empty tokens hold no byte */
    RULE("text", "Mary Jane shoes");
    assert_int_equal(PUSH("her mary", " jane", " shoes"), 0);
    RULE("text", "impossible");
    assert_int_equal(PUSH("im", "perfect", " but", " possible"), -1);
    RULE("text", "eyes");
    assert_int_equal(PUSH("ey", "es"), 0);
}

static void several_at_once(void **state) {
    (void)state;
    RULE("text", "cde", "text", "bcd");
    assert_int_equal(PUSH("a", "b", "c", "d"), 1);
    RULE("text", "bcd", "text", "cde");
    assert_int_equal(PUSH("a", "b", "c", "d"), 1);
    start("");
    assert_int_equal(PUSH("a", "b", "cde"), 1);
    assert_string_equal(now.p.why, "bcd");
    assert_int_equal(now.p.end, 4);
    RULE("text", "cd e", "text", "bcd");
    assert_int_equal(PUSH("b", "c", "d"), 0);
    RULE("text", "aab");
    assert_int_equal(PUSH("a", "a", "a", "b"), 1);
    RULE("text", "x", "text", "abc");
    assert_int_equal(PUSH("a", "bxc"), 1);
    start("");
    assert_int_equal(PUSH("a", "bcx"), 0);
    assert_string_equal(now.p.why, "abc");
    RULE("text", "ab", "text", "abab", "text", "AB");
    assert_int_equal(PUSH("_", "abab"), 1);
    assert_int_equal(now.p.end,
                     3); /* of those that begin together the one that is complete first */
}

static void characters_in_pieces(void **state) {
    (void)state;
    RULE("text", "!");
    assert_int_equal(PUSH("\xF0\x9F", "\x98", "\x80", "!"), 3);
    RULE("text", "a😀");
    assert_int_equal(PUSH("x", "a", "\xF0", "\x9F\x98", "\x80"), 1);
    RULE("text", "😀");
    assert_int_equal(PUSH("x\xF0", "\x9F\x98", "\x80"), 0);
    RULE("text", "歪");
    assert_int_equal(PUSH("a", "\xE6\xAD"), -1);
    assert_int_equal(horizon(), 1);
    assert_int_equal(end_by(RETRACE_ENDING_END), -1);
    assert_int_equal(push("x"), -1); /* broken off */
    assert_int_equal(horizon(), 3);
    assert_int_equal(PUSH("\xE6", "\xE6", "\xAD", "\xAA"), 4);
    RULE("text", "ab");
    assert_int_equal(PUSH("a", "\xFF", "b", "\x80\x80", "a", "\xC3"), -1);
    assert_int_equal(horizon(), 6); /* nothing that C3 can begin goes on with "a" */
    assert_int_equal(push("ab"), 6);
}

static void folding(void **state) {
    (void)state;
    RULE("text", "STRASSE");
    assert_int_equal(PUSH("die stra", "\xC3", "\x9F", "e"), 0);
    RULE("text", "straße");
    assert_int_equal(PUSH("a ", "STRAS", "SE"), 1);
    RULE("text", "kelvin");
    assert_int_equal(PUSH("0 ", "\xE2\x84", "\xAA", "elvin"), 1);
    RULE("text", "Kelvin", "case", "exact");
    assert_int_equal(PUSH("kelvin", " \xE2\x84\xAA", "elvin"), -1);
    assert_int_equal(push(" Kelvin"), 3);
    /* "as" is in "aß", which is read as "ass"; it ends where that character does. */
    RULE("text", "as");
    assert_int_equal(PUSH("a", "ß"), 0);
    assert_int_equal(now.p.end, 3);
    /* What is begun inside a character is held with it. */
    RULE("text", "sx");
    assert_int_equal(PUSH("a", "ß"), -1);
    assert_int_equal(horizon(), 1);
    assert_int_equal(push("x"), 1);
}

/* ==== The prompt ==== */

static void begun_in_the_prompt(void **state) {
    (void)state;
    RULE("text", "a testament to");
    start("it was a testament");
    assert_int_equal(push(""), -1);
    assert_int_equal(horizon(), 0);
    assert_int_equal(PUSH(" ", "to"), 0);
    assert_int_equal(now.p.end, 3);
    start("it was a testament to"); /* wholly in the prompt */
    assert_int_equal(PUSH(" ", "it"), -1);
    assert_int_equal(horizon(), 2);
    RULE("text", "é!", "text", "é");
    start("caf\xC3");
    assert_int_equal(push("\xA9"), 0);
    assert_int_equal(now.p.end, 1);
    RULE("text", "cat", "word", "true");
    start("the cat");
    assert_int_equal(push(""), -1);
    assert_int_equal(horizon(), 1); /* decided by what comes, but in the prompt */
    assert_int_equal(push(" sat"), -1);
    start("bob");
    assert_int_equal(PUSH("cat", "."), -1); /* "bobcat" */
    RULE("text", "cat", "text", "cats", "word", "true");
    start("the cat");
    assert_int_equal(push(""), -1);
    assert_int_equal(horizon(), 0);
    assert_int_equal(PUSH("s", "."), 0);
}

/* ==== Word edges ==== */

static void word_edges(void **state) {
    (void)state;
    RULE("text", "ministration", "word", "true");
    assert_int_equal(PUSH("ad", "ministration", "."), -1);
    assert_int_equal(push(" ministration"), -1);
    assert_int_equal(horizon(), 3);
    assert_int_equal(push("s"), -1);
    assert_int_equal(horizon(), 5);
    assert_int_equal(PUSH(" ministration", "!"), 5);
    assert_int_equal(now.p.end, 42);
    RULE("text", "he", "word", "true");
    assert_int_equal(PUSH("t", "he", " the", "me"), -1);
    assert_int_equal(PUSH(" he", "'s"), 4);
    RULE("text", "cat", "word", "start");
    assert_int_equal(PUSH("bob", "cat"), -1);
    assert_int_equal(PUSH(" ", "cat"), 3);
    RULE("text", "-a-", "word", "true"); /* no letter at its edges, so nothing is asked for */
    assert_int_equal(PUSH("x", "-a", "-"), 1);
    RULE("text", "cat", "word", "true");
    assert_int_equal(PUSH("cat", "\xCC", "\x81"), -1); /* a mark belongs to the word */
    start("");
    assert_int_equal(PUSH("cat", "\xCC"), -1);
    assert_int_equal(horizon(), 0);
    assert_int_equal(push("x"), 0); /* broken off: no letter, digit or mark */
    start("");
    assert_int_equal(PUSH("cat_"), 0);
    start("");
    assert_int_equal(PUSH("the ", "cat", "'s"), 1);
    start("");
    assert_int_equal(PUSH("the ", "cat", "-like"), 1);
    start("");
    assert_int_equal(PUSH("the ", "c\xC3\xA4t", "s, cat", "\xC3\xA4", " \xC3\xA4", "cat."), -1);
    start("");
    assert_int_equal(PUSH("cat", "2"), -1);
}

static void the_ending_decides(void **state) {
    (void)state;
    RULE("text", "cat", "word", "true");
    assert_int_equal(PUSH("a ", "cat"), -1);
    assert_int_equal(horizon(), 1);
    for (int e = RETRACE_ENDING_END; e <= RETRACE_ENDING_CONTEXT; e++) {
        assert_int_equal(end_by((retrace_ending)e), 1);
        assert_int_equal(now.p.end, 5);
    }
    assert_int_equal(push(""), -1); /* the end token */
    assert_int_equal(end_by(RETRACE_ENDING_END), 1);
    /* The text is cut inside the newest token, before a stop text. */
    start("");
    assert_int_equal(PUSH("a ", "cats###"), -1);
    now.ends[1] = 5;
    assert_int_equal(end_by(RETRACE_ENDING_STOP), 1);
    start("cat");
    assert_int_equal(end_by(RETRACE_ENDING_LENGTH), -1); /* an empty answer */
    /* Without an edge to decide, the last token is judged when it comes. */
    RULE("text", "i cannot");
    assert_int_equal(PUSH("I", " can", "not"), 0);
}

static void none_hides_another(void **state) {
    (void)state;
    RULE("text", "the cat", "text", "cat", "word", "true");
    assert_int_equal(PUSH("ba", "the", " ", "cat", "."), 3); /* "bathe cat" */
    RULE("text", "a cat", "text", "cat sat", "word", "true");
    assert_int_equal(PUSH("a", " cat"), -1);
    assert_int_equal(horizon(), 0);
    assert_int_equal(push("s"), -1);
    assert_int_equal(horizon(), 3);
    start("");
    assert_int_equal(PUSH("a", " cat", " "), 0);
    start("");
    assert_int_equal(PUSH("za", " cat", " "), -1);
    assert_int_equal(horizon(), 1);
    assert_int_equal(push("sat"), -1);
    assert_int_equal(push(","), 1);
}

/* ==== Stops ==== */

static void behind_the_limit(void **state) {
    (void)state;
    RULE("text", "cat", "text", "bird");
    assert_int_equal(push("a "), -1);
    now.limit = 5;
    assert_int_equal(push("cat"), -1);
    start("");
    now.limit = 6;
    assert_int_equal(push("a cat"), 0);
    start("");
    now.limit = 9;
    assert_int_equal(push("a bird cat"), 0);
    assert_string_equal(now.p.why, "bird");
    now.limit = 6;
    start("");
}

/* ==== Other normal forms ==== */

static void quotes_and_space(void **state) {
    (void)state;
    RULE("text", "don't \"go\"", "quotes", "true", "space", "true");
    assert_int_equal(
        PUSH("I ", "don\xE2\x80", "\x99t\n", " \xC2\xA0", "\xE2\x80\x9C", "go", "\xE2\x80\x9D"), 1);
    RULE("text", "don't");
    assert_int_equal(PUSH("don\xE2\x80\x99t"), -1);
    RULE("text", " \n a  b", "space", "on");
    assert_int_equal(PUSH("x", "\t", "\n", "a", "\r\n"), -1);
    assert_int_equal(horizon(), 1); /* the run is one space: its first byte counts */
    assert_int_equal(push("b"), 1);
    RULE("text", "a ", "space", "true");
    assert_int_equal(PUSH("a", "\n\n"), 0);
    assert_int_equal(now.p.end, 2);
    RULE("text", "a b");
    assert_int_equal(PUSH("a  b", "a\xC2\xA0", "b"), -1);
}

static void canonical_forms(void **state) {
    (void)state;
    RULE("text", "café", "nfc", "true");
    assert_int_equal(PUSH("a ", "cafe", "\xCC\x81"), -1);
    assert_int_equal(horizon(), 1);
    assert_int_equal(push(" "), 1);
    assert_int_equal(now.p.end, 8);
    RULE("text", "cafe\xCC\x81", "nfc", "true");
    assert_int_equal(PUSH("caf", "\xC3\x89"), -1);
    assert_int_equal(end_by(RETRACE_ENDING_LENGTH), 0);
    RULE("text", "cafe", "nfc", "true");
    assert_int_equal(PUSH("cafe", "\xCC"), -1);
    assert_int_equal(horizon(), 0);
    assert_int_equal(push("\x81"), -1);
    assert_int_equal(horizon(), 3);
    assert_int_equal(PUSH(" ", "cafe", "s"), 4);
    /* Marks of different classes in any order, one of them yet to come. */
    RULE("text", "e\xCC\xA3\xCC\x82!", "nfc", "true"); /* dot below, circumflex */
    assert_int_equal(PUSH("x", "\xC3\xAA"), -1);       /* e with circumflex */
    assert_int_equal(horizon(), 1);
    assert_int_equal(push("\xCC\xA3"), -1);
    assert_int_equal(horizon(), 1);
    assert_int_equal(push("!"), -1);
    assert_int_equal(push("?"), 1);
    RULE("text", "e\xCC\xA3", "nfc", "true");
    assert_int_equal(PUSH("e", "\xCC\x82"), -1);
    assert_int_equal(horizon(), 2);   /* the circumflex stays, whatever follows */
    RULE("text", "❤", "nfc", "true"); /* with or without a variation selector */
    assert_int_equal(PUSH("I ", "❤", "\xEF\xB8\x8F"), 1);
}

/* ==== Rewinding ==== */

/* After going back and on by another way, all is as if the text had been written in one go. */
static void rewinding(void **state) {
    (void)state;
    static const char *const pieces[] = {"a",    "b",    "ab", " ",        "",
                                         "\xC3", "\xA9", "e",  "\xCC\x81", "ba\n"};
    RULE("text", "ab a", "text", "bab", "text", "éa", "text", "ba", "word", "true", "nfc", "true",
         "space", "true");
    uint32_t random = 9;
    for (int round = 0; round < 3000; round++) {
        random = random * 1664525 + 1013904223;
        int to = (int)((random >> 8) % (unsigned)(now.n + 1));
        if (now.n > 20 || random >> 30 == 0) now.n = to;
        random = random * 1664525 + 1013904223;
        const char *piece = pieces[(random >> 8) % (unsigned)COUNT(pieces)];
        int said = push(piece), held = horizon(), n = now.n, last = end_by(RETRACE_ENDING_END);
        char text[ROOM];
        size_t ends[MOST_TOKENS], length = now.ends[n - 1];
        memcpy(text, now.text, length);
        memcpy(ends, now.ends, sizeof ends);
        start("");
        int again = -1;
        for (int i = 0; i < n; i++)
            again = push_bytes(text + (i ? ends[i - 1] : 0), ends[i] - (i ? ends[i - 1] : 0));
        assert_int_equal(said, again);
        assert_int_equal(held, horizon());
        assert_int_equal(last, end_by(RETRACE_ENDING_END));
    }
}

/* What is proposed never lies before a horizon that was given while that place stood. */
static void horizon_is_kept(void **state) {
    (void)state;
    static const char *const pieces[] = {"the ", "c",    "at",   "cat", " sat", "\n",
                                         "s",    "\xC3", "\x9F", "",    "’",    "e\xCC\x81"};
    RULE("text", "the cat", "text", "cats", "text", "ss the", "text", "s's", "text", "ée", "text",
         "at", "word", "true", "nfc", "true", "space", "true", "quotes", "true");
    int horizons[MOST_TOKENS + 1], hits = 0;
    uint32_t random = 3;
    horizons[0] = 0;
    for (int round = 0; round < 20000; round++) {
        random = random * 1664525 + 1013904223;
        if (now.n == 30) now.n = (int)((random >> 8) % 30);
        int to = push(pieces[(random >> 12) % (unsigned)COUNT(pieces)]);
        horizons[now.n] = horizon();
        assert_in_range(horizons[now.n], 0, now.n);
        int last = end_by(RETRACE_ENDING_END);
        for (int i = 0; i < now.n; i++) {
            if (to >= 0) assert_true(to >= horizons[i]);
            if (last >= 0) assert_true(last >= horizons[i]);
        }
        if (last >= 0) assert_true(last >= horizons[now.n]);
        if (to >= 0) now.n = to, hits++;
    }
    assert_true(hits > 200);
}

static void no_beginning_no_delay(void **state) {
    (void)state;
    RULE("text", "shivers", "text", "testament", "text", "ministration", "word", "true");
    assert_int_equal(PUSH("Her", " hand", "s", " were", " as ", "cold"), -1);
    for (now.n = 1; now.n <= 6; now.n++) assert_int_equal(horizon(), now.n);
    /* Inside a word no phrase begins. */
    start("");
    assert_int_equal(PUSH("bo", "s"), -1);
    assert_int_equal(horizon(), 2);
    start("");
    assert_int_equal(PUSH("bo", " s"), -1);
    assert_int_equal(horizon(), 1);
}

/* ==== Lists ==== */

static void files_and_texts(void **state) {
    (void)state;
    RULE("text", "###instruction", "file", "\xEF\xBB\xBF# c\r\n\r\n\"  two \"\r\n one \r\n", "file",
         "three");
    assert_int_equal(PUSH("a", "### In", "struction"), -1);
    assert_int_equal(PUSH("x", "###Instruction"), 4);
    start("");
    assert_int_equal(PUSH(" two", " "), -1);
    assert_int_equal(PUSH(" ", " two "), 2);
    assert_int_equal(push("ONE"), 4);
    assert_string_equal(now.p.why, "one");
    start("");
    assert_int_equal(push("three"), 0);
    RULE("list", "two\n", "text", "one", "list", "four", "file", "three");
    for (int i = 0; i < 4; i++) {
        start("");
        assert_int_equal(push((const char *const[]){"one", "two", "three", "four"}[i]), 0);
    }
    assert_string_equal(now.p.why, "four");
    start("");
    RULE("file", "# nothing\n");
    assert_int_equal(PUSH("anything", " at", " all"), -1);
    assert_int_equal(horizon(), 3);
    RULE("weight", "0");
    assert_int_equal(push("x"), -1);
}

static void many_phrases(void **state) {
    (void)state;
    enum { N = 5000 };
    static char file[N * 16];
    size_t n = 0;
    for (int i = 1; i <= N; i++)
        n += (size_t)snprintf(file + n, sizeof file - n, "phrase %d.\n", i);
    RULE("file", file);
    assert_int_equal(PUSH("a ", "phrase ", "50"), -1);
    assert_int_equal(horizon(), 1);
    assert_int_equal(push("00."), 1);
    assert_string_equal(now.p.why, "phrase 5000.");
}

static void longest_phrase(void **state) {
    (void)state;
    char longest[4097];
    for (int i = 0; i < 4096; i++) longest[i] = (char)('a' + i % 25);
    longest[4096] = '\0';
    RULE("text", longest);
    assert_int_equal(push("z"), -1);
    assert_int_equal(push_bytes(longest, 4095), -1);
    assert_int_equal(horizon(), 1);
    assert_int_equal(push_bytes(longest + 4095, 1), 1);
    assert_int_equal(strlen(now.p.why), sizeof now.p.why - 1);
    start("");
    assert_int_equal(push_bytes(longest, 4096), 0);
    /* Cut for people at a whole character. */
    for (int i = 0; i < 4095; i += 3) memcpy(longest + i, "歪", 3);
    longest[4095] = '\0';
    RULE("text", longest);
    assert_int_equal(push(longest), 0);
    assert_int_equal(strlen(now.p.why), 126);
}

/* ==== Wrong settings ==== */

static void refuses(const char *message, const char *const *pairs) {
    assert_int_equal(try_pairs(pairs), RETRACE_EUSAGE);
    assert_int_equal(now.err.code, RETRACE_EUSAGE);
    assert_string_equal(now.err.msg, message);
}

#define REFUSES(message, ...) refuses(message, (const char *const[]){__VA_ARGS__, NULL})

static void wrong_settings(void **state) {
    (void)state;
    char too_long[4098];
    memset(too_long, 'a', sizeof too_long);
    too_long[4097] = '\0';
    REFUSES("phrases: text 1 is empty", "text", "");
    REFUSES("phrases: text 2 has more than 4096 bytes", "text", "a", "text", too_long);
    REFUSES("phrases: text 2 is not valid UTF-8 at byte 1", "text", "a", "text", "a\xC3");
    REFUSES("phrases: file 2, line 2: the quote does not end", "file", "a", "file", "b\n\"c");
    REFUSES("phrases: list 2, line 1: the quote does not end", "file", "a", "list", "b", "list",
            "\"c");
    REFUSES("phrases: list 1, line 2 begins with a mark, which nfc=true takes for part of the "
            "character before it",
            "nfc", "true", "list", "e\n\xCC\x81", "file", "b");
    REFUSES("phrases: text 2 begins with a mark, which nfc=true takes for part of the character "
            "before it",
            "nfc", "true", "text", "a", "text", "\xCC\x81x");
    REFUSES("phrases: file 2, line 3 begins with a mark, which nfc=true takes for part of the "
            "character before it",
            "nfc", "true", "text", "a", "file", "b\n\nc", "file", "# d\ne\n\xCC\x81");
    assert_int_equal(try_pairs((const char *const[]){"weight", "1.5", NULL}), RETRACE_EUSAGE);
    assert_int_equal(try_pairs((const char *const[]){"word", "end", NULL}), RETRACE_EUSAGE);
    RULE("text", "\xCC\x81x"); /* without nfc a phrase may begin with a mark */
    assert_int_equal(PUSH("e", "\xCC", "\x81x"), 1);
}

static void too_many_phrases(void **state) {
    (void)state;
    enum { MOST = 1000000 };
    char *file = malloc(2 * MOST + 3);
    assert_non_null(file);
    for (int i = 0; i <= MOST; i++) memcpy(file + 2 * i, "a\n", 2);
    retrace_setting s[] = {{"text", {"a", 1}}, {"file", {file, 2 * MOST}}};
    assert_int_equal(try_settings(s, 2), RETRACE_EUSAGE);
    assert_string_equal(now.err.msg, "phrases: file 1, line 1000000: more than 999999 phrases");
    s[1].value.n -= 2;
    assert_int_equal(try_settings(s, 2), RETRACE_OK);
    free(file);
}

/* ==== Memory ==== */

/* Every allocation fails once: an error, nothing lost; and a run allocates nothing. */
static void out_of_memory(void **state) {
    (void)state;
    close_rule();
    live = 0;
    retrace_set_alloc(counting, NULL);
    int rc = RETRACE_ENOMEM, failures = 0;
    static const char *const pairs[] = {"text",       "Été", "text", "b", "file",
                                        "c\n\"d\"\n", "nfc", "true", NULL};
    for (long n = 0; rc == RETRACE_ENOMEM; n++) {
        allowed = n;
        rc = try_pairs(pairs);
        assert_int_equal(now.err.code, rc);
        failures += rc == RETRACE_ENOMEM;
        if (rc) close_rule();
        if (rc) assert_int_equal(live, 0);
    }
    assert_int_equal(rc, RETRACE_OK);
    assert_true(failures > 10);
    allowed = 0;
    start("e");
    assert_int_equal(PUSH("x", "e", "\xCC\x81", "t"), -1);
    assert_int_equal(horizon(), 1);
    assert_int_equal(PUSH("e", "\xCC\x81", "."), 1);
    close_rule();
    assert_int_equal(live, 0);
    retrace_set_alloc(NULL, NULL);
}

static void the_mark_is_small(void **state) {
    (void)state;
    assert_true(type->mark_size <= 64);
    assert_null(type->mark_copy);
}

static int tear_down(void **state) {
    (void)state;
    close_rule();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split),
        cmocka_unit_test(token_of_the_first_byte),
        cmocka_unit_test(several_at_once),
        cmocka_unit_test(characters_in_pieces),
        cmocka_unit_test(folding),
        cmocka_unit_test(begun_in_the_prompt),
        cmocka_unit_test(word_edges),
        cmocka_unit_test(the_ending_decides),
        cmocka_unit_test(none_hides_another),
        cmocka_unit_test(behind_the_limit),
        cmocka_unit_test(quotes_and_space),
        cmocka_unit_test(canonical_forms),
        cmocka_unit_test(rewinding),
        cmocka_unit_test(horizon_is_kept),
        cmocka_unit_test(no_beginning_no_delay),
        cmocka_unit_test(files_and_texts),
        cmocka_unit_test(many_phrases),
        cmocka_unit_test(longest_phrase),
        cmocka_unit_test(wrong_settings),
        cmocka_unit_test(too_many_phrases),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(the_mark_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, tear_down);
}
