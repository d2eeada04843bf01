/* test_settle.c - text is let out as early as it can be: a token settles exactly when no
 * continuation can lead to its being erased, and holding text back changes none of it. */
#include "helper.h"

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

/* ==== First text ==== */

typedef struct watchlist {
    const char *phrases[8], *stops[4];
    int n_phrases, n_stops;
} watchlist;

static int is_beginning(const char *tail, size_t n, const char *of) {
    return n < strlen(of) && memcmp(tail, of, n) == 0;
}

/* The token that the earliest live beginning starts in, by trying every tail of the text. */
static int reach(const retrace_model *m, const watchlist *w, const retrace_token *tokens, int n) {
    char text[512];
    size_t ends[128], length = 0;
    for (int i = 0; i < n; i++) {
        retrace_text p = retrace_piece(m, tokens[i]);
        memcpy(text + length, p.s, p.n);
        ends[i] = length += p.n;
    }
    for (size_t from = 0; from < length; from++) {
        int live = 0;
        for (int i = 0; i < w->n_phrases; i++)
            live |= is_beginning(text + from, length - from, w->phrases[i]);
        for (int i = 0; i < w->n_stops; i++)
            live |= is_beginning(text + from, length - from, w->stops[i]);
        for (int i = 0; live && i < n; i++)
            if (from < ends[i]) return i;
    }
    return n;
}

/* Over these letters any text may follow, so every live beginning may become a hit: what a hit, or
 * a hit after a hit, can still erase is held; not a token more. */
static int exact_settled(const retrace_model *m, const watchlist *w, const retrace_token *tokens,
                         int n) {
    int s = n, r;
    while ((r = reach(m, w, tokens, s)) < s) s = r;
    return s;
}

static void check_horizon(retrace_model *m, const watchlist *w, const retrace_options *o) {
    int exact = 0;
    retrace_run *run = run_start(m, o, &a);
    for (retrace_need_kind k; (k = turn(m, run, &a)) != RETRACE_NEED_NOTHING;) {
        int n = 0;
        const retrace_token *tokens = retrace_run_tokens(run, &n);
        if (k != RETRACE_NEED_MODEL) continue;
        int s = exact_settled(m, w, tokens, n);
        if (s > exact) exact = s;
        if (retrace_run_settled(run, NULL) != exact)
            fail_msg("'%s': %d settled, %d could be", retrace_run_text(run).s,
                     retrace_run_settled(run, NULL), exact);
    }
    run_end(m, run, &a);
}

static void text_settles_exactly_when_nothing_can_erase_it(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    for (int round = 0; round < 200; round++) {
        state = (uint64_t)round;
        watchlist w = {.n_phrases = 1 + roll(4), .n_stops = roll(3)};
        char words[12][6] = {{0}};
        const char *pairs[20] = {0};
        retrace_text stops[4];
        for (int i = 0; i < w.n_phrases + w.n_stops; i++)
            for (int k = 2 + roll(3); k > 0; k--) words[i][k - 1] = (char)('a' + roll(3));
        for (int i = 0; i < w.n_phrases; i++) {
            pairs[2 * i] = "text";
            pairs[2 * i + 1] = w.phrases[i] = words[i];
        }
        for (int i = 0; i < w.n_stops; i++) stops[i] = text_of(w.stops[i] = words[w.n_phrases + i]);
        retrace_rule *r = make_rule("phrases", pairs);
        retrace_options o = plain_options(25);
        o.rules = &r;
        o.n_rules = 1;
        o.stops = stops;
        o.n_stops = w.n_stops;
        for (o.seed = 0; o.seed < 5; o.seed++) check_horizon(m, &w, &o);
        retrace_rule_free(r);
    }
    retrace_model_close(m);
}

/* ==== Holding ==== */

/* Held or not, the text is the same as long as no run got stuck. */
static void holding_changes_no_text(void **unused) {
    (void)unused;
    retrace_model *m = open_table(letters);
    retrace_rule *r = ban_rule("cab", "bb");
    retrace_text stop = text_of("acc");
    for (int seed = 0; seed < 100; seed++) {
        retrace_options o = plain_options(30);
        o.seed = seed;
        o.rules = &r;
        o.n_rules = 1;
        o.stops = &stop;
        o.n_stops = 1;
        finish_text(&a, m, &o, "");
        o.hold = RETRACE_HOLD_ALL;
        finish_text(&b, m, &o, "");
        assert_same_answer(&a, &b);
        assert_true(b.first_settle < 0 || b.settles == 1);
    }
    retrace_rule_free(r);
    retrace_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_settles_exactly_when_nothing_can_erase_it),
        cmocka_unit_test(holding_changes_no_text),
    };
    return cmocka_run_group_tests_name("settle", tests, NULL, NULL);
}
