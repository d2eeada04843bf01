/* test_creative.c - the rules that change draws or speak: creative, adaptive-temperature, debug.
 * The numbers are worked out by hand. */
#include "places.h"
#include "offer.h"

#include "retrace_ext.h"
#include "strategies/strategies.h"

#include <math.h>

static void near(double a, double b) {
    if (!(fabs(a - b) < 1e-6)) fail_msg("%.9g is not %.9g", a, b);
}

/* ==== creative: shape ==== */

static const char falling[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", {\"text\": \"</s>\", \"end\": true}], \"rows\": ["
    "{\"context\": [], \"next\": {\"a\": 0.4, \"b\": 0.3, \"c\": 0.1, \"</s>\": 0.2}},"
    "{\"context\": [\"a\"], \"next\": {\"a\": 0.995, \"b\": 0.005}},"
    "{\"context\": [\"b\"], \"next\": {\"a\": 0.2, \"</s>\": 0.8}},"
    "{\"context\": [\"c\"], \"next\": {\"b\": 1}}]}";

static void the_best_gives_way(void **state) {
    (void)state;
    retrace_model *m = open_table(falling);
    retrace_options o = plain_options(1);
    /* a is out; the end token weighs 0.16 of 0.56. */
    offer f = first_draw(m, o, "creative", "");
    near(f.p[0], 0);
    near(f.p[1], 0.3 / 0.56);
    near(f.p[2], 0.1 / 0.56);
    near(f.p[3], 0.16 / 0.56);
    f = first_draw(m, o, "creative:eos_penalty=1", "");
    near(f.p[3], 0.2 / 0.6);
    f = first_draw(m, o, "creative:eos_penalty=0", "");
    near(f.p[1], 0.75);
    near(f.p[3], 0);
    o.temp = 2; /* the penalty is on the weight before the temperature */
    f = first_draw(m, o, "creative", "");
    near(f.p[3] / f.p[1], sqrt(0.16 / 0.3));
    o.temp = 1;
    o.top_k = 1; /* truncation sees what is left */
    f = first_draw(m, o, "creative", "");
    near(f.p[1], 1);
    retrace_model_close(m);
}

static void who_does_not(void **state) {
    (void)state;
    retrace_model *m = open_table(falling);
    retrace_options o = plain_options(1);
    offer f = first_draw(m, o, "creative", "a"); /* forced: 0.995 */
    near(f.p[0], 0.995);
    f = first_draw(m, o, "creative:forced=0.996", "a");
    near(f.p[0], 0);
    f = first_draw(m, o, "creative:eos_penalty=1", "b"); /* it ends the answer */
    near(f.p[3], 0.8);
    f = first_draw(m, o, "creative:forced=1", "c"); /* nothing else is left */
    near(f.p[1], 1);
    f = first_draw(m, o, "creative:forced=1,eos_penalty=0", "b");
    near(f.p[0], 1);
    retrace_model_close(m);
    /* The rest of a character does not give way, in the prompt's or in the answer's text. */
    m = open_table("{\"tokens\": [{\"bytes\": [195]}, {\"bytes\": [169]}, \"x\"], \"rows\": ["
                   "{\"context\": [], \"next\": {\"0\": 0.2, \"1\": 0.7, \"2\": 0.1}}]}");
    retrace_rule *r = rule_by("creative");
    static answer a;
    static const retrace_token want[] = {0, 1, 2};
    script s = {want, 3, 0, 0};
    o = plain_options(3);
    o.rules = &r;
    o.n_rules = 1;
    o.choose = choose_script;
    o.choose_ud = &s;
    finish_text(&a, m, &o, "");
    assert_string_equal(a.text, "\u00e9x");
    assert_int_equal(s.missed, 0);
    s = (script){want + 1, 1, 0, 0}; /* it would not have been on offer elsewhere */
    finish_text(&a, m, &o, "x");
    assert_int_equal(s.missed, 1);
    retrace_rule_free(r);
    retrace_model_close(m);
}

/* ==== creative: going back ==== */

enum { A, B, C, D };
static const float steep[4] = {0, -1, -3, -3}; /* 0.64, 0.24, 0.03, 0.03: two reach 0.65 */
static const float flat[4] = {0, 0, 0, 0};     /* a quarter each: three do */

#define CREATIVE(...)                                                                              \
    hand_start(&rt_rule_creative, (const char *const[]){__VA_ARGS__, NULL, NULL}, model, NULL, 0)

static int push_at(const float logits[4], retrace_token id) {
    hand_place(logits, 4);
    int to = hand_push(id);
    assert_int_equal(to, -1); /* it judges nothing, it remembers */
    return to;
}

/* Where it goes back to once the head turns out to be like this; -1: nowhere. */
static int review(const float logits[4]) {
    retrace_view v;
    hand_place(logits, 4);
    rt_view(&hand.run, hand.run.n, 0, RETRACE_GOING, &v);
    v.next = rt_head(&hand.run)->dist;
    retrace_free(hand.p.force);
    hand.p = (retrace_proposal){0};
    int rc = rt_rule_creative.review(hand.rule.self, &v, rt_head(&hand.run)->mark, &hand.p, NULL);
    if (rc == RETRACE_OK) return -1;
    assert_int_equal(rc, RETRACE_DONE);
    assert_int_equal(hand.p.n_force, 1);
    assert_true(hand.p.max_retries > 0);
    return hand.p.to;
}

static void back_to_the_last_choice(void **state) {
    (void)state;
    retrace_model *model =
        open_table("{\"tokens\": [\"a\", \"b\", \"c\", \"d\"], \"rows\": [{\"context\": [], "
                   "\"next\": {\"a\": 1}}]}");
    CREATIVE("top_k_threshold_flat", "3");
    assert_int_equal(review(flat), -1); /* nothing was chosen */
    hand_start(&rt_rule_creative, (const char *const[]){"top_k_threshold_flat", "3", NULL}, model,
               NULL, 0);
    push_at(steep, B);
    assert_int_equal(hand_horizon(), 0);
    assert_int_equal(review(flat), 0);
    assert_int_equal(hand.p.force[0], A);
    assert_int_equal(hand.p.n_ban, 0);
    assert_int_equal(hand.p.max_retries, 1);
    near(hand.p.measure, 0.5);
    CREATIVE("top_k_threshold_flat", "3");
    push_at(steep, B);
    assert_int_equal(review(steep), -1);
    CREATIVE("top_k_threshold_flat", "4"); /* three quarters is more than 0.65 */
    push_at(steep, B);
    assert_int_equal(review(flat), -1);
    CREATIVE("top_k_threshold_flat", "4", "top_p_flat", "0.75"); /* and 0.75 is reached by three */
    push_at(steep, B);
    assert_int_equal(review(flat), -1);
    CREATIVE("top_k_threshold_flat", "4", "top_p_flat", "0.76");
    push_at(steep, B);
    assert_int_equal(review(flat), 0);
    retrace_model_close(model);
}

static void which_choice(void **state) {
    (void)state;
    retrace_model *model =
        open_table("{\"tokens\": [\"a\", \"b\", \"c\", \"d\"], \"rows\": [{\"context\": [], "
                   "\"next\": {\"a\": 1}}]}");
    static const float forced[4] = {0, -6, -8, -8}; /* 0.996 */
    CREATIVE("top_k_threshold_flat", "3", "reach", "4");
    push_at(steep, B);
    push_at(steep, C);
    push_at(steep, A);  /* the best one itself: no choice */
    push_at(forced, B); /* nothing gave way there */
    assert_int_equal(hand_horizon(), 1);
    assert_int_equal(review(flat), 1);
    hand_erase(3);
    push_at(forced, A);
    push_at(forced, A);
    assert_int_equal(review(flat), -1); /* five from the first: settled */
    assert_int_equal(hand_horizon(), 5);
    hand_erase(1); /* after a rewind it is the last one that stands */
    push_at(steep, A);
    assert_int_equal(review(flat), 0);
    assert_int_equal(hand.p.force[0], A);
    retrace_model_close(model);
}

/* Choices follow one another, and still text leaves. */
static void text_leaves(void **state) {
    (void)state;
    retrace_model *m = open_table(falling);
    static answer a;
    retrace_rule *r = rule_by("creative:reach=5");
    retrace_options o = plain_options(60);
    o.rules = &r;
    o.n_rules = 1;
    o.ignore_eos = 1;
    finish_text(&a, m, &o, "");
    assert_in_range(a.stats.held_max_bytes, 3, 6);
    retrace_rule_free(r);
    retrace_model_close(m);
}

static void what_gave_way(void **state) {
    (void)state;
    retrace_model *model = open_table(
        "{\"tokens\": [{\"bytes\": [195]}, {\"bytes\": [169]}, \"x\", \"y\"], \"rows\": ["
        "{\"context\": [], \"next\": {\"2\": 1}}]}");
    static const float halves[4] = {0, 0, -INFINITY, -INFINITY};
    CREATIVE("forced", "0.5"); /* one half is not more than that */
    push_at(halves, 1);
    assert_int_equal(hand_horizon(), 0);
    CREATIVE("forced", "0.499999");
    push_at(halves, 1);
    assert_int_equal(hand_horizon(), 1);
    /* Where the best one would have completed a character, nothing gave way. */
    static const float second[4] = {-3, 0, -1, -3};
    CREATIVE("top_k_threshold_flat", "3");
    push_at(steep, 0);
    push_at(second, 2);
    assert_int_equal(hand_horizon(), 2);
    push_at(second, 2);
    assert_int_equal(hand_horizon(), 2);
    assert_int_equal(review(flat), 2);
    assert_int_equal(hand.p.force[0], 1);
    retrace_model_close(model);
}

static void flat_in_a_run(void **state) {
    (void)state;
    /* After b everything is open; after a nothing is. Of the places after "a" none is a choice. */
    retrace_model *m =
        open_table("{\"tokens\": [\"a\", \"b\", \"c\"], \"rows\": ["
                   "{\"context\": [], \"next\": {\"a\": 0.6, \"b\": 0.3, \"c\": 0.1}},"
                   "{\"context\": [\"b\"], \"next\": {\"a\": 0.34, \"b\": 0.33, \"c\": 0.33}},"
                   "{\"context\": [\"c\"], \"next\": {\"a\": 0.98, \"b\": 0.02}},"
                   "{\"context\": [\"a\"], \"next\": {\"c\": 1}}]}");
    static ops seen;
    retrace_rule_stats stats;
    const char *rule = "creative:top_k_threshold_flat=3,top_p_flat=0.7";
    assert_string_equal(ops_run(&seen, m, plain_options(4), rule, NULL, "", "bcbc", &stats),
                        "b<0(a)cb<2(a)c");
    assert_int_equal(stats.hits, 2);
    /* When another rule forbids the best one, what had led on is banned instead. */
    assert_string_equal(
        ops_run(&seen, m, plain_options(2), rule, "phrases:text=a", "", "bcb", NULL), "b<0(a)<0cb");
    retrace_model_close(m);
}

static void creative_settings(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"top_p_flat", "1.1"},
        {"top_k_threshold_flat", "0"},
        {"top_k_threshold_flat", "1001"},
        {"eos_penalty", "-1"},
        {"forced", "2"},
        {"reach", "0"},
        {"max_retries", "0"},
    };
    for (int i = 0; i < COUNT(bad); i++) {
        retrace_rule *r = NULL;
        retrace_error err = {0};
        const char *pairs[] = {bad[i][0], bad[i][1], NULL};
        assert_int_equal(try_rule(&r, "creative", pairs, &err), RETRACE_EUSAGE);
        assert_non_null(strstr(err.msg, bad[i][0]));
    }
}

/* As many end tokens as a mark has room for, and more: each is penalised. */
static void many_ends(void **state) {
    (void)state;
    for (int ends = 6; ends <= 12; ends++) {
        char table[2048];
        size_t n = (size_t)snprintf(table, sizeof table, "{\"tokens\": [\"a\", \"b\"");
        for (int i = 0; i < ends; i++)
            n += (size_t)snprintf(table + n, sizeof table - n,
                                  ", {\"text\": \"<%d>\", \"end\": true}", i);
        n += (size_t)snprintf(table + n, sizeof table - n,
                              "], \"rows\": [{\"context\": [], \"next\": {\"0\": 4, \"1\": 3");
        for (int i = 0; i < ends; i++)
            n += (size_t)snprintf(table + n, sizeof table - n, ", \"%d\": 1", i + 2);
        snprintf(table + n, sizeof table - n, "}}]}");
        retrace_model *m = open_table(table);
        offer f = first_draw(m, plain_options(1), "creative:eos_penalty=0.5", "");
        for (int i = 0; i < ends; i++) near(f.p[2 + i], 0.5 / (3 + 0.5 * ends));
        retrace_model_close(m);
    }
}

/* ==== adaptive-temperature ==== */

static void sharper_by_entropy(void **state) {
    (void)state;
    retrace_model *m =
        open_table("{\"tokens\": [\"a\", \"b\", \"c\", \"d\"], \"rows\": ["
                   "{\"context\": [], \"next\": {\"a\": 4, \"b\": 3, \"c\": 2, \"d\": 1}},"
                   "{\"context\": [\"a\"], \"next\": {\"a\": 0.9, \"b\": 0.1}},"
                   "{\"context\": [\"b\"], \"next\": {\"a\": 0.75, \"b\": 0.25}}]}");
    retrace_options o = plain_options(1);
    /* H = 1.279854: -0.09928 + 1.00838 - 3.76742 + 6.29304 - 1.791 = 1.643725 */
    offer f = first_draw(m, o, "adaptive-temperature", "");
    double beta = log(f.p[1] / f.p[0]) / log(0.75);
    assert_true(fabs(beta - 1.6437) < 2e-4);
    near(log(f.p[3] / f.p[0]) / log(0.25), beta);
    f = first_draw(m, o, "adaptive-temperature", "a"); /* H = 0.325 */
    near(f.p[1], 0.1);
    f = first_draw(m, o, "adaptive-temperature:threshold=0.56", "b"); /* H = 0.5623 */
    near(log(f.p[1] / f.p[0]) / log(1.0 / 3), 1); /* the polynomial gives 0.328: not below 1 */
    f = first_draw(m, o, "adaptive-temperature:threshold=1.28", "");
    near(f.p[1], 0.3);
    f = first_draw(m, o, "adaptive-temperature:c4=0,c3=0,c2=0,c1=0,c0=2", "");
    near(f.p[1] / f.p[0], 9.0 / 16);
    o.temp = 2; /* the entropy is the model's own; the temperature divides what comes out */
    f = first_draw(m, o, "adaptive-temperature", "");
    near(log(f.p[1] / f.p[0]) / log(0.75), beta / 2);
    retrace_model_close(m);
}

/* ==== debug ==== */

static void notes(void **state) {
    (void)state;
    retrace_model *m = open_table("{\"tokens\": [\"a\", \"\\n\", {\"bytes\": [195]}, {\"text\": "
                                  "\"</s>\", \"end\": true}], \"rows\": ["
                                  "{\"context\": [], \"next\": {\"a\": 0.5, \"1\": 0.25, \"2\": "
                                  "0.125, \"3\": 0.125}},"
                                  "{\"context\": [\"a\"], \"next\": {\"3\": 1}}]}");
    static ops seen;
    ops_run(&seen, m, plain_options(4), "debug", NULL, "", "a.", NULL);
    assert_string_equal(seen.notes, "\"a\" 0.500, \"\\x0a\" 0.250\n\"</s>\" 1.000\n");
    ops_run(&seen, m, plain_options(1), "debug:top=9", NULL, "", "a", NULL);
    assert_string_equal(seen.notes,
                        "\"a\" 0.500, \"\\x0a\" 0.250, \"\\xc3\" 0.125, \"</s>\" 0.125\n");
    retrace_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_gives_way),
        cmocka_unit_test(who_does_not),
        cmocka_unit_test(back_to_the_last_choice),
        cmocka_unit_test(which_choice),
        cmocka_unit_test(text_leaves),
        cmocka_unit_test(what_gave_way),
        cmocka_unit_test(flat_in_a_run),
        cmocka_unit_test(creative_settings),
        cmocka_unit_test(many_ends),
        cmocka_unit_test(sharper_by_entropy),
        cmocka_unit_test(notes),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hand_close();
    return failed;
}
