/* rules.c - the catalogue: rules and drivers with their settings. */
#include "cli.h"

#include <math.h>
#include <string.h>

static const char *const type_names[] = {"bool", "int",   "real", "choice",
                                         "text", "texts", "file", "list"};

/* The same for people. */
static const char *const kinds[] = {"true or false",
                                    "whole number",
                                    "number",
                                    "one of",
                                    "text",
                                    "text, may be repeated",
                                    "file, may be repeated",
                                    "name of a list, may be repeated"};

typedef int at_fn(int i, retrace_plugin_info *out);

/* ==== JSON ==== */

static json_t *preset_of(const retrace_setting_info *s) {
    if (s->type == RETRACE_TEXTS || s->type == RETRACE_FILE || s->type == RETRACE_LIST)
        return json_array();
    if (!s->preset) return s->type == RETRACE_TEXT ? json_string("") : json_null();
    return cli_typed(s->type, (retrace_text){s->preset, strlen(s->preset)});
}

static json_t *choices_of(const char *choices) {
    if (!choices) return json_null();
    json_t *list = json_array();
    for (const char *c = choices; c;) {
        size_t n = strcspn(c, "|");
        json_array_append_new(list, json_stringn(c, n));
        c = c[n] ? c + n + 1 : NULL;
    }
    return list;
}

static json_t *bound(const retrace_setting_info *s, double x) {
    if (s->type == RETRACE_INT && fabs(x) < 9e15) return json_integer((json_int_t)x);
    return s->type == RETRACE_INT || s->type == RETRACE_REAL ? cli_json_real(x) : json_null();
}

static json_t *setting_json(const retrace_setting_info *s) {
    json_t *o = json_object();
    json_object_set_new(o, "name", json_string(s->name));
    json_object_set_new(o, "type", json_string(type_names[s->type]));
    json_object_set_new(o, "default", preset_of(s));
    json_object_set_new(o, "min", bound(s, s->min));
    json_object_set_new(o, "max", bound(s, s->max));
    json_object_set_new(o, "choices", choices_of(s->choices));
    json_object_set_new(o, "help", json_string(s->help));
    return o;
}

static json_t *plugin_json(const retrace_plugin_info *p) {
    json_t *o = json_pack("{s:s, s:s, s:s}", "name", p->name, "kind", p->kind, "help", p->help);
    json_t *settings = json_array();
    for (const retrace_setting_info *s = p->settings; s && s->name; s++)
        json_array_append_new(settings, setting_json(s));
    json_object_set_new(o, "settings", settings);
    return o;
}

static json_t *list_json(at_fn *at, const char *only) {
    retrace_plugin_info p;
    json_t *list = json_array();
    for (int i = 0; at(i, &p); i++)
        if (!only || strcmp(only, p.name) == 0) json_array_append_new(list, plugin_json(&p));
    return list;
}

/* ==== For people ==== */

/* "(number, default 0, 0 to 1)" */
static void print_setting(const retrace_setting_info *s) {
    int beside = strlen(s->name) <= 14; /* else the help stands below the name */
    printf("  %-14s%s%-*s %s\n  %-14s (%s", s->name, beside ? "" : "\n", beside ? 0 : 16, "",
           s->help, "", kinds[s->type]);
    if (s->choices) printf(" %s", s->choices);
    if (s->preset && *s->preset) printf(", default %s", s->preset);
    if (s->type == RETRACE_INT || s->type == RETRACE_REAL) printf(", %g to %g", s->min, s->max);
    printf(")\n");
}

static int print_all(at_fn *at, const char *only, int any) {
    retrace_plugin_info p;
    for (int i = 0; at(i, &p); i++) {
        if (only && strcmp(p.name, only) != 0) continue;
        printf("%s%s (%s): %s\n", any++ ? "\n" : "", p.name, p.kind, p.help);
        for (const retrace_setting_info *s = p.settings; s && s->name; s++) print_setting(s);
    }
    return any;
}

static int print(const char *only) {
    print_all(retrace_driver_at, only, print_all(retrace_rule_at, only, 0));
    return cli_flush();
}

static int known(const char *name) {
    retrace_plugin_info p;
    const char *names[64];
    int n = 0;
    for (int i = 0; n < 32 && retrace_rule_at(i, &p); i++) names[n++] = p.name;
    for (int i = 0; n < 64 && retrace_driver_at(i, &p); i++) names[n++] = p.name;
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return CLI_OK;
    const char *near = cli_nearest(name, names, n);
    return cli_fail(CLI_USAGE, "there is no rule or driver '%s'%s%s%s", name,
                    near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

int cli_rules(const cli_flags *f) {
    int code = f->operand ? known(f->operand) : CLI_OK;
    if (code) return code;
    if (!cli_on(f, "json")) return print(f->operand);
    json_t *o = json_object();
    json_object_set_new(o, "rules", list_json(retrace_rule_at, f->operand));
    json_object_set_new(o, "drivers", list_json(retrace_driver_at, f->operand));
    return cli_json_line(o, stdout, "standard output");
}
