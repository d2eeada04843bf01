/* change.c - settings and rules of the next answer, changed while the conversation goes on.
 *
 * A change is made to a copy of the plan's JSON and compiled; only what compiles takes its place.
 * The plan before it lives on while the last answer's run holds its rules. */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

void chat_plan_free(cli_plan *p) {
    if (!p) return;
    cli_plan_free(p);
    free(p);
}

json_t *chat_plan_settings(const chat_talk *t) {
    return json_object_get(t->plan->json, "settings");
}

static json_t *rules_of(const cli_plan *p) {
    return json_object_get(json_object_get(p->json, "settings"), "rules");
}

static cli_plan *plan_on(const chat_talk *t, json_t *json) {
    cli_plan *p = cli_alloc(sizeof *p);
    p->json = json;
    p->files = json_array();
    p->flags = t->flags;
    for (size_t i = json_array_size(rules_of(p)); i > 0; i--)
        json_array_append_new(p->files, json_object());
    return p;
}

static cli_plan *compiled(cli_plan *p, const char *where, int *code) {
    *code = cli_plan_rules(p, where);
    if (!*code) *code = cli_plan_options(p, where);
    if (!*code) return p;
    chat_plan_free(p);
    return NULL;
}

cli_plan *chat_plan_of(const chat_talk *t, json_t *json, const char *where, int *code) {
    return compiled(plan_on(t, json), where, code);
}

void chat_plan_take(chat_talk *t, cli_plan *p) {
    if (t->plan != t->run_plan) chat_plan_free(t->plan);
    t->plan = p;
}

static int take(chat_talk *t, cli_plan *p, const char *where) {
    int code;
    p = compiled(p, where, &code);
    if (p) chat_plan_take(t, p);
    return code;
}

static cli_plan *copy_of(const chat_talk *t) {
    cli_plan *p = plan_on(t, json_deep_copy(t->plan->json));
    json_decref(p->files);
    p->files = json_deep_copy(t->plan->files);
    return p;
}

/* ==== Rules ==== */

static const char *name_of(json_t *rule) {
    return json_string_value(json_object_get(rule, "name"));
}

/* The number of the rule that "-N" or "-NAME" means, from 1; 0: told what is wrong. */
static int find_rule(const chat_talk *t, const char *which) {
    json_t *rules = rules_of(t->plan), *rule;
    size_t i, n = json_array_size(rules);
    const char *name = cli_rule_name(which);
    int64_t number;
    int found = 0, count = 0;
    if (cli_parse_int(which, &number)) {
        if (number >= 1 && number <= (int64_t)n) return (int)number;
        return cli_fail(CLI_USAGE, "/rule: there is no rule %s; /rule lists %zu", which, n), 0;
    }
    json_array_foreach(rules, i, rule) {
        if (strcmp(name_of(rule), name ? name : which) != 0) continue;
        found = (int)i + 1;
        count++;
    }
    if (count == 1) return found;
    if (count)
        cli_fail(CLI_USAGE, "/rule: %d rules are named '%s'; /rule -N takes one of them away",
                 count, which);
    else
        cli_fail(CLI_USAGE, "/rule: there is no rule '%s' here; /rule lists them", which);
    return 0;
}

static void tell_rules_left(const chat_talk *t) {
    chat_tell_done(t, "rules from the next answer on: %zu", json_array_size(rules_of(t->plan)));
}

static int remove_rule(chat_talk *t, const char *which) {
    int number = find_rule(t, which);
    if (!number) return CLI_USAGE;
    cli_plan *p = copy_of(t);
    json_array_remove(rules_of(p), (size_t)number - 1);
    json_array_remove(p->files, (size_t)number - 1);
    int code = take(t, p, "/rule");
    if (!code) tell_rules_left(t);
    return code;
}

int chat_change_rule(chat_talk *t, const char *arg) {
    if (*arg == '-') return remove_rule(t, arg + 1);
    cli_plan *p = copy_of(t);
    p->spelled = "/rule";
    int code = cli_plan_add_rule(p, arg);
    if (code) return chat_plan_free(p), code;
    code = take(t, p, "/rule");
    if (!code) tell_rules_left(t);
    return code;
}

/* A rule of phrases without further settings: what --ban makes. */
static int is_plain_phrases(json_t *rule) {
    const char *key;
    json_t *value;
    if (strcmp(name_of(rule), "phrases") != 0) return 0;
    json_object_foreach(rule, key, value) {
        if (strcmp(key, "name") != 0 && strcmp(key, "text") != 0 && strcmp(key, "file") != 0)
            return 0;
    }
    return 1;
}

int chat_change_ban(chat_talk *t, retrace_text text) {
    cli_plan *p = copy_of(t);
    json_t *rules = rules_of(p), *rule, *group = NULL;
    size_t i;
    json_array_foreach(rules, i, rule) {
        if (!group && is_plain_phrases(rule)) group = rule;
    }
    if (!group) {
        json_array_append_new(rules, group = json_pack("{s:s}", "name", "phrases"));
        json_array_append_new(p->files, json_object());
    }
    json_t *texts = json_object_get(group, "text");
    if (!json_is_array(texts)) {
        json_t *list = json_array();
        if (texts) json_array_append(list, texts);
        json_object_set_new(group, "text", list);
        texts = list;
    }
    json_array_append_new(texts, cli_json_text(text));
    int code = take(t, p, "/ban");
    if (!code) chat_tell_done(t, "banned from the next answer on: %s", text.s);
    return code;
}

/* ==== Settings ==== */

int chat_is_setting(const char *name) {
    return strcmp(name, "logprobs") != 0 && strcmp(name, "resample") != 0;
}

static const retrace_setting_info *row_of(const char *name) {
    for (const retrace_setting_info *s = retrace_options_infos(); s->name; s++)
        if (strcmp(s->name, name) == 0 && chat_is_setting(s->name)) return s;
    return NULL;
}

static int no_setting(const char *name) {
    const char *names[64], *near;
    int n = 0;
    for (const retrace_setting_info *s = retrace_options_infos(); s->name && n < 64; s++)
        if (chat_is_setting(s->name)) names[n++] = s->name;
    near = strlen(name) < 40 ? cli_nearest(name, names, n) : NULL;
    if (near)
        return cli_fail(CLI_USAGE, "/set: there is no setting '%s' (did you mean '%s'?)", name,
                        near);
    return cli_fail(CLI_USAGE, "/set: there is no setting '%s'; '/set all' lists them", name);
}

int chat_change_set(chat_talk *t, const char *name, const char *value) {
    retrace_error err;
    retrace_options o;
    char *plain = cli_copy(name, strlen(name));
    for (char *s = plain; *s; s++)
        if (*s == '-') *s = '_';
    const retrace_setting_info *row = row_of(plain);
    free(plain);
    if (!row) return no_setting(name);
    if (!*value) return cli_fail(CLI_USAGE, "/set: %s needs a value", row->name);
    retrace_text v = {value, strlen(value)};
    retrace_options_default(&o);
    if (retrace_options_set(&o, (retrace_setting){row->name, v}, &err))
        return cli_report(&err, "/set");
    cli_plan *p = copy_of(t);
    int is_seed = strcmp(row->name, "seed") == 0;
    json_t *to = is_seed ? p->json : json_object_get(p->json, "settings");
    json_t *typed = cli_typed(row->type, v);
    if (is_seed && json_integer_value(typed) == -1) json_integer_set(typed, cli_random_seed());
    json_object_set_new(to, row->name, typed);
    int code = take(t, p, "/set");
    if (!code && is_seed) t->seed_given = strcmp(value, "-1") != 0;
    if (!code) chat_tell_done(t, "%s is %s from the next answer on", row->name, value);
    return code;
}
