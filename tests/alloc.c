/* alloc.c - every allocation fails once, and the library says so, loses nothing and goes on.
 *
 * A scenario is run with its k-th allocation failing, for k = 1, 2, ... until one ends without
 * having met the fault; once with only that one failing, once with all from there on. Each time it
 * must succeed or return RETRACE_ENOMEM, leave no block behind, and succeed when repeated without
 * faults. */
#include "helper.h"

#include <jansson.h>

/* ==== An allocator that fails on demand ==== */

static struct {
    long count;   /* allocations so far */
    long fail_at; /* the one that fails; 0: none */
    int for_ever; /* and all after it */
    int met;      /* a fault was met */
    long blocks;
    size_t bytes;
} heap;

enum { HEAD = 32 };

static int fails(void) {
    heap.count++;
    int now =
        heap.fail_at && (heap.for_ever ? heap.count >= heap.fail_at : heap.count == heap.fail_at);
    heap.met |= now;
    return now;
}

static void *counted(void *ud, void *ptr, size_t old_size, size_t new_size) {
    assert_ptr_equal(ud, &heap);
    char *head = ptr ? (char *)ptr - HEAD : NULL;
    size_t known = 0;
    if (head) memcpy(&known, head, sizeof known);
    assert_int_equal(old_size, known); /* blocks come back with their own sizes */
    if (new_size == 0) {
        if (head) heap.blocks--;
        heap.bytes -= known;
        free(head);
        return NULL;
    }
    if (fails()) return NULL;
    char *fresh = malloc(new_size + HEAD); /* always elsewhere: stale pointers show */
    assert_non_null(fresh);
    memcpy(fresh, &new_size, sizeof new_size);
    if (head)
        memcpy(fresh + HEAD, head + HEAD, known < new_size ? known : new_size);
    else
        heap.blocks++;
    heap.bytes += new_size - known;
    free(head);
    return fresh + HEAD;
}

static void arm(long k, int for_ever) {
    heap.count = 0;
    heap.fail_at = k;
    heap.for_ever = for_ever;
    heap.met = 0;
}

/* ==== Scenarios ==== */

static const char table[] =
    "{\"tokens\": [\"a\", \"b\", \"ab\", {\"bytes\": [195]}, {\"bytes\": [169]}, \" \","
    " {\"text\": \"<|u|>\", \"control\": true}, {\"text\": \"</s>\", \"end\": true}],"
    " \"n_ctx\": 64, \"chat_template\": \"<|u|>{content} \","
    " \"rows\": [{\"context\": [], \"next\": {\"a\": 5, \"b\": 4, \"ab\": 2, \"3\": 2, \" \": 1,"
    " \"</s>\": 0.1}},"
    " {\"context\": [\"a\"], \"next\": {\"b\": 8, \"a\": 1}},"
    " {\"context\": [3], \"next\": {\"4\": 1}}, {\"context\": [\"a\", \"b\"], \"next\": {\"a\": 1,"
    " \" \": 1}}]}";
static char path[512];

/* Each returns a status and leaves nothing behind. */
typedef int scenario(retrace_error *err);

static int open_it(retrace_model **m, retrace_error *err) {
    char uri[600];
    snprintf(uri, sizeof uri, "table:%s", path);
    retrace_setting s[] = {{"keep_mib", text_of("1")}};
    return retrace_model_open(m, uri, s, 1, err);
}

static int opens(retrace_error *err) {
    retrace_model *m = NULL;
    int rc = open_it(&m, err);
    retrace_model_close(m);
    return rc;
}

static int parses_a_rule(retrace_error *err) {
    retrace_rule_spec *spec = NULL;
    retrace_rule *r = NULL;
    const char *typed = "phrases:text=\"a,\\\"b\",text=ab,word=true,weight=0.5,case=exact";
    int rc = retrace_rule_parse(&spec, typed, err);
    if (rc == RETRACE_OK)
        rc = retrace_rule_new(&r, spec->name, spec->settings, spec->n_settings, err);
    retrace_rule_free(r);
    retrace_free(spec);
    return rc;
}

static int new_rule(retrace_rule **r, retrace_error *err) {
    const char *pairs[] = {"text",   "Ab a",
                           "text",   "\xc3\x89t\xc3\xa9",
                           "file",   "a a\n\"bb \"\n# c\nb\xc3\xa9",
                           "nfc",    "true",
                           "quotes", "true",
                           "space",  "true",
                           "word",   "start",
                           NULL};
    return try_rule(r, "phrases", pairs, err);
}

static int makes_a_rule(retrace_error *err) {
    retrace_rule *r = NULL;
    int rc = new_rule(&r, err);
    retrace_rule_free(r);
    return rc;
}

static int new_regex(retrace_rule **r, retrace_error *err) {
    const char *pairs[] = {"pattern", "b(?=a+ )|(?<=\xc3\xa9)a.b", "pattern", "^b|\\bab\\b",
                           "file",    "# c\na.{2,3} \n",           "case",    "fold",
                           NULL};
    return try_rule(r, "regex", pairs, err);
}

static int makes_a_regex(retrace_error *err) {
    retrace_rule *r = NULL;
    int rc = new_regex(&r, err);
    retrace_rule_free(r);
    return rc;
}

static int reads_text(retrace_error *err) {
    retrace_model *m = NULL;
    retrace_token *tokens = NULL, *chat = NULL;
    int n = 0, rc = open_it(&m, err);
    if (rc == RETRACE_OK)
        rc = retrace_tokenize(m, text_of("ab a<|u|>b\xc3\xa9"), RETRACE_TOKENIZE_SPECIAL, &tokens,
                              &n, err);
    retrace_message messages[] = {{.role = "system", .content = text_of("a")},
                                  {.role = "user", .content = text_of("b ab")}};
    if (rc == RETRACE_OK) rc = retrace_chat(m, messages, 2, &chat, &n, err);
    retrace_free(tokens);
    retrace_free(chat);
    retrace_model_close(m);
    return rc;
}

static int fits(const retrace_model *m, const retrace_reply *said, retrace_error *err) {
    retrace_token *v = NULL;
    int *singles = NULL, n, n_pairs, dropped;
    int rc = retrace_chat_fit(m, said->messages, said->n_messages, 40, &v, &n, &dropped, err);
    if (rc == RETRACE_OK) {
        assert_int_equal(dropped, 2);
        rc = retrace_chat_singles(m, said->messages, said->n_messages, dropped, &singles, &n_pairs,
                                  err);
    }
    retrace_free(v);
    retrace_free(singles);
    return rc;
}

/* Two turns, the second of which holds the first one's tokens; a stop text cuts inside a token. */
static int converses(retrace_error *err) {
    retrace_model *m = NULL;
    retrace_reply *said = NULL;
    retrace_text stop = text_of("b");
    int rc = open_it(&m, err);
    for (int i = 0; i < 2 && rc == RETRACE_OK; i++) {
        retrace_message list[4];
        retrace_reply *next = NULL;
        retrace_options o = plain_options(10);
        o.seed = 3;
        o.stops = &stop;
        o.n_stops = i;
        for (int k = 0; k < 2 * i; k++) list[k] = said->messages[k];
        list[2 * i] = (retrace_message){.role = "user", .content = text_of("b ab ab a b")};
        rc = retrace_answer(&next, m, &o, list, 2 * i + 1, NULL, NULL, err);
        assert_int_equal(rc == RETRACE_OK, next != NULL);
        retrace_free(said);
        said = next;
    }
    if (rc == RETRACE_OK) rc = fits(m, said, err);
    retrace_free(said);
    retrace_model_close(m);
    return rc;
}

/* What the runs wrote, to be the same whatever failed before. */
static char right[4096];

static void add_text(char *out, retrace_text t) {
    size_t at = strlen(out);
    assert_true(at + t.n + 2 < sizeof right);
    memcpy(out + at, t.s, t.n);
    out[at + t.n] = '|';
    out[at + t.n + 1] = 0;
}

static retrace_options options_of(int seed) {
    retrace_options o = plain_options(30);
    o.seed = seed;
    o.logprobs = seed % 3 - 1;
    o.repeat_penalty = 1.1;
    o.frequency_penalty = 0.1;
    o.top_k = seed % 2 ? 0 : 4;
    o.typical = seed % 4 ? 1 : 0.9;
    o.top_p = 0.98;
    o.min_p = 0.01;
    o.hold = seed % 2;
    o.on_stuck = RETRACE_STUCK_ALLOW;
    return o;
}

/* A few runs on one model, each with more of the settings. */
static int some_runs(retrace_model *m, retrace_rule *const *rules, char *out, retrace_error *err) {
    int rc = RETRACE_OK;
    retrace_text stops[] = {text_of("bba"), text_of("<|u|>")};
    retrace_bias bias[] = {{0, 0.5}, {6, -1}};
    retrace_token prompt[] = {0, 5};
    for (int seed = 0; rc == RETRACE_OK && seed < 6; seed++) {
        retrace_options o = options_of(seed);
        retrace_run *run = NULL;
        o.rules = rules;
        o.n_rules = 2;
        o.stops = stops;
        o.n_stops = seed % 3;
        o.bias = bias;
        o.n_bias = seed % 3;
        rc = retrace_run_new(&run, m, &o, prompt, 2, err);
        if (rc == RETRACE_OK) rc = retrace_run_finish(run, NULL, NULL, err);
        if (rc == RETRACE_OK)
            add_text(out, retrace_run_text(run));
        else if (run)
            assert_int_equal(retrace_run_finished(run), RETRACE_FINISH_ERROR);
        retrace_run_free(run);
    }
    return rc;
}

static int two_rules(retrace_rule **rules, retrace_error *err) {
    const char *pairs[] = {"text", "ba", "text", "ab ", "weight", "0.3", NULL};
    int rc = new_rule(&rules[0], err);
    return rc ? rc : try_rule(&rules[1], "phrases", pairs, err);
}

/* An answer that is taken up again and again. A failure while it is leaves the run as it was. */
static int take_up(retrace_run *run, int round, retrace_error *err) {
    static const retrace_choice choices[] = {
        {.kind = RETRACE_CHOOSE_TEXT, .text = {"ab a", 4}},
        {.kind = RETRACE_CHOOSE_TOKEN, .token = 2},
        {.kind = RETRACE_CHOOSE_DRAW},
    };
    int n, now, rc;
    retrace_run_tokens(run, &n);
    rc = retrace_run_reopen(run, n / 2, 20, &choices[round % 3], err);
    if (rc == RETRACE_ENOMEM) {
        retrace_run_tokens(run, &now);
        assert_int_equal(now, n);
        assert_int_not_equal(retrace_run_finished(run), RETRACE_FINISH_NONE);
    }
    return rc ? rc : retrace_run_finish(run, NULL, NULL, err);
}

static int writes_on(retrace_error *err) {
    retrace_model *m = NULL;
    retrace_rule *r = NULL;
    retrace_run *run = NULL;
    const char *pairs[] = {"text", "aab", NULL};
    int rc = open_it(&m, err);
    if (rc == RETRACE_OK) rc = try_rule(&r, "phrases", pairs, err);
    retrace_options o = options_of(1);
    o.rules = &r;
    o.n_rules = 1;
    if (rc == RETRACE_OK) rc = retrace_run_new(&run, m, &o, (retrace_token[]){0, 5}, 2, err);
    if (rc == RETRACE_OK) rc = retrace_run_finish(run, NULL, NULL, err);
    for (int i = 0; i < 6 && rc == RETRACE_OK; i++) rc = take_up(run, i, err);
    retrace_run_free(run);
    retrace_rule_free(r);
    retrace_model_close(m);
    return rc;
}

static int writes_answers(retrace_error *err) {
    retrace_model *m = NULL;
    retrace_rule *rules[2] = {NULL, NULL};
    char out[sizeof right] = "";
    int rc = open_it(&m, err);
    if (rc == RETRACE_OK) rc = two_rules(rules, err);
    if (rc == RETRACE_OK) rc = some_runs(m, rules, out, err);
    if (rc == RETRACE_OK && !right[0]) memcpy(right, out, sizeof right);
    if (rc == RETRACE_OK) assert_string_equal(out, right);
    retrace_rule_free(rules[0]);
    retrace_rule_free(rules[1]);
    retrace_model_close(m);
    return rc;
}

/* Marks that own memory. */
static int writes_under_a_regex(retrace_error *err) {
    retrace_model *m = NULL;
    retrace_rule *r = NULL;
    retrace_run *run = NULL;
    retrace_token prompt[] = {0, 5};
    int rc = open_it(&m, err);
    if (rc == RETRACE_OK) rc = new_regex(&r, err);
    retrace_options o = options_of(1);
    o.rules = &r;
    o.n_rules = 1;
    if (rc == RETRACE_OK) rc = retrace_run_new(&run, m, &o, prompt, 2, err);
    if (rc == RETRACE_OK) rc = retrace_run_finish(run, NULL, NULL, err);
    retrace_run_free(run);
    retrace_rule_free(r);
    retrace_model_close(m);
    return rc;
}

/* A schema with every kind of part becomes a rule; answers by a grammar, with a ban beside it. */
static int constrains(retrace_error *err) {
    static const char schema[] =
        "{\"properties\":{\"a\":{\"enum\":[1,\"x\"]},\"b\":{\"type\":[\"number\",\"null\"],"
        "\"minimum\":-3},\"c\":{\"pattern\":\"^a+[^b]$\"},\"d\":{\"items\":{\"$ref\":\"#\"}}},"
        "\"allOf\":[{\"required\":[\"a\"]},{\"properties\":{\"e\":{\"maxLength\":2}}}],"
        "\"additionalProperties\":true}";
    const char *pairs[] = {"schema", schema, NULL};
    const char *gbnf[] = {"text", "root ::= (\"a\" x | [b ] \"b\"){1,9}\nx ::= x [ab] | \"\"",
                          NULL};
    retrace_model *m = NULL;
    retrace_rule *rules[3] = {NULL, NULL, NULL};
    char out[sizeof right] = "";
    int rc = open_it(&m, err);
    if (rc == RETRACE_OK) rc = try_rule(&rules[2], "json", pairs, err);
    if (rc == RETRACE_OK) rc = try_rule(&rules[0], "grammar", gbnf, err);
    if (rc == RETRACE_OK) rc = new_rule(&rules[1], err);
    if (rc == RETRACE_OK) rc = some_runs(m, rules, out, err);
    for (int i = 0; i < 3; i++) retrace_rule_free(rules[i]);
    retrace_model_close(m);
    return rc;
}

/* A chain's law, rows and columns. */
static int makes_a_chain(retrace_error *err) {
    retrace_model *m = NULL;
    retrace_bigram *b = NULL;
    retrace_token anchor[] = {0, 5};
    double logp[8];
    int rc = open_it(&m, err);
    if (rc == RETRACE_OK) rc = retrace_bigram_of(&b, m, (retrace_anchor){anchor, 2}, err);
    if (rc == RETRACE_OK) rc = retrace_bigram_row(b, 3, logp, err);
    if (rc == RETRACE_OK) rc = retrace_bigram_column(b, 3, logp, err);
    retrace_bigram_close(b);
    retrace_model_close(m);
    return rc;
}

/* ==== The sweep ==== */

/* Three texts by one mode, in two steps each. */
static int looks_back(int mode, double threshold, double top_p, retrace_error *err) {
    retrace_model *m = NULL;
    retrace_bigram *chain = NULL;
    retrace_backward *b = NULL;
    retrace_token suffix[] = {1, 3, 4};
    retrace_backward_options o;
    retrace_backward_default(&o);
    o.mode = mode;
    o.threshold = threshold;
    o.top_p = top_p;
    o.budget = mode == RETRACE_EXHAUSTIVE ? 0 : 3;
    o.num_samples = 3;
    o.max_tokens = 2;
    o.batch_size = 2;
    o.seed = 3;
    int rc = open_it(&m, err);
    if (rc == RETRACE_OK) rc = retrace_bigram_of(&chain, m, (retrace_anchor){NULL, -1}, err);
    if (rc == RETRACE_OK) rc = retrace_backward_new(&b, m, chain, &o, suffix, 3, err);
    if (rc == RETRACE_OK) rc = retrace_backward_finish(b, NULL, NULL, err);
    retrace_backward_free(b);
    retrace_bigram_close(chain);
    retrace_model_close(m);
    return rc;
}

static int looks_back_by_sample(retrace_error *err) {
    return looks_back(RETRACE_PRIORITY, 0.9, 0.8, err);
}

static int looks_back_by_race(retrace_error *err) {
    return looks_back(RETRACE_EXACT, 0, 1, err);
}

static int looks_back_at_all(retrace_error *err) {
    return looks_back(RETRACE_EXHAUSTIVE, 0, 1, err);
}

static int looks_back_as_before(retrace_error *err) {
    return looks_back(RETRACE_COMPAT, 0.5, 1, err);
}

static void one_fault(scenario *f, long k, int for_ever) {
    retrace_error err = {0};
    arm(k, for_ever);
    int rc = f(&err);
    if (rc != RETRACE_OK && rc != RETRACE_ENOMEM)
        fail_msg("allocation %ld failed%s: status %d, %s", k, for_ever ? " for ever" : "", rc,
                 err.msg);
    if (rc == RETRACE_ENOMEM) {
        assert_true(heap.met);
        assert_int_equal(err.code, RETRACE_ENOMEM);
        assert_true(err.msg[0] != 0);
    } else if (heap.met && for_ever) {
        fail_msg("allocation %ld failed for ever and nobody minded", k);
    }
    if (heap.blocks || heap.bytes) fail_msg("allocation %ld: %ld blocks left", k, heap.blocks);
}

static void sweep(scenario *f) {
    long points = 0;
    retrace_set_alloc(counted, &heap);
    arm(0, 0);
    assert_int_equal(f(NULL), RETRACE_OK);
    assert_true(heap.count > 0);
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        for (long k = 1, met = 1; met; k++) {
            one_fault(f, k, for_ever);
            met = heap.met;
            points += met;
            if (met && k % 8 != 0) continue;
            retrace_error err = {0};
            arm(0, 0);
            if (f(&err)) fail_msg("allocation %ld failed before: %s", k, err.msg);
            assert_int_equal(heap.blocks, 0);
        }
    }
    retrace_set_alloc(NULL, NULL);
    print_message("  %ld faults\n", points);
}

static void opening_survives(void **unused) {
    (void)unused;
    sweep(opens);
}

static void constraints_survive(void **unused) {
    (void)unused;
    sweep(constrains);
}

static void rules_survive(void **unused) {
    (void)unused;
    sweep(parses_a_rule);
    sweep(makes_a_rule);
    sweep(makes_a_regex);
}

static void reading_survives(void **unused) {
    (void)unused;
    sweep(reads_text);
    sweep(converses);
}

static void chains_survive(void **unused) {
    (void)unused;
    sweep(makes_a_chain);
}

static void looking_back_survives(void **unused) {
    (void)unused;
    sweep(looks_back_by_sample);
    sweep(looks_back_by_race);
    sweep(looks_back_at_all);
    sweep(looks_back_as_before);
}

static void writing_survives(void **unused) {
    (void)unused;
    sweep(writes_answers);
    sweep(writes_under_a_regex);
    sweep(writes_on);
}

/* A model on which a run has failed gives the same answers as before. */
static void a_model_is_usable_after_a_failed_run(void **unused) {
    (void)unused;
    retrace_model *m = NULL;
    retrace_rule *rules[2] = {NULL, NULL};
    retrace_error err = {0};
    retrace_set_alloc(counted, &heap);
    arm(0, 0);
    assert_int_equal(open_it(&m, &err), RETRACE_OK);
    assert_int_equal(two_rules(rules, &err), RETRACE_OK);
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        int met = 1;
        for (long k = 1; met; k += 1 + k / 16) {
            char out[sizeof right] = "", again[sizeof right] = "";
            arm(k, for_ever);
            int rc = some_runs(m, rules, out, &err);
            met = heap.met;
            arm(0, 0);
            if (rc && rc != RETRACE_ENOMEM) fail_msg("allocation %ld: %d, %s", k, rc, err.msg);
            assert_int_equal(some_runs(m, rules, again, &err), RETRACE_OK);
            assert_string_equal(again, right);
            assert_int_equal(strncmp(out, right, strlen(out)), 0);
        }
    }
    retrace_rule_free(rules[0]);
    retrace_rule_free(rules[1]);
    retrace_model_close(m);
    assert_int_equal(heap.blocks, 0);
    assert_int_equal(heap.bytes, 0);
    retrace_set_alloc(NULL, NULL);
}

/* The JSON reader's own allocations: an error, never a crash, and nothing left of ours. jansson
 * itself does not always know that it ran out of memory, so the file may be called broken. */
static void *json_counted(size_t n) {
    return fails() ? NULL : malloc(n);
}

static void the_json_reader_may_fail(void **unused) {
    (void)unused;
    json_set_alloc_funcs(json_counted, free);
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        int met = 1;
        for (long k = 1; met; k++) {
            retrace_error err = {0};
            arm(k, for_ever);
            int rc = opens(&err);
            met = heap.met;
            if (rc && rc != RETRACE_ENOMEM && rc != RETRACE_EMODEL)
                fail_msg("allocation %ld: status %d, %s", k, rc, err.msg);
        }
    }
    json_set_alloc_funcs(malloc, free);
    arm(0, 0);
    assert_int_equal(opens(NULL), RETRACE_OK);
}

static int write_table(void **unused) {
    (void)unused;
    const char *dir = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/retrace-alloc-XXXXXX", dir && *dir ? dir : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, table, strlen(table)) != (ssize_t)strlen(table)) return -1;
    return close(fd);
}

static int remove_table(void **unused) {
    (void)unused;
    return unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_survives),
        cmocka_unit_test(rules_survive),
        cmocka_unit_test(constraints_survive),
        cmocka_unit_test(reading_survives),
        cmocka_unit_test(writing_survives),
        cmocka_unit_test(chains_survive),
        cmocka_unit_test(looking_back_survives),
        cmocka_unit_test(a_model_is_usable_after_a_failed_run),
        cmocka_unit_test(the_json_reader_may_fail),
    };
    return cmocka_run_group_tests_name("alloc", tests, write_table, remove_table);
}
