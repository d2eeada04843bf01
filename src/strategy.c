/* strategy.c - the table of rules and drivers, and a rule with its settings.
 *
 * Adding one: a file in src/strategies/, a line in strategies/strategies.h, a row here. */
#include "strategy.h"
#include "base.h"
#include "strategies/strategies.h"

#include <string.h>

static const retrace_rule_type *const rules[] = {
    &rt_rule_phrases,
    &rt_rule_regex,
    &rt_rule_replace,
    &rt_rule_creative,
    &rt_rule_adaptive_temperature,
    &rt_rule_dry,
    &rt_rule_probability_threshold,
    &rt_rule_entropy_threshold,
    &rt_rule_probability_margin,
    &rt_rule_probability_drop,
    &rt_rule_probability_trend,
    &rt_rule_repetition,
    &rt_rule_ngram_overlap,
    &rt_rule_logit_threshold,
    &rt_rule_grammar,
    &rt_rule_json,
    &rt_rule_debug,
};
static const retrace_driver_type *const drivers[] = {&rt_driver_sample, &rt_driver_guide};

enum { N_RULES = sizeof rules / sizeof *rules, N_DRIVERS = sizeof drivers / sizeof *drivers };

int retrace_rule_at(int i, retrace_plugin_info *out) {
    if (i < 0 || i >= N_RULES) return 0;
    *out = (retrace_plugin_info){rules[i]->name, "rule", rules[i]->help, rules[i]->settings};
    return 1;
}

int retrace_driver_at(int i, retrace_plugin_info *out) {
    if (i < 0 || i >= N_DRIVERS) return 0;
    *out =
        (retrace_plugin_info){drivers[i]->name, "driver", drivers[i]->help, drivers[i]->settings};
    return 1;
}

static const retrace_driver_type *find_driver(const char *name) {
    for (int i = 0; i < N_DRIVERS; i++) {
        if (strcmp(drivers[i]->name, name) == 0) return drivers[i];
    }
    return NULL;
}

int rt_driver_make(const retrace_driver_type **type, void **self, const char *spec,
                   retrace_error *err) {
    retrace_rule_spec *parsed;
    *self = NULL;
    int rc = retrace_rule_parse(&parsed, spec ? spec : drivers[0]->name, err);
    if (rc) return rc;
    *type = find_driver(parsed->name);
    if (!*type) rc = retrace_fail(err, RETRACE_EUSAGE, "unknown driver '%s'", parsed->name);
    if (rc == RETRACE_OK) {
        *self = retrace_calloc(1, (*type)->size ? (*type)->size : 1);
        rc = !*self ? rt_nomem(err)
                    : retrace_settings_fill(*self, (*type)->settings, parsed->settings,
                                            parsed->n_settings, parsed->name, err);
    }
    if (rc) {
        rt_driver_free(*type, *self);
        *self = NULL;
    }
    retrace_free(parsed);
    return rc;
}

void rt_driver_free(const retrace_driver_type *type, void *self) {
    if (!self) return;
    retrace_settings_free(self, type->settings);
    retrace_free(self);
}

static const retrace_rule_type *find(const char *name) {
    for (int i = 0; i < N_RULES; i++) {
        if (strcmp(rules[i]->name, name) == 0) return rules[i];
    }
    return NULL;
}

int retrace_rule_new(retrace_rule **out, const char *name, const retrace_setting *settings,
                     int n_settings, retrace_error *err) {
    rt_clear(err);
    const retrace_rule_type *type = find(name);
    if (!type) return retrace_fail(err, RETRACE_EUSAGE, "unknown rule '%s'", name);
    return rt_rule_make(out, type, settings, n_settings, err);
}

static uint64_t digest(const char *name, const retrace_setting *settings, int n) {
    uint64_t h = rt_digest(1, name, strlen(name));
    for (int i = 0; i < n; i++) {
        h = rt_digest(h, settings[i].name, strlen(settings[i].name));
        h = rt_digest(h, settings[i].value.s, settings[i].value.n);
    }
    return h;
}

int rt_rule_make(retrace_rule **out, const retrace_rule_type *type, const retrace_setting *settings,
                 int n_settings, retrace_error *err) {
    retrace_rule *rule = retrace_calloc(1, sizeof *rule);
    if (!rule) return rt_nomem(err);
    rule->type = type;
    rule->digest = digest(type->name, settings, n_settings);
    rule->self = retrace_calloc(1, type->size ? type->size : 1);
    int rc = rule->self ? RETRACE_OK : rt_nomem(err);
    if (rc == RETRACE_OK)
        rc = retrace_settings_fill(rule->self, type->settings, settings, n_settings, type->name,
                                   err);
    if (rc == RETRACE_OK && type->init) rc = type->init(rule->self, err);
    if (rc) {
        retrace_rule_free(rule);
        return rc;
    }
    *out = rule;
    return RETRACE_OK;
}

void retrace_rule_free(retrace_rule *rule) {
    if (!rule) return;
    if (rule->self) {
        if (rule->type->fini) rule->type->fini(rule->self);
        retrace_settings_free(rule->self, rule->type->settings);
    }
    retrace_free(rule->self);
    retrace_free(rule);
}
