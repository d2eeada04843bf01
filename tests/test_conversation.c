/* test_conversation.c - answers that stay in the conversation as the tokens in which they were
 * written: what stands in the prompt, what of it the model is given, what is left out when it grows
 * too long. On tables; test_conversation_models.c has the models. */
#include "said.h"

#include <math.h>

static const char story[] =
    "{\"tokens\": [\"a\", \"b\", \"ab\", \"abc\", \" \", {\"bytes\": [195]}, {\"bytes\": [169]},"
    " {\"text\": \"<|u|>\", \"control\": true}, {\"text\": \"</s>\", \"end\": true}, \"?\"],"
    " \"n_ctx\": 48, \"rows\": [{\"context\": [], \"next\": {\"a\": 5, \"b\": 4, \"ab\": 2,"
    " \"abc\": 2, \" \": 1, \"5\": 1, \"<|u|>\": 1, \"</s>\": 2}},"
    " {\"context\": [5], \"next\": {\"6\": 1}}]}";

/* ==== What stands in a prompt ==== */

static void tokens_stand_as_they_are(void **unused) {
    (void)unused;
    retrace_model *m = open_table(story);
    const retrace_token said[] = {0, 1}, with[] = {2, 0, 1, 2}, without[] = {2, 2, 2};
    retrace_message list[] = {says("user", "ab"), answered("ab", said, 2), says("user", "ab")};
    int n;
    retrace_token *v = prompt_of(m, list, 3, &n);
    assert_int_equal(n, 4);
    assert_memory_equal(v, with, sizeof with);
    retrace_free(v);
    list[1].tokens = NULL;
    v = prompt_of(m, list, 3, &n);
    assert_int_equal(n, 3);
    assert_memory_equal(v, without, sizeof without);
    retrace_free(v);
    list[1] = answered("", said, 0);
    v = prompt_of(m, list, 3, &n);
    assert_int_equal(n, 2);
    retrace_free(v);
    retrace_model_close(m);
}

static void wrong_tokens_are_refused(void **unused) {
    (void)unused;
    retrace_model *m = open_table(story);
    refuse_all(m, 0, 7, 8);
    /* Part of a character: in tokens it is as it was said, as text it is refused. */
    const retrace_token half[] = {0, 5};
    retrace_message list[] = {answered("a\xc3", half, 2)};
    retrace_error err = {0};
    int n;
    retrace_token *v = prompt_of(m, list, 1, &n);
    assert_int_equal(n, 2);
    retrace_free(v);
    list[0].tokens = NULL;
    assert_int_equal(retrace_chat(m, list, 1, &v, &n, &err), RETRACE_EUSAGE);
    retrace_model_close(m);
}

/* ==== What fits ==== */

enum { MOST = 24 };

/* The prompt of the system messages and those behind the first `dropped` others; its length. */
static int length_without(const retrace_model *m, const retrace_message *list, int n, int n_system,
                          int dropped) {
    retrace_message some[MOST];
    int count = 0, length;
    for (int i = 0; i < n; i++) {
        if (i < n_system || i >= n_system + dropped) some[count++] = list[i];
    }
    retrace_free(prompt_of(m, some, count, &length));
    return length;
}

/* The number of messages to leave out, tried one by one; -1: what must stay does not fit. */
static int slowly(const retrace_model *m, const retrace_message *list, int n, int room, int n_ctx) {
    int n_system = 0, best = 0;
    while (n_system < n && strcmp(list[n_system].role, "system") == 0) n_system++;
    if (length_without(m, list, n, n_system, 0) + room <= n_ctx) return 0;
    for (int i = n_system + 1; i < n; i++) {
        if (strcmp(list[i].role, "user") != 0) continue;
        best = i - n_system;
        int length = length_without(m, list, n, n_system, best);
        if (length + room <= n_ctx - n_ctx / 4) return best;
    }
    return length_without(m, list, n, n_system, best) + room <= n_ctx ? best : -1;
}

static int make_list(uint64_t *state, retrace_message *list) {
    static const char *const texts[] = {
        "a", "ab", "a b", "abcab", "ab ab ab ab a b", "abcabcabca b a b a b a b a b a b"};
    static const retrace_token said[] = {0, 1, 0, 1, 0, 1};
    int n = 1 + roll_from(state, MOST - 1), size = 1 + roll_from(state, 6);
    for (int i = 0; i < n; i++) {
        int who = roll_from(state, 4);
        const char *text = texts[roll_from(state, size)];
        list[i] = says(i < 2 && who == 0 ? "system" : who < 2 ? "user" : "assistant", text);
        if (who == 3) list[i] = answered("ababab", said, 6);
    }
    return n;
}

static void the_oldest_turns_go(void **unused) {
    (void)unused;
    retrace_model *m = open_table(story);
    uint64_t state = 7;
    int counts[3] = {0};
    for (int round = 0; round < 3000; round++) {
        retrace_message list[MOST];
        retrace_error err = {0};
        retrace_token *v = NULL;
        int n = make_list(&state, list), room = roll_from(&state, 30), length = 0, dropped = -1;
        int right = slowly(m, list, n, room, 48);
        int rc = retrace_chat_fit(m, list, n, room, &v, &length, &dropped, &err);
        counts[right < 0 ? 2 : right > 0]++;
        if (right < 0) {
            assert_int_equal(rc, RETRACE_EUSAGE);
            assert_non_null(strstr(err.msg, "a context of 48"));
            continue;
        }
        if (rc) fail_msg("round %d: %s", round, err.msg);
        assert_int_equal(dropped, right);
        assert_true(length + room <= 48);
        retrace_free(v);
    }
    for (int i = 0; i < 3; i++) assert_true(counts[i] > 100);
    retrace_model_close(m);
}

static void what_is_no_conversation_is_refused(void **unused) {
    (void)unused;
    retrace_model *m = open_table(story);
    retrace_message list[] = {says("user", "ab"), says("user", "ab ab ab ab")};
    retrace_error err = {0};
    retrace_token *v = NULL;
    int n, pairs, *singles = NULL;
    assert_int_equal(retrace_chat_fit(m, list, 0, 1, &v, &n, NULL, &err), RETRACE_EUSAGE);
    assert_int_equal(retrace_chat_fit(m, list, 2, -1, &v, &n, NULL, &err), RETRACE_EUSAGE);
    assert_int_equal(retrace_chat_fit(m, list, 2, 42, &v, &n, NULL, &err), RETRACE_EUSAGE);
    assert_non_null(strstr(err.msg, "a prompt of 7 tokens: with room for 42"));
    assert_int_equal(retrace_chat_fit(m, list, 2, 41, &v, &n, NULL, &err), RETRACE_OK);
    assert_int_equal(n, 7);
    retrace_free(v);
    assert_int_equal(retrace_chat_singles(m, list, 2, 3, &singles, &pairs, &err), RETRACE_EUSAGE);
    list[0].role = NULL;
    assert_int_equal(retrace_chat(m, list, 2, &v, &n, &err), RETRACE_EUSAGE);
    assert_non_null(strstr(err.msg, "message 1"));
    retrace_model_close(m);
}

/* ==== Turns ==== */

static void a_turn_evaluates_what_is_new(void **unused) {
    (void)unused;
    retrace_model *m = open_table(story);
    int ends = 0, rewinds = 0;
    for (int seed = 0; seed < 60; seed++) {
        retrace_rule *ban = ban_rule("ba", "ab a");
        retrace_options o = plain_options(6);
        o.seed = seed;
        o.rules = &ban;
        o.n_rules = 1;
        o.bias = (retrace_bias[]){{.id = 7, .bias = -INFINITY}};
        o.n_bias = 1;
        o.slot = seed % 3;
        retrace_reply *r = next_turn(m, &o, NULL, "ab");
        for (int i = 0; i < 3; i++) {
            retrace_reply before = *r;
            retrace_message said = *last_of(r);
            int64_t due = 0;
            before.messages = &said;
            before.n_messages = 1;
            r = next_turn(m, &o, r, "?b a");
            due = owed(&before, r);
            assert_int_equal(r->stats.prompt_evaluated, due);
            ends += before.finish == RETRACE_FINISH_END;
            rewinds += r->stats.rewinds > 0;
        }
        retrace_free(r);
        retrace_rule_free(ban);
    }
    assert_true(ends > 20 && rewinds > 20);
    retrace_model_close(m);
}

/* The run draws these tokens and then ends; what it is as a message, and in the next prompt. */
static retrace_reply *drawn(retrace_model *m, retrace_options *o, script *s) {
    o->choose = choose_script;
    o->choose_ud = s;
    o->top_k = 0;
    retrace_reply *r = next_turn(m, o, NULL, "b");
    assert_int_equal(s->missed, 0);
    return r;
}

static void what_has_no_text_is_left_out(void **unused) {
    (void)unused;
    retrace_model *m = open_table(story);
    const retrace_token want[] = {0, 7, 1, 8}, kept[] = {0, 1};
    script s = {want, 4, 0, 0};
    retrace_options o = plain_options(9);
    retrace_reply *r = drawn(m, &o, &s);
    assert_int_equal(r->finish, RETRACE_FINISH_END);
    assert_int_equal(r->stats.kept, 3);
    assert_string_equal(last_of(r)->content.s, "ab");
    assert_int_equal(last_of(r)->n_tokens, 2);
    assert_memory_equal(last_of(r)->tokens, kept, sizeof kept);
    s = (script){want + 2, 2, 0, 0};
    r = next_turn(m, &o, r, "a");
    assert_string_equal(last_of(r)->content.s, "b");
    retrace_free(r);
    retrace_model_close(m);
}

static void a_token_that_a_stop_cuts_is_spelt_anew(void **unused) {
    (void)unused;
    retrace_model *m = open_table(story);
    const retrace_token want[] = {1, 3}, kept[] = {1, 2};
    script s = {want, 2, 0, 0};
    retrace_text stop = text_of("c");
    retrace_options o = plain_options(9);
    o.stops = &stop;
    o.n_stops = 1;
    retrace_reply *r = drawn(m, &o, &s);
    assert_int_equal(r->finish, RETRACE_FINISH_STOP);
    assert_string_equal(last_of(r)->content.s, "bab");
    assert_int_equal(last_of(r)->n_tokens, 2);
    assert_memory_equal(last_of(r)->tokens, kept, sizeof kept);
    s = (script){want, 2, 0, 0};
    r = next_turn(m, &o, r, "a");
    retrace_free(r);
    retrace_model_close(m);
}

static void half_a_character_can_be_said(void **unused) {
    (void)unused;
    retrace_model *m = open_table(story);
    const retrace_token want[] = {0, 5};
    script s = {want, 2, 0, 0};
    retrace_options o = plain_options(2);
    retrace_reply *r = drawn(m, &o, &s);
    assert_int_equal(r->finish, RETRACE_FINISH_LENGTH);
    assert_true(last_of(r)->n_tokens >= 1);
    s = (script){want, 2, 0, 0};
    r = next_turn(m, &o, r, "a");
    retrace_free(r);
    retrace_model_close(m);
}

static void a_full_context_drops_turns_and_says_so(void **unused) {
    (void)unused;
    retrace_model *m = open_table(story);
    retrace_options o = plain_options(5);
    retrace_reply *r = NULL;
    int most = 0;
    o.bias = (retrace_bias[]){{.id = 7, .bias = -INFINITY}};
    o.n_bias = 1;
    for (int i = 0; i < 24; i++) {
        o.seed = i;
        r = next_turn(m, &o, r, "ab ab");
        assert_true(r->stats.prompt + 5 <= 48);
        assert_true(r->dropped % 2 == 0 && r->dropped < r->n_messages);
        if (r->dropped > most) most = r->dropped;
    }
    assert_int_equal(r->n_messages, 48);
    assert_true(most > 20);
    retrace_free(r);
    retrace_model_close(m);
}

/* A turn is about 14 of 480 tokens, and a step several turns: all turns but those at which the cut
 * moves go on from what the model holds. */
static void a_cut_stays_until_the_next_step(void **unused) {
    (void)unused;
    enum { TURNS = 200 };
    char longer[sizeof story + 1];
    const char *at = strstr(story, "48");
    snprintf(longer, sizeof longer, "%.*s480%s", (int)(at - story), story, at + 2);
    retrace_model *m = open_table(longer);
    retrace_message *list = calloc(2 * TURNS, sizeof *list);
    retrace_reply *replies[TURNS] = {0};
    retrace_options o = plain_options(1);
    retrace_error err = {0};
    int cuts = 0, dropped = 0;
    o.bias = (retrace_bias[]){{.id = 7, .bias = -INFINITY}};
    o.n_bias = 1;
    for (int i = 0; i < TURNS; i++) {
        o.seed = i;
        list[2 * i] = says("user", i % 3 ? "ab ab ab ab a b" : "abcab a b b b b b");
        if (retrace_answer(&replies[i], m, &o, list, 2 * i + 1, NULL, NULL, &err))
            fail_msg("%s", err.msg);
        retrace_reply *r = replies[i];
        assert_true(r->stats.prompt < 480 && r->dropped >= dropped);
        if (r->dropped > dropped || i == 0)
            cuts += i > 0;
        else
            assert_int_equal(r->stats.prompt_evaluated, owed(replies[i - 1], r));
        dropped = r->dropped;
        list[2 * i + 1] = *last_of(r);
    }
    assert_in_range(dropped, 2 * TURNS - 80, 2 * TURNS - 40);
    assert_in_range(cuts, 10, 50);
    for (int i = 0; i < TURNS; i++) retrace_free(replies[i]);
    free(list);
    retrace_model_close(m);
}

static int stop_at_once(void *ud, const retrace_event *e) {
    (void)e;
    return ++*(int *)ud > 0;
}

static void a_turn_may_fail_or_be_cancelled(void **unused) {
    (void)unused;
    retrace_model *m = open_table(story);
    retrace_message list[] = {says("user", "x"), says("user", "ab")};
    retrace_options o = plain_options(5);
    retrace_reply *r = NULL;
    retrace_error err = {0};
    int seen = 0;
    assert_int_equal(retrace_answer(&r, m, &o, list, 2, NULL, NULL, &err), RETRACE_EUSAGE);
    assert_null(r);
    assert_int_equal(retrace_answer(&r, m, &o, list + 1, 1, stop_at_once, &seen, &err), RETRACE_OK);
    assert_int_equal(r->finish, RETRACE_FINISH_CANCELLED);
    assert_true(seen > 0);
    retrace_free(r);
    o.singles = (int[]){1, 0};
    o.n_singles = 1;
    retrace_run *run = NULL;
    const retrace_token prompt[] = {0, 1};
    assert_int_equal(retrace_run_new(&run, m, &o, prompt, 2, &err), RETRACE_EUSAGE);
    assert_non_null(strstr(err.msg, "singles"));
    o.singles = (int[]){1, 3};
    assert_int_equal(retrace_run_new(&run, m, &o, prompt, 2, &err), RETRACE_EUSAGE);
    retrace_model_close(m);
}

/* Taken up again, a run says what of the prompt was needed once more. */
static void taken_up_again_it_counts_anew(void **unused) {
    (void)unused;
    retrace_model *m = open_table(story);
    retrace_options o = plain_options(6);
    retrace_run *run = NULL;
    retrace_error err = {0};
    retrace_stats s;
    const retrace_token prompt[] = {0, 1, 0, 1}, other[] = {1, 0};
    o.bias = (retrace_bias[]){{.id = 8, .bias = -INFINITY}};
    o.n_bias = 1;
    assert_int_equal(retrace_run_new(&run, m, &o, prompt, 4, &err), RETRACE_OK);
    assert_int_equal(retrace_run_finish(run, NULL, NULL, &err), RETRACE_OK);
    retrace_run_stats(run, &s);
    assert_int_equal(s.prompt_evaluated, 4);
    assert_int_equal(retrace_run_reopen(run, 6, 3, NULL, &err), RETRACE_OK);
    assert_int_equal(retrace_run_finish(run, NULL, NULL, &err), RETRACE_OK);
    retrace_run_stats(run, &s);
    assert_int_equal(s.prompt_evaluated, 0);
    /* Another question has taken its slot. */
    float next[10];
    retrace_query q = {.tokens = other, .n = 2, .next = next};
    assert_int_equal(retrace_model_eval(m, &q, 1, &err), RETRACE_OK);
    assert_int_equal(retrace_run_reopen(run, 9, 3, NULL, &err), RETRACE_OK);
    assert_int_equal(retrace_run_finish(run, NULL, NULL, &err), RETRACE_OK);
    retrace_run_stats(run, &s);
    assert_int_equal(s.prompt_evaluated, 4);
    retrace_run_free(run);
    retrace_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_stand_as_they_are),
        cmocka_unit_test(wrong_tokens_are_refused),
        cmocka_unit_test(the_oldest_turns_go),
        cmocka_unit_test(what_is_no_conversation_is_refused),
        cmocka_unit_test(a_turn_evaluates_what_is_new),
        cmocka_unit_test(what_has_no_text_is_left_out),
        cmocka_unit_test(a_token_that_a_stop_cuts_is_spelt_anew),
        cmocka_unit_test(half_a_character_can_be_said),
        cmocka_unit_test(a_full_context_drops_turns_and_says_so),
        cmocka_unit_test(a_cut_stays_until_the_next_step),
        cmocka_unit_test(a_turn_may_fail_or_be_cancelled),
        cmocka_unit_test(taken_up_again_it_counts_anew),
    };
    return cmocka_run_group_tests_name("conversation", tests, NULL, NULL);
}
