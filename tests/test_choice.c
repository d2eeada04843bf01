/* test_choice.c - a person's moves: what is asked, what each answer does, what is refused. */
#include "helper.h"
#include "run.h"

#include <math.h>

static answer a;

static const char letters[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", \"ab\", {\"bytes\": [195]}, {\"text\": \"</s>\", \"end\": "
    "true}],"
    " \"rows\": [{\"context\": [], \"next\": {\"a\": 0.5, \"b\": 0.3, \"c\": 0.15, \"ab\": "
    "0.05}}]}";

/* The driver: asks for two candidates everywhere. */
static int step(const void *self, retrace_run *run, retrace_error *err) {
    (void)self;
    return retrace_run_ask(run, 2, err);
}

static const retrace_driver_type asks = {
    .abi = RETRACE_ABI, .name = "asks", .help = "", .step = step, .holds = 1};

static retrace_model *m;
static retrace_run *run;
static retrace_need need;

/* Up to the next question or the end. */
static void on(void) {
    retrace_error err = {0};
    for (;;) {
        int rc = retrace_run_next(run, &need, &err);
        if (rc < 0) fail_msg("%s", err.msg);
        if (need.kind == RETRACE_NEED_CHOICE || need.kind == RETRACE_NEED_NOTHING) return;
        if (need.kind == RETRACE_EVENT) see(&a, need.event);
        if (need.kind == RETRACE_NEED_MODEL)
            assert_int_equal(retrace_model_eval(m, need.queries, need.n_queries, &err), 0);
    }
}

static void begin(retrace_options o) {
    m = open_table(letters);
    run = run_start(m, &o, &a);
    run->driver = &asks; /* without settings, as the one it replaces */
    run->o.hold = RETRACE_HOLD_ALL;
    on();
}

static void end(void) {
    run_end(m, run, &a);
    retrace_model_close(m);
}

static int choose(retrace_choice c) {
    retrace_error err = {0};
    int rc = retrace_run_choose(run, &c, &err);
    assert_int_equal(rc < 0, err.msg[0] != 0);
    if (rc == RETRACE_OK) on();
    return rc;
}

static int token(retrace_token id) {
    return choose((retrace_choice){.kind = RETRACE_CHOOSE_TOKEN, .token = id});
}

static int text(const char *s) {
    return choose((retrace_choice){.kind = RETRACE_CHOOSE_TEXT, .text = text_of(s)});
}

static int back(int to) {
    return choose((retrace_choice){.kind = RETRACE_CHOOSE_BACK, .to = to});
}

static void assert_text(const char *s) {
    retrace_text t = retrace_run_text(run);
    assert_int_equal(t.n, strlen(s));
    assert_memory_equal(t.s, s, t.n);
}

static void the_most_probable_are_offered(void **unused) {
    (void)unused;
    begin(plain_options(3));
    assert_int_equal(need.kind, RETRACE_NEED_CHOICE);
    assert_int_equal(need.n_candidates, 2);
    assert_int_equal(need.candidates[0].id, 0);
    assert_int_equal(need.candidates[1].id, 1);
    assert_true(fabs(need.candidates[1].logp - log(0.3)) < 1e-6);
    assert_int_equal(need.pos, 0);
    on(); /* asked again, the same */
    assert_int_equal(need.kind, RETRACE_NEED_CHOICE);
    assert_int_equal(token(3), RETRACE_OK); /* not on offer, and forced all the same */
    assert_text("ab");
    assert_int_equal(text("ca"), RETRACE_OK);
    assert_int_equal(need.kind, RETRACE_NEED_NOTHING);
    assert_text("abca");
    end();
    assert_int_equal(a.finish, RETRACE_FINISH_LENGTH);
}

static void going_back_bans_nothing_and_asks_again(void **unused) {
    (void)unused;
    begin(plain_options(3));
    assert_int_equal(token(1), RETRACE_OK);
    assert_int_equal(token(2), RETRACE_OK);
    assert_int_equal(back(0), RETRACE_OK);
    assert_int_equal(need.kind, RETRACE_NEED_CHOICE);
    assert_int_equal(need.pos, 0);
    assert_int_equal(need.n_candidates, 2);
    assert_int_equal(token(1), RETRACE_OK); /* the same again */
    assert_text("b");
    assert_int_equal(choose((retrace_choice){.kind = RETRACE_CHOOSE_DRAW}), RETRACE_OK);
    assert_int_equal(need.pos, 2);
    assert_int_equal(text("c"), RETRACE_OK);
    end();
    assert_int_equal(a.stats.erased, 2);
    assert_int_equal(a.stats.evaluated, 3); /* b, bc, and what was drawn behind b */
}

static void what_cannot_be_is_refused_and_asked_again(void **unused) {
    (void)unused;
    begin(plain_options(2));
    assert_int_equal(token(-1), RETRACE_EUSAGE);
    assert_int_equal(token(6), RETRACE_EUSAGE);
    assert_int_equal(text(""), RETRACE_EUSAGE);
    assert_int_equal(text("x"), RETRACE_EUSAGE);
    assert_int_equal(text("\xc3"), RETRACE_EUSAGE);
    assert_int_equal(back(0), RETRACE_EUSAGE);
    assert_int_equal(back(-1), RETRACE_EUSAGE);
    assert_int_equal(need.kind, RETRACE_NEED_CHOICE);
    assert_int_equal(text("cc"), RETRACE_OK);
    assert_int_equal(token(0), RETRACE_EUSAGE); /* it has ended */
    end();
}

static void rules_judge_what_a_person_puts(void **unused) {
    (void)unused;
    retrace_options o = plain_options(4);
    retrace_rule *r = ban_rule("bc", NULL);
    o.rules = &r;
    o.n_rules = 1;
    begin(o);
    assert_int_equal(token(0), RETRACE_OK);
    assert_int_equal(text("cbca"), RETRACE_OK); /* all of it is taken back */
    assert_int_equal(need.kind, RETRACE_NEED_CHOICE);
    assert_text("a");
    assert_int_equal(text("cb"), RETRACE_OK);
    assert_text("a"); /* behind "ac" the b is banned since */
    assert_int_equal(token(2), RETRACE_OK);
    assert_int_equal(need.pos, 2);
    for (int i = 0; i < need.n_candidates; i++) assert_int_not_equal(need.candidates[i].id, 1);
    assert_int_equal(token(1), RETRACE_EUSAGE); /* banned here now */
    assert_int_equal(text("ca"), RETRACE_OK);
    assert_text("acca");
    end();
    retrace_rule_free(r);
}

static void an_end_token_ends(void **unused) {
    (void)unused;
    begin(plain_options(4));
    assert_int_equal(token(0), RETRACE_OK);
    assert_int_equal(token(5), RETRACE_OK);
    assert_int_equal(need.kind, RETRACE_NEED_NOTHING);
    end();
    assert_int_equal(a.finish, RETRACE_FINISH_END);
    assert_string_equal(a.text, "a");
}

static void cancelling_a_question_ends(void **unused) {
    (void)unused;
    begin(plain_options(4));
    assert_int_equal(token(0), RETRACE_OK);
    retrace_run_cancel(run);
    on();
    assert_int_equal(need.kind, RETRACE_NEED_NOTHING);
    end();
    assert_int_equal(a.finish, RETRACE_FINISH_CANCELLED);
}

static void without_a_person_the_generator_chooses(void **unused) {
    (void)unused;
    retrace_options o = plain_options(20);
    m = open_table(letters);
    run = run_start(m, &o, &a);
    run->driver = &asks;
    run->o.hold = RETRACE_HOLD_ALL;
    retrace_error err = {0};
    assert_int_equal(retrace_run_finish(run, see_event, &a, &err), RETRACE_OK);
    end();
    static answer plain;
    m = open_table(letters);
    finish_text(&plain, m, &o, "");
    assert_same_answer(&a, &plain);
    retrace_model_close(m);
}

static void a_question_with_no_answer_is_stuck(void **unused) {
    (void)unused;
    const char *const pairs[] = {"text", "root ::= \"ax\"", NULL};
    retrace_options o = plain_options(4);
    retrace_rule *r = make_rule("grammar", pairs);
    o.rules = &r;
    o.n_rules = 1;
    begin(o);
    assert_int_equal(need.kind, RETRACE_NEED_CHOICE);
    assert_int_equal(need.n_candidates, 1);
    assert_int_equal(token(0), RETRACE_OK); /* no token begins with an x */
    assert_int_equal(need.kind, RETRACE_NEED_NOTHING);
    end();
    assert_int_equal(a.finish, RETRACE_FINISH_STUCK);
    retrace_rule_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_probable_are_offered),
        cmocka_unit_test(going_back_bans_nothing_and_asks_again),
        cmocka_unit_test(what_cannot_be_is_refused_and_asked_again),
        cmocka_unit_test(rules_judge_what_a_person_puts),
        cmocka_unit_test(an_end_token_ends),
        cmocka_unit_test(cancelling_a_question_ends),
        cmocka_unit_test(without_a_person_the_generator_chooses),
        cmocka_unit_test(a_question_with_no_answer_is_stuck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
