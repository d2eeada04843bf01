/* test_table.c - table files that are wrong, each refused with what is wrong; and that a rule's own
 * draws do not depend on which other rules there are. */
#include "helper.h"

#include <sys/stat.h>

#define TOKENS                                                                                     \
    "{\"tokens\": [\"a\", \"b\", {\"text\": \"<e>\", \"end\": %s}], \"rows\": [{\"context\": [], " \
    "\"next\": {%s}}]}"

static void refused(const char *end, const char *next, const char *says) {
    char json[512];
    retrace_model *m = NULL;
    retrace_error err = {0};
    snprintf(json, sizeof json, TOKENS, end, next);
    assert_int_equal(try_table(&m, json, strlen(json), NULL, 0, &err), RETRACE_EMODEL);
    if (!strstr(err.msg, says)) fail_msg("'%s' does not say '%s'", err.msg, says);
}

static void a_wrong_table_is_told_apart(void **unused) {
    (void)unused;
    refused("\"yes\"", "\"a\": 1", "not true or false");
    refused("1", "\"a\": 1", "not true or false");
    refused("true", "\"a\": 0, \"0\": 1", "names a token twice");
    refused("true", "\"a\": 1, \"0\": 1", "names a token twice");
    refused("true", "\"a\": 1e308, \"b\": 1e308", "too large");
    refused("true", "\"a\": 0", "no weight above 0");
    refused("true", "\"a\": -1", "not a number >= 0");
    refused("true", "\"z\": 1", "names no token");
}

static void a_pipe_or_a_folder_is_no_table(void **unused) {
    (void)unused;
    char path[64] = "/tmp/retrace-pipe-XXXXXX", uri[80];
    retrace_model *m = NULL;
    retrace_error err = {0};
    assert_int_equal(close(mkstemp(path)), 0);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(uri, sizeof uri, "table:%s", path);
    assert_int_equal(retrace_model_open(&m, uri, NULL, 0, &err), RETRACE_EIO);
    unlink(path);
    assert_int_equal(retrace_model_open(&m, "table:/tmp", NULL, 0, &err), RETRACE_EIO);
}

/* The text of one run under these rules. */
static void write_text(retrace_model *m, retrace_rule *const *rules, int n, int64_t seed, char *out,
                       size_t room) {
    retrace_options o;
    retrace_run *run = NULL;
    retrace_options_default(&o);
    o.max_tokens = 40;
    o.temp = 1;
    o.seed = seed;
    o.rules = rules;
    o.n_rules = n;
    o.on_stuck = RETRACE_STUCK_STOP;
    assert_int_equal(retrace_run_new(&run, m, &o, NULL, 0, NULL), RETRACE_OK);
    assert_int_equal(retrace_run_finish(run, NULL, NULL, NULL), RETRACE_OK);
    retrace_text text = retrace_run_text(run);
    snprintf(out, room, "%.*s", (int)text.n, text.s);
    retrace_run_free(run);
}

static retrace_rule *rule(const char *text, const char *weight) {
    retrace_rule *r = NULL;
    retrace_setting s[] = {{"text", text_of(text)}, {"weight", text_of(weight)}};
    assert_int_equal(retrace_rule_new(&r, "phrases", s, 2, NULL), RETRACE_OK);
    return r;
}

static void a_rule_that_never_fires_leaves_the_draws_of_others(void **unused) {
    (void)unused;
    char alone[256], behind[256], json[512];
    int differ = 0;
    snprintf(json, sizeof json, TOKENS, "true", "\"a\": 1, \"b\": 1");
    retrace_model *m = open_table(json);
    retrace_rule *soft = rule("ab", "0.5"), *never = rule("zzz", "0"), *twin = rule("ab", "0.5");
    for (int64_t seed = 0; seed < 50; seed++) {
        write_text(m, (retrace_rule *[]){soft}, 1, seed, alone, sizeof alone);
        write_text(m, (retrace_rule *[]){never, soft}, 2, seed, behind, sizeof behind);
        assert_string_equal(alone, behind);
        write_text(m, (retrace_rule *[]){twin, soft}, 2, seed, behind, sizeof behind);
        differ += strcmp(alone, behind) != 0; /* two equal rules draw for themselves */
    }
    assert_true(differ > 0);
    retrace_rule_free(soft);
    retrace_rule_free(never);
    retrace_rule_free(twin);
    retrace_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_table_is_told_apart),
        cmocka_unit_test(a_pipe_or_a_folder_is_no_table),
        cmocka_unit_test(a_rule_that_never_fires_leaves_the_draws_of_others),
    };
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
