/* test_run.c - what holds for every run: who asks whom, what the events mean, which figures agree,
 * that a seed is a seed, that text is let out as early as it can be, and that every run ends. */
#include "helper.h"

#include <math.h>

static answer a, b;
static uint64_t state;

static int roll(int n) {
    return roll_from(&state, n);
}

/* Letters that any letter may follow. */
static const char letters[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", \"ab\", \"ca\", {\"text\": \"</s>\", \"end\": true}],"
    " \"rows\": [{\"context\": [], \"next\": {\"a\": 0.3, \"b\": 0.25, \"c\": 0.2, \"ab\": 0.12,"
    " \"ca\": 0.08, \"</s>\": 0.05}}]}";

/* The same with bytes of characters, a control token and short memory. */
static const char mixed[] =
    "{\"tokens\": [\"a\", \"b\", \"B\", {\"bytes\": [195]}, {\"bytes\": [169]}, \"\\u00e9a\", \" "
    "\","
    " {\"text\": \"<|c|>\", \"control\": true}, {\"text\": \"</s>\", \"end\": true},"
    " {\"text\": \"<|end|>\", \"end\": true}], \"n_ctx\": 24,"
    " \"rows\": [{\"context\": [], \"next\": {\"a\": 5, \"b\": 4, \"B\": 2, \"3\": 3, \"5\": 2, \" "
    "\": 3,"
    " \"<|c|>\": 1, \"</s>\": 1}},"
    " {\"context\": [3], \"next\": {\"4\": 6, \"a\": 1, \"<|end|>\": 1}},"
    " {\"context\": [\"a\", \"b\"], \"next\": {\"a\": 1, \"B\": 1, \" \": 1}}]}";

/* ==== Asking and answering ==== */

static void a_loop_by_hand_is_finish(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_rule *r = ban_rule("aa", "bc");
    retrace_options o = plain_options(40);
    o.rules = &r;
    o.n_rules = 1;
    finish_text(&a, m, &o, "");
    retrace_run *run = run_start(m, &o, &b);
    while (turn(m, run, &b) != RETRACE_NEED_NOTHING) {
    }
    retrace_need need;
    assert_int_equal(retrace_run_next(run, &need, NULL), RETRACE_DONE);
    assert_int_equal(need.kind, RETRACE_NEED_NOTHING);
    run_end(m, run, &b);
    assert_same_answer(&a, &b);
    assert_true(a.erases > 0);
    retrace_rule_free(r);
    retrace_model_close(m);
}

static void going_on_without_an_answer_is_refused_and_changes_nothing(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_options o = plain_options(12);
    finish_text(&a, m, &o, "");
    retrace_run *run = run_start(m, &o, &b);
    for (;;) {
        retrace_need need, again;
        retrace_error err = {0};
        int rc = retrace_run_next(run, &need, &err);
        assert_true(rc >= 0);
        if (need.kind == RETRACE_NEED_NOTHING) break;
        if (need.kind == RETRACE_EVENT) {
            see(&b, need.event);
            continue;
        }
        retrace_stats before, after;
        retrace_run_stats(run, &before);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(retrace_run_next(run, &again, &err), RETRACE_EUSAGE);
            assert_int_equal(err.code, RETRACE_EUSAGE);
            assert_true(err.msg[0] != 0);
        }
        retrace_run_stats(run, &after);
        assert_memory_equal(&before, &after, sizeof before);
        assert_int_equal(retrace_run_finished(run), RETRACE_FINISH_NONE);
        assert_int_equal(retrace_model_eval(m, need.queries, need.n_queries, &err), RETRACE_OK);
    }
    run_end(m, run, &b);
    assert_same_answer(&a, &b);
    retrace_model_close(m);
}

/* Many runs that share a model and a rule, their questions answered together. */
static void runs_side_by_side_do_not_meet(void **unused) {
    (void)unused;
    enum { RUNS = 8 };
    static answer alone[RUNS], together[RUNS];
    retrace_model *m = open_table(mixed);
    retrace_rule *r = ban_rule("ab", "\xc3\xa9");
    retrace_options o = plain_options(20);
    o.rules = &r;
    o.n_rules = 1;
    retrace_run *runs[RUNS];
    for (int i = 0; i < RUNS; i++) {
        o.seed = i;
        o.slot = i % 3;
        finish_text(&alone[i], m, &o, "");
        runs[i] = run_start(m, &o, &together[i]);
    }
    for (int live = RUNS; live > 0;) {
        retrace_query q[RUNS];
        retrace_query *at[RUNS];
        int n = 0;
        live = 0;
        for (int i = 0; i < RUNS; i++) {
            retrace_need need;
            while (retrace_run_next(runs[i], &need, NULL) == RETRACE_OK &&
                   need.kind == RETRACE_EVENT)
                see(&together[i], need.event);
            if (need.kind != RETRACE_NEED_MODEL) continue;
            live++;
            assert_int_equal(need.n_queries, 1);
            at[n] = need.queries;
            q[n++] = need.queries[0];
        }
        assert_int_equal(retrace_model_eval(m, q, n, NULL), RETRACE_OK);
        for (int i = 0; i < n; i++) *at[i] = q[i];
    }
    for (int i = 0; i < RUNS; i++) {
        run_end(m, runs[i], &together[i]);
        assert_same_answer(&alone[i], &together[i]);
    }
    retrace_rule_free(r);
    retrace_model_close(m);
}

static void a_run_can_be_cancelled_at_every_step(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_rule *r = ban_rule("ab", "ca");
    retrace_options o = plain_options(10);
    o.rules = &r;
    o.n_rules = 1;
    for (int k = 0, ended = 0; !ended; k++) {
        assert_true(k < 1000);
        retrace_run *run = run_start(m, &o, &a);
        int i = 0;
        while (i < k && turn(m, run, &a) != RETRACE_NEED_NOTHING) i++;
        ended = i < k;
        int settled = retrace_run_settled(run, NULL);
        retrace_run_cancel(run);
        while (turn(m, run, &a) != RETRACE_NEED_NOTHING) {
        }
        int was_over = a.finish != RETRACE_FINISH_CANCELLED;
        run_end(m, run, &a);
        if (!was_over) assert_true(a.n_tokens >= settled);
        if (ended) assert_true(was_over);
    }
    /* And the model is as good as new. */
    finish_text(&a, m, &o, "");
    finish_text(&b, m, &o, "");
    assert_same_answer(&a, &b);
    retrace_rule_free(r);
    retrace_model_close(m);
}

static int stop_at_third_push(void *ud, const retrace_event *e) {
    see(ud, e);
    return ((answer *)ud)->pushes == 3;
}

static void a_callback_can_cancel(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_options o = plain_options(10);
    o.ignore_eos = 1;
    retrace_run *run = run_start(m, &o, &a);
    assert_int_equal(retrace_run_finish(run, stop_at_third_push, &a, NULL), RETRACE_OK);
    run_end(m, run, &a);
    assert_int_equal(a.finish, RETRACE_FINISH_CANCELLED);
    assert_int_equal(a.n_tokens, 3);
    retrace_model_close(m);
}

static void a_model_that_fails_ends_the_run(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_options o = plain_options(10);
    for (int k = 0; k < 12; k++) {
        retrace_run *run = run_start(m, &o, &a);
        for (int i = 0; i < k; i++) turn(m, run, &a);
        if (retrace_run_finished(run) == RETRACE_FINISH_NONE) {
            retrace_run_abort(run);
            while (turn(m, run, &a) != RETRACE_NEED_NOTHING) {
            }
            assert_int_equal(retrace_run_finished(run), RETRACE_FINISH_ERROR);
        }
        retrace_run_free(run);
    }
    retrace_model_close(m);
}

/* ==== Wrong input ==== */

static void refused(retrace_model *m, const retrace_options *o, const retrace_token *prompt, int n,
                    const char *named) {
    retrace_run *run = NULL;
    retrace_error err = {0};
    assert_int_equal(retrace_run_new(&run, m, o, prompt, n, &err), RETRACE_EUSAGE);
    assert_null(run);
    if (!strstr(err.msg, named)) fail_msg("'%s' does not name '%s'", err.msg, named);
}

static void set_number(retrace_options *o, const retrace_setting_info *row, double x) {
    char *field = (char *)o + row->offset;
    if (row->type == RETRACE_REAL)
        *(double *)(void *)field = x;
    else if (row->type == RETRACE_INT)
        *(int64_t *)(void *)field = (int64_t)x;
    else
        *(int *)(void *)field = (int)x;
}

static void an_option_out_of_range_is_named(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    int n = 0;
    for (const retrace_setting_info *row = retrace_options_infos(); row->name; row++, n++) {
        retrace_options o;
        retrace_options_default(&o);
        double least = row->type == RETRACE_REAL || row->type == RETRACE_INT ? row->min : 0;
        set_number(&o, row, least - 1);
        refused(m, &o, NULL, 0, row->name);
        retrace_options_default(&o);
        double most = row->type == RETRACE_REAL || row->type == RETRACE_INT ? row->max : 9;
        set_number(&o, row, most * 2 + 1);
        refused(m, &o, NULL, 0, row->name);
        if (row->type != RETRACE_REAL) continue;
        set_number(&o, row, NAN);
        refused(m, &o, NULL, 0, row->name);
    }
    assert_true(n >= 18);
    retrace_model_close(m);
}

static void a_setting_as_text_is_checked(void **unused) {
    (void)unused;
    static const char *const bad[][2] = {
        {"temp", "-1"},   {"temp", "nan"},      {"temp", "inf"}, {"temp", ""},
        {"temp", "1x"},   {"top_k", "1.5"},     {"top_k", "-1"}, {"top_k", "99999999999999999999"},
        {"top_p", "1.1"}, {"hold", "some"},     {"hold", ""},    {"on_stuck", "Fail"},
        {"warmth", "1"},  {"ignore_eos", "si"}, {"seed", "0x1"}, {"max_tokens", "-2"},
    };
    for (int i = 0; i < COUNT(bad); i++) {
        retrace_options o, before;
        retrace_error err = {0};
        retrace_options_default(&o);
        before = o;
        retrace_setting s = {bad[i][0], text_of(bad[i][1])};
        assert_int_equal(retrace_options_set(&o, s, &err), RETRACE_EUSAGE);
        if (!strstr(err.msg, bad[i][0])) fail_msg("'%s' does not name '%s'", err.msg, bad[i][0]);
        assert_memory_equal(&o, &before, sizeof o);
    }
}

static void a_wrong_prompt_or_list_is_named(void **unused) {
    (void)unused;
    retrace_model *m = open_table(mixed);
    retrace_options o = plain_options(5);
    retrace_token outside[] = {0, 10}, negative[] = {-1}, many[24] = {0};
    refused(m, &o, outside, 2, "10");
    refused(m, &o, negative, 1, "-1");
    refused(m, &o, many, 24, "24");
    retrace_run *run = NULL;
    assert_int_equal(retrace_run_new(&run, m, &o, many, 23, NULL), RETRACE_OK);
    retrace_run_free(run);
    o.driver = "pilot";
    refused(m, &o, NULL, 0, "pilot");
    o.driver = NULL;
    retrace_text empty = {"", 0}, broken_text = {"a\xc3", 2};
    o.stops = &empty;
    o.n_stops = 1;
    refused(m, &o, NULL, 0, "stop");
    o.stops = &broken_text;
    refused(m, &o, NULL, 0, "stop");
    o.n_stops = 0;
    retrace_bias bias = {12, 1};
    o.bias = &bias;
    o.n_bias = 1;
    refused(m, &o, NULL, 0, "12");
    bias = (retrace_bias){1, NAN};
    refused(m, &o, NULL, 0, "bias");
    bias = (retrace_bias){1, INFINITY};
    refused(m, &o, NULL, 0, "bias");
    retrace_model_close(m);
}

/* ==== Seeds ==== */

static void a_seed_is_a_seed(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_rule *idle = ban_rule("xyz", "q");
    int different = 0;
    for (int seed = 0; seed < 200; seed++) {
        retrace_options o = plain_options(30);
        o.seed = seed;
        if (seed % 2) o.top_k = 3;
        finish_text(&a, m, &o, "ab");
        finish_text(&b, m, &o, "ab");
        assert_same_answer(&a, &b);
        o.hold = RETRACE_HOLD_ALL;
        finish_text(&b, m, &o, "ab");
        assert_same_answer(&a, &b);
        o.rules = &idle;
        o.n_rules = 1;
        finish_text(&b, m, &o, "ab");
        assert_same_answer(&a, &b);
        assert_int_equal(b.stats.rewinds, 0);
        o.hold = RETRACE_HOLD_MINIMAL;
        retrace_run *run = run_start(m, &o, &b); /* nobody listens */
        retrace_run_free(run);
        o.seed = seed + 1000;
        o.n_rules = 0;
        finish_text(&b, m, &o, "ab");
        different += a.n_text != b.n_text || memcmp(a.text, b.text, a.n_text) != 0;
        o.seed = seed;
        o.head = 1;
        finish_text(&b, m, &o, "ab");
        different += a.n_text != b.n_text || memcmp(a.text, b.text, a.n_text) != 0;
    }
    assert_true(different > 300);
    retrace_rule_free(idle);
    retrace_model_close(m);
}

static void answers_are_the_same_with_nobody_listening(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_rule *r = ban_rule("aa", "bca");
    for (int seed = 0; seed < 50; seed++) {
        retrace_options o = plain_options(30);
        o.seed = seed;
        o.rules = &r;
        o.n_rules = 1;
        finish_text(&a, m, &o, "");
        retrace_run *run = run_start(m, &o, &b);
        assert_int_equal(retrace_run_finish(run, NULL, NULL, NULL), RETRACE_OK);
        retrace_text t = retrace_run_text(run);
        assert_int_equal(t.n, a.n_text);
        assert_memory_equal(t.s, a.text, t.n);
        retrace_run_free(run);
    }
    retrace_rule_free(r);
    retrace_model_close(m);
}

/* ==== Figures ==== */

static void a_retry_evaluates_nothing_until_the_budget_is_spent(void **unused) {
    (void)unused;
    retrace_setting none = {"keep_mib", text_of("0")};
    retrace_model *big = open_table(letters), *small = NULL;
    retrace_error err = {0};
    if (try_table(&small, letters, strlen(letters), &none, 1, &err)) fail_msg("%s", err.msg);
    retrace_rule *r = ban_rule("abab", "cc");
    int64_t again = 0;
    for (int seed = 0; seed < 50; seed++) {
        retrace_options o = plain_options(40);
        o.seed = seed;
        o.rules = &r;
        o.n_rules = 1;
        finish_text(&a, big, &o, "");
        assert_int_equal(a.stats.reevaluated, 0);
        assert_true(a.stats.evaluated <= a.stats.kept + a.stats.erased);
        finish_text(&b, small, &o, "");
        assert_same_answer(&a, &b);
        assert_int_equal(b.stats.evaluated - b.stats.reevaluated, a.stats.evaluated);
        again += b.stats.reevaluated;
    }
    assert_true(again > 0);
    retrace_rule_free(r);
    retrace_model_close(big);
    retrace_model_close(small);
}

static void log_probabilities_are_the_models_own(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_rule *r = ban_rule("ab", "c");
    retrace_options o = plain_options(10);
    o.temp = 0.5;
    o.ignore_eos = 1;
    o.logprobs = 3;
    o.rules = &r;
    o.n_rules = 1;
    static const double p[] = {0.3, 0.25, 0.2, 0.12, 0.08, 0.05};
    retrace_run *run = run_start(m, &o, &a);
    assert_int_equal(retrace_run_finish(run, see_event, &a, NULL), RETRACE_OK);
    assert_true(a.erases > 0);
    int n = 0;
    const retrace_token *tokens = retrace_run_tokens(run, &n);
    assert_int_equal(n, 10);
    for (int i = 0; i < n; i++) {
        double logp = 0;
        int n_top = 0;
        const retrace_candidate *top = retrace_run_logprobs(run, i, &logp, &n_top);
        assert_non_null(top);
        assert_true(fabs(logp - log(p[tokens[i]])) < 1e-6);
        assert_int_equal(n_top, 3);
        for (int k = 0; k < 3; k++) { /* the banned "c" among them */
            assert_int_equal(top[k].id, k);
            assert_true(fabs(top[k].logp - log(p[k])) < 1e-6);
        }
    }
    run_end(m, run, &a);
    retrace_rule_free(r);
    retrace_model_close(m);
}

/* ==== Every run ends ==== */

static void random_word(char *out) {
    static const char *const parts[] = {"a", "b", "B", "\xc3\xa9", " ", "ab", "B\xc3\x89"};
    out[0] = 0;
    for (int n = 1 + roll(3), at = 0; n > 0; n--)
        at += snprintf(out + at, 16 - (size_t)at, "%s", parts[roll(COUNT(parts))]);
}

static retrace_rule *random_rule(char words[4][16]) {
    static const char *const word[] = {"false", "true", "start"};
    const char *pairs[20] = {0};
    int n = 0;
    for (int k = 1 + roll(4); k > 0; k--) {
        random_word(words[k - 1]);
        pairs[n++] = "text";
        pairs[n++] = words[k - 1];
    }
    pairs[n++] = "word";
    pairs[n++] = word[roll(3)];
    pairs[n++] = "case";
    pairs[n++] = roll(2) ? "fold" : "exact";
    pairs[n++] = "weight";
    pairs[n++] = roll(4) ? "0" : "0.5";
    return make_rule("phrases", pairs);
}

static void random_options(retrace_options *o) {
    *o = plain_options(1 + roll(24));
    o->seed = roll(1000);
    o->temp = roll(5) ? 0.4 * roll(6) : 0;
    o->top_k = roll(3) ? 0 : 1 + roll(4);
    o->top_p = roll(3) ? 1 : 0.1 * (1 + roll(9));
    o->min_p = roll(3) ? 0 : 0.1 * roll(10);
    o->typical = roll(3) ? 1 : 0.1 * (1 + roll(9));
    o->repeat_penalty = roll(3) ? 1 : 0.5 + 0.25 * roll(6);
    o->presence_penalty = roll(3) ? 0 : 0.5 * roll(4) - 1;
    o->frequency_penalty = roll(3) ? 0 : 0.5 * roll(4) - 1;
    o->ignore_eos = roll(3) == 0;
    o->hold = roll(2);
    o->on_stuck = roll(3);
    o->stuck_mass = roll(2) ? 0.001 : 0.1 * roll(10);
    o->max_rewinds = roll(3) ? -1 : roll(10);
    o->max_evaluated = roll(3) ? -1 : roll(20);
    o->logprobs = roll(3) - 1;
}

static void a_thousand_random_runs_keep_their_promises(void **unused) {
    (void)unused;
    retrace_model *m = open_table(mixed);
    int finishes[RETRACE_FINISH_ERROR + 1] = {0};
    for (int round = 0; round < 1000; round++) {
        state = (uint64_t)round + 77;
        retrace_options o;
        random_options(&o);
        char words[3][4][16], stops[2][16];
        retrace_rule *rules[3];
        retrace_text stop[2];
        for (o.n_rules = 0; o.n_rules < roll(4); o.n_rules++)
            rules[o.n_rules] = random_rule(words[o.n_rules]);
        for (o.n_stops = 0; o.n_stops < roll(3); o.n_stops++) {
            random_word(stops[o.n_stops]);
            stop[o.n_stops] = text_of(stops[o.n_stops]);
        }
        o.rules = rules;
        o.stops = stop;
        finish_text(&a, m, &o, roll(2) ? "ab" : "");
        finishes[a.finish]++;
        int64_t n = o.max_tokens;
        assert_true(a.n_tokens <= n && a.n_tokens + a.stats.prompt <= 24);
        assert_true(a.stats.rewinds <= (o.max_rewinds < 0 ? 4 * n + 1024 : o.max_rewinds));
        assert_true(a.stats.evaluated <= (o.max_evaluated < 0 ? 16 * n + 1024 : o.max_evaluated));
        if (o.on_stuck != RETRACE_STUCK_ALLOW) assert_int_equal(a.stats.reevaluated, 0);
        assert_int_not_equal(a.finish, RETRACE_FINISH_ERROR);
        for (int i = 0; i < o.n_rules; i++) retrace_rule_free(rules[i]);
    }
    for (int f = RETRACE_FINISH_END; f <= RETRACE_FINISH_BUDGET; f++)
        if (!finishes[f]) fail_msg("no run had finish %s", retrace_finish_name((retrace_finish)f));
    retrace_model_close(m);
}

/* 300 tokens, each banned: a place is given up after 256 draws. */
static void a_place_is_given_up_after_256_draws(void **unused) {
    (void)unused;
    static char json[16384], list[4096];
    int at = snprintf(json, sizeof json, "{\"tokens\": [");
    int l = 0;
    for (int i = 0; i < 300; i++) {
        at += snprintf(json + at, sizeof json - (size_t)at, "\"w%d.\", ", i);
        l += snprintf(list + l, sizeof list - (size_t)l, "w%d.\n", i);
    }
    at += snprintf(json + at, sizeof json - (size_t)at,
                   "\"z\"], \"rows\": [{\"context\": [], \"next\": {");
    for (int i = 0; i < 300; i++)
        at += snprintf(json + at, sizeof json - (size_t)at, "\"w%d.\": 1, ", i);
    snprintf(json + at, sizeof json - (size_t)at, "\"z\": 0.9}}]}");
    retrace_model *m = open_table(json);
    const char *pairs[] = {"file", list, NULL};
    retrace_rule *r = make_rule("phrases", pairs);
    retrace_options o = greedy_options(5);
    o.rules = &r;
    o.n_rules = 1;
    finish_text(&a, m, &o, "");
    assert_int_equal(a.finish, RETRACE_FINISH_STUCK);
    assert_int_equal(a.stats.erased, 256);
    assert_int_equal(a.stats.rewinds, 256);
    assert_int_equal(a.stats.evaluated, 0);
    retrace_rule_free(r);
    retrace_model_close(m);
}

/* Nothing to draw and nothing to allow: the run still ends. */
static void nothing_to_draw_ends_the_run(void **unused) {
    (void)unused;
    retrace_model *m =
        open_table("{\"tokens\": [\"a\", {\"text\": \"</s>\", \"end\": true}], \"rows\":"
                   " [{\"context\": [], \"next\": {\"a\": 1}},"
                   " {\"context\": [\"a\"], \"next\": {\"</s>\": 1}}]}");
    for (int policy = RETRACE_STUCK_FAIL; policy <= RETRACE_STUCK_ALLOW; policy++) {
        for (int hold = RETRACE_HOLD_MINIMAL; hold <= RETRACE_HOLD_ALL; hold++) {
            retrace_options o = plain_options(4);
            o.ignore_eos = 1;
            o.on_stuck = policy;
            o.hold = hold;
            finish_text(&a, m, &o, "");
            assert_int_equal(a.finish, RETRACE_FINISH_STUCK);
            int kept = policy == RETRACE_STUCK_STOP || (hold == RETRACE_HOLD_MINIMAL);
            if (policy != RETRACE_STUCK_ALLOW) assert_int_equal(a.n_tokens, kept);
        }
    }
    retrace_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_by_hand_is_finish),
        cmocka_unit_test(going_on_without_an_answer_is_refused_and_changes_nothing),
        cmocka_unit_test(runs_side_by_side_do_not_meet),
        cmocka_unit_test(a_run_can_be_cancelled_at_every_step),
        cmocka_unit_test(a_callback_can_cancel),
        cmocka_unit_test(a_model_that_fails_ends_the_run),
        cmocka_unit_test(an_option_out_of_range_is_named),
        cmocka_unit_test(a_setting_as_text_is_checked),
        cmocka_unit_test(a_wrong_prompt_or_list_is_named),
        cmocka_unit_test(a_seed_is_a_seed),
        cmocka_unit_test(answers_are_the_same_with_nobody_listening),
        cmocka_unit_test(a_retry_evaluates_nothing_until_the_budget_is_spent),
        cmocka_unit_test(log_probabilities_are_the_models_own),
        cmocka_unit_test(a_thousand_random_runs_keep_their_promises),
        cmocka_unit_test(a_place_is_given_up_after_256_draws),
        cmocka_unit_test(nothing_to_draw_ends_the_run),
    };
    return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
