/* test_operators.c - the eight operators: their settings, when each fires, worked out by hand, and
 * what they remember after rewinds, their own and those of a ban. */
#include "places.h"

#include "retrace_ext.h"
#include "strategies/strategies.h"

#include <math.h>

static const retrace_rule_type *const operators[] = {
    &rt_rule_probability_threshold, &rt_rule_entropy_threshold, &rt_rule_probability_margin,
    &rt_rule_probability_drop,      &rt_rule_probability_trend, &rt_rule_repetition,
    &rt_rule_ngram_overlap,         &rt_rule_logit_threshold,
};

#define START(type, ...)                                                                           \
    hand_start(&rt_rule_##type, (const char *const[]){__VA_ARGS__, NULL, NULL}, NULL, NULL, 0)

/* Logits of probabilities that are exact: 1; 1/2 each; 1/4 each; and one of none at all. */
static const float sure[4] = {0, -INFINITY, -INFINITY, -INFINITY};
static const float halves[4] = {0, 0, -INFINITY, -INFINITY};
static const float quarters[4] = {0, 0, 0, 0};

static int push_at(const float logits[4], retrace_token id) {
    hand_place(logits, 4);
    return hand_push(id);
}

/* ==== Settings ==== */

static void refused(const char *name, const char *setting, const char *value, const char *says) {
    retrace_rule *r = NULL;
    retrace_error err = {0};
    const char *pairs[] = {setting, value, NULL};
    assert_int_equal(try_rule(&r, name, pairs, &err), RETRACE_EUSAGE);
    assert_null(r);
    if (!strstr(err.msg, name) || !strstr(err.msg, setting) || !strstr(err.msg, says))
        fail_msg("%s %s=%s: %s", name, setting, value, err.msg);
}

static void settings(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(operators); i++) {
        const char *name = operators[i]->name;
        retrace_rule_free(make_rule(name, NULL));
        retrace_rule_free(make_rule(
            name, (const char *const[]){"every_n", "2", "backtrack_every_n", "3", "backtrack_count",
                                        "4", "retry", "resample", "on", "sampled", "max_retries",
                                        "1000", "prompt", "false", NULL}));
        refused(name, "every_n", "0", "1 to");
        refused(name, "backtrack_every_n", "0", "1 to");
        refused(name, "backtrack_count", "0", "1 to");
        refused(name, "max_retries", "0", "1 to 1000");
        refused(name, "max_retries", "1001", "1 to 1000");
        refused(name, "retry", "never", "exclude|resample");
        refused(name, "on", "both", "model|sampled");
        int ids = operators[i] == &rt_rule_repetition || operators[i] == &rt_rule_ngram_overlap;
        if (ids)
            retrace_rule_free(make_rule(name, (const char *const[]){"prompt", "true", NULL}));
        else
            refused(name, "prompt", "true", "not known");
    }
}

static void ranges(void **state) {
    (void)state;
    refused("probability-threshold", "min_probability", "0", "excluded");
    refused("probability-threshold", "min_probability", "1", "excluded");
    refused("probability-threshold", "min_probability", "1.5", "0 to 1");
    refused("entropy-threshold", "max_entropy", "-0.1", "0 to");
    refused("probability-margin", "min_margin", "1.1", "0 to 1");
    refused("probability-drop", "max_drop", "-0.1", "0 to 1");
    refused("probability-trend", "window_size", "1", "2 to");
    refused("probability-trend", "drop_threshold", "0", "excluded");
    refused("probability-trend", "drop_threshold", "1", "excluded");
    refused("repetition", "max_repetitions", "0", "1 to");
    refused("ngram-overlap", "ngram_size", "1", "2 to");
    refused("logit-threshold", "min_logit", "low", "a number");
}

static void defaults(void **state) {
    (void)state;
    static const struct {
        const char *rule, *setting, *preset;
    } rows[] = {
        {"probability-threshold", "min_probability", "0.05"},
        {"probability-threshold", "backtrack_count", "1"},
        {"entropy-threshold", "max_entropy", "0.2"},
        {"entropy-threshold", "backtrack_count", "2"},
        {"probability-margin", "min_margin", "0.05"},
        {"probability-margin", "backtrack_count", "2"},
        {"probability-drop", "max_drop", "0.8"},
        {"probability-trend", "window_size", "10"},
        {"probability-trend", "drop_threshold", "0.5"},
        {"repetition", "max_repetitions", "3"},
        {"ngram-overlap", "ngram_size", "4"},
        {"logit-threshold", "min_logit", "-20"},
        {"logit-threshold", "max_retries", "16"},
        {"logit-threshold", "every_n", "1"},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        int found = 0;
        retrace_plugin_info info;
        for (int k = 0; retrace_rule_at(k, &info); k++) {
            if (strcmp(info.name, rows[i].rule) != 0) continue;
            for (const retrace_setting_info *s = info.settings; s->name; s++) {
                if (strcmp(s->name, rows[i].setting) != 0) continue;
                assert_string_equal(s->preset, rows[i].preset);
                found++;
            }
        }
        assert_int_equal(found, 1);
    }
}

/* ==== The common settings ==== */

static void the_proposal(void **state) {
    (void)state;
    START(probability_threshold, "min_probability", "0.3");
    assert_int_equal(push_at(sure, 0), -1);
    assert_int_equal(push_at(quarters, 1), 1);
    assert_int_equal(hand.p.n_ban, 0); /* the one that led on is banned by the engine */
    assert_int_equal(hand.p.no_ban, 0);
    assert_int_equal(hand.p.max_retries, 16);
    assert_null(hand.p.force);
    assert_true(hand.p.measure == 0.25);
    START(probability_threshold, "min_probability", "0.3", "retry", "resample", "max_retries", "5");
    assert_int_equal(push_at(quarters, 1), 0);
    assert_int_equal(hand.p.n_ban, 0);
    assert_int_equal(hand.p.no_ban, 1);
    assert_int_equal(hand.p.max_retries, 5);
}

static void how_far_back(void **state) {
    (void)state;
    START(probability_threshold, "min_probability", "0.3", "backtrack_count", "3");
    assert_int_equal(hand_horizon(), 0);
    assert_int_equal(push_at(quarters, 0), 0); /* no more than there is */
    assert_int_equal(push_at(quarters, 0), 0);
    assert_int_equal(push_at(quarters, 0), 0);
    assert_int_equal(hand_horizon(), 1); /* the next test may go back to here */
    assert_int_equal(push_at(quarters, 0), 1);
    assert_int_equal(push_at(quarters, 0), 2);
    assert_int_equal(hand_horizon(), 3);
    START(probability_threshold, "backtrack_count", "1");
    assert_int_equal(push_at(sure, 0), -1);
    assert_int_equal(hand_horizon(), 1); /* what has been judged stays */
}

static void every_n(void **state) {
    (void)state;
    static const char *const names[] = {"every_n", "backtrack_every_n"};
    for (int i = 0; i < 2; i++) {
        START(probability_threshold, "min_probability", "0.3", names[i], "3", "backtrack_count",
              "2");
        for (int n = 1; n <= 9; n++) {
            assert_int_equal(push_at(quarters, n % 4), n % 3 ? -1 : n - 2);
            /* The next test is at the next multiple of three and goes back two from there. */
            int to = (n / 3 + 1) * 3 - 2;
            assert_int_equal(hand_horizon(), to < n ? to : n);
        }
    }
    /* The phase is that of the tokens kept, not of the judgements made. */
    START(probability_threshold, "min_probability", "0.3", "every_n", "2");
    assert_int_equal(push_at(quarters, 0), -1);
    assert_int_equal(push_at(quarters, 0), 1);
    hand_erase(1);
    assert_int_equal(push_at(quarters, 1), 1);
    hand_erase(0);
    assert_int_equal(push_at(quarters, 2), -1);
    assert_int_equal(push_at(quarters, 2), 1);
}

static void endings(void **state) {
    (void)state;
    START(probability_threshold, "min_probability", "0.3");
    hand_place(quarters, 4);
    assert_int_equal(hand_push_ending(2, RETRACE_ENDING_END), 0);
    assert_int_equal(hand_end(RETRACE_ENDING_LENGTH), -1); /* it has been judged */
    assert_int_equal(hand_end(RETRACE_ENDING_STOP), -1);
    assert_int_equal(hand_end(RETRACE_ENDING_CONTEXT), -1);
    for (int i = 0; i < COUNT(operators); i++) { /* an empty answer */
        hand_start(operators[i], (const char *const[]){NULL}, NULL, NULL, 0);
        assert_int_equal(hand_end(RETRACE_ENDING_LENGTH), -1);
    }
}

/* Without a distribution a place is not judged, and nothing is made up. */
static void not_known(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(operators); i++) {
        if (operators[i] == &rt_rule_repetition || operators[i] == &rt_rule_ngram_overlap) continue;
        hand_start(operators[i], (const char *const[]){NULL}, NULL, NULL, 0);
        for (int n = 0; n < 12; n++) assert_int_equal(hand_push(n % 4), -1);
    }
    START(probability_drop, "max_drop", "0.1");
    assert_int_equal(push_at(sure, 0), -1);
    assert_int_equal(hand_push(1), -1);         /* not known */
    assert_int_equal(push_at(quarters, 2), -1); /* nothing to compare with */
    assert_int_equal(push_at(sure, 0), -1);
    assert_int_equal(push_at(quarters, 2), 4);
}

/* ==== When each fires ==== */

static void fires_strictly(void **state) {
    (void)state;
    START(probability_threshold, "min_probability", "0.5");
    assert_int_equal(push_at(halves, 1), -1);
    START(probability_threshold, "min_probability", "0.500001");
    assert_int_equal(push_at(halves, 1), 0);

    START(probability_drop, "max_drop", "0.5"); /* 1 to 1/2 is half, no more */
    assert_int_equal(push_at(sure, 0), -1);
    assert_int_equal(push_at(halves, 0), -1);
    assert_int_equal(push_at(quarters, 0), -1);
    START(probability_drop, "max_drop", "0.499999");
    assert_int_equal(push_at(sure, 0), -1);
    assert_int_equal(push_at(halves, 0), 1);
    assert_true(hand.p.measure == 0.5);

    START(probability_trend, "window_size", "2", "drop_threshold", "0.5");
    assert_int_equal(push_at(sure, 0), -1);
    assert_int_equal(push_at(halves, 0), -1);
    START(probability_trend, "window_size", "2", "drop_threshold", "0.500001");
    assert_int_equal(push_at(sure, 0), -1);
    assert_int_equal(push_at(halves, 0), 1);
    assert_true(hand.p.measure == 0.5);

    static const float twenty[4] = {-20, -1, 0, 0};
    START(logit_threshold, "min_logit", "-20");
    assert_int_equal(push_at(twenty, 0), -1);
    START(logit_threshold, "min_logit", "-19.999");
    assert_int_equal(push_at(twenty, 0), 0);
    assert_true(hand.p.measure == -20);
    START(logit_threshold, "min_logit", "-1");
    assert_int_equal(push_at(twenty, 1), -1);
}

static void a_property_of_the_place(void **state) {
    (void)state;
    START(entropy_threshold, "max_entropy", "0");
    assert_int_equal(push_at(quarters, 0), -1); /* no generated token led there */
    assert_int_equal(push_at(sure, 0), -1);     /* no entropy, and that is not above 0 */
    assert_int_equal(push_at(halves, 1), 1);    /* ln 2, whatever is drawn */
    assert_true(fabs(hand.p.measure + log(2)) < 1e-15);
    START(entropy_threshold, "max_entropy", "0.7", "backtrack_count", "3");
    assert_int_equal(push_at(quarters, 0), -1);
    assert_int_equal(push_at(quarters, 0), -1); /* fewer than three to go back over */
    assert_int_equal(push_at(halves, 0), -1);   /* ln 2 = 0.693 */
    assert_int_equal(push_at(quarters, 0), 1);

    START(entropy_threshold, "max_entropy", "0", "backtrack_count", "1");
    assert_int_equal(push_at(quarters, 0), -1); /* still nothing led there */
    assert_int_equal(push_at(quarters, 0), 1);

    static const float third[4] = {0.693147180559945f, 0, -INFINITY, -INFINITY}; /* 2/3, 1/3 */
    START(probability_margin, "min_margin", "0");
    assert_int_equal(push_at(halves, 0), -1);
    assert_int_equal(push_at(halves, 0), -1); /* 0 is not below 0 */
    START(probability_margin, "min_margin", "0.3");
    assert_int_equal(push_at(halves, 0), -1);
    assert_int_equal(push_at(halves, 0), 0);
    assert_true(hand.p.measure == 0);
    assert_int_equal(push_at(third, 1), -1); /* 0.333 */
    START(probability_margin, "min_margin", "1");
    assert_int_equal(push_at(sure, 0), -1);
    assert_int_equal(push_at(sure, 0), -1); /* only one could come */
    assert_int_equal(push_at(third, 0), 1);
    assert_true(fabs(hand.p.measure - 1.0 / 3) < 1e-6);
}

static void trend_by_hand(void **state) {
    (void)state;
    /* Half a window of 5 is 2: nothing before two are known. */
    START(probability_trend, "window_size", "5", "drop_threshold", "0.9");
    assert_int_equal(push_at(sure, 0), -1);
    assert_int_equal(push_at(quarters, 0), -1);
    assert_int_equal(push_at(halves, 0), 2); /* 0.5 < 0.9 * 0.625 */
    assert_true(hand.p.measure == 0.8);
    assert_int_equal(push_at(halves, 0), 3);   /* 0.5 < 0.9 * 0.58333 */
    assert_int_equal(push_at(halves, 0), 4);   /* 0.5 < 0.9 * 0.5625 = 0.50625 */
    assert_int_equal(push_at(halves, 0), -1);  /* 0.9 * 0.55 = 0.495 */
    assert_int_equal(push_at(halves, 0), -1);  /* the first is out: 0.9 * 0.45 */
    assert_int_equal(push_at(quarters, 0), 7); /* all halves: 0.45 */
}

static void repetition_by_hand(void **state) {
    (void)state;
    START(repetition, "max_repetitions", "2");
    assert_int_equal(hand_push(1), -1);
    assert_int_equal(hand_push(1), -1);
    assert_int_equal(hand_push(1), 2); /* the two that are allowed stay */
    assert_true(hand.p.measure == -3);
    assert_int_equal(hand_push(1), 3); /* and one that had to be accepted */
    assert_int_equal(hand_push(2), -1);
    assert_int_equal(hand_push(1), -1);
    /* When not every token is tested, from the first copy that is too many and not tested yet. */
    START(repetition, "max_repetitions", "2", "every_n", "4");
    for (int n = 1; n <= 3; n++) {
        assert_int_equal(hand_push(1), -1);
        assert_int_equal(hand_horizon(), n < 3 ? n : 2);
    }
    assert_int_equal(hand_push(1), 2);
    for (int n = 5; n <= 7; n++) {
        assert_int_equal(hand_push(1), -1);
        assert_int_equal(hand_horizon(), 4);
    }
    assert_int_equal(hand_push(1), 4);
    START(repetition, "max_repetitions", "2", "backtrack_count", "3");
    hand_push(1), hand_push(1);
    assert_int_equal(hand_horizon(), 0);
    assert_int_equal(hand_push(1), 0);
}

static void ngram_by_hand(void **state) {
    (void)state;
    START(ngram_overlap, "ngram_size", "3");
    static const retrace_token text[] = {1, 1, 1, 1, 2, 1, 1, 2, 3, 1, 1, 2};
    /*                                            ^ 111 overlaps    ^ 112 at 4, 7, 11 */
    static const int copies[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2};
    for (int i = 0; i < COUNT(text); i++) {
        assert_int_equal(hand_push(text[i]), copies[i] ? i : -1);
        if (copies[i]) assert_true(hand.p.measure == -copies[i]);
    }
}

static void with_the_prompt(void **state) {
    (void)state;
    static const retrace_token prompt[] = {3, 1, 2, 1, 1};
    static const char *const yes[] = {"prompt", "true", NULL};
    static const char *const no[] = {NULL};
    hand_start(&rt_rule_repetition, yes, NULL, prompt, 5); /* 3 are allowed, 2 are there */
    assert_int_equal(hand_push(1), -1);
    assert_int_equal(hand_push(1), 1);
    hand_start(&rt_rule_repetition, no, NULL, prompt, 5);
    for (int n = 0; n < 3; n++) assert_int_equal(hand_push(1), -1);
    assert_int_equal(hand_push(1), 3);
    hand_start(&rt_rule_repetition, yes, NULL, prompt, 5);
    assert_int_equal(hand_push(2), -1);
    static const char *const two[] = {"prompt", "true", "ngram_size", "2", NULL};
    hand_start(&rt_rule_ngram_overlap, two, NULL, prompt, 5);
    assert_int_equal(hand_push(2), 0);  /* 1 2 */
    assert_int_equal(hand_push(2), -1); /* 2 2 */
    assert_int_equal(hand_push(1), 2);  /* 2 1 */
    assert_int_equal(hand_push(1), 3);  /* 1 1 */
    hand_start(&rt_rule_ngram_overlap, (const char *const[]){"ngram_size", "2", NULL}, NULL, prompt,
               5);
    assert_int_equal(hand_push(2), -1);
    assert_int_equal(hand_push(2), -1);
    assert_int_equal(hand_push(2), 2);
    /* The phase counts generated tokens. */
    static const char *const even[] = {"prompt", "true", "ngram_size", "2", "every_n", "2", NULL};
    hand_start(&rt_rule_ngram_overlap, even, NULL, prompt, 5);
    assert_int_equal(hand_push(2), -1);
    assert_int_equal(hand_push(1), 1);
}

/* ==== on=sampled ==== */

static void on_sampled(void **state) {
    (void)state;
    retrace_sampled s = {
        .p = 0.25, .logit = -3, .entropy = 0.5, .first = 0.5, .second = 0.25, .n = 3};
    START(probability_threshold, "on", "sampled", "min_probability", "0.3");
    hand_place(sure, 4);
    assert_int_equal(hand_push(0), -1); /* not drawn: not judged */
    hand_sampled(0, s);
    hand_place(sure, 4);
    assert_int_equal(hand_push(0), 1);
    assert_true(hand.p.measure == 0.25);
    START(logit_threshold, "on", "sampled", "min_logit", "-2.9");
    hand_sampled(0, s);
    assert_int_equal(hand_push(0), 0);
    assert_true(hand.p.measure == -3);
    START(entropy_threshold, "on", "sampled", "max_entropy", "0.4");
    hand_sampled(0, s);
    assert_int_equal(hand_push(0), -1);
    hand_sampled(0, s);
    assert_int_equal(hand_push(0), 0);
    assert_true(hand.p.measure == -0.5);
    START(probability_margin, "on", "sampled", "min_margin", "0.3");
    hand_sampled(0, s);
    assert_int_equal(hand_push(0), -1);
    hand_sampled(0, s);
    assert_int_equal(hand_push(0), 0);
    s.n = 1;
    hand_sampled(0, s);
    assert_int_equal(hand_push(0), -1); /* one candidate */
    START(repetition, "on", "sampled", "max_repetitions", "1");
    assert_int_equal(hand_push(0), -1);
    assert_int_equal(hand_push(0), -1); /* forced, say, and so not judged */
    hand_sampled(0, s);
    assert_int_equal(hand_push(0), 2);
}

/* ==== After rewinds ==== */

static void drop_after_rewind(void **state) {
    (void)state;
    START(probability_drop, "max_drop", "0.6");
    assert_int_equal(push_at(sure, 0), -1);
    assert_int_equal(push_at(quarters, 1), 1); /* 0.25 < 0.4 */
    hand_erase(1);
    assert_int_equal(push_at(quarters, 2), 1); /* compared with the token now last, not with that */
    assert_int_equal(push_at(halves, 0), -1);
    assert_int_equal(push_at(halves, 0), -1);
    hand_erase(1); /* somebody else's doing */
    assert_int_equal(push_at(quarters, 3), 1);
}

static void trend_after_rewind(void **state) {
    (void)state;
    /* Window of 4; the mean of 1, 0.5, 0.5, 0.5 is 0.625. */
    START(probability_trend, "window_size", "4", "drop_threshold", "0.45");
    assert_int_equal(push_at(sure, 0), -1);
    for (int n = 0; n < 3; n++) assert_int_equal(push_at(halves, 0), -1);
    assert_int_equal(push_at(quarters, 0), 4); /* 0.25 < 0.28125 */
    for (int n = 0; n < 3; n++) assert_int_equal(push_at(halves, 0), -1);
    hand_erase(4);
    /* All four are there again: with the last three alone 0.25 would pass (0.225). */
    assert_int_equal(push_at(quarters, 1), 4);
    assert_true(hand.p.measure == 0.25 / 0.625);
    hand_erase(3);
    assert_int_equal(push_at(halves, 1), -1);
    assert_int_equal(push_at(quarters, 2), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings),
        cmocka_unit_test(ranges),
        cmocka_unit_test(defaults),
        cmocka_unit_test(the_proposal),
        cmocka_unit_test(how_far_back),
        cmocka_unit_test(every_n),
        cmocka_unit_test(endings),
        cmocka_unit_test(not_known),
        cmocka_unit_test(fires_strictly),
        cmocka_unit_test(a_property_of_the_place),
        cmocka_unit_test(trend_by_hand),
        cmocka_unit_test(repetition_by_hand),
        cmocka_unit_test(ngram_by_hand),
        cmocka_unit_test(with_the_prompt),
        cmocka_unit_test(on_sampled),
        cmocka_unit_test(drop_after_rewind),
        cmocka_unit_test(trend_after_rewind),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hand_close();
    return failed;
}
