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

enum { COLUMNS = 79, NAME = 15 }; /* of a line; of a setting's name */

/* Writes text from `column` on, with further lines behind `indent` blanks. */
static void wrap(const char *s, size_t column, int indent) {
    int first = 1;
    while (*s) {
        size_t n = strcspn(s, " ");
        if (!first && column + 1 + n > COLUMNS) {
            printf("\n%*s", indent, "");
            column = (size_t)indent;
            first = 1;
        }
        printf("%s%.*s", first ? "" : " ", (int)n, s);
        column += n + !first;
        first = 0;
        s += n + strspn(s + n, " ");
    }
    putchar('\n');
}

/* ", 0 to 1", ", 1 up" */
static void put_range(cli_buf *b, const retrace_setting_info *s) {
    int from = s->min > -1e6, to = s->max < 1e6;
    if (s->type != RETRACE_INT && s->type != RETRACE_REAL) return;
    if (from && to) cli_printf(b, ", %g to %g", s->min, s->max);
    if (from && !to) cli_printf(b, ", %g up", s->min);
    if (!from && to) cli_printf(b, ", up to %g", s->max);
}

/* The help, and below it "(number, default 0, 0 to 1)". */
static void print_setting(const retrace_setting_info *s) {
    cli_buf b = {0};
    cli_printf(&b, "(%s", kinds[s->type]);
    if (s->choices) cli_printf(&b, " %s", s->choices);
    if (s->preset && *s->preset) cli_printf(&b, ", default %s", s->preset);
    put_range(&b, s);
    cli_puts(&b, ")");
    int beside = strlen(s->name) < NAME; /* else the help stands below the name */
    printf("  %-*s%s", beside ? NAME : 0, s->name, beside ? "" : "\n");
    if (!beside) printf("  %-*s", NAME, "");
    wrap(s->help, NAME + 2, NAME + 2);
    printf("  %-*s", NAME, "");
    wrap(b.s, NAME + 2, NAME + 2);
    cli_buf_free(&b);
}

static int same(const retrace_setting_info *a, const retrace_setting_info *b) {
    const char *x = a->preset ? a->preset : "", *y = b->preset ? b->preset : "";
    return strcmp(a->name, b->name) == 0 && strcmp(a->help, b->help) == 0 && strcmp(x, y) == 0 &&
           a->type == b->type && a->min == b->min && a->max == b->max;
}

/* The settings of p that are those of an earlier one, named instead of told again: writes their
 * names to b; told[] has a 0 for each of them. */
static void fold_in(const retrace_plugin_info *p, const retrace_plugin_info *earlier, char *told,
                    cli_buf *b) {
    for (int i = 0; p->settings[i].name; i++)
        for (const retrace_setting_info *e = earlier->settings; e->name; e++) {
            if (!told[i] || !same(&p->settings[i], e)) continue;
            told[i] = 0;
            cli_printf(b, "%s%s", b->n ? ", " : "", p->settings[i].name);
        }
}

static void print_settings(at_fn *at, int nth, const retrace_plugin_info *p, int all) {
    retrace_plugin_info earlier;
    char told[64];
    int n = 0;
    while (p->settings && n < 64 && p->settings[n].name) told[n++] = 1;
    cli_buf lines = {0};
    for (int i = 0; all && n && i < nth && at(i, &earlier); i++) {
        cli_buf names = {0};
        if (earlier.settings) fold_in(p, &earlier, told, &names);
        if (names.n) cli_printf(&lines, "as in %s: %s\n", earlier.name, names.s);
        cli_buf_free(&names);
    }
    for (int i = 0; i < n; i++)
        if (told[i]) print_setting(&p->settings[i]);
    for (char *s = lines.s, *end; s && *s; s = end + 1) {
        end = strchr(s, '\n');
        *end = '\0';
        fputs("  ", stdout);
        wrap(s, 2, 4);
    }
    cli_buf_free(&lines);
}

/* In the whole catalogue a setting that several have alike is told once. */
static int print_all(at_fn *at, const char *only, int any) {
    retrace_plugin_info p;
    for (int i = 0; at(i, &p); i++) {
        if (only && strcmp(p.name, only) != 0) continue;
        printf("%s%s (%s): ", any++ ? "\n" : "", p.name, p.kind);
        wrap(p.help, strlen(p.name) + strlen(p.kind) + 5, 4);
        print_settings(at, i, &p, !only);
    }
    return any;
}

static int print(const char *only) {
    print_all(retrace_driver_at, only, print_all(retrace_rule_at, only, 0));
    return cli_flush();
}

/* Names that people may mean; at most 64. */
static int names_of(at_fn *at, const char **names, int n) {
    retrace_plugin_info p;
    for (int i = 0; n < 64 && at(i, &p); i++) names[n++] = p.name;
    return n;
}

/* "... (did you mean 'X'?)", or `else_see` where no name is near. */
static int unknown(const char *what, const char *name, const char *const *names, int n,
                   const char *else_see) {
    const char *near = cli_nearest(name, names, n);
    if (near) return cli_fail(CLI_USAGE, "%s '%s' (did you mean '%s'?)", what, name, near);
    return cli_fail(CLI_USAGE, "%s '%s'; %s", what, name, else_see);
}

static int known(const char *name) {
    const char *names[64];
    int n = names_of(retrace_driver_at, names, names_of(retrace_rule_at, names, 0));
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return CLI_OK;
    return unknown("there is no rule or driver", name, names, n, "see 'retrace rules'");
}

static int setting_known(const retrace_plugin_info *p, const char *name, const char *about) {
    const char *names[64];
    char what[160], see[80];
    int n = 0;
    for (const retrace_setting_info *s = p->settings; s && s->name && n < 64; s++) {
        if (strcmp(s->name, name) == 0) return CLI_OK;
        names[n++] = s->name;
    }
    snprintf(what, sizeof what, "%s: %s has no setting", about, p->name);
    snprintf(see, sizeof see, "see 'retrace rules %s'", p->name);
    return unknown(what, name, names, n, see);
}

static int alike(const char *name, const char *spelt) {
    for (; *name && *spelt; name++, spelt++)
        if (*name != *spelt && !(*name == '-' && *spelt == '_')) return 0;
    return *name == *spelt;
}

const char *cli_rule_name(const char *spelt) {
    retrace_plugin_info p;
    const char *found = NULL;
    for (int i = 0; retrace_rule_at(i, &p); i++) {
        if (strcmp(p.name, spelt) == 0) return p.name;
        if (alike(p.name, spelt)) found = p.name;
    }
    return found;
}

int cli_spec_check(const retrace_rule_spec *spec, const char *about, int driver) {
    at_fn *at = driver ? retrace_driver_at : retrace_rule_at;
    retrace_plugin_info p;
    const char *names[64];
    char what[80];
    int code = CLI_OK;
    for (int i = 0; at(i, &p); i++) {
        if (strcmp(p.name, spec->name) != 0) continue;
        for (int k = 0; k < spec->n_settings && !code; k++)
            code = setting_known(&p, spec->settings[k].name, about);
        return code;
    }
    snprintf(what, sizeof what, "%s: %s", about, driver ? "there is no driver" : "unknown rule");
    return unknown(what, spec->name, names, names_of(at, names, 0), "see 'retrace rules'");
}

json_t *cli_rules_json(const char *only) {
    json_t *o = json_object();
    json_object_set_new(o, "rules", list_json(retrace_rule_at, only));
    json_object_set_new(o, "drivers", list_json(retrace_driver_at, only));
    return o;
}

int cli_rules(const cli_flags *f) {
    int code = f->operand ? known(f->operand) : CLI_OK;
    if (code) return code;
    if (!cli_on(f, "json")) return print(f->operand);
    return cli_json_line(cli_rules_json(f->operand), stdout, "standard output");
}
