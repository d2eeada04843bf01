/* test_soft_chains.c - random chains in which soft rules work hard: they never make a run stuck,
 * nor spend its budget, alone; beside hard ones every promise of a run holds (watch.h).
 *
 * test_random_chains.c draws from all settings of all rules; here they are chosen so that they
 * fire. */
#include "helper.h"

enum { TOKENS = 6, CHAINS = 600, LONG_CHAINS = 10000 };

static uint64_t state;

static int roll(int n) {
    return roll_from(&state, n);
}

/* ==== Tables ==== */

static const char *const names[TOKENS + 1] = {"a", "b", "c", " ", "ab", "\u00e9", "</s>"};

static size_t add_weights(char *out, size_t room) {
    static const double weights[] = {0, 0.01, 0.1, 1, 1, 2, 5};
    size_t n = 0;
    for (int i = 0; i <= TOKENS; i++) {
        double w = i == TOKENS ? 0.2 : weights[roll(COUNT(weights))];
        if (i == 0 && w == 0) w = 1; /* something comes next everywhere */
        n += (size_t)snprintf(out + n, room - n, "%s\"%d\": %g", i ? ", " : "", i, w);
    }
    return n;
}

/* Rows for no, some single and some double contexts. */
static retrace_model *random_table(void) {
    char json[8192];
    size_t n = (size_t)snprintf(json, sizeof json, "{\"tokens\": [");
    for (int i = 0; i < TOKENS; i++)
        n += (size_t)snprintf(json + n, sizeof json - n, "\"%s\", ", names[i]);
    n += (size_t)snprintf(json + n, sizeof json - n,
                          "{\"text\": \"</s>\", \"end\": true}], \"rows\": [{\"context\": [], "
                          "\"next\": {");
    n += add_weights(json + n, sizeof json - n);
    for (int i = 0; i < TOKENS; i++) {
        if (roll(3) == 0) continue;
        n += (size_t)snprintf(json + n, sizeof json - n, "}}, {\"context\": [%d], \"next\": {", i);
        n += add_weights(json + n, sizeof json - n);
        int k = roll(TOKENS);
        n += (size_t)snprintf(json + n, sizeof json - n, "}}, {\"context\": [%d, %d], \"next\": {",
                              k, i);
        n += add_weights(json + n, sizeof json - n);
    }
    snprintf(json + n, sizeof json - n, "}}]}");
    return open_table(json);
}

/* ==== Rules ==== */

typedef struct kind {
    const char *name;
    int hard;
    const char *settings[6][2]; /* some of these */
} kind;

static const kind kinds[] = {
    {"phrases", 1, {{"text", "ab"}, {"text", "b c"}, {"text", "aa"}, {"word", "true"}}},
    {"phrases", 1, {{"text", "ca"}, {"text", "\u00e9"}, {"weight", "0.4"}}},
    {"phrases", 1, {{"text", "a"}, {"text", "b"}, {"text", " "}, {"text", "c"}}},
    {"probability-threshold", 0, {{"min_probability", "0.2"}, {"every_n", "2"}}},
    {"entropy-threshold", 0, {{"max_entropy", "1"}, {"backtrack_count", "3"}}},
    {"probability-margin", 0, {{"min_margin", "0.3"}, {"max_retries", "3"}}},
    {"probability-drop", 0, {{"max_drop", "0.4"}, {"on", "sampled"}}},
    {"probability-trend", 0, {{"window_size", "4"}, {"drop_threshold", "0.9"}}},
    {"repetition", 0, {{"max_repetitions", "1"}, {"every_n", "3"}, {"prompt", "true"}}},
    {"ngram-overlap", 0, {{"ngram_size", "2"}, {"backtrack_count", "2"}, {"prompt", "true"}}},
    {"logit-threshold", 0, {{"min_logit", "-1.2"}, {"on", "sampled"}}},
    {"creative", 0, {{"top_k_threshold_flat", "3"}, {"reach", "4"}, {"max_retries", "2"}}},
    {"adaptive-temperature", 0, {{"threshold", "0.2"}}},
    {"debug", 0, {{"top", "3"}}},
};

/* The first setting always, so that phrases have one. */
static retrace_rule *random_rule(int *hard) {
    const kind *k = &kinds[roll(COUNT(kinds))];
    const char *pairs[20];
    int n = 0;
    for (int i = 0; i < 6 && k->settings[i][0]; i++) {
        if (i > 0 && roll(2)) continue;
        pairs[n++] = k->settings[i][0];
        pairs[n++] = k->settings[i][1];
    }
    int is_operator = strchr(k->name, '-') && strcmp(k->name, "adaptive-temperature") != 0;
    if ((is_operator || strcmp(k->name, "repetition") == 0) && roll(3) == 0) {
        pairs[n++] = "retry";
        pairs[n++] = "resample";
    }
    pairs[n] = NULL;
    *hard |= k->hard;
    return make_rule(k->name, pairs);
}

/* ==== Runs ==== */

static retrace_options random_options(void) {
    retrace_options o = plain_options(1 + roll(24));
    static const double temps[] = {0, 0.5, 1, 1, 2};
    o.seed = roll(1000);
    o.temp = temps[roll(COUNT(temps))];
    o.top_k = roll(3) ? 0 : 1 + roll(4);
    o.top_p = roll(3) ? 1 : 0.8;
    o.hold = roll(2) ? RETRACE_HOLD_ALL : RETRACE_HOLD_MINIMAL;
    o.on_stuck = roll(3);
    o.ignore_eos = roll(2);
    if (roll(4) == 0) o.repeat_penalty = 1.3;
    if (roll(6) == 0) o.max_rewinds = roll(20);
    return o;
}

typedef struct chain {
    retrace_model *model;
    retrace_options o;
    retrace_rule *rules[4];
    int hard;
} chain;

/* Over all chains: that something was going on. */
static struct {
    int64_t rewinds, accepted;
    int finished[RETRACE_FINISH_ERROR + 1];
} total;

static void run_chain(const chain *c, int number) {
    static answer first, again;
    static const retrace_text stop = {"c ", 2};
    retrace_options o = c->o;
    o.stops = &stop;
    o.n_stops = number % 5 == 0;
    const char *prompt = number % 3 ? "" : "ab";
    finish_text(&first, c->model, &o, prompt);
    finish_text(&again, c->model, &o, prompt);
    assert_same_answer(&first, &again);
    int64_t most = o.max_rewinds < 0 ? 4 * o.max_tokens + 1024 : o.max_rewinds;
    assert_true(first.stats.rewinds <= most);
    assert_int_not_equal(first.finish, RETRACE_FINISH_ERROR);
    total.rewinds += first.stats.rewinds;
    total.accepted += first.stats.accepted;
    total.finished[first.finish]++;
    int early = first.finish == RETRACE_FINISH_STUCK || first.finish == RETRACE_FINISH_BUDGET;
    if (early && !c->hard)
        fail_msg("chain %d of soft rules: %s", number, retrace_finish_name(first.finish));
}

static void all_end(void **unused) {
    (void)unused;
    int n = getenv("RETRACE_LONG") ? LONG_CHAINS : CHAINS;
    for (int i = 0; i < n; i++) {
        chain c = {.hard = 0};
        state = (uint64_t)i + 1;
        roll(2);
        c.model = random_table();
        c.o = random_options();
        c.o.rules = c.rules;
        c.o.n_rules = 1 + roll(4);
        for (int k = 0; k < c.o.n_rules; k++) c.rules[k] = random_rule(&c.hard);
        run_chain(&c, i);
        for (int k = 0; k < c.o.n_rules; k++) retrace_rule_free(c.rules[k]);
        retrace_model_close(c.model);
    }
    assert_true(total.rewinds > 10 * n && total.accepted > n);
    assert_true(total.finished[RETRACE_FINISH_STUCK] > n / 300);
    assert_true(total.finished[RETRACE_FINISH_LENGTH] > n / 4);
    assert_true(total.finished[RETRACE_FINISH_END] > n / 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
