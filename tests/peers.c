/* peers.c - what went wrong elsewhere must go right here.
 *
 * Each test is one kind of public bug report about programs that ban phrases, stop at texts or take
 * tokens back, named after its symptom and shown on a small table model. What concerns models that
 * cannot drop part of their state is in differential.c. */
#include "helper.h"

#include <math.h>

static answer a, b;

/* ==== Small helpers ==== */

static const char eos[] = "{\"text\": \"</s>\", \"end\": true}";

/* A table of these pieces, all equally likely everywhere, and an end token that is less so. */
static retrace_model *open_pieces(const char *const *pieces, int n) {
    static char json[65536];
    int at = snprintf(json, sizeof json, "{\"tokens\": [");
    for (int i = 0; i < n; i++)
        at += snprintf(json + at, sizeof json - (size_t)at, "\"%s\", ", pieces[i]);
    at += snprintf(json + at, sizeof json - (size_t)at,
                   "%s], \"rows\": [{\"context\": [], \"next\": {", eos);
    for (int i = 0; i < n; i++)
        at += snprintf(json + at, sizeof json - (size_t)at, "\"%d\": 1, ", i);
    at += snprintf(json + at, sizeof json - (size_t)at, "\"%d\": 0.5}}]}", n);
    assert_true(at < (int)sizeof json);
    return open_table(json);
}

/* The answer when the tokens of that name are drawn one after the other, "</s>" at the end. */
static void say_with(answer *out, retrace_model *m, const retrace_options *given,
                     const char *prompt, const char *const *names) {
    retrace_token want[512];
    script s = {want, 0, 0, 0};
    for (; names[s.n]; s.n++) want[s.n] = token_of(m, names[s.n]);
    want[s.n++] = token_of(m, "</s>");
    retrace_options o = *given;
    o.choose = choose_script;
    o.choose_ud = &s;
    finish_text(out, m, &o, prompt);
    assert_int_equal(s.missed, 0);
}

static void say(answer *out, retrace_model *m, retrace_rule *r, const char *const *names) {
    retrace_options o = plain_options(400);
    o.rules = &r;
    o.n_rules = r != NULL;
    say_with(out, m, &o, "", names);
}

/* The greedy answer under one rule, which is freed. */
static void greedy_with(answer *out, retrace_model *m, retrace_rule *r, int n, const char *prompt) {
    retrace_options o = greedy_options(n);
    o.rules = &r;
    o.n_rules = r != NULL;
    finish_text(out, m, &o, prompt);
    retrace_rule_free(r);
}

static retrace_rule *ban_word(const char *text) {
    const char *pairs[] = {"text", text, "word", "true", NULL};
    return make_rule("phrases", pairs);
}

static retrace_rule *ban_list(const char *list) {
    const char *pairs[] = {"file", list, NULL};
    return make_rule("phrases", pairs);
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ==== Bans: matching and choosing again ==== */

static const char eyes[] =
    "{\"tokens\": [\"her\", \" emerald\", \" blue\", \" eyes\", \" hair\", \" glint\", \" gleam\","
    " \" sparkl\", \".\", {\"text\": \"</s>\", \"end\": true}], \"rows\": ["
    "{\"context\": [], \"next\": {\"her\": 1}},"
    "{\"context\": [\"her\"], \"next\": {\" emerald\": 0.8, \" blue\": 0.2}},"
    "{\"context\": [\" emerald\"], \"next\": {\" eyes\": 0.9, \" hair\": 0.1}},"
    "{\"context\": [\" blue\"], \"next\": {\" eyes\": 1}},"
    "{\"context\": [\" eyes\"], \"next\": {\" glint\": 0.5, \" gleam\": 0.3, \" sparkl\": 0.2}},"
    "{\"context\": [\" blue\", \" eyes\"], \"next\": {\".\": 1}},"
    "{\"context\": [\" hair\"], \"next\": {\".\": 1}},"
    "{\"context\": [\".\"], \"next\": {\"</s>\": 1}}]}";

static void bans_that_share_a_stem_stall(void **unused) {
    (void)unused;
    retrace_model *m = open_table(eyes);
    greedy_with(&a, m, ban_list("eyes glint\neyes gleam\neyes sparkl\n"), 20, "");
    assert_string_equal(a.text, "her emerald hair.");
    assert_int_equal(a.finish, RETRACE_FINISH_END);
    retrace_model_close(m);
}

static void nothing_acceptable_is_left_and_it_stops(void **unused) {
    (void)unused;
    retrace_model *m = open_table(eyes);
    const char *list = "s glint\ns gleam\ns sparkl\nhair\n";
    greedy_with(&a, m, ban_list(list), 20, "");
    assert_int_equal(a.finish, RETRACE_FINISH_STUCK);
    assert_string_equal(a.text, "her emerald");
    retrace_rule *r = ban_list(list);
    retrace_options o = greedy_options(20);
    o.rules = &r;
    o.n_rules = 1;
    o.hold = RETRACE_HOLD_ALL;
    finish_text(&a, m, &o, "");
    assert_string_equal(a.text, "her blue eyes.");
    assert_int_equal(a.finish, RETRACE_FINISH_END);
    retrace_rule_free(r);
    retrace_model_close(m);
}

/* A phrase at every place 1 .. 60, spelt by 1 .. 10 tokens. */
static void the_first_hit_crashes(void **unused) {
    (void)unused;
    static const char phrase[] = " shivers down her spine";
    size_t length = strlen(phrase);
    retrace_rule *r = ban_rule(phrase, NULL);
    for (int k = 1; k <= 10; k++) {
        char store[10][32];
        const char *pieces[11];
        for (int i = 0; i < k; i++) {
            size_t from = length * (size_t)i / (size_t)k, to = length * (size_t)(i + 1) / (size_t)k;
            snprintf(store[i], sizeof store[i], "%.*s", (int)(to - from), phrase + from);
            pieces[i] = store[i];
        }
        pieces[k] = "x";
        retrace_model *m = open_pieces(pieces, k + 1);
        for (int place = 1; place <= 60; place++) {
            const char *names[128] = {0};
            int n = 0;
            while (n < place) names[n++] = "x";
            for (int i = 0; i < k; i++) names[n++] = pieces[i];
            names[n++] = "x";
            say(&a, m, r, names);
            assert_null(strstr(a.text, phrase));
            assert_int_equal(a.n_tokens, place + 1);
            assert_int_equal(a.stats.erased, k);
            assert_int_equal(a.stats.rewinds, 1);
        }
        retrace_model_close(m);
    }
    retrace_rule_free(r);
}

static void a_list_of_several_phrases_cannot_be_given(void **unused) {
    (void)unused;
    const char *const pieces[] = {"a", "###", "instruction", "b c", "!", "x"};
    retrace_model *m = open_pieces(pieces, COUNT(pieces));
    const char *pairs[] = {"text", "###instruction", "text", "ab c", "file", "x!\n", NULL};
    retrace_rule *r = make_rule("phrases", pairs);
    say(&a, m, r, NAMES("###", "instruction", "a"));
    assert_string_equal(a.text, "a");
    say(&a, m, r, NAMES("a", "b c", "!"));
    assert_string_equal(a.text, "!");
    say(&a, m, r, NAMES("x", "!", "a"));
    assert_string_equal(a.text, "a");
    retrace_rule_free(r);
    retrace_model_close(m);
}

static void a_phrase_in_capitals_is_not_found(void **unused) {
    (void)unused;
    const char *const pieces[] = {"mary", " jane", " JANE", " shoes", " hats"};
    retrace_model *m = open_pieces(pieces, COUNT(pieces));
    retrace_rule *r = ban_rule("Mary Jane shoes", NULL);
    say(&a, m, r, NAMES("mary", " jane", " shoes", " hats"));
    assert_string_equal(a.text, " hats");
    say(&a, m, r, NAMES("mary", " JANE", " hats"));
    assert_string_equal(a.text, "mary JANE hats");
    retrace_rule_free(r);
    retrace_model_close(m);
}

static void a_ban_leaks_into_later_sentences(void **unused) {
    (void)unused;
    retrace_model *m =
        open_table("{\"tokens\": [\"I\", \" cannot\", \" can\", \"We\", \" try\", \". \","
                   " {\"text\": \"</s>\", \"end\": true}], \"rows\": ["
                   "{\"context\": [], \"next\": {\"I\": 0.7, \"We\": 0.3}},"
                   "{\"context\": [\"I\"], \"next\": {\" cannot\": 0.9, \" can\": 0.1}},"
                   "{\"context\": [\"We\"], \"next\": {\" try\": 1}},"
                   "{\"context\": [\" try\"], \"next\": {\". \": 1}},"
                   "{\"context\": [\". \", \"I\"], \"next\": {\" can\": 1}},"
                   "{\"context\": [\" can\"], \"next\": {\"</s>\": 1}}]}");
    greedy_with(&a, m, ban_rule("I cannot", NULL), 30, "");
    assert_string_equal(a.text, "We try. I can");
    assert_int_equal(a.erases, 1);
    retrace_model_close(m);
}

static void a_list_is_read_in_odd_ways(void **unused) {
    (void)unused;
    const char *const pieces[] = {"a b", " ", "c", "d#", "e", "'"};
    retrace_model *m = open_pieces(pieces, COUNT(pieces));
    retrace_rule *r = ban_list("\xef\xbb\xbf\"a b \"\r\n# c\r\n\r\n  d#e  \r\n");
    say(&a, m, r, NAMES("a b", " ", "c"));
    assert_string_equal(a.text, "c"); /* quotes keep the space */
    say(&a, m, r, NAMES("a b", "c"));
    assert_string_equal(a.text, "a bc"); /* the comment bans nothing */
    say(&a, m, r, NAMES("d#", "e", "c"));
    assert_string_equal(a.text, "c"); /* # within a line is itself, spaces around it are not */
    say(&a, m, r, NAMES("e", " ", "'"));
    assert_string_equal(a.text, "e '"); /* the empty line bans nothing */
    retrace_rule_free(r);
    retrace_error err = {0};
    const char *broken_list[] = {"file", "fine\n\xe6\xad\n", NULL};
    assert_int_equal(try_rule(&r, "phrases", broken_list, &err), RETRACE_EUSAGE);
    assert_non_null(strstr(err.msg, "phrases"));
    retrace_model_close(m);
}

/* The rest of the text is written anew, not the old one with a hole in it. */
static void a_ban_only_deletes_the_text(void **unused) {
    (void)unused;
    retrace_model *m = open_table(eyes);
    greedy_with(&a, m, NULL, 4, "");
    assert_string_equal(a.text, "her emerald eyes glint");
    greedy_with(&a, m, ban_rule(" emerald", NULL), 4, "");
    assert_string_equal(a.text, "her blue eyes.");
    assert_int_equal(a.n_tokens, 4);
    retrace_model_close(m);
}

static void a_retry_costs_an_evaluation(void **unused) {
    (void)unused;
    const char *const pieces[] = {"a", "b", "c", "d", "e", "f"};
    retrace_model *m = open_pieces(pieces, COUNT(pieces));
    retrace_rule *r = ban_list("a\nb\nc\nd\n");
    retrace_options o = plain_options(40);
    o.ignore_eos = 1;
    o.rules = &r;
    o.n_rules = 1;
    finish_text(&a, m, &o, "");
    assert_true(a.stats.rewinds > 20);
    assert_int_equal(a.stats.evaluated, 39); /* as many as without a ban */
    assert_int_equal(a.stats.reevaluated, 0);
    retrace_rule_free(r);
    retrace_model_close(m);
}

static void a_word_passes_with_a_space_or_in_pieces(void **unused) {
    (void)unused;
    const char *const pieces[] = {"exaggerated", " exaggerated", "ex",  "agger", "ated", " London",
                                  "London",      "Lon",          "don", "in",    "."};
    retrace_model *m = open_pieces(pieces, COUNT(pieces));
    retrace_rule *r = ban_rule("exaggerated", "London");
    say(&a, m, r, NAMES("exaggerated", "."));
    assert_string_equal(a.text, ".");
    say(&a, m, r, NAMES("in", " exaggerated", "."));
    assert_string_equal(a.text, "in.");
    say(&a, m, r, NAMES("ex", "agger", "ated", "."));
    assert_string_equal(a.text, ".");
    say(&a, m, r, NAMES("London", "in", " London", "Lon", "don", "."));
    assert_string_equal(a.text, "in.");
    retrace_rule_free(r);
    retrace_model_close(m);
}

static void a_word_passes_in_other_splits(void **unused) {
    (void)unused;
    static const char word[] = "badword";
    retrace_rule *r = ban_rule(word, NULL);
    for (int cuts = 0; cuts < 64; cuts++) {
        char store[7][8] = {{0}};
        const char *pieces[8], *names[16] = {0};
        int n = 0, k = 0;
        for (int i = 0; i < 7; i++) {
            store[n][k++] = word[i];
            if (i == 6 || (cuts >> i & 1)) {
                pieces[n] = names[n] = store[n];
                n++;
                k = 0;
            }
        }
        pieces[n] = "x";
        names[n] = "x";
        retrace_model *m = open_pieces(pieces, n + 1);
        say(&a, m, r, names);
        assert_string_equal(a.text, "x");
        assert_int_equal(a.stats.erased, n);
        retrace_model_close(m);
    }
    retrace_rule_free(r);
}

static void banning_impossible_bans_possible(void **unused) {
    (void)unused;
    const char *const pieces[] = {"im",    "possible", " It is", " administration",
                                  " mini", "stration"};
    retrace_model *m = open_pieces(pieces, COUNT(pieces));
    retrace_rule *r = ban_rule("impossible", NULL);
    say(&a, m, r, NAMES(" It is", "im", "possible", "possible"));
    assert_string_equal(a.text, " It ispossible");
    retrace_rule_free(r);
    r = ban_word("ministration");
    say(&a, m, r, NAMES(" administration", " mini", "stration", " It is", " It is"));
    assert_string_equal(a.text, " administration It is");
    retrace_rule_free(r);
    retrace_model_close(m);
}

static void only_listed_spellings_are_found(void **unused) {
    (void)unused;
    const char *const pieces[] = {"Elara", " ELARA", "eL", "ara",    "e",
                                  "l",     "a",      "r",  " elArA", "."};
    retrace_model *m = open_pieces(pieces, COUNT(pieces));
    retrace_rule *r = ban_rule("Elara", NULL);
    say(&a, m, r, NAMES("Elara", "."));
    assert_string_equal(a.text, ".");
    say(&a, m, r, NAMES(" ELARA", "eL", "ara", " elArA", "."));
    assert_string_equal(a.text, ".");
    say(&a, m, r, NAMES("e", "l", "a", "r", "a", "."));
    assert_string_equal(a.text, ".");
    retrace_rule_free(r);
    retrace_model_close(m);
}

static void a_short_word_bans_every_token_that_holds_it(void **unused) {
    (void)unused;
    const char *const pieces[] = {"the", " he", " where", "ey", "es", "."};
    retrace_model *m = open_pieces(pieces, COUNT(pieces));
    retrace_rule *r = ban_word("he");
    say(&a, m, r, NAMES("the", " where", " he", ".", "."));
    assert_string_equal(a.text, "the where.");
    retrace_rule_free(r);
    r = ban_rule("eyes", NULL);
    say(&a, m, r, NAMES("ey", "es", "."));
    assert_string_equal(a.text, ".");
    retrace_rule_free(r);
    retrace_model_close(m);
}

static void the_first_text_waits_for_the_longest_phrase(void **unused) {
    (void)unused;
    retrace_model *m = open_table(eyes);
    greedy_with(&a, m,
                ban_rule("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", NULL), 20,
                "");
    assert_int_equal(a.first_settle, 1);
    assert_int_equal(a.stats.held_max_bytes, 0);
    retrace_model_close(m);
}

static void a_phrase_on_the_last_token_passes(void **unused) {
    (void)unused;
    const char *const pieces[] = {"a", "b", "c"};
    retrace_model *m = open_pieces(pieces, COUNT(pieces));
    retrace_rule *hard[] = {ban_rule("abc", NULL), ban_word("abc")};
    for (int i = 0; i < 2; i++) {
        retrace_options o = plain_options(3);
        o.ignore_eos = 1;
        o.rules = &hard[i];
        o.n_rules = 1;
        for (o.seed = 0; o.seed < 300; o.seed++) {
            finish_text(&a, m, &o, "");
            assert_string_not_equal(a.text, "abc");
            assert_int_equal(a.n_tokens, 3);
        }
        say(&a, m, hard[i], NAMES("a", "b", "c")); /* and right before the end */
        assert_string_not_equal(a.text, "abc");
        retrace_rule_free(hard[i]);
    }
    retrace_model_close(m);
}

static void a_long_text_runs_out_of_retries(void **unused) {
    (void)unused;
    const char *const pieces[] = {"a", "b", "c"};
    retrace_model *m = open_pieces(pieces, COUNT(pieces));
    retrace_rule *r = ban_rule("ab", "cc");
    retrace_options o = plain_options(4000);
    o.ignore_eos = 1;
    o.rules = &r;
    o.n_rules = 1;
    finish_text(&a, m, &o, "");
    assert_int_equal(a.finish, RETRACE_FINISH_LENGTH);
    assert_int_equal(a.n_tokens, 4000);
    assert_true(a.stats.rewinds >= 200);
    assert_null(strstr(a.text, "ab"));
    assert_null(strstr(a.text, "cc"));
    retrace_rule_free(r);
    retrace_model_close(m);
}

typedef struct seen {
    script s;
    double p[4];
} seen;

/* Keeps the weights of the first place's last draw. */
static int choose_seen(void *ud, const double *p, const retrace_token *ids, int n, uint64_t purpose,
                       int pos, int attempt) {
    seen *k = ud;
    if (purpose == 0 && pos == 0) {
        double total = 0;
        memset(k->p, 0, sizeof k->p);
        for (int i = 0; i < n; i++) total += p[i];
        for (int i = 0; i < n; i++) k->p[ids ? ids[i] : i] = p[i] / total;
    }
    return choose_script(&k->s, p, ids, n, purpose, pos, attempt);
}

static void a_retry_forgets_the_temperature(void **unused) {
    (void)unused;
    retrace_model *m =
        open_table("{\"tokens\": [\"a\", \"b\", \"c\", \"d\"], \"rows\": [{\"context\":"
                   " [], \"next\": {\"a\": 8, \"b\": 4, \"c\": 2, \"d\": 1}}]}");
    retrace_rule *r = ban_rule("ab", NULL);
    retrace_token want[] = {0, 1, 2};
    seen k = {{want, 3, 0, 0}, {0}};
    retrace_options o = plain_options(2);
    o.temp = 0.5;
    o.rules = &r;
    o.n_rules = 1;
    o.choose = choose_seen;
    o.choose_ud = &k;
    finish_text(&a, m, &o, "");
    assert_int_equal(a.erases, 1);
    assert_true(k.p[0] == 0); /* at temperature 1/2 the odds of what is left are squared */
    assert_true(fabs(k.p[1] - 16. / 21) < 1e-6);
    assert_true(fabs(k.p[2] - 4. / 21) < 1e-6);
    assert_true(fabs(k.p[3] - 1. / 21) < 1e-6);
    retrace_rule_free(r);
    retrace_model_close(m);
}

/* ==== Streams, stop texts, characters ==== */

static void streamed_and_whole_answers_differ(void **unused) {
    (void)unused;
    const char *const pieces[] = {"a", "b", "ab", "\\u00e9", "c"};
    retrace_model *m = open_pieces(pieces, COUNT(pieces));
    retrace_rule *r = ban_rule("aba", "\xc3\x89"
                                      "c");
    retrace_options o = plain_options(30);
    o.rules = &r;
    o.n_rules = 1;
    for (o.seed = 0; o.seed < 100; o.seed++) {
        o.hold = RETRACE_HOLD_MINIMAL;
        finish_text(&a, m, &o, ""); /* checks that the stream is the text */
        o.hold = RETRACE_HOLD_ALL;
        finish_text(&b, m, &o, "");
        assert_string_equal(a.text, b.text);
    }
    retrace_rule_free(r);
    retrace_model_close(m);
}

static void stop_with(answer *out, retrace_model *m, const char *s1, const char *s2,
                      const char *const *names) {
    retrace_text stops[] = {text_of(s1), text_of(s2 ? s2 : "")};
    retrace_options o = plain_options(100);
    o.stops = stops;
    o.n_stops = s2 ? 2 : 1;
    say_with(out, m, &o, "", names);
}

static void the_held_end_is_never_sent(void **unused) {
    (void)unused;
    const char *const pieces[] = {"who", "?", "!", "\\n"};
    retrace_model *m = open_pieces(pieces, COUNT(pieces));
    stop_with(&a, m, "\n", NULL, NAMES("who", "?"));
    assert_string_equal(a.streamed, "who?");
    stop_with(&a, m, "?!", NULL, NAMES("who", "?"));
    assert_string_equal(a.streamed, "who?");
    assert_int_equal(a.finish, RETRACE_FINISH_END);
    retrace_rule *r = ban_rule("who? me", NULL);
    say(&a, m, r, NAMES("who", "?"));
    assert_string_equal(a.streamed, "who?");
    retrace_rule_free(r);
    retrace_model_close(m);
}

static void held_text_is_sent_twice(void **unused) {
    (void)unused;
    const char *const pieces[] = {" Alice", "!", ":", "Alice", "\\n"};
    retrace_model *m = open_pieces(pieces, COUNT(pieces));
    stop_with(&a, m, "\n", "Alice:", NAMES(" Alice", "!"));
    assert_string_equal(a.streamed, " Alice!");
    stop_with(&a, m, "\n", "Alice:", NAMES("!", " Alice", "Alice", ":"));
    assert_string_equal(a.streamed, "! Alice");
    assert_int_equal(a.finish, RETRACE_FINISH_STOP);
    assert_int_equal(a.n_tokens, 2);
    stop_with(&a, m, "lice:", NULL, NAMES("!", " Alice", ":"));
    assert_string_equal(a.streamed, "! A");
    assert_int_equal(a.n_tokens, 2);
    retrace_model_close(m);
}

static void a_control_token_as_stop_is_never_seen(void **unused) {
    (void)unused;
    retrace_model *m = open_table(
        "{\"tokens\": [\"a\", {\"text\": \"<|eot|>\", \"control\": true}, {\"text\": \"</s>\","
        " \"end\": true}], \"rows\": [{\"context\": [], \"next\": {\"a\": 1, \"1\": 1, \"2\": "
        "1}}]}");
    stop_with(&a, m, "<|eot|>", NULL, NAMES("a", "a", "<|eot|>"));
    assert_string_equal(a.text, "aa");
    assert_int_equal(a.finish, RETRACE_FINISH_STOP);
    assert_int_equal(a.n_tokens, 2);
    retrace_model_close(m);
}

/* Control tokens that came before a stop text stay, as what has settled must. */
static void a_stop_takes_back_what_was_sent(void **unused) {
    (void)unused;
    retrace_model *m = open_table(
        "{\"tokens\": [\"a\", {\"text\": \"<|c|>\", \"control\": true}, {\"text\": \"</s>\", "
        "\"end\":"
        " true}], \"rows\": [{\"context\": [], \"next\": {\"a\": 1, \"1\": 1, \"2\": 1}}]}");
    stop_with(&a, m, "a", NULL, NAMES("<|c|>", "a"));
    assert_int_equal(a.finish, RETRACE_FINISH_STOP);
    assert_int_equal(a.n_tokens, 1);
    assert_string_equal(a.text, "");
    retrace_model_close(m);
}

static const char bytes[] = "{\"tokens\": [{\"bytes\": [240, 159]}, {\"bytes\": [152]}, "
                            "{\"bytes\": [128]}, {\"bytes\": [230]},"
                            " {\"bytes\": [173]}, \"x\", \"y\", {\"text\": \"</s>\", \"end\": "
                            "true}], \"rows\": [{\"context\": [],"
                            " \"next\": {\"0\": 1, \"1\": 1, \"2\": 1, \"3\": 1, \"4\": 1, \"5\": "
                            "1, \"6\": 1, \"7\": 1}}]}";

static void an_unfinished_character_is_lost_or_crashes(void **unused) {
    (void)unused;
    retrace_model *m = open_table(bytes);
    say(&a, m, NULL, NAMES("x", "\xe6", "\xad"));
    assert_string_equal(a.text, "x\xe6\xad");
    assert_string_equal(a.streamed, "x\xe6\xad");
    assert_int_equal(a.finish, RETRACE_FINISH_END);
    assert_int_equal(a.stats.held_max_bytes, 2);
    retrace_model_close(m);
}

static void tokenising_part_of_a_character_aborts(void **unused) {
    (void)unused;
    retrace_model *m = open_table(bytes);
    retrace_token *tokens = NULL;
    int n = 0;
    retrace_error err = {0};
    assert_int_equal(retrace_tokenize(m, text_of("xy\xe6\xad"), 0, &tokens, &n, &err),
                     RETRACE_EUSAGE);
    assert_non_null(strstr(err.msg, "2"));
    assert_null(tokens);
    retrace_message message = {.role = "user", .content = text_of("\xad")};
    assert_int_equal(retrace_chat(m, &message, 1, &tokens, &n, &err), RETRACE_EUSAGE);
    const char *pairs[] = {"text", "\xe6\xad", NULL};
    retrace_rule *r = NULL;
    assert_int_equal(try_rule(&r, "phrases", pairs, &err), RETRACE_EUSAGE);
    retrace_model_close(m);
}

static void ids_and_text_part_at_a_split_character(void **unused) {
    (void)unused;
    retrace_model *m = open_table(bytes);
    retrace_rule *after = ban_rule("x", NULL), *with = ban_rule("\xf0\x9f\x98\x80x", NULL);
    const char *const names[] = {"\xf0\x9f", "\x98", "\x80", "x", "y", NULL};
    say(&a, m, after, names); /* only the x goes */
    assert_string_equal(a.text, "\xf0\x9f\x98\x80y");
    assert_int_equal(a.n_tokens, 4);
    say(&a, m, with, names); /* from the character's first byte on */
    assert_string_equal(a.text, "y");
    assert_int_equal(a.stats.erased, 4);
    retrace_rule_free(after);
    retrace_rule_free(with);
    retrace_model_close(m);
}

/* ==== State after a rewind ==== */

static void penalties_remember_erased_tokens(void **unused) {
    (void)unused;
    retrace_model *m = open_table("{\"tokens\": [\"a\", \"b\", \"c\"], \"rows\": [{\"context\": [],"
                                  " \"next\": {\"a\": 5, \"b\": 4, \"c\": 1}}]}");
    for (int kind = 0; kind < 3; kind++) {
        retrace_rule *r = ban_rule("ab", NULL);
        retrace_options o = greedy_options(2);
        o.rules = &r;
        o.n_rules = 1;
        if (kind == 0)
            o.frequency_penalty = 5;
        else if (kind == 1)
            o.presence_penalty = 5;
        else
            o.repeat_penalty = 20;
        finish_text(&a, m, &o, "");
        assert_string_equal(a.text, "ba"); /* "a" was tried first and is no part of the answer */
        assert_int_equal(a.erases, 1);
        retrace_rule_free(r);
    }
    retrace_model_close(m);
}

static void a_seed_gives_another_text_each_time(void **unused) {
    (void)unused;
    const char *const pieces[] = {"a", "b", "c", "d"};
    retrace_model *m = open_pieces(pieces, COUNT(pieces));
    for (int greedy = 0; greedy < 2; greedy++) {
        retrace_options o = greedy ? greedy_options(50) : plain_options(50);
        o.ignore_eos = 1;
        o.seed = 42;
        finish_text(&a, m, &o, "ab");
        for (int i = 0; i < 3; i++) {
            finish_text(&b, m, &o, i ? "cd" : "dcba"); /* something else in between */
            finish_text(&b, m, &o, "ab");
            assert_same_answer(&a, &b);
        }
    }
    retrace_model_close(m);
}

static void a_list_that_never_fires_changes_the_text(void **unused) {
    (void)unused;
    const char *const pieces[] = {"a", "b", "c", "d"};
    retrace_model *m = open_pieces(pieces, COUNT(pieces));
    retrace_rule *r = ban_list("zebra\nad hoc\nbd.\n");
    for (int seed = 0; seed < 100; seed++) {
        retrace_options o = plain_options(50);
        o.seed = seed;
        finish_text(&a, m, &o, "");
        o.rules = &r;
        o.n_rules = 1;
        finish_text(&b, m, &o, "");
        assert_same_answer(&a, &b);
    }
    retrace_rule_free(r);
    greedy_with(&a, m, NULL, 50, "");
    greedy_with(&b, m, ban_rule("zebra", NULL), 50, "");
    assert_same_answer(&a, &b);
    retrace_model_close(m);
}

static void a_full_context_loops(void **unused) {
    (void)unused;
    retrace_model *m = open_table(
        "{\"n_ctx\": 64, \"tokens\": [\"a\", \"b\", \"c\"], \"rows\": [{\"context\": [], \"next\":"
        " {\"a\": 5, \"b\": 3, \"c\": 2}}]}");
    retrace_rule *r = ban_rule("ab", "cc");
    retrace_options o = plain_options(1000);
    o.rules = &r;
    o.n_rules = 1;
    for (o.seed = 0; o.seed < 50; o.seed++) {
        finish_text(&a, m, &o, "abc");
        assert_int_equal(a.finish, RETRACE_FINISH_LENGTH);
        assert_int_equal(a.n_tokens, 61);
        assert_true(a.stats.rewinds > 0);
        assert_null(strstr(a.text, "ab"));
        assert_null(strstr(a.text, "cc"));
    }
    retrace_rule_free(r);
    retrace_model_close(m);
}

#define TEST(f) cmocka_unit_test(f)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(bans_that_share_a_stem_stall),
        TEST(nothing_acceptable_is_left_and_it_stops),
        TEST(the_first_hit_crashes),
        TEST(a_list_of_several_phrases_cannot_be_given),
        TEST(a_phrase_in_capitals_is_not_found),
        TEST(a_ban_leaks_into_later_sentences),
        TEST(a_list_is_read_in_odd_ways),
        TEST(a_ban_only_deletes_the_text),
        TEST(a_retry_costs_an_evaluation),
        TEST(a_word_passes_with_a_space_or_in_pieces),
        TEST(a_word_passes_in_other_splits),
        TEST(banning_impossible_bans_possible),
        TEST(only_listed_spellings_are_found),
        TEST(a_short_word_bans_every_token_that_holds_it),
        TEST(the_first_text_waits_for_the_longest_phrase),
        TEST(a_phrase_on_the_last_token_passes),
        TEST(a_long_text_runs_out_of_retries),
        TEST(a_retry_forgets_the_temperature),
        TEST(streamed_and_whole_answers_differ),
        TEST(the_held_end_is_never_sent),
        TEST(held_text_is_sent_twice),
        TEST(a_control_token_as_stop_is_never_seen),
        TEST(a_stop_takes_back_what_was_sent),
        TEST(an_unfinished_character_is_lost_or_crashes),
        TEST(tokenising_part_of_a_character_aborts),
        TEST(ids_and_text_part_at_a_split_character),
        TEST(penalties_remember_erased_tokens),
        TEST(a_seed_gives_another_text_each_time),
        TEST(a_list_that_never_fires_changes_the_text),
        TEST(a_full_context_loops),
    };
    return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
