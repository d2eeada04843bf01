/* test_replace.c - the rule replace: what it proposes and holds, by hand over any split, and whole
 * runs on table models, alone and beside other rules. */
#define HAND_RULE rt_rule_replace
#include "hand.h"

#include <limits.h>

/* ==== By hand ==== */

static const char pieces[] =
    "{\"tokens\": [\"a\", \"b\", \"c\", \"d\", \"g\", \"o\", \"s\", \"t\", \"x\", \"y\", \" \", "
    "\".\", \" cat\", \" dog\", \" sat\", \"ca\", \"do\", \"C\", \"the\", {\"bytes\": [195]}, "
    "{\"bytes\": [169]}, {\"text\": \"</s>\", \"end\": true}], "
    "\"rows\": [{\"context\": [], \"next\": {\"a\": 1, \"b\": 1, \"c\": 1, \"d\": 1, \"g\": 1, "
    "\"o\": 1, \"s\": 1, \"t\": 1, \"x\": 1, \"y\": 1, \" \": 1, \".\": 1, \" cat\": 8, "
    "\" dog\": 1, \" sat\": 1, \"ca\": 1, \"do\": 1, \"C\": 1, \"the\": 1, \"</s>\": 2}}, "
    "{\"context\": [\".\"], \"next\": {\"</s>\": 1}}]}";

static void every_split(void **state) {
    (void)state;
    RULE("find", "cat", "replace", "dog");
    for (int cuts = 0; cuts < 1 << 5; cuts++) { /* "the cat": which token holds the c */
        const char *text = "e cat";
        int from = 0, to = -1, holder = -1, n = 0, left = 0;
        start("");
        for (int i = 1; i <= 5; i++) {
            if (i < 5 && !(cuts >> (i - 1) & 1)) continue;
            if (from <= 2 && i > 2) {
                holder = n;
                left = 2 - from;
            }
            to = push_bytes(text + from, (size_t)(i - from));
            n++;
            if (i < 5) assert_int_equal(to, -1);
            if (i < 5 && i > 2) assert_int_equal(horizon(), holder);
            from = i;
        }
        assert_int_equal(to, holder);
        assert_int_equal(now.p.end, 5);
        char want[8];
        snprintf(want, sizeof want, "%.*sdog", left, text + 2 - left);
        if (left == 2) continue; /* "e " is spelt by no tokens of this model */
        assert_string_equal(now.force, want);
        assert_string_equal(now.p.why, "cat");
    }
}

/* Where nothing can be forced the token is banned. */
static void plain_bans(void **state) {
    (void)state;
    RULE("find", "cat", "replace", "dog");
    assert_int_equal(PUSH("the", "z cat"), 1);
    assert_int_equal(now.p.n_force, 0); /* "z" is no token */
    start("the ca");
    assert_int_equal(push("t"), 0);
    assert_int_equal(now.p.n_force, 0);
    start("the cat");
    assert_int_equal(push("s"), -1);
    RULE("find", "cat");
    assert_int_equal(PUSH("the", "ca", "t"), 1);
    assert_int_equal(now.p.n_force, 0);
    start("");
    assert_int_equal(PUSH("the", " cat"), 1);
    assert_string_equal(now.force, " "); /* what stood before it stays */
}

/* Pushes as a text of the rule's own. */
static void force(const char *const *list) {
    for (now.forced = 1; *list; list++, now.forced++) assert_int_equal(push(*list), -1);
    now.forced = 0;
}

static void own_text_is_final(void **state) {
    (void)state;
    RULE("find", "ab", "replace", "xabx");
    assert_int_equal(PUSH("x", "ab"), 1);
    now.n = 1;
    force((const char *const[]){"x", "a", "b", "x", NULL});
    assert_int_equal(horizon(), 5);
    assert_int_equal(push("a"), -1);
    assert_int_equal(horizon(), 5);
    assert_int_equal(push("b"), 5);
    RULE("find", "ab", "replace", "a");
    force((const char *const[]){"a", NULL});
    assert_int_equal(horizon(), 1);
    assert_int_equal(push("b"), -1); /* begins in the rule's text */
    assert_int_equal(PUSH("a", "b"), 2);
    start("a");
    force((const char *const[]){"b", NULL});
    /* After going back it is as if it had not been. */
    start("");
    force((const char *const[]){"a", NULL});
    now.n = 0;
    assert_int_equal(PUSH("a", "b"), 0);
}

static void how_many(void **state) {
    (void)state;
    RULE("find", "c", "replace", "xy", "max_replacements", "2");
    assert_int_equal(push("c"), 0);
    now.n = 0;
    force((const char *const[]){"x", "y", NULL});
    assert_int_equal(horizon(), 2);
    assert_int_equal(push("c"), 2);
    now.n = 2;
    force((const char *const[]){"x", "y", NULL}); /* right behind the first: two, not one */
    assert_int_equal(PUSH("c", "c"), -1);
    now.n = 2;
    assert_int_equal(push("c"), 2);
    RULE("find", "cat", "replace", "x", "max_replacements", "0");
    assert_int_equal(PUSH("c", "at"), -1);
    assert_int_equal(horizon(), 2);
    RULE("find", "cat", "max_replacements", "0");
    assert_int_equal(PUSH("c", "at"), -1);
}

static void where(void **state) {
    (void)state;
    RULE("find", "cat", "replace", "x", "skip_tokens", "2");
    assert_int_equal(PUSH("the", "ca"), -1);
    assert_int_equal(horizon(), 2);
    assert_int_equal(PUSH("t", "ca"), -1);
    assert_int_equal(horizon(), 3);
    assert_int_equal(push("t"), 3);
    start("ca");
    assert_int_equal(push("t"), -1);
    RULE("find", "cat", "replace", "x", "max_new_tokens_for_replace", "2");
    assert_int_equal(PUSH("ca", "t"), 0);
    start("");
    assert_int_equal(PUSH("the", "ca"), -1);
    assert_int_equal(horizon(), 1); /* would still be decided if the answer ended here */
    assert_int_equal(push("t"), -1);
    assert_int_equal(horizon(), 3);
    RULE("find", "cat", "replace", "x", "max_new_tokens_for_replace", "0");
    assert_int_equal(push("cat"), -1);
}

static void case_and_word(void **state) {
    (void)state;
    RULE("find", "cat", "replace", "x");
    assert_int_equal(push("Cat"), -1);
    RULE("find", "cat", "replace", "x", "case", "fold");
    assert_int_equal(push("CAT"), 0);
    RULE("find", "cat", "replace", "x", "word", "true");
    assert_int_equal(PUSH("cat", "s", " ", "cat"), -1);
    assert_int_equal(horizon(), 3);
    assert_int_equal(end_by(RETRACE_ENDING_LENGTH), 3);
    assert_string_equal(now.force, "x");
    assert_int_equal(push("."), 3);
    now.n = 4;
    now.limit = 14;
    assert_int_equal(push(" cat."), 3);
    RULE("find", "cat", "replace", "x");
    now.limit = 3;
    assert_int_equal(push("cat"), -1); /* a stop text ends there too */
    assert_int_equal(end_by(RETRACE_ENDING_STOP), -1);
}

static void wrong_settings(void **state) {
    (void)state;
    static const struct {
        const char *pairs[8], *message;
    } wrong[] = {
        {{"replace", "x"}, "replace: find is empty"},
        {{"find", "\xC3"}, "replace: find is not valid UTF-8 at byte 0"},
        {{"find", "a", "replace", "b\xC3"}, "replace: replace is not valid UTF-8 at byte 1"},
        {{"find", "a", "max_replacements", "1"},
         "replace: max_replacements needs a text to replace by"},
        {{"find", "a", "max_prob", "1.5"}, "replace: max_prob: '1.5' is not within 0 to 1"},
    };
    for (int i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(try_pairs(wrong[i].pairs), RETRACE_EUSAGE);
        assert_string_equal(now.err.msg, wrong[i].message);
    }
}

/* ==== Memory ==== */

/* One judgement of "the cat", whose match is complete. */
static int judged(retrace_proposal *p) {
    void *mark = &now.marks[now.n];
    now.marks[now.n] = now.marks[now.n - 1];
    retrace_view v = view_of(RETRACE_GOING);
    *p = (retrace_proposal){0};
    return type->judge(now.self, &v, mark, p, &now.err);
}

/* Every allocation fails once: an error, and nothing lost. */
static void out_of_memory(void **state) {
    (void)state;
    close_rule();
    live = 0;
    retrace_set_alloc(counting, NULL);
    int rc = RETRACE_ENOMEM, failures = 0;
    for (long n = 0; rc == RETRACE_ENOMEM; n++, failures += rc == RETRACE_ENOMEM) {
        close_rule();
        assert_int_equal(live, 0);
        allowed = n;
        rc = try_pairs((const char *const[]){"find", "cat", "replace", "dog", NULL});
        assert_int_equal(now.err.code, rc);
    }
    assert_int_equal(rc, RETRACE_OK);
    assert_true(failures > 4);
    start("");
    allowed = LONG_MAX;
    assert_int_equal(push("the cat"), 0);
    long before = live;
    retrace_proposal p;
    failures = 0;
    rc = RETRACE_ENOMEM;
    for (long n = 0; rc == RETRACE_ENOMEM; n++, failures += rc == RETRACE_ENOMEM) {
        allowed = n;
        rc = judged(&p);
        if (rc == RETRACE_ENOMEM) assert_int_equal(live, before);
    }
    assert_int_equal(rc, RETRACE_DONE);
    assert_true(failures > 1);
    retrace_free(p.force);
    close_rule();
    assert_int_equal(live, 0);
    retrace_set_alloc(NULL, NULL);
}

/* ==== Whole runs ==== */

static retrace_model *model;

/* Names between bars to tokens. */
static int tokens_of(const char *wanted, retrace_token *out) {
    int n = 0;
    while (*wanted) {
        char name[16];
        size_t len = strcspn(wanted, "|");
        snprintf(name, sizeof name, "%.*s", (int)len, wanted);
        out[n++] = token_of(model, name);
        wanted += len + (wanted[len] == '|');
    }
    return n;
}

static answer last;

/* Draws `wanted` in turn, as far as it is on offer, then what is most probable. */
static void writes(const retrace_options *more, retrace_rule *const *rules, int n_rules,
                   const char *wanted, const char *text) {
    retrace_token tokens[64];
    script s = {.want = tokens, .n = tokens_of(wanted, tokens)};
    retrace_options o = *more;
    o.rules = rules;
    o.n_rules = n_rules;
    o.choose = choose_script;
    o.choose_ud = &s;
    finish_text(&last, model, &o, "the");
    assert_string_equal(last.text, text);
}

static retrace_rule *replace_rule(const char *find, const char *replace) {
    const char *pairs[] = {"find", find, "replace", replace, NULL};
    return make_rule("replace", pairs);
}

static void alone(const char *const *pairs, const char *wanted, const char *text) {
    retrace_rule *r = make_rule("replace", pairs);
    retrace_options o = plain_options(8);
    writes(&o, &r, 1, wanted, text);
    retrace_rule_free(r);
}

#define ALONE(wanted, text, ...) alone((const char *const[]){__VA_ARGS__, NULL}, wanted, text)

static void in_a_run(void **state) {
    (void)state;
    ALONE(" cat| sat|.", " dog sat.", "find", "cat", "replace", "dog");
    ALONE(" |ca|t| sat|.", " dog sat.", "find", "cat", "replace", "dog");
    ALONE(" cat| cat| cat|.", " dog dog dog.", "find", "cat", "replace", "dog");
    ALONE(" cat| cat| cat|.", " dog cat cat.", "find", "cat", "replace", "dog", "max_replacements",
          "1");
    ALONE(" cat| cat| cat|.", " dog dog cat.", "find", "cat", "replace", "dog", "max_replacements",
          "2");
    ALONE(" cat| cat|.", " cat dog.", "find", "cat", "replace", "dog", "skip_tokens", "1");
    ALONE(" cat| cat|.", " dog cat.", "find", "cat", "replace", "dog", "max_new_tokens_for_replace",
          "1");
    ALONE(" cat| cat|.", " x cat x cat.", "find", "cat", "replace", "x cat");
    ALONE("a|b|.", "ab.", "find", "ab", "replace", "ab");
    ALONE(" cat| sat|.", "  sat.", "find", "cat"); /* its blank stays */
    ALONE("c|a|t| sat|.", " sat.", "find", "cat"); /* c is banned there */
    ALONE("d|.", "d.", "find", "cat", "replace", "dog");
}

static void most_probable(void **state) {
    (void)state;
    /* " cat" has 8 of 28. */
    ALONE(" cat| cat|.", " cat cat.", "find", "cat", "replace", "dog", "max_prob", "0.285");
    ALONE(" cat| cat|.", " dog dog.", "find", "cat", "replace", "dog", "max_prob", "0.286");
    ALONE(" |ca|t| cat|.", " dog cat.", "find", "cat", "replace", "dog", "max_prob", "0.2");
    ALONE(" |ca|t| cat|.", " cat cat.", "find", "cat", "replace", "dog", "max_prob", "0");
    ALONE(" cat|s|.", " cats.", "find", "cats", "replace", "x", "max_prob", "0.2");
    ALONE(" cat|s|.", " x.", "find", "cats", "replace", "x", "max_prob", "0.3");
}

/* Greedy, where the original goes round for ever. */
static void greedy(void **state) {
    (void)state;
    retrace_options o = greedy_options(6);
    retrace_rule *r[] = {replace_rule("cat", "cat cat"), replace_rule("cat", "dog"),
                         replace_rule("cat", "")};
    finish_text(&last, model, &o, "the");
    assert_string_equal(last.text, " cat cat cat cat cat cat");
    o.rules = &r[0];
    o.n_rules = 1;
    finish_text(&last, model, &o, "the");
    assert_string_equal(last.text, " cat cat cat cat cat cat");
    assert_int_equal(last.stats.rewinds, 3);
    o.rules = &r[1];
    finish_text(&last, model, &o, "the");
    assert_string_equal(last.text, " dog dog dog dog dog dog");
    assert_int_equal(last.stats.erased, 6);
    o.rules = &r[2];
    finish_text(&last, model, &o, "the");
    assert_null(strstr(last.text, "cat"));
    for (int i = 0; i < 3; i++) retrace_rule_free(r[i]);
}

static void beside_other_rules(void **state) {
    (void)state;
    retrace_options o = plain_options(8);
    /* What is put there is refused: the match is banned. */
    retrace_rule *r[] = {replace_rule("cat", "dog"), ban_rule("dog", NULL)};
    writes(&o, r, 2, " cat|the|.", "the.");
    writes(&o, r, 2, "a|ca|t|the|.", "athe.");
    retrace_rule_free(r[1]);
    /* Refused later, by what follows: all of it goes. */
    r[1] = ban_rule("og sat", NULL);
    writes(&o, r, 2, " cat| sat|the|.", "the.");
    retrace_rule_free(r[1]);
    /* Another rule goes back behind it. */
    r[1] = ban_rule("the dog.", NULL);
    writes(&o, r, 2, " cat|.|a|.", "a.");
    retrace_rule_free(r[1]);
    r[1] = ban_rule("b dog.", NULL);
    writes(&o, r, 2, "a|b| cat|.|c| cat|.", "ac dog.");
    retrace_rule_free(r[1]);
    /* Two that write each other's text end. */
    r[1] = replace_rule("dog", "cat");
    writes(&o, r, 2, " cat|the|.", "the.");
    retrace_rule_free(r[1]);
    retrace_rule_free(r[0]);
}

static void at_the_end(void **state) {
    (void)state;
    retrace_rule *r = replace_rule("cat", "dog.");
    retrace_options o = plain_options(2);
    writes(&o, &r, 1, "a| cat", "a dog"); /* max_tokens cuts it */
    assert_int_equal(last.finish, RETRACE_FINISH_LENGTH);
    static const retrace_text stops[] = {{"dog", 3}, {"at", 2}};
    o = plain_options(8);
    o.stops = stops;
    o.n_stops = 1;
    writes(&o, &r, 1, "a| cat|.", "a ");
    assert_int_equal(last.finish, RETRACE_FINISH_STOP);
    o.n_stops = 2; /* the stop completes with the match and wins */
    writes(&o, &r, 1, "a| cat|.", "a c");
    retrace_rule_free(r);
    const char *pairs[] = {"find", "cat", "replace", "dog", "word", "true", NULL};
    r = make_rule("replace", pairs);
    o = plain_options(2);
    writes(&o, &r, 1, "a| cat", "a dog");
    o = plain_options(8);
    writes(&o, &r, 1, "a| cat|</s>|</s>", "a dog");
    writes(&o, &r, 1, "a| cat|s|.", "a cats.");
    retrace_rule_free(r);
}

static void streams_what_is_safe(void **state) {
    (void)state;
    retrace_rule *r = replace_rule("cat", "dog");
    retrace_options o = plain_options(8);
    writes(&o, &r, 1, "a|b|ca|x|.", "abcax.");
    assert_int_equal(last.first_settle, 1);
    assert_int_equal(last.stats.held_max_bytes, 2);
    retrace_rule_free(r);
}

/* ==== Any run ==== */

/* Which places hold a token that nobody drew. */
typedef struct follow {
    answer *a;
    unsigned char forced[MAX_NODES];
} follow;

static int see_forced(void *ud, const retrace_event *e) {
    follow *f = ud;
    if (e->kind == RETRACE_PUSH) f->forced[e->node] = !e->drawn;
    return see_event(f->a, e);
}

/* Is every `find` of the answer touched by a forced token? */
static int only_in_forced(const follow *f, const char *find) {
    const answer *a = f->a;
    for (const char *hit = a->text; (hit = strstr(hit, find)); hit++) {
        size_t begin = (size_t)(hit - a->text), end = begin + strlen(find), from = 0;
        int touched = 0;
        for (int i = 0; i < a->n_tokens; i++) {
            size_t to = from + retrace_piece(model, a->tokens[i]).n;
            touched |= f->forced[a->nodes[i + 1]] && from < end && to > begin;
            from = to;
        }
        if (!touched) return 0;
    }
    return 1;
}

static void any_run(void **state) {
    (void)state;
    static const char *const finds[] = {"a", "at", "cat", "ab", "t ", "ca", "x", "do", " s"};
    static const char *const texts[] = {"", "a", "cat", "b", "xat", " ", "do", "dog", "ca"};
    static follow f;
    uint64_t seed = 5;
    int written = 0, refused = 0;
    for (int round = 0; round < 500; round++) {
        const char *find = finds[roll_from(&seed, COUNT(finds))];
        retrace_rule *r[] = {
            replace_rule(find, texts[roll_from(&seed, COUNT(texts))]),
            ban_rule(finds[roll_from(&seed, COUNT(finds))], finds[roll_from(&seed, COUNT(finds))])};
        retrace_options o = plain_options(1 + roll_from(&seed, 30));
        o.seed = round;
        o.on_stuck = RETRACE_STUCK_STOP;
        o.rules = r;
        o.n_rules = 1 + roll_from(&seed, 2);
        retrace_run *run = NULL;
        retrace_token prompt = token_of(model, "the");
        f.a = &last;
        answer_start(&last);
        assert_int_equal(retrace_run_new(&run, model, &o, &prompt, 1, NULL), RETRACE_OK);
        assert_int_equal(retrace_run_finish(run, see_forced, &f, NULL), RETRACE_OK);
        answer_end(&last, run);
        const char *why = broken(model, &last);
        if (why) fail_msg("round %d: %s", round, why);
        if (last.finish != RETRACE_FINISH_STUCK && !only_in_forced(&f, find))
            fail_msg("round %d: '%s' stands in '%s'", round, find, last.text);
        for (int i = 0; i < last.n_tokens; i++) written += f.forced[last.nodes[i + 1]];
        refused += o.n_rules == 2 && last.erases > 0;
        retrace_run_free(run);
        retrace_rule_free(r[0]);
        retrace_rule_free(r[1]);
    }
    assert_true(written > 300 && refused > 100);
}

static int set_up(void **state) {
    (void)state;
    model = now.model = open_table(pieces);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    close_rule();
    retrace_model_close(model);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split),
        cmocka_unit_test(plain_bans),
        cmocka_unit_test(own_text_is_final),
        cmocka_unit_test(how_many),
        cmocka_unit_test(where),
        cmocka_unit_test(case_and_word),
        cmocka_unit_test(wrong_settings),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(in_a_run),
        cmocka_unit_test(most_probable),
        cmocka_unit_test(greedy),
        cmocka_unit_test(beside_other_rules),
        cmocka_unit_test(at_the_end),
        cmocka_unit_test(streams_what_is_safe),
        cmocka_unit_test(any_run),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
