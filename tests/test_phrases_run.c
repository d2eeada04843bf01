/* test_phrases_run.c - the rule phrases in whole runs: weights, draw by draw, and the promise that
 * no answer contains a phrase, for random phrases, settings and models, by a naive search
 * (naive.h). */
#include "helper.h"

#include "naive.h"

/* ==== Weights ==== */

/* Draws of rules refuse or accept as told; each is counted. */
typedef struct coin {
    script tokens;
    const char *says; /* 'y' accepts, 'n' refuses; then 'y' for ever */
    int draws;
    double weight;
} coin;

static int toss(void *ud, const double *p, const retrace_token *ids, int n, uint64_t purpose,
                int pos, int attempt) {
    coin *c = ud;
    if (purpose == 0) return choose_script(&c->tokens, p, ids, n, purpose, pos, attempt);
    assert_int_equal(n, 2);
    c->weight = p[0] / (p[0] + p[1]);
    c->draws++;
    if (!*c->says) return 0;
    return *c->says++ == 'n';
}

static const char letters[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", \" \", {\"text\": \"</s>\", \"end\": true}], \"rows\": ["
    "{\"context\": [], \"next\": {\"a\": 4, \"b\": 3, \"c\": 2, \" \": 2, \"</s>\": 1}}]}";

/* Writes `wanted`, one letter a token, `.` for the end; compares answer and number of draws. */
static void weighs(retrace_rule *rule, const char *wanted, const char *says, const char *text,
                   int draws, int hits) {
    static answer a;
    retrace_model *m = open_table(letters);
    retrace_token tokens[32];
    int n = 0;
    for (; wanted[n]; n++) {
        const char name[] = {wanted[n], '\0'};
        tokens[n] = token_of(m, wanted[n] == '.' ? "</s>" : name);
    }
    coin c = {.tokens = {.want = tokens, .n = n}, .says = says};
    retrace_options o = plain_options(8);
    o.rules = &rule;
    o.n_rules = 1;
    o.choose = toss;
    o.choose_ud = &c;
    finish_text(&a, m, &o, "");
    assert_string_equal(a.text, text);
    assert_int_equal(c.draws, draws);
    if (draws) assert_true(c.weight == 0.25);
    assert_int_equal(a.stats.rewinds, hits);
    retrace_model_close(m);
}

static void weights(void **state) {
    (void)state;
    retrace_rule *r =
        make_rule("phrases", (const char *const[]){"text", "ab", "weight", "0.25", NULL});
    weighs(r, "abc.", "y", "abc", 1, 0);
    weighs(r, "abc.", "n", "c", 1, 1); /* "ab" goes, with "a" banned there */
    weighs(r, "abcb.", "n", "cb", 1, 1);
    weighs(r, "cabcab.", "yn", "cabc", 2, 1); /* each by itself */
    weighs(r, "abbbbbab", "yy", "abbbbbab", 2,
           0); /* once at the last token, though that is judged twice */
    weighs(r, "cabb.", "nn", "cb", 1, 1);
    retrace_rule_free(r);
    r = make_rule("phrases",
                  (const char *const[]){"text", "ab", "weight", "0.25", "word", "true", NULL});
    weighs(r, "ab c.", "y", "ab c", 1, 0);
    weighs(r, "ab.", "y", "ab", 1, 0); /* decided by the end token */
    weighs(r, "ab.c.", "n", "c", 1, 1);
    weighs(r, "c c c ab", "y", "c c c ab", 1, 0); /* decided by max_tokens */
    retrace_rule_free(r);
    r = make_rule("phrases",
                  (const char *const[]){"text", "ab", "weight", "0.25", "max_count", "1", NULL});
    weighs(r, "ab.", "", "ab", 0, 0); /* the first is let through without a draw */
    weighs(r, "ababab.", "yn", "abab", 2, 1);
    weighs(r, "abbbbbab", "y", "abbbbbab", 1, 0);
    weighs(r, "abcabb.", "n", "abcb", 1, 1);
    retrace_rule_free(r);
    r = make_rule("phrases", (const char *const[]){"text", "ab", "weight", "1", NULL});
    weighs(r, "abab.", "", "abab", 0, 0);
    retrace_rule_free(r);
    r = make_rule("phrases", (const char *const[]){"text", "ab", NULL});
    weighs(r, "cabb.", "", "cb", 0, 1);
    retrace_rule_free(r);
}

/* ==== The promise ==== */

/* Pieces that spell the same text in several ways. */
static const char pieces[] =
    "{\"tokens\": [\"a\", \"b\", \"ab\", \"A\", \" \", \" a\", \"\\n\", \"e\", {\"bytes\": [195]},"
    " {\"bytes\": [169]}, \"\u00e9\", \"\u0301\", {\"bytes\": [204]}, {\"bytes\": [129, 98]}, "
    "\"ba\","
    " {\"text\": \"<c>\", \"control\": true}, {\"text\": \"</s>\", \"end\": true}], \"rows\": ["
    "{\"context\": [], \"next\": {\"0\": 4, \"1\": 3, \"2\": 3, \"3\": 1, \"4\": 3, \"5\": 2, "
    "\"6\": 1,"
    " \"7\": 3, \"8\": 2, \"9\": 1, \"10\": 2, \"11\": 2, \"12\": 1, \"13\": 1, \"14\": 2, \"15\": "
    "1,"
    " \"16\": 1}}, {\"context\": [8], \"next\": {\"9\": 8, \"0\": 1, \"16\": 1}}]}";

static const char *const sought[] = {"ab",  "a b", "\u00e9", "e\u0301", "ba ", "bab",     "a\u0301",
                                     "aab", " a ", "Ba",     "b\n",     "aba", "\u00e9a", "eb"};

typedef struct setting {
    int exact, space, nfc, edge;
    const char *texts[3];
    int n;
} setting;

static retrace_rule *rule_of(const setting *s) {
    static const char *const edges[] = {"false", "start", "true"};
    const char *pairs[16] = {"case", s->exact ? "exact" : "fold", "space", s->space ? "1" : "0",
                             "nfc",  s->nfc ? "1" : "0",          "word",  edges[s->edge]};
    for (int i = 0; i < s->n; i++) {
        pairs[8 + 2 * i] = "text";
        pairs[9 + 2 * i] = s->texts[i];
    }
    return make_rule("phrases", pairs);
}

static int contains(const setting *s, const char *before, const char *text) {
    static naive_hit hits[NAIVE_MAX];
    static char whole[4 * MAX_ANSWER];
    naive_bytes phrases[3];
    for (int i = 0; i < s->n; i++) phrases[i] = (naive_bytes){s->texts[i], strlen(s->texts[i])};
    naive_rules rules = {!s->exact, 0, s->space, s->nfc, s->edge > 0, s->edge > 1};
    naive *v = naive_new(rules, phrases, s->n);
    int n = snprintf(whole, sizeof whole, "%s%s", before, text);
    naive_bytes all = {whole, (size_t)n};
    int found = naive_find(v, all, (long)strlen(before), 0, hits) +
                naive_find(v, all, (long)strlen(before), 1, hits);
    naive_free(v);
    return found;
}

static void never_contains(void **state) {
    (void)state;
    static answer a;
    retrace_model *m = open_table(pieces);
    uint32_t random = 4;
    int rewinds = 0, whole = 0;
    for (int round = 0; round < 400; round++) {
        setting s = {.n = 1 + round % 3};
        random = random * 1664525 + 1013904223;
        s.exact = random >> 28 & 1, s.space = random >> 27 & 1, s.nfc = random >> 26 & 1;
        s.edge = (int)(random >> 8) % 3;
        for (int i = 0; i < s.n; i++) {
            random = random * 1664525 + 1013904223;
            s.texts[i] = sought[(random >> 8) % (unsigned)COUNT(sought)];
        }
        retrace_rule *r = rule_of(&s);
        retrace_options o = plain_options(40);
        o.seed = round;
        o.rules = &r;
        o.n_rules = 1;
        o.hold = round % 2 ? RETRACE_HOLD_ALL : RETRACE_HOLD_MINIMAL;
        retrace_text stop = {"bb", 2};
        o.stops = &stop;
        o.n_stops = round % 4 == 3;
        const char *prompt = round % 5 ? "a" : "ba b";
        finish_text(&a, m, &o, prompt);
        assert_int_not_equal(a.finish, RETRACE_FINISH_ERROR);
        if (contains(&s, prompt, a.text)) fail_msg("round %d: '%s'", round, a.text);
        rewinds += (int)a.stats.rewinds;
        whole += a.finish != RETRACE_FINISH_STUCK;
        retrace_rule_free(r);
    }
    assert_true(rewinds > 200);
    assert_true(whole > 300);
    retrace_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights),
        cmocka_unit_test(never_contains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
