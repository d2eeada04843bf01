/* test_retry.c - soft proposals, forced text and constraints, through small rules made for it.
 *
 * The rule `picky` judges each token by a table: how good it is (soft), what to put in its place
 * (force), or what may follow (a mask); everything else is the engine's. */
#include "helper.h"
#include "strategy.h"

#include <math.h>

static answer a;

static const char letters[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", \"d\", {\"text\": \"</s>\", \"end\": true}],"
    " \"rows\": [{\"context\": [], \"next\": {\"a\": 0.5, \"b\": 0.3, \"c\": 0.15, \"d\": 0.05}}]}";

/* ==== The rule ==== */

typedef struct picky {
    int64_t max_retries, back;
    int resample;
    retrace_text bad;   /* soft or forced: letters that it objects to, worst first */
    retrace_text put;   /* forced instead of them */
    retrace_text admit; /* a constraint: letters that may come */
    retrace_text only;  /* applies at this place only, "0".."9"; empty: at all */
} picky;

static int applies(const picky *self, const retrace_view *v) {
    return self->only.n == 0 || v->n - 1 == self->only.s[0] - '0';
}

static int judge(const void *memory, const retrace_view *v, void *mark, retrace_proposal *p,
                 retrace_error *err) {
    const picky *self = memory;
    retrace_text piece;
    (void)mark;
    if (v->n == 0 || (v->ending != RETRACE_GOING && v->ending != RETRACE_ENDING_END))
        return RETRACE_OK;
    piece = retrace_piece(v->model, v->tokens[v->n - 1]);
    if (piece.n == 0) return RETRACE_OK;
    if (self->admit.n && !memchr(self->admit.s, piece.s[0], self->admit.n)) {
        p->to = v->n - 1;
        return RETRACE_DONE;
    }
    const char *at = self->bad.n ? memchr(self->bad.s, piece.s[0], self->bad.n) : NULL;
    if (!at || !applies(self, v) || v->n < self->back) return RETRACE_OK;
    p->to = v->n - (int)self->back;
    p->max_retries = (int)self->max_retries;
    p->measure = (double)(at - self->bad.s);
    p->no_ban = self->resample;
    snprintf(p->why, sizeof p->why, "%c", piece.s[0]);
    if (self->put.n == 0) return RETRACE_DONE;
    int rc = retrace_view_tokenize(v, self->put, &p->force, &p->n_force, err);
    return rc < 0 ? rc : RETRACE_DONE;
}

static int horizon(const void *memory, const retrace_view *v, const void *mark) {
    const picky *self = memory;
    (void)mark;
    int to = v->n + 1 - (int)self->back;
    return to < 0 ? 0 : to;
}

static int admits(const void *memory, const retrace_view *v, const void *mark, retrace_token id) {
    const picky *self = memory;
    (void)mark;
    retrace_text piece = retrace_piece(v->model, id);
    return piece.n > 0 && memchr(self->admit.s, piece.s[0], self->admit.n) != NULL;
}

static int mask(const void *memory, const retrace_view *v, const void *mark, const uint64_t **bits,
                retrace_error *err) {
    static uint64_t word;
    (void)err;
    word = 0;
    for (int i = 0; i < 5; i++) word |= (uint64_t)admits(memory, v, mark, i) << i;
    *bits = &word;
    return RETRACE_OK;
}

static int certain(const void *memory) {
    return ((const picky *)memory)->max_retries == 0;
}

static const retrace_setting_info settings[] = {
    {"max_retries", RETRACE_INT, offsetof(picky, max_retries), "3", 0, 1000, NULL, ""},
    {"back", RETRACE_INT, offsetof(picky, back), "1", 1, 9, NULL, ""},
    {"resample", RETRACE_BOOL, offsetof(picky, resample), "false", 0, 0, NULL, ""},
    {"bad", RETRACE_TEXT, offsetof(picky, bad), "", 0, 0, NULL, ""},
    {"put", RETRACE_TEXT, offsetof(picky, put), "", 0, 0, NULL, ""},
    {"admit", RETRACE_TEXT, offsetof(picky, admit), "", 0, 0, NULL, ""},
    {"only", RETRACE_TEXT, offsetof(picky, only), "", 0, 0, NULL, ""},
    {0},
};

#define COMMON                                                                                     \
    .abi = RETRACE_ABI, .help = "", .settings = settings, .size = sizeof(picky), .judge = judge,   \
    .horizon = horizon, .certain = certain

static const retrace_rule_type picky_type = {.name = "picky", COMMON};
static const retrace_rule_type mask_type = {.name = "mask", COMMON, .admits = admits, .mask = mask};

static retrace_rule *rule_of(const retrace_rule_type *type, const char *const *pairs) {
    retrace_setting s[16];
    retrace_rule *r = NULL;
    retrace_error err = {0};
    int n = 0;
    for (; pairs[2 * n]; n++) s[n] = (retrace_setting){pairs[2 * n], text_of(pairs[2 * n + 1])};
    if (rt_rule_make(&r, type, s, n, &err)) fail_msg("%s", err.msg);
    return r;
}

#define PICKY(...) rule_of(&picky_type, (const char *const[]){__VA_ARGS__, NULL})
#define MASK(...) rule_of(&mask_type, (const char *const[]){__VA_ARGS__, NULL})

/* ==== Running ==== */

/* Runs with these rules; `wanted` are the letters that chance offers, in turn. */
static void go(retrace_options o, const char *wanted, retrace_rule *first, retrace_rule *second) {
    retrace_model *m = open_table(letters);
    retrace_rule *rules[2] = {first, second};
    retrace_token want[64];
    script s = {want, 0, 0, 0};
    for (; wanted[s.n]; s.n++) want[s.n] = wanted[s.n] - 'a';
    o.rules = rules;
    o.n_rules = second ? 2 : 1;
    o.choose = choose_script;
    o.choose_ud = &s;
    finish_text(&a, m, &o, "");
    assert_int_equal(s.missed, 0);
    retrace_rule_free(first);
    retrace_rule_free(second);
    retrace_model_close(m);
}

static void soft_gives_up_after_max_retries_and_puts_the_best_back(void **unused) {
    (void)unused;
    /* a is worst, d the least bad: tried in this order with bans, best try is c of a, b, c. */
    go(plain_options(1), "abcd", PICKY("bad", "abcd", "max_retries", "2"), NULL);
    assert_string_equal(a.text, "c");
    assert_int_equal(a.stats.accepted, 1);
    assert_int_equal(a.stats.rewinds, 2);
    /* b is the best of a, c, b ... when the last try is worse: put back. */
    go(plain_options(1), "bac", PICKY("bad", "acb", "max_retries", "2"), NULL);
    assert_string_equal(a.text, "b");
    assert_int_equal(a.stats.accepted, 1);
    assert_int_equal(a.stats.rewinds, 3); /* two retries and the putting back */
    assert_int_equal(a.pushes, 4);
}

static void soft_passes_when_a_retry_is_good(void **unused) {
    (void)unused;
    go(plain_options(2), "abc", PICKY("bad", "a"), NULL);
    assert_string_equal(a.text, "bc");
    assert_int_equal(a.stats.accepted, 0);
}

static void resample_bans_nothing(void **unused) {
    (void)unused;
    go(plain_options(1), "aaab", PICKY("bad", "a", "resample", "true"), NULL);
    assert_string_equal(a.text, "b");
    assert_int_equal(a.stats.rewinds, 3);
    go(plain_options(1), "aaaa", PICKY("bad", "a", "resample", "true"), NULL);
    assert_string_equal(a.text, "a");
    assert_int_equal(a.stats.accepted, 1);
}

static void soft_bans_never_exhaust_a_place(void **unused) {
    (void)unused;
    retrace_options o = plain_options(1);
    o.stuck_mass = 0.25; /* behind a and b only 0.2 is left */
    go(o, "ab", PICKY("bad", "ab", "max_retries", "9"), NULL);
    assert_string_equal(a.text, "b");
    assert_int_equal(a.finish, RETRACE_FINISH_LENGTH);
    assert_int_equal(a.stats.accepted, 1);
}

static void soft_retries_never_exhaust_a_place_on_the_way(void **unused) {
    (void)unused;
    retrace_options o = greedy_options(4);
    o.max_rewinds = o.max_evaluated = 1000000;
    go(o, "", PICKY("bad", "a", "back", "3", "only", "2", "resample", "true", "max_retries", "900"),
       NULL);
    assert_string_equal(a.text, "aaaa");
    assert_int_equal(a.finish, RETRACE_FINISH_LENGTH);
    assert_int_equal(a.stats.rewinds, 900);
    assert_int_equal(a.stats.accepted, 1);
}

static void what_the_store_keeps_changes_no_text(void **unused) {
    (void)unused;
    static answer b;
    static const retrace_setting none = {"keep_mib", {"0", 1}};
    retrace_model *kept = open_table(letters), *dropped = NULL;
    assert_int_equal(try_table(&dropped, letters, strlen(letters), &none, 1, NULL), RETRACE_OK);
    retrace_rule *rules[] = {PICKY("bad", "ab", "back", "3", "max_retries", "9"),
                             PICKY("bad", "db", "back", "2", "max_retries", "3")};
    retrace_options o = plain_options(12);
    o.rules = rules;
    o.n_rules = 2;
    o.stuck_mass = 0.25;
    o.max_evaluated = 1000000;
    int again = 0;
    for (o.seed = 0; o.seed < 100; o.seed++) {
        o.hold = o.seed % 2 ? RETRACE_HOLD_ALL : RETRACE_HOLD_MINIMAL;
        finish_text(&a, kept, &o, "");
        const char *why = try_finish(&b, dropped, &o, NULL, 0);
        if (why) fail_msg("%s", why);
        assert_same_answer(&a, &b);
        assert_int_equal(a.stats.rewinds, b.stats.rewinds);
        assert_int_equal(a.stats.accepted, b.stats.accepted);
        again += b.stats.reevaluated > 0;
    }
    assert_true(again > 50);
    retrace_rule_free(rules[0]);
    retrace_rule_free(rules[1]);
    retrace_model_close(kept);
    retrace_model_close(dropped);
}

/* The run is stopped while a decision waits for the model. */
static void a_decision_that_waits_can_be_cut_short(void **unused) {
    (void)unused;
    static const retrace_setting none = {"keep_mib", {"0", 1}};
    retrace_model *m = NULL;
    assert_int_equal(try_table(&m, letters, strlen(letters), &none, 1, NULL), RETRACE_OK);
    retrace_rule *rules[] = {PICKY("bad", "ab", "back", "3", "max_retries", "9"),
                             PICKY("bad", "cd", "back", "1", "max_retries", "0")};
    retrace_options o = plain_options(8);
    o.rules = rules;
    o.n_rules = 2;
    for (int stop = 0; stop < 60; stop++) {
        retrace_run *run = run_start(m, &o, &a);
        retrace_need_kind kind = RETRACE_EVENT;
        for (int i = 0; i < stop && kind != RETRACE_NEED_NOTHING; i++) kind = turn(m, run, &a);
        retrace_run_cancel(run);
        while (kind != RETRACE_NEED_NOTHING) kind = turn(m, run, &a);
        run_end(m, run, &a);
        assert_null(strpbrk(a.text, "cd"));
    }
    retrace_rule_free(rules[0]);
    retrace_rule_free(rules[1]);
    retrace_model_close(m);
}

static void soft_bans_give_way_to_hard_ones(void **unused) {
    (void)unused;
    retrace_options o = plain_options(1);
    o.stuck_mass = 0;
    /* soft bans a; hard bans b, c, d: a comes back and stands. */
    go(o, "abcda", PICKY("bad", "a", "max_retries", "9"), PICKY("bad", "bcd", "max_retries", "0"));
    assert_string_equal(a.text, "a");
    assert_int_equal(a.finish, RETRACE_FINISH_LENGTH);
}

static void soft_rules_keep_pace(void **unused) {
    (void)unused;
    retrace_options o = plain_options(8);
    o.max_rewinds = 8;
    go(o, "", PICKY("bad", "abcd", "max_retries", "9"), NULL);
    assert_int_equal(a.finish, RETRACE_FINISH_LENGTH);
    assert_int_equal(a.n_tokens, 8);
    assert_true(a.stats.rewinds <= 8);
    assert_true(a.stats.accepted > 0);
}

static void a_place_far_back_is_retried_whole(void **unused) {
    (void)unused;
    /* Objects to a or c at the second place and changes the first. The best is "ac" (c above a). */
    go(plain_options(2), "acbaaa",
       PICKY("bad", "ac", "back", "2", "only", "1", "max_retries", "2", "resample", "true"), NULL);
    assert_string_equal(a.text, "ac");
    assert_int_equal(a.stats.accepted, 1);
    assert_int_equal(a.stats.rewinds, 3);
}

/* ==== Forced text ==== */

static void forced_text_stands_instead(void **unused) {
    (void)unused;
    go(plain_options(4), "abd", PICKY("bad", "b", "put", "cc", "max_retries", "0"), NULL);
    assert_string_equal(a.text, "accd");
    assert_int_equal(a.stats.rewinds, 1);
    assert_int_equal(a.stats.erased, 1);
}

static void max_tokens_cuts_a_forced_text(void **unused) {
    (void)unused;
    go(plain_options(2), "ab", PICKY("bad", "b", "put", "ccc", "max_retries", "0"), NULL);
    assert_string_equal(a.text, "ac");
    assert_int_equal(a.finish, RETRACE_FINISH_LENGTH);
}

/* Another rule rejects the second forced letter: all of it goes, b is banned, a person's rule of
 * the same kind is not asked again. */
static void a_rejected_force_is_withdrawn_whole(void **unused) {
    (void)unused;
    go(plain_options(3), "abaa", PICKY("bad", "b", "put", "cd", "max_retries", "0"),
       PICKY("bad", "d", "max_retries", "0"));
    assert_string_equal(a.text, "aaa");
    assert_int_equal(a.stats.erased, 1 + 2);
}

/* It is complete, and the rejection comes later. */
static void a_finished_force_is_withdrawn_whole(void **unused) {
    (void)unused;
    const char *pairs[] = {"text", "da", NULL};
    go(plain_options(4), "abac", PICKY("bad", "b", "put", "cd", "max_retries", "0"),
       make_rule("phrases", pairs));
    assert_string_equal(a.text, "acaa");
}

static void a_proposer_does_not_judge_its_own_text(void **unused) {
    (void)unused;
    go(plain_options(3), "ab", PICKY("bad", "b", "put", "bb", "max_retries", "0"), NULL);
    assert_string_equal(a.text, "abb");
}

/* ==== Constraints ==== */

static void only_what_is_admitted_comes(void **unused) {
    (void)unused;
    const int64_t top_k[] = {0, 1, 2, 40};
    for (int i = 0; i < COUNT(top_k); i++) {
        for (int t = 0; t < 2; t++) {
            retrace_options o = plain_options(5);
            o.top_k = top_k[i];
            o.temp = t;
            o.min_p = i == 3 ? 0.05 : 0;
            go(o, "", MASK("admit", "cd"), NULL);
            assert_string_equal(a.text, "ccccc");
            assert_int_equal(a.stats.rewinds, 0);
            assert_int_equal(a.stats.evaluated, 4);
        }
    }
}

static void an_improbable_mask_is_no_dead_end(void **unused) {
    (void)unused;
    retrace_options o = plain_options(2);
    o.stuck_mass = 0.5;
    go(o, "", MASK("admit", "d"), NULL);
    assert_string_equal(a.text, "dd");
    /* Over what is admitted: c has 3/4 of it. */
    const char *ban_c[] = {"text", "c", NULL};
    go(o, "", MASK("admit", "cd"), make_rule("phrases", ban_c));
    assert_int_equal(a.finish, RETRACE_FINISH_STUCK);
}

static void two_masks_are_one(void **unused) {
    (void)unused;
    go(plain_options(2), "", MASK("admit", "abc"), MASK("admit", "cd"));
    assert_string_equal(a.text, "cc");
    go(plain_options(2), "", MASK("admit", "ab"), MASK("admit", "cd"));
    assert_int_equal(a.finish, RETRACE_FINISH_STUCK);
    assert_string_equal(a.text, "");
}

static void a_force_that_is_not_admitted_is_withdrawn(void **unused) {
    (void)unused;
    go(plain_options(2), "aba", PICKY("bad", "b", "put", "d", "max_retries", "0"),
       MASK("admit", "ab"));
    assert_string_equal(a.text, "aa");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(soft_gives_up_after_max_retries_and_puts_the_best_back),
        cmocka_unit_test(soft_passes_when_a_retry_is_good),
        cmocka_unit_test(resample_bans_nothing),
        cmocka_unit_test(soft_bans_never_exhaust_a_place),
        cmocka_unit_test(soft_retries_never_exhaust_a_place_on_the_way),
        cmocka_unit_test(what_the_store_keeps_changes_no_text),
        cmocka_unit_test(a_decision_that_waits_can_be_cut_short),
        cmocka_unit_test(soft_bans_give_way_to_hard_ones),
        cmocka_unit_test(soft_rules_keep_pace),
        cmocka_unit_test(a_place_far_back_is_retried_whole),
        cmocka_unit_test(forced_text_stands_instead),
        cmocka_unit_test(max_tokens_cuts_a_forced_text),
        cmocka_unit_test(a_rejected_force_is_withdrawn_whole),
        cmocka_unit_test(a_finished_force_is_withdrawn_whole),
        cmocka_unit_test(a_proposer_does_not_judge_its_own_text),
        cmocka_unit_test(only_what_is_admitted_comes),
        cmocka_unit_test(an_improbable_mask_is_no_dead_end),
        cmocka_unit_test(two_masks_are_one),
        cmocka_unit_test(a_force_that_is_not_admitted_is_withdrawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
