/* test_grammar.c - the rules grammar and json: masks against one token at a time, the law of a
 * constrained answer, and what happens when other rules take text back inside one. */
#include "helper.h"
#include "matching.h"

#include "text/mask.h"

#include <math.h>

static answer a;
static uint64_t seed;

static int roll(int n) {
    return roll_from(&seed, n);
}

/* ==== Vocabularies ==== */

/* Tokens by which JSON and much else can be written in several ways, pieces of characters among
 * them, texts that occur twice, control tokens and two ends. */
static const char *const wanted[] = {
    "\"a\"",      "\"b\"",     "\"ab\"", "\"{\"",         "\"}\"",      "\"{\\\"\"",
    "\"\\\"\"",   "\"\\\":\"", "\":\"",  "\"\\\",\\\"\"", "\"[\"",      "\"]\"",
    "\",\"",      "\"1\"",     "\"12\"", "\"-\"",         "\" \"",      "\"\\n\"",
    "\"true\"",   "\"tr\"",    "\"ue\"", "\"null\"",      "\"\\\\\"",   "\"\\\\n\"",
    "\"\u00e9\"", "\"a\"",     "\"}}\"", "\"\\\"}\"",     "\"\u4e2d\"",
};

enum { MAX_VOCAB = 60 };

/* A random table: some of the tokens above, some single bytes, control and end tokens. */
static retrace_model *random_model(int sharp) {
    static char json[1 << 14];
    size_t at = (size_t)snprintf(json, sizeof json, "{\"tokens\": [");
    int n = 0;
    for (int i = 0; i < COUNT(wanted); i++)
        if (roll(4))
            at += (size_t)snprintf(json + at, sizeof json - at, "%s%s", n++ ? ", " : "", wanted[i]);
    for (int i = roll(8); i > 0; i--)
        at += (size_t)snprintf(json + at, sizeof json - at, "%s{\"bytes\": [%d%s]}",
                               n++ ? ", " : "", roll(2) ? 195 : 169, roll(3) ? "" : ", 169");
    at += (size_t)snprintf(
        json + at, sizeof json - at,
        "%s{\"text\": \"<c>\", \"control\": true}, {\"text\": \"</s>\", \"end\": true},"
        " {\"text\": \"<|e|>\", \"end\": true}], \"rows\": [",
        n ? ", " : "");
    n += 3;
    for (int row = 0; row < 4; row++) {
        at += (size_t)snprintf(json + at, sizeof json - at, "%s{\"context\": [%.0d], \"next\": {",
                               row ? ", " : "", row ? 1 + roll(n - 1) : 0);
        for (int i = 0; i < n; i++) {
            int weight = 1 + roll(sharp);
            at += (size_t)snprintf(json + at, sizeof json - at, "%s\"%d\": %d", i ? ", " : "", i,
                                   weight * weight);
        }
        at += (size_t)snprintf(json + at, sizeof json - at, "}}");
    }
    snprintf(json + at, sizeof json - at, "], \"n_ctx\": 200}");
    retrace_model *m = NULL;
    retrace_error err = {0};
    /* Two rows of one context: another try. */
    return try_table(&m, json, strlen(json), NULL, 0, &err) ? random_model(sharp) : m;
}

static const char *const grammars[] = {
    "root ::= object\nobject ::= \"{\" (pair (\",\" pair)*)? \"}\"\npair ::= string \":\" value\n"
    "value ::= object | string | [0-9]+ | \"true\" | \"null\" | \"[\" (value (\",\" value)*)? "
    "\"]\"\n"
    "string ::= \"\\\"\" ([^\"\\\\\\n] | \"\\\\\" [n\"])* \"\\\"\"",
    "root ::= .*",
    "root ::= (\"a\" | \"b\")* \"1\"?",
    "root ::= e\ne ::= e [1-2]+ | \"a\" | \"[\" e \"]\" | e \",\" e",
    "root ::= [^a-z\\x00-\\x1f]{1,4} | \"\u00e9\" root",
    "root ::= \"tr\" \"ue\" | \"true\" \"{\" | \"null\"{2}",
    "root ::= \"\" | \"a\"",
};

/* ==== Masks ==== */

/* Every token at one place: the mask, one at a time, and by another matcher from the beginning. */
static void check_place(retrace_model *m, rt_earley *matcher, rt_earley *other, rt_earley_state *at,
                        const char *text, size_t n) {
    const uint64_t *bits = NULL;
    retrace_error err = {0};
    retrace_model_info facts;
    retrace_model_facts(m, &facts);
    char longer[600];
    memcpy(longer, text, n);
    if (rt_mask(matcher, at, m->pieces, &bits, &err)) fail_msg("%s", err.msg);
    uint64_t copy[MAX_VOCAB / 64 + 2];
    memcpy(copy, bits, ((size_t)facts.vocab + 63) / 64 * sizeof *copy);
    for (retrace_token id = 0; id < facts.vocab; id++) {
        retrace_text piece = retrace_piece(m, id);
        memcpy(longer + n, piece.s, piece.n);
        int is = retrace_token_ends(m, id)
                     ? fits_bytes(other, text, n) == 'y'
                     : piece.n && fits_bytes(other, longer, n + piece.n) != 'n';
        int in_mask = (int)(copy[id >> 6] >> (id & 63) & 1);
        int single = rt_mask_admits(matcher, at, m, id, &err);
        if (in_mask != is || single != is)
            fail_msg("'%.*s' and token %d: %d, mask %d, admits %d", (int)n, text, (int)id, is,
                     in_mask, single);
    }
}

static void masks_hold_what_may_follow(void **state) {
    (void)state;
    for (int round = 0; round < 60; round++) {
        seed = (uint64_t)round;
        retrace_model *m = random_model(5);
        const char *gbnf = grammars[round % COUNT(grammars)];
        rt_earley *matcher = make_matcher(gbnf, round % 3 ? 1 << 20 : 1);
        rt_earley *other = make_matcher(gbnf, 1 << 20);
        retrace_model_info facts;
        retrace_error err = {0};
        retrace_model_facts(m, &facts);
        for (int walk = 0; walk < 12; walk++) {
            char text[600];
            size_t n = 0;
            rt_earley_state *at = rt_earley_start(matcher), *to;
            rt_earley_keep(at);
            for (int step = 0; at && step < 12; step++) {
                check_place(m, matcher, other, at, text, n);
                retrace_text piece = {0};
                to = NULL;
                for (int tries = 0; !to && tries < 200; tries++) {
                    piece = rt_vocab_text(m, roll(facts.vocab));
                    if (piece.n && rt_earley_feed(matcher, at, piece.s, piece.n, &to, &err))
                        fail_msg("%s", err.msg);
                }
                rt_earley_keep(to);
                rt_earley_drop(at);
                at = to;
                memcpy(text + n, piece.s, piece.n);
                n += piece.n;
            }
            rt_earley_drop(at);
        }
        rt_earley_free(matcher);
        rt_earley_free(other);
        retrace_model_close(m);
    }
}

/* A matcher used with two vocabularies in turn does not mix them up. */
static void masks_belong_to_a_vocabulary(void **state) {
    (void)state;
    seed = 3;
    retrace_model *m[] = {random_model(5), random_model(5)};
    rt_earley *matcher = make_matcher(grammars[0], 1 << 20),
              *other = make_matcher(grammars[0], 1 << 20);
    rt_earley_state *at = rt_earley_start(matcher);
    for (int i = 0; i < 6; i++) check_place(m[i % 2], matcher, other, at, "", 0);
    rt_earley_free(matcher);
    rt_earley_free(other);
    retrace_model_close(m[0]);
    retrace_model_close(m[1]);
}

/* Two vocabularies that look alike when their texts are read one after the other. */
static void a_mask_knows_what_ends(void **state) {
    (void)state;
    retrace_model *m[] = {
        open_table("{\"tokens\": [{\"text\": \"</s>\", \"end\": true}, \"a\", \"b\"],"
                   " \"rows\": [{\"context\": [], \"next\": {\"a\": 1}}]}"),
        open_table("{\"tokens\": [{\"text\": \"<c>\", \"control\": true}, \"end\", \"a\","
                   " \"b\"], \"rows\": [{\"context\": [], \"next\": {\"a\": 1}}]}")};
    const char *const pairs[] = {"text", "root ::= \"a\"+", NULL};
    retrace_rule *r = make_rule("grammar", pairs);
    retrace_options o = plain_options(3);
    o.top_p = 0.5; /* needs the mass of all that is admitted, so the mask */
    o.rules = &r;
    o.n_rules = 1;
    for (int i = 0; i < 4; i++) {
        finish_text(&a, m[i % 2], &o, "");
        assert_string_equal(a.text, "aaa");
    }
    retrace_rule_free(r);
    retrace_model_close(m[0]);
    retrace_model_close(m[1]);
}

/* ==== The law ==== */

static const char letters[] =
    "{\"tokens\": [\"a\", \"b\", \"ab\", \"c\", {\"text\": \"</s>\", \"end\": true}], \"rows\": ["
    "{\"context\": [], \"next\": {\"a\": 0.4, \"b\": 0.25, \"ab\": 0.15, \"c\": 0.12, \"</s>\": "
    "0.08}},"
    "{\"context\": [\"a\"], \"next\": {\"a\": 0.05, \"b\": 0.0001, \"ab\": 0.3, \"c\": 0.6, "
    "\"</s>\": "
    "0.0499}},"
    "{\"context\": [\"c\"], \"next\": {\"a\": 0.4, \"b\": 0.1, \"ab\": 0.1, \"c\": 0.2, \"</s>\": "
    "0.2}}]}";

/* Walks all outcomes: repeats a run with the choices made so far, a new one at the end. */
typedef struct oracle {
    int path[64], last[64], n, at;
    double p;
} oracle;

static int choose_all(void *ud, const double *p, const retrace_token *ids, int n, uint64_t purpose,
                      int pos, int attempt) {
    oracle *o = ud;
    double sum = 0;
    (void)ids, (void)purpose, (void)pos, (void)attempt;
    for (int i = 0; i < n; i++) sum += p[i];
    if (!(sum > 0)) return n;
    if (o->at == o->n) {
        assert_true(o->n < 64);
        o->path[o->n] = -1;
        o->last[o->n] = -1;
        for (int i = 0; i < n; i++) {
            if (!(p[i] > 0)) continue;
            if (o->path[o->n] < 0) o->path[o->n] = i;
            o->last[o->n] = i;
        }
        o->n++;
    }
    int i = o->path[o->at];
    while (!(p[i] > 0)) i++;
    o->path[o->at++] = i;
    o->p *= p[i] / sum;
    return i;
}

static int next_outcome(oracle *o) {
    while (o->n > 0 && o->path[o->n - 1] >= o->last[o->n - 1]) o->n--;
    if (o->n == 0) return 0;
    o->path[o->n - 1]++;
    return 1;
}

/* Probability of each sequence of tokens: the model's, over what the grammar admits, renewed at
 * every place. */
static double masked_law(retrace_model *m, rt_earley *matcher, const retrace_token *tokens, int n,
                         int ended) {
    double p = 1;
    char text[64];
    size_t length = 0;
    float next[8];
    for (int i = 0; i < n + ended; i++) {
        retrace_query q = {.tokens = tokens, .n = i, .next = next};
        retrace_error err = {0};
        double admitted = 0, mine = 0;
        if (retrace_model_eval(m, &q, 1, &err)) fail_msg("%s", err.msg);
        for (retrace_token id = 0; id < 5; id++) {
            retrace_text piece = retrace_piece(m, id);
            memcpy(text + length, piece.s, piece.n);
            char fit = fits_bytes(matcher, text, length + piece.n);
            int may = retrace_token_ends(m, id) ? fit == 'y' : fit != 'n';
            admitted += may ? exp((double)next[id]) : 0;
            if (i < n ? id == tokens[i] : retrace_token_ends(m, id))
                mine = may ? exp((double)next[id]) : 0;
        }
        p *= mine / admitted;
        if (i == n) break;
        retrace_text piece = retrace_piece(m, tokens[i]);
        memcpy(text + length, piece.s, piece.n);
        length += piece.n;
    }
    return p;
}

static void check_law(const char *gbnf, double top_p) {
    retrace_model *m = open_table(letters);
    rt_earley *matcher = make_matcher(gbnf, 1 << 20);
    retrace_rule *rule = make_rule("grammar", (const char *const[]){"text", gbnf, NULL});
    oracle o = {.n = 0};
    retrace_options options = plain_options(3);
    options.rules = &rule;
    options.n_rules = 1;
    options.choose = choose_all;
    options.choose_ud = &o;
    options.top_p = top_p;
    double total = 0;
    /* Sequences of tokens may be reached by several ways of drawing: each is compared with the sum.
     */
    static struct {
        retrace_token tokens[8];
        int n, ended;
        double p;
    } seen[4096];
    int n_seen = 0;
    do {
        o.at = 0;
        o.p = 1;
        finish_text(&a, m, &options, "");
        int ended = a.finish == RETRACE_FINISH_END, k = 0;
        char fit = fits(matcher, a.text);
        if (fit == 'n' || (ended && fit != 'y')) fail_msg("%s: '%s' is %c", gbnf, a.text, fit);
        assert_true(ended || a.finish == RETRACE_FINISH_LENGTH);
        for (; k < n_seen; k++)
            if (seen[k].n == a.n_tokens && seen[k].ended == ended &&
                memcmp(seen[k].tokens, a.tokens, (size_t)a.n_tokens * sizeof a.tokens[0]) == 0)
                break;
        if (k == n_seen) {
            assert_true(n_seen < 4096);
            memcpy(seen[k].tokens, a.tokens, (size_t)a.n_tokens * sizeof a.tokens[0]);
            seen[k].n = a.n_tokens;
            seen[k].ended = ended;
            seen[k].p = 0;
            n_seen++;
        }
        seen[k].p += o.p;
        total += o.p;
    } while (next_outcome(&o));
    for (int k = 0; top_p == 1 && k < n_seen; k++) {
        double p = masked_law(m, matcher, seen[k].tokens, seen[k].n, seen[k].ended);
        if (!(fabs(p - seen[k].p) <= 1e-12)) fail_msg("%s: %g, not %g", gbnf, seen[k].p, p);
    }
    assert_true(fabs(total - 1) <= 1e-12);
    assert_true(n_seen > 1 || top_p < 1);
    retrace_rule_free(rule);
    rt_earley_free(matcher);
    retrace_model_close(m);
}

static void the_law_is_the_models_over_what_is_admitted(void **state) {
    (void)state;
    static const char *const some[] = {"root ::= \"ab\" | \"ac\" | \"b\" root",
                                       "root ::= (\"a\" \"b\")* \"c\"",
                                       "root ::= \"a\" [bc]* ",
                                       "root ::= [ab]{1,2}",
                                       "root ::= \"ab\" root | \"\"",
                                       "root ::= x x\nx ::= \"a\" | \"ab\" | \"b\"?"};
    for (int i = 0; i < COUNT(some); i++) {
        check_law(some[i], 1);
        check_law(some[i], 0.6);
    }
}

/* ==== With other rules ==== */

static void run_rules(retrace_model *m, retrace_rule **rules, int n, retrace_options *o) {
    o->rules = rules;
    o->n_rules = n;
    finish_text(&a, m, o, "");
}

static void a_dead_end_of_bans_and_grammar_is_stuck(void **state) {
    (void)state;
    retrace_model *m = open_table(letters);
    retrace_rule *rules[] = {
        make_rule("grammar", (const char *const[]){"text", "root ::= \"a\" (\"b\"|\"c\")", NULL}),
        ban_rule("ab", "ac")};
    retrace_options o = plain_options(8);
    for (int hold = 0; hold < 2; hold++) {
        o.hold = hold;
        run_rules(m, rules, 2, &o);
        assert_int_equal(a.finish, RETRACE_FINISH_STUCK);
        assert_string_equal(a.text, "");
    }
    retrace_rule_free(rules[1]);
    /* One way out is left, however improbable it is: "ab" after "a" is 0.0001. */
    rules[1] = ban_rule("ac", NULL);
    for (int i = 0; i < 20; i++) {
        o.seed = i;
        run_rules(m, rules, 2, &o);
        assert_int_equal(a.finish, RETRACE_FINISH_END);
        assert_string_equal(a.text, "ab");
    }
    o.temp = 0;
    run_rules(m, rules, 2, &o);
    assert_string_equal(a.text, "ab");
    retrace_rule_free(rules[0]);
    retrace_rule_free(rules[1]);
    retrace_model_close(m);
}

/* The grammar alone finds its way out of what a greedy choice would end in. */
static void rules_need_each_other(void **state) {
    (void)state;
    retrace_model *m = open_table(letters);
    /* After "ab" and "abab" all that the grammar wants is banned: two steps back. */
    retrace_rule *rules[] = {
        make_rule(
            "grammar",
            (const char *const[]){"text", "root ::= \"ab\" \"ab\" \"a\" | \"b\" [a-c]", NULL}),
        ban_rule("aba", NULL)};
    retrace_options o = plain_options(8);
    o.hold = RETRACE_HOLD_ALL;
    for (int i = 0; i < 50; i++) {
        o.seed = i;
        run_rules(m, rules, 2, &o);
        assert_int_equal(a.finish, RETRACE_FINISH_END);
        assert_int_equal(a.text[0], 'b');
    }
    retrace_rule_free(rules[0]);
    retrace_rule_free(rules[1]);
    retrace_model_close(m);
}

/* Whatever is banned, drawn and taken back: an answer that ends is a text of the grammar, another
 * is the beginning of one, and no banned text is in it. */
static void whatever_is_taken_back_the_text_fits(void **state) {
    (void)state;
    static const char *const banned[] = {"a",  "ab",   "\":", "{\"",    "1", "b\"",
                                         "}}", "true", ",",   "\u00e9", "[", "aa"};
    int ended = 0, rewound = 0, stuck = 0;
    const int rounds = getenv("RETRACE_LONG") ? 20000 : 600;
    for (int round = 0; round < rounds; round++) {
        seed = (uint64_t)round;
        const char *gbnf = grammars[roll(COUNT(grammars))];
        const char *one = banned[roll(COUNT(banned))], *two = banned[roll(COUNT(banned))];
        retrace_model *m = random_model(4);
        rt_earley *matcher = make_matcher(gbnf, 1 << 20);
        retrace_rule *rules[] = {make_rule("grammar", (const char *const[]){"text", gbnf, NULL}),
                                 NULL};
        int n = 1 + (roll(4) > 0);
        if (n > 1)
            rules[1] = make_rule(
                "phrases", (const char *const[]){"text", one, "text", two, "case", "exact", NULL});
        retrace_options o = plain_options(4 + roll(40));
        o.seed = round;
        o.temp = roll(4) ? 1 : 0;
        o.top_k = roll(2) ? 0 : 1 + roll(5);
        o.top_p = roll(2) ? 1 : 0.7;
        o.hold = roll(2);
        o.on_stuck = roll(2) ? RETRACE_STUCK_FAIL : RETRACE_STUCK_STOP;
        run_rules(m, rules, n, &o);
        char fit = fits_bytes(matcher, a.text, a.n_text);
        if (fit == 'n' || (a.finish == RETRACE_FINISH_END && fit != 'y'))
            fail_msg("%d: %s: '%s' is %c, finish %s", round, gbnf, a.text, fit,
                     retrace_finish_name(a.finish));
        if (n > 1 && (strstr(a.text, one) || strstr(a.text, two)))
            fail_msg("'%s' shows it", a.text);
        ended += a.finish == RETRACE_FINISH_END;
        stuck += a.finish == RETRACE_FINISH_STUCK;
        rewound += a.stats.rewinds > 0;
        for (int i = 0; i < n; i++) retrace_rule_free(rules[i]);
        rt_earley_free(matcher);
        retrace_model_close(m);
    }
    assert_true(ended > rounds / 4 && rewound > rounds / 10 && stuck > 0);
}

/* A ban that reaches eight tokens back inside a string, and the JSON goes on from there. */
static void a_long_rewind_in_json(void **state) {
    (void)state;
    retrace_model *m =
        open_table("{\"tokens\": [\"{\\\"k\\\":\\\"\", \"b\", \"e\", \"d\", \"l\", \"x\", "
                   "\"\\\"}\", {\"text\": \"</s>\", "
                   "\"end\": true}], \"rows\": [{\"context\": [], \"next\": {\"0\": 1}},"
                   "{\"context\": [0], \"next\": {\"b\": 0.9, \"x\": 0.1}}, {\"context\": [\"b\"], "
                   "\"next\": {\"e\": 1}},"
                   "{\"context\": [\"e\"], \"next\": {\"d\": 1}}, {\"context\": [\"d\"], \"next\": "
                   "{\"l\": 1}},"
                   "{\"context\": [\"l\"], \"next\": {\"e\": 0.6, \"d\": 0.4}},"
                   "{\"context\": [\"x\"], \"next\": {\"x\": 0.5, \"6\": 0.5}}, {\"context\": [6], "
                   "\"next\": {\"7\": 1}}]}");
    retrace_rule *rules[] = {make_rule("json", NULL), ban_rule("bedledled", NULL)};
    retrace_options o = greedy_options(20);
    /* Greedy goes b e d l e d l e d, of which all is taken back; then x x ... until the text ends.
     */
    run_rules(m, rules, 2, &o);
    assert_true(a.stats.erased >= 9);
    assert_int_equal(a.finish, RETRACE_FINISH_LENGTH); /* x for ever */
    assert_memory_equal(a.text, "{\"k\":\"xxx", 9);
    o = plain_options(40);
    for (o.seed = 0; o.seed < 30; o.seed++) {
        run_rules(m, rules, 2, &o);
        if (a.finish == RETRACE_FINISH_END) assert_memory_equal(a.text + a.n_text - 2, "\"}", 2);
        assert_null(strstr(a.text, "bedledled"));
    }
    for (int i = 0; i < 2; i++) retrace_rule_free(rules[i]);
    retrace_model_close(m);
}

/* ==== Fine print ==== */

/* A stop text ends the answer where it stands, also inside what the grammar wants more of; what
 * comes behind it in the same token does not count. */
static void a_stop_text_ends_a_constrained_answer(void **state) {
    (void)state;
    retrace_model *m = open_table(letters);
    retrace_rule *rule =
        make_rule("grammar", (const char *const[]){"text", "root ::= \"aabaab\" \"c\"", NULL});
    retrace_options o = plain_options(10);
    retrace_text stop = text_of("ba");
    o.stops = &stop;
    o.n_stops = 1;
    for (o.seed = 0; o.seed < 20; o.seed++) {
        run_rules(m, &rule, 1, &o);
        assert_int_equal(a.finish, RETRACE_FINISH_STOP);
        assert_string_equal(a.text, "aa");
    }
    retrace_rule_free(rule);
    retrace_model_close(m);
}

/* Forced by a scripted choice, an end where the text is not complete is taken back. */
static void the_end_waits_for_the_grammar(void **state) {
    (void)state;
    retrace_model *m = open_table(letters);
    retrace_rule *rule =
        make_rule("grammar", (const char *const[]){"text", "root ::= [ab]{3}", NULL});
    retrace_options o = plain_options(2);
    for (o.seed = 0; o.seed < 50; o.seed++) {
        o.max_tokens = 2;
        run_rules(m, &rule, 1, &o);
        assert_true(a.n_text >= 2 && a.n_text <= 3);
        o.max_tokens = 4;
        run_rules(m, &rule, 1, &o);
        assert_int_equal(a.n_text, 3);
    }
    retrace_rule_free(rule);
    retrace_model_close(m);
}

static void settings_are_checked(void **state) {
    (void)state;
    static const struct {
        const char *rule, *pairs[8], *message;
    } bad[] = {
        {"grammar", {NULL}, "grammar: needs text or file"},
        {"grammar", {"text", "root ::= \"a\"", "file", "root ::= \"b\""}, "one of text and file"},
        {"grammar", {"file", "root ::= \"a\"", "file", "root ::= \"b\""}, "one of text and file"},
        {"grammar", {"text", "a ::= \"a\"", "root", "b"}, "grammar: there is no rule 'b'"},
        {"grammar", {"text", ""}, "grammar: there is no rule 'root'"},
        {"grammar", {"text", "root ::= x"}, "grammar: line 1, column 10: no rule is called 'x'"},
        {"json", {"schema", "{}", "schema_file", "{}"}, "json: one of schema and schema_file"},
        {"json", {"schema", ""}, "json: schema is no JSON"},
        {"json", {"schema", "{\"type\":\"objekt\"}"}, "json: schema: #/type:"},
        {"json", {"root", "array"}, "json: root: 'array' is not object|value"},
    };
    for (int i = 0; i < COUNT(bad); i++) {
        retrace_rule *r = NULL;
        retrace_error err = {0};
        assert_int_equal(try_rule(&r, bad[i].rule, bad[i].pairs, &err), RETRACE_EUSAGE);
        if (!strstr(err.msg, bad[i].message)) fail_msg("'%s' not '%s'", err.msg, bad[i].message);
    }
    retrace_rule *r =
        make_rule("grammar", (const char *const[]){"file", "a ::= \"a\"", "root", "a", NULL});
    retrace_rule_free(r);
    r = make_rule("json", (const char *const[]){"schema_file", "{\"type\":\"null\"}", NULL});
    retrace_rule_free(r);
}

/* A grammar that becomes too ambiguous fails its own run, and the rule and the model go on. */
static void a_failure_is_one_runs(void **state) {
    (void)state;
    retrace_model *m =
        open_table("{\"tokens\": [\"aaaaaaaaaaaaaaaa\", {\"text\": \"</s>\", \"end\": true}],"
                   " \"n_ctx\": 400, \"rows\": [{\"context\": [], \"next\": {\"0\": 1}}]}");
    retrace_rule *rule =
        make_rule("grammar", (const char *const[]){"text",
                                                   "root ::= root x root x root | x root root x | "
                                                   "x root x x root | \"a\"\nx ::= y | \"b\" x\n"
                                                   "y ::= \"a\"? | root",
                                                   NULL});
    retrace_options o = plain_options(300);
    o.rules = &rule;
    o.n_rules = 1;
    const char *why = try_finish(&a, m, &o, NULL, 0);
    assert_non_null(why);
    assert_non_null(strstr(why, "grammar: there are too many ways to read the text"));
    o.max_tokens = 2;
    run_rules(m, &rule, 1, &o);
    assert_int_equal(a.n_text, 32);
    retrace_rule_free(rule);
    retrace_model_close(m);
}

/* ==== The real model ==== */

/* Every token of the vocabulary, after every beginning of a text. */
static void real_masks(retrace_model *m) {
    rt_earley *matcher = make_matcher(grammars[0], 1 << 24);
    retrace_model_info facts;
    retrace_error err = {0};
    retrace_model_facts(m, &facts);
    static const char *const places[] = {
        "", "{", "{\"", "{\"a", "{\"a\":", "{\"a\":[\"\xc3", "{\"a\":[12", "{\"a\":{\"b\":\"c\"}}"};
    for (int i = 0; i < COUNT(places); i++) {
        rt_earley_state *at;
        const uint64_t *bits;
        int n = 0;
        if (rt_earley_feed(matcher, rt_earley_start(matcher), places[i], strlen(places[i]), &at,
                           &err))
            fail_msg("%s", err.msg);
        rt_earley_keep(at);
        if (rt_mask(matcher, at, m->pieces, &bits, &err)) fail_msg("%s", err.msg);
        for (retrace_token id = 0; id < facts.vocab; id++) {
            int in_mask = (int)(bits[id >> 6] >> (id & 63) & 1);
            assert_int_equal(rt_mask_admits(matcher, at, m, id, &err), in_mask);
            n += in_mask;
        }
        assert_true(n > 0);
        rt_earley_drop(at);
    }
    rt_earley_free(matcher);
}

/* JSON by a schema, at several temperatures, with bans inside: every answer that ends fits. */
static void real_answers(retrace_model *m) {
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":30},"
        "\"age\":{\"type\":\"integer\",\"minimum\":20,\"maximum\":39}},\"required\":[\"name\","
        "\"age\"]}";
    retrace_rule *rules[] = {
        make_rule("json", (const char *const[]){"schema", schema, NULL}),
        make_rule("phrases",
                  (const char *const[]){"text", "john", "text", "bak", "text", "smith", NULL})};
    int ended = 0, rewound = 0;
    for (int i = 0; i < 6; i++) {
        retrace_options o = plain_options(60);
        o.seed = i;
        o.temp = i % 3 * 0.7;
        o.rules = rules;
        o.n_rules = 2 - (i == 3);
        finish_text(&a, m, &o, "The record of John, a baker, as JSON:");
        if (a.finish != RETRACE_FINISH_END) continue;
        int at = -1, age = 0;
        const char *tail = strstr(a.text, "\"age\":");
        if (!tail || sscanf(tail, "\"age\": %d }%n", &age, &at) != 1 || at < 0 || tail[at] ||
            age < 20 || age > 39)
            fail_msg("'%s'", a.text);
        ended++;
        rewound += a.stats.rewinds > 0;
    }
    print_message("  %d ended, %d of them with rewinds\n", ended, rewound);
    if (ended < 3 || rewound == 0) fail_msg("%d ended, %d of them with rewinds", ended, rewound);
    for (int i = 0; i < 2; i++) retrace_rule_free(rules[i]);
}

static void the_real_model_writes_what_fits(void **state) {
    (void)state;
    const char *path = getenv("RETRACE_MODEL");
    retrace_model *m = NULL;
    retrace_error err = {0};
    if (!path) skip();
    if (retrace_model_open(&m, path, NULL, 0, &err)) fail_msg("%s", err.msg);
    real_masks(m);
    real_answers(m);
    retrace_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_hold_what_may_follow),
        cmocka_unit_test(masks_belong_to_a_vocabulary),
        cmocka_unit_test(a_mask_knows_what_ends),
        cmocka_unit_test(the_law_is_the_models_over_what_is_admitted),
        cmocka_unit_test(a_dead_end_of_bans_and_grammar_is_stuck),
        cmocka_unit_test(rules_need_each_other),
        cmocka_unit_test(whatever_is_taken_back_the_text_fits),
        cmocka_unit_test(a_long_rewind_in_json),
        cmocka_unit_test(a_stop_text_ends_a_constrained_answer),
        cmocka_unit_test(the_end_waits_for_the_grammar),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(a_failure_is_one_runs),
        cmocka_unit_test(the_real_model_writes_what_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
