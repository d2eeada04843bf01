/* test_operators_run.c - the operators in runs over small tables, each step worked out by hand:
 * what they are shown, how often they try, what they keep, and what is left of their memory when
 * another rule has taken tokens back. */
#include "ops.h"

/* Every letter as probable as any other. */
static const char letters[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", \"d\", \"x\", \"y\", \"z\", {\"text\": \"</s>\", \"end\": "
    "true}], \"rows\": [{\"context\": [], \"next\": {\"a\": 1, \"b\": 1, \"c\": 1, \"d\": 1, "
    "\"x\": "
    "1, \"y\": 1, \"z\": 1, \"</s>\": 1}}]}";

/* The probabilities after the last letter are the ones that count in the comments. */
static const char falling[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", {\"text\": \"</s>\", \"end\": true}], \"rows\": ["
    "{\"context\": [], \"next\": {\"a\": 0.45, \"b\": 0.35, \"c\": 0.18, \"</s>\": 0.02}}]}";

typedef struct row {
    const char *rule, *other; /* other: in front of the rule; may be NULL */
    int max_tokens;
    const char *script, *ops;
} row;

static void check_rows(const char *table, const char *prompt, retrace_options o, const row *rows,
                       int n) {
    static ops seen;
    retrace_model *m = open_table(table);
    for (int i = 0; i < n; i++) {
        o.max_tokens = rows[i].max_tokens;
        const char *first = rows[i].other ? rows[i].other : rows[i].rule;
        const char *second = rows[i].other ? rows[i].rule : NULL;
        const char *got = ops_run(&seen, m, o, first, second, prompt, rows[i].script, NULL);
        if (strcmp(got, rows[i].ops) != 0)
            fail_msg("%s, %s, wanted '%s':\n%s\n%s", rows[i].rule, rows[i].other, rows[i].script,
                     got, rows[i].ops);
    }
    retrace_model_close(m);
}

/* ==== When each fires ==== */

static void thresholds(void **state) {
    (void)state;
    static const row rows[] = {
        {"probability-threshold:min_probability=0.2", NULL, 3, "abcb", "abc<2b"},
        {"probability-threshold:min_probability=0.17", NULL, 3, "abc", "abc"},
        /* The end token is judged like any other. */
        {"probability-threshold", NULL, 2, "a.b", "a.<1b"},
        {"probability-threshold:min_probability=0.01", NULL, 3, "a.", "a"},
        /* ln 0.18 = -1.715, ln 0.35 = -1.05 */
        {"logit-threshold:min_logit=-1.2", NULL, 2, "bcb", "bc<1b"},
        {"logit-threshold:min_logit=-1.8", NULL, 2, "bc", "bc"},
        /* The entropy is 1.114 everywhere, the margin 0.1; the first place is left alone. */
        {"entropy-threshold:max_entropy=1.2", NULL, 3, "abc", "abc"},
        {"entropy-threshold:max_entropy=1,max_retries=1", NULL, 2, "abba", "ab<0ba"},
        {"probability-margin:min_margin=0.11,max_retries=1", NULL, 2, "abba", "ab<0ba"},
        {"probability-margin:min_margin=0.09", NULL, 3, "abc", "abc"},
        /* 0.45 to 0.18 keeps two fifths. */
        {"probability-drop:max_drop=0.59", NULL, 3, "aacb", "aac<2b"},
        {"probability-drop:max_drop=0.61", NULL, 3, "aac", "aac"},
        {"probability-drop:max_drop=0.61,backtrack_count=2", NULL, 3, "aac", "aac"},
        {"probability-drop:max_drop=0.59,backtrack_count=2", NULL, 3, "aacba", "aac<1ba"},
        {"probability-trend:window_size=4,drop_threshold=0.5", NULL, 4, "abacb", "abac<3b"},
        {"probability-trend:window_size=6,drop_threshold=0.5", NULL, 3, "aac", "aac"},
        {"probability-trend:window_size=6,drop_threshold=0.5", NULL, 4, "aaacb", "aaac<3b"},
    };
    check_rows(falling, "", plain_options(0), rows, COUNT(rows));
}

static void by_tokens(void **state) {
    (void)state;
    static const row rows[] = {
        {"repetition", NULL, 6, "aaaabaa", "aaaa<3baa"},
        {"repetition:max_repetitions=1", NULL, 3, "aabbc", "aa<1bb<2c"},
        {"repetition:every_n=5", NULL, 5, "aaaaabb", "aaaaa<3bb"},
        {"ngram-overlap:ngram_size=2", NULL, 6, "abcabxy", "abcab<4xy"},
        {"ngram-overlap:ngram_size=2,every_n=3", NULL, 6, "ababcd", "ababcd"},
        {"ngram-overlap:ngram_size=2,every_n=2", NULL, 4, "ababc", "abab<3c"},
        {"ngram-overlap:ngram_size=3,backtrack_count=3", NULL, 7, "abcdabcxyz", "abcdabc<4xyz"},
        {"ngram-overlap", NULL, 8, "abcdabcdx", "abcdabcd<7x"},
    };
    check_rows(letters, "", plain_options(0), rows, COUNT(rows));
    static const row prompted[] = {
        {"repetition:prompt=true", NULL, 2, "bba", "bb<1a"},
        {"repetition", NULL, 3, "bbb", "bbb"},
        {"ngram-overlap:ngram_size=2,prompt=true", NULL, 2, "abx", "ab<1x"},
        {"ngram-overlap:ngram_size=2", NULL, 2, "ab", "ab"},
    };
    check_rows(letters, "abb", plain_options(0), prompted, COUNT(prompted));
}

/* ==== What it is that they judge ==== */

static void model_or_sampled(void **state) {
    (void)state;
    /* Of the first two alone b has 0.4375. */
    static const row top_two[] = {
        {"probability-threshold:min_probability=0.4", NULL, 2, "aba", "ab<1a"},
        {"probability-threshold:min_probability=0.4,on=sampled", NULL, 2, "ab", "ab"},
        {"probability-threshold:min_probability=0.44,on=sampled", NULL, 2, "aba", "ab<1a"},
        {"probability-margin:min_margin=0.11,on=sampled", NULL, 2, "ab", "ab"}, /* 0.125 */
        {"probability-margin:min_margin=0.13,on=sampled,max_retries=1", NULL, 2, "abba", "ab<0ba"},
        {"entropy-threshold:max_entropy=0.69,on=sampled", NULL, 2, "ab", "ab"}, /* 0.685 */
        {"entropy-threshold:max_entropy=0.69,max_retries=1", NULL, 2, "abba", "ab<0ba"},
        {"entropy-threshold:max_entropy=0.68,on=sampled,max_retries=1", NULL, 2, "abba", "ab<0ba"},
    };
    retrace_options o = plain_options(0);
    o.top_k = 2;
    check_rows(falling, "", o, top_two, COUNT(top_two));
    /* At temperature 2, c has 0.4243 / 1.8281 = 0.2321 of the weight and a logit of -0.857. */
    static const row warm[] = {
        {"probability-threshold:min_probability=0.2", NULL, 2, "aca", "ac<1a"},
        {"probability-threshold:min_probability=0.23,on=sampled", NULL, 2, "ac", "ac"},
        {"probability-threshold:min_probability=0.24,on=sampled", NULL, 2, "aca", "ac<1a"},
        {"logit-threshold:min_logit=-1.5", NULL, 2, "aca", "ac<1a"},
        {"logit-threshold:min_logit=-0.86,on=sampled", NULL, 2, "ac", "ac"},
        {"logit-threshold:min_logit=-0.85,on=sampled", NULL, 2, "aca", "ac<1a"},
        /* 0.3670, 0.3236, 0.2321 and 0.0774: c is 0.632 of a. */
        {"probability-drop:max_drop=0.36,on=sampled", NULL, 2, "aca", "ac<1a"},
        {"probability-drop:max_drop=0.38,on=sampled", NULL, 2, "ac", "ac"},
    };
    o = plain_options(0);
    o.temp = 2;
    check_rows(falling, "", o, warm, COUNT(warm));
    /* A ban raises what the rest is drawn with: without a, b has 0.35 / 0.55 = 0.636. */
    static const row banned[] = {
        {"probability-threshold:min_probability=0.6,on=sampled", "phrases:text=a", 1, "ab", "a<0b"},
        {"probability-threshold:min_probability=0.5", "phrases:text=a", 1, "abc.",
         "a<0b<0c<0.<0(b)"},
    };
    check_rows(falling, "", plain_options(0), banned, COUNT(banned));
}

/* ==== Trying again ==== */

static void retries(void **state) {
    (void)state;
    static const row rows[] = {
        /* After the given number of tries the best one is put back: the last one, the first one. */
        {"probability-threshold:min_probability=0.9,max_retries=2", NULL, 1, "cba", "c<0b<0a"},
        {"probability-threshold:min_probability=0.9,max_retries=2", NULL, 1, "abc", "a<0b<0c<0(a)"},
        {"probability-threshold:min_probability=0.9,max_retries=1", NULL, 1, "ac", "a<0c<0(a)"},
        /* When excluding all of them would leave nothing, at once. */
        {"probability-threshold:min_probability=0.9", NULL, 1, "abc.", "a<0b<0c<0.<0(a)"},
        /* Nothing is excluded: the same token may come again. */
        {"probability-threshold:min_probability=0.9,max_retries=3,retry=resample", NULL, 1, "cacb",
         "c<0a<0c<0b<0(a)"},
        {"probability-threshold:min_probability=0.9,max_retries=2,retry=resample", NULL, 2,
         "aaacac", "a<0a<0ac<1a<1c<1(a)"},
        /* What was accepted stands, and the place is left alone. */
        {"probability-threshold:min_probability=0.3,max_retries=1,backtrack_count=2", NULL, 3,
         "acbcb", "ac<0bcb"},
    };
    check_rows(falling, "", plain_options(0), rows, COUNT(rows));
    static const row ids[] = {
        {"repetition:max_repetitions=1,max_retries=1,retry=resample", NULL, 4, "aaaaaa",
         "aa<1aa<2aa<3a"},
        {"ngram-overlap:ngram_size=2,max_retries=2,retry=resample", NULL, 4, "ababbb",
         "abab<3b<3b"},
    };
    check_rows(letters, "", plain_options(0), ids, COUNT(ids));
}

static void counts(void **state) {
    (void)state;
    static ops seen;
    retrace_model *m = open_table(falling);
    retrace_rule_stats stats;
    ops_run(&seen, m, plain_options(1), "probability-threshold:min_probability=0.9,max_retries=2",
            NULL, "", "abc", &stats);
    assert_int_equal(stats.hits, 3);
    assert_int_equal(stats.accepted, 1);
    assert_int_equal(stats.erased, 3);
    assert_int_equal(seen.seen.stats.accepted, 1);
    assert_int_equal(seen.seen.stats.evaluated, 0); /* the place kept its distribution */
    assert_string_equal(seen.seen.text, "a");
    retrace_model_close(m);
}

/* ==== Memory after another rule's rewind ==== */

/* b, c and d may follow a with 0.5, 0.1 and 0.4. */
static const char drops[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", \"d\"], \"rows\": ["
    "{\"context\": [], \"next\": {\"a\": 0.9, \"b\": 0.1}},"
    "{\"context\": [\"a\"], \"next\": {\"b\": 0.5, \"c\": 0.1, \"d\": 0.4}}]}";

/* A mean over a, a, a, a of 0.5625; x, q and the last three alone: 0.3, 0.25 and 0.45. */
static const char trends[] =
    "{\"tokens\": [\"a\", \"x\", \"y\", \"z\", \"q\"], \"rows\": ["
    "{\"context\": [], \"next\": {\"a\": 0.9, \"x\": 0.1}},"
    "{\"context\": [\"a\"], \"next\": {\"a\": 0.45, \"x\": 0.3, \"q\": 0.25}},"
    "{\"context\": [\"x\"], \"next\": {\"y\": 1}}, {\"context\": [\"y\"], \"next\": {\"z\": 1}}]}";

static void after_a_ban(void **state) {
    (void)state;
    static const row drop[] = {
        /* 0.1 is compared with a's 0.9, not with d's 0.4 (0.08) and not with nothing. */
        {"probability-drop", "phrases:text=d", 2, "adcb", "ad<1c<1b"},
        {"probability-drop:max_drop=0.9", "phrases:text=d", 2, "adc", "ad<1c"},
    };
    check_rows(drops, "", plain_options(0), drop, COUNT(drop));
    static const row trend[] = {
        /* The window of four is whole: 0.25 < 0.28125, where 0.225 would let it pass. */
        {"probability-trend:window_size=4", "phrases:text=xyz", 7, "aaaaxyzqaaa",
         "aaaaxyz<4q<4aaa"},
        {"probability-trend:window_size=3", "phrases:text=xyz", 7, "aaaaxyzqaa", "aaaaxyz<4qaa"},
    };
    check_rows(trends, "", plain_options(0), trend, COUNT(trend));
    static const row ngrams[] = {
        /* n-grams of kept tokens are remembered, erased ones forgotten. */
        {"ngram-overlap:ngram_size=2", "phrases:text=d", 4, "abdabc", "abd<2ab<3c"},
        {"ngram-overlap:ngram_size=2", "phrases:text=bd", 6, "abdcabby", "abd<1cabby"},
        {"ngram-overlap:ngram_size=2", "phrases:text=bd", 6, "abdcababy", "abd<1cabab<5y"},
    };
    check_rows(letters, "", plain_options(0), ngrams, COUNT(ngrams));
    static const row repeats[] = {
        /* A rewind inside a run leaves the run as it was. */
        {"repetition", "phrases:text=d", 4, "aaadab", "aaad<3a<3b"},
        {"repetition", "phrases:text=ad", 5, "aaadbaa", "aaad<2baa"},
        {"repetition", "phrases:text=ad", 4, "aadbaa", "aad<1baa"},
    };
    check_rows(letters, "", plain_options(0), repeats, COUNT(repeats));
}

/* ==== Text leaves ==== */

static void text_leaves(void **state) {
    (void)state;
    static const struct {
        const char *rule;
        int held;
    } rows[] = {
        {"probability-threshold:min_probability=0.01", 1},
        {"probability-margin:min_margin=0.01", 2},
        {"entropy-threshold:max_entropy=1.2", 2},
        {"entropy-threshold:max_entropy=1.2,every_n=4", 2},
        {"ngram-overlap:ngram_size=30", 1},
        {"probability-drop:max_drop=0.99", 1},
    };
    static answer a;
    retrace_model *m = open_table(falling);
    for (int i = 0; i < COUNT(rows); i++) {
        retrace_options o = plain_options(40);
        retrace_rule *r = rule_by(rows[i].rule);
        o.ignore_eos = 1;
        o.rules = &r;
        o.n_rules = 1;
        finish_text(&a, m, &o, "");
        if (a.stats.held_max_bytes > rows[i].held || a.first_settle > rows[i].held + 1)
            fail_msg("%s held %d bytes, first after %d tokens", rows[i].rule,
                     (int)a.stats.held_max_bytes, a.first_settle);
        retrace_rule_free(r);
    }
    retrace_model_close(m);
}

/* ==== No run is stuck or endless ==== */

static void always_end(void **state) {
    (void)state;
    static const char *const names[] = {
        "probability-threshold:min_probability=0.99",
        "entropy-threshold:max_entropy=0",
        "probability-margin:min_margin=1",
        "probability-drop:max_drop=0",
        "probability-trend:window_size=2,drop_threshold=0.99",
        "repetition:max_repetitions=1",
        "ngram-overlap:ngram_size=2",
        "logit-threshold:min_logit=0",
    };
    static const char *const how[] = {"", ",retry=resample", ",on=sampled", ",backtrack_count=5",
                                      ",every_n=3,max_retries=2"};
    static ops seen;
    retrace_model *m = open_table(falling);
    for (int i = 0; i < COUNT(names) * COUNT(how); i++) {
        char spec[128];
        static int64_t fired;
        snprintf(spec, sizeof spec, "%s%s", names[i / COUNT(how)], how[i % COUNT(how)]);
        retrace_options o = plain_options(24);
        if (i % COUNT(how) == 1) o.temp = 0;
        o.ignore_eos = 1;
        retrace_rule *r = rule_by(spec);
        o.rules = &r;
        o.n_rules = 1;
        const char *why = try_finish(&seen.seen, m, &o, NULL, 0);
        if (why || seen.seen.finish != RETRACE_FINISH_LENGTH || seen.seen.n_tokens != 24)
            fail_msg("%s: %s, %d tokens", spec, why ? why : retrace_finish_name(seen.seen.finish),
                     seen.seen.n_tokens);
        if (i % COUNT(how) == 0) fired = 0;
        fired += seen.seen.stats.rewinds;
        if (i % COUNT(how) == COUNT(how) - 1 && fired < 40)
            fail_msg("%s fired %d times only", spec, (int)fired);
        retrace_rule_free(r);
    }
    retrace_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thresholds),       cmocka_unit_test(by_tokens),
        cmocka_unit_test(model_or_sampled), cmocka_unit_test(retries),
        cmocka_unit_test(counts),           cmocka_unit_test(after_a_ban),
        cmocka_unit_test(text_leaves),      cmocka_unit_test(always_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
