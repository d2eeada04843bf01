/* real_rules.c - every rule of the catalogue on the real model, by its defaults: at temperature 1
 * and 0 it keeps as many tokens as were asked for and tells what it did.
 *
 * RETRACE_MODEL names the model; without it the test is skipped. A few tokens, or, with
 * RETRACE_LONG, 300. */
#include "helper.h"

static answer a;
static retrace_model *model;
static int tokens = 12;

/* What a rule needs to do anything. Rules that are not here need nothing. */
static const struct {
    const char *name, *spec;
} specs[] = {
    {"phrases", "phrases:text=\" the\""},
    {"regex", "regex:pattern=\"[Tt]he \\\\w+ (and|of)\""},
    {"replace", "replace:find=\" was\",replace=\" had been\""},
    {"grammar", "grammar:text=\"root ::= (word \\\" \\\")* word\nword ::= [A-Za-z,.]+\""},
    {"json", "json:schema=\"{\\\"type\\\": \\\"array\\\", \\\"minItems\\\": 400, \\\"items\\\": "
             "{\\\"type\\\": \\\"string\\\"}}\""},
};

static const char *spec_of(const char *name) {
    for (int i = 0; i < COUNT(specs); i++) {
        if (strcmp(specs[i].name, name) == 0) return specs[i].spec;
    }
    return name;
}

static retrace_rule *rule_of(const char *spec) {
    retrace_rule_spec *parsed;
    retrace_rule *rule;
    retrace_error err;
    if (retrace_rule_parse(&parsed, spec, &err)) fail_msg("%s: %s", spec, err.msg);
    if (retrace_rule_new(&rule, parsed->name, parsed->settings, parsed->n_settings, &err))
        fail_msg("%s: %s", spec, err.msg);
    retrace_free(parsed);
    return rule;
}

static void run_with(const char *name, double temp) {
    retrace_error err;
    retrace_run *run;
    retrace_rule_stats stats;
    retrace_rule *rule = rule_of(spec_of(name));
    retrace_options o;
    retrace_token *prompt;
    int n;
    retrace_options_default(&o);
    o.max_tokens = tokens;
    o.seed = 1;
    o.temp = temp;
    o.ignore_eos = 1;
    o.rules = &rule;
    o.n_rules = 1;
    assert_int_equal(retrace_tokenize(model, text_of("Once upon a time"), RETRACE_TOKENIZE_BOS,
                                      &prompt, &n, &err),
                     RETRACE_OK);
    answer_start(&a);
    if (retrace_run_new(&run, model, &o, prompt, n, &err)) fail_msg("%s: %s", name, err.msg);
    if (retrace_run_finish(run, see_event, &a, &err)) fail_msg("%s: %s", name, err.msg);
    answer_end(&a, run);
    const char *why = broken(model, &a);
    if (why) fail_msg("%s at temperature %g: %s", name, temp, why);
    assert_int_equal(retrace_run_rule_stats(run, 0, &stats), 1);
    print_message("%-22s T=%g: %lld hits, %lld rewinds, %lld accepted, %lld evaluated\n", name,
                  temp, (long long)stats.hits, (long long)a.stats.rewinds,
                  (long long)stats.accepted, (long long)a.stats.evaluated);
    if (a.finish != RETRACE_FINISH_LENGTH || a.n_tokens != tokens)
        fail_msg("%s at temperature %g: %d of %d tokens, finish %s", name, temp, a.n_tokens, tokens,
                 retrace_finish_name(a.finish));
    retrace_run_free(run);
    retrace_rule_free(rule);
    retrace_free(prompt);
}

static void every_rule_keeps_its_tokens(void **state) {
    (void)state;
    retrace_plugin_info rule;
    if (!model) skip();
    for (int i = 0; retrace_rule_at(i, &rule); i++) {
        run_with(rule.name, 1);
        run_with(rule.name, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_rule_keeps_its_tokens)};
    const char *path = getenv("RETRACE_MODEL");
    retrace_error err;
    if (path && retrace_model_open(&model, path, NULL, 0, &err)) {
        fprintf(stderr, "real_rules: %s\n", err.msg);
        return 1;
    }
    if (getenv("RETRACE_LONG")) tokens = 300;
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    retrace_model_close(model);
    return rc;
}
