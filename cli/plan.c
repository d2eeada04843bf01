/* plan.c - a run written down as JSON, and built from that.
 *
 * `generate` turns its flags into a plan and runs the plan; `replay` reads the plan from the first
 * line of a trace. There is no second way to set up a run, so what a trace says is what was run. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* ==== Values, typed in JSON and spelt for the library ==== */

json_t *cli_typed(retrace_type type, retrace_text v) {
    int64_t i;
    double x;
    int yes;
    char *s = cli_copy(v.s, v.n);
    json_t *j = NULL;
    if (type == RETRACE_INT && cli_parse_int(s, &i))
        j = json_integer(i);
    else if (type == RETRACE_REAL && cli_parse_real(s, &x))
        j = json_real(x);
    else if (type == RETRACE_BOOL && cli_parse_bool(s, &yes))
        j = json_boolean(yes);
    free(s);
    return j ? j : cli_json_text(v);
}

static void spell(cli_buf *b, json_t *j) {
    if (json_is_string(j))
        cli_put(b, json_string_value(j), json_string_length(j));
    else if (json_is_boolean(j))
        cli_puts(b, json_is_true(j) ? "true" : "false");
    else if (json_is_integer(j))
        cli_printf(b, "%lld", (long long)json_integer_value(j));
    else if (json_is_real(j))
        cli_printf(b, "%.17g", json_real_value(j));
}

static void settings_add(cli_settings *l, const char *name, json_t *value) {
    cli_buf b = {0};
    spell(&b, value);
    l->v = cli_realloc(l->v, (size_t)(l->n + 1) * sizeof *l->v);
    l->v[l->n++] = (retrace_setting){name, {b.s ? b.s : cli_copy("", 0), b.n}};
}

cli_settings cli_settings_of(json_t *object) {
    cli_settings l = {0};
    const char *key;
    json_t *value, *item;
    size_t i;
    json_object_foreach(object, key, value) {
        if (strcmp(key, "name") == 0) continue;
        if (!json_is_array(value))
            settings_add(&l, key, value);
        else
            json_array_foreach(value, i, item) settings_add(&l, key, item);
    }
    return l;
}

void cli_settings_free(cli_settings *l) {
    for (int i = 0; i < l->n; i++) free((void *)(uintptr_t)l->v[i].value.s);
    free(l->v);
}

/* ==== Flags to rules ==== */

static const retrace_setting_info *setting_of(const char *rule, const char *setting) {
    retrace_plugin_info p;
    for (int i = 0; retrace_rule_at(i, &p); i++) {
        if (strcmp(p.name, rule) != 0) continue;
        for (const retrace_setting_info *s = p.settings; s && s->name; s++)
            if (strcmp(s->name, setting) == 0) return s;
    }
    return NULL;
}

static void append(json_t *rule, const char *key, json_t *value) {
    json_t *values = json_object_get(rule, key);
    if (!values) json_object_set_new(rule, key, values = json_array());
    json_array_append_new(values, value);
}

/* Whether a list of phrases has nothing but comments. */
static int is_bare_list(retrace_text t) {
    int at_start = 1;
    size_t i = t.n >= 3 && memcmp(t.s, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    for (; i < t.n; i++) {
        if (t.s[i] == '\n')
            at_start = 1;
        else if (at_start == 1 && t.s[i] == '#')
            at_start = 0;
        else if (at_start == 1 && !strchr(" \t\r", t.s[i]))
            return 0;
    }
    return 1;
}

/* Reads a file for a setting of the newest rule; `spelled` is what the person wrote. */
static int append_file(cli_plan *p, json_t *rule, const char *key, const char *path,
                       const char *spelled) {
    cli_buf b = {0};
    int code = cli_read_list(path, &b);
    if (!code) {
        append(rule, key, cli_json_text(cli_buf_text(&b)));
        append(json_array_get(p->files, json_array_size(p->files) - 1), key,
               cli_json_text((retrace_text){spelled, strlen(spelled)}));
        int phrases = strcmp(json_string_value(json_object_get(rule, "name")), "phrases") == 0;
        if (phrases && is_bare_list(cli_buf_text(&b)))
            cli_say("retrace: warning: %s bans nothing", spelled);
    }
    cli_buf_free(&b);
    return code;
}

static json_t *new_rule(cli_plan *p, json_t *rules, retrace_text name) {
    json_t *rule = json_object();
    json_array_append_new(rules, rule);
    json_array_append_new(p->files, json_object());
    json_object_set_new(rule, "name", cli_json_text(name));
    return rule;
}

static const char *asked_by(const cli_plan *p) {
    return p->spelled ? p->spelled : "--rule";
}

static int put_setting(cli_plan *p, json_t *rule, const char *name, const retrace_setting *s) {
    const retrace_setting_info *row = setting_of(name, s->name);
    retrace_type type = row ? row->type : RETRACE_TEXT;
    if (type == RETRACE_FILE || type == RETRACE_LIST) {
        char *path = cli_copy(s->value.s, s->value.n);
        cli_buf spelled = {0}, file = {0};
        cli_printf(&spelled, "%s %s:%s=%s", asked_by(p), name, s->name, path);
        int named = type == RETRACE_LIST;
        int code = named ? cli_list_file(p->flags, path, spelled.s, &file) : CLI_OK;
        if (!code) code = append_file(p, rule, s->name, named ? file.s : path, spelled.s);
        cli_buf_free(&spelled);
        cli_buf_free(&file);
        free(path);
        return code;
    }
    if (type == RETRACE_TEXTS)
        append(rule, s->name, cli_typed(type, s->value));
    else
        json_object_set_new(rule, s->name, cli_typed(type, s->value));
    return CLI_OK;
}

/* A flag may be there for a list that is empty today; a command is meant to do something. */
static int check_phrases(const cli_plan *p, const json_t *rule, const char *name) {
    static const char what[] = "phrases, without text, file and list, bans nothing";
    if (strcmp(name, "phrases") != 0) return CLI_OK;
    if (json_object_get(rule, "text") || json_object_get(rule, "file") ||
        json_object_get(rule, "list"))
        return CLI_OK;
    if (p->spelled) return cli_fail(CLI_USAGE, "%s: %s", p->spelled, what);
    cli_say("retrace: warning: --rule %s", what);
    return CLI_OK;
}

static int add_rule(cli_plan *p, json_t *rules, const char *spec_text) {
    retrace_error err;
    retrace_rule_spec *spec;
    if (retrace_rule_parse(&spec, spec_text, &err)) return cli_report(&err, asked_by(p));
    const char *name = cli_rule_name(spec->name);
    if (name) spec->name = name;
    json_t *rule = new_rule(p, rules, (retrace_text){spec->name, strlen(spec->name)});
    int code = cli_spec_check(spec, asked_by(p), 0);
    for (int i = 0; i < spec->n_settings && !code; i++)
        code = put_setting(p, rule, spec->name, &spec->settings[i]);
    if (!code) code = check_phrases(p, rule, spec->name);
    retrace_free(spec);
    return code;
}

int cli_plan_add_rule(cli_plan *p, const char *spec) {
    json_t *rules = json_object_get(json_object_get(p->json, "settings"), "rules");
    return add_rule(p, rules, spec);
}

/* Values of a short flag become a setting of one rule that all short flags of its kind share. */
static int add_short(cli_plan *p, json_t *rules, const cli_option *o, const char *name,
                     const char *setting, int is_file) {
    if (o->n == 0) return CLI_OK;
    size_t last = json_array_size(rules);
    json_t *rule = last ? json_array_get(rules, last - 1) : NULL;
    if (!rule || strcmp(json_string_value(json_object_get(rule, "name")), name) != 0)
        rule = new_rule(p, rules, (retrace_text){name, strlen(name)});
    int code = CLI_OK;
    for (int i = 0; i < o->n && !code; i++) {
        cli_buf spelled = {0};
        cli_printf(&spelled, "--%s %s", o->flag, o->given[i].s);
        if (is_file)
            code = append_file(p, rule, setting, o->given[i].s, spelled.s);
        else
            append(rule, setting, cli_json_text(o->given[i]));
        cli_buf_free(&spelled);
    }
    return code;
}

/* ==== Constraints ==== */

/* Short forms of rules of which an answer has at most one. */
static const struct constraint {
    const char *flag, *rule, *setting;
} constraints[] = {
    {"grammar", "grammar", "text"},    {"grammar-file", "grammar", "file"},
    {"json-schema", "json", "schema"}, {"json-schema-file", "json", "schema_file"},
    {"json-mode", "json", NULL},
};
enum { N_CONSTRAINTS = sizeof constraints / sizeof *constraints };

static int is_given(const cli_flags *f, const cli_option *o) {
    return o->type == RETRACE_BOOL ? cli_on(f, o->flag) : o->n > 0;
}

/* The one that is given, or NULL. What the command line says wins over the environment. */
static int pick_constraint(const cli_flags *f, const struct constraint **out) {
    const cli_option *best = NULL;
    *out = NULL;
    for (int i = 0; i < N_CONSTRAINTS; i++) {
        const cli_option *o = cli_option_of(f, constraints[i].flag);
        if (!is_given(f, o) || (best && o->from_env && !best->from_env)) continue;
        if (best && best->from_env == o->from_env)
            return cli_fail(CLI_USAGE, "--%s and --%s exclude each other", best->flag, o->flag);
        best = o;
        *out = &constraints[i];
    }
    return CLI_OK;
}

static int put_constraint(cli_plan *p, const cli_flags *f, json_t *rules) {
    const struct constraint *c;
    int code = pick_constraint(f, &c);
    if (code || !c) return code;
    const cli_option *o = cli_option_of(f, c->flag);
    json_t *rule = new_rule(p, rules, (retrace_text){c->rule, strlen(c->rule)});
    if (!c->setting) return CLI_OK;
    retrace_text value = o->given[o->n - 1];
    if (o->type == RETRACE_FILE) {
        cli_buf spelled = {0};
        cli_printf(&spelled, "--%s %s", o->flag, value.s);
        code = append_file(p, rule, c->setting, value.s, spelled.s);
        cli_buf_free(&spelled);
    } else {
        json_object_set_new(rule, c->setting, cli_json_text(value));
    }
    return code;
}

static int put_rules(cli_plan *p, const cli_flags *f, json_t *settings) {
    json_t *rules = json_array();
    json_object_set_new(settings, "rules", rules);
    p->files = json_array();
    p->flags = f;
    int code = cli_lists_check(f);
    if (!code) code = add_short(p, rules, cli_option_of(f, "ban"), "phrases", "text", 0);
    if (!code) code = add_short(p, rules, cli_option_of(f, "ban-file"), "phrases", "file", 1);
    if (!code) code = add_short(p, rules, cli_option_of(f, "ban-regex"), "regex", "pattern", 0);
    if (!code) code = put_constraint(p, f, rules);
    p->n_short = (int)json_array_size(rules);
    const cli_option *given = cli_option_of(f, "rule");
    for (int i = 0; i < given->n && !code; i++) code = add_rule(p, rules, given->given[i].s);
    if (!code) cli_lists_warn(f, p->files);
    return code;
}

/* ==== Flags to the other settings ==== */

/* "ID=X". Minus infinity has no number in JSON, so it is the text "-inf" there. */
static int add_bias(json_t *bias, const char *v) {
    const char *eq = strchr(v, '=');
    char *id = cli_copy(v, eq ? (size_t)(eq - v) : 0);
    int64_t i = -1;
    double x = 0;
    int ok = eq && cli_parse_int(id, &i) && i >= 0 && i <= INT32_MAX;
    int never = ok && strcmp(eq + 1, "-inf") == 0;
    ok = ok && (never || cli_parse_real(eq + 1, &x));
    free(id);
    cli_buf key = {0};
    cli_printf(&key, "%lld", (long long)i);
    int twice = ok && json_object_get(bias, key.s);
    if (ok) json_object_set_new(bias, key.s, never ? json_string("-inf") : json_real(x));
    cli_buf_free(&key);
    if (twice) return cli_fail(CLI_USAGE, "--logit-bias: token %lld comes twice", (long long)i);
    if (ok) return CLI_OK;
    return cli_fail(CLI_USAGE, "--logit-bias: '%s' is not ID=X (a token's number and a number)", v);
}

static int put_bias(const cli_flags *f, json_t *settings) {
    json_t *bias = json_object();
    json_object_set_new(settings, "logit_bias", bias);
    const cli_option *o = cli_option_of(f, "logit-bias");
    int code = CLI_OK;
    for (int i = 0; i < o->n && !code; i++) code = add_bias(bias, o->given[i].s);
    return code;
}

static void put_stops(const cli_flags *f, json_t *settings) {
    json_t *stops = json_array();
    const cli_option *o = cli_option_of(f, "stop");
    for (int i = 0; i < o->n; i++) json_array_append_new(stops, cli_json_text(o->given[i]));
    json_object_set_new(settings, "stop", stops);
}

/* The values of its settings are checked when the run is made. */
static int put_driver(const cli_flags *f, json_t *settings) {
    retrace_error err;
    retrace_rule_spec *spec;
    const cli_option *o = cli_option_of(f, "driver");
    const char *given = o->n ? o->given[o->n - 1].s : o->preset;
    if (retrace_rule_parse(&spec, given, &err)) return cli_report(&err, "--driver");
    json_object_set_new(settings, "driver", json_string(given));
    int code = cli_spec_check(spec, "--driver", 1);
    retrace_free(spec);
    return code;
}

uint32_t cli_random_seed(void) {
    uint32_t seed;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed) return seed;
    return (uint32_t)time(NULL) * 2654435761u ^ (uint32_t)getpid();
}

static void put_row(const cli_option *o, json_t *settings) {
    retrace_text preset = {o->preset ? o->preset : "", o->preset ? strlen(o->preset) : 0};
    retrace_text v = o->n ? o->given[o->n - 1] : preset;
    json_object_set_new(settings, o->setting, cli_typed(o->type, v));
}

/* The seed has its own place in a trace. */
static void move_seed(json_t *plan, json_t *settings) {
    json_t *seed = json_incref(json_object_get(settings, "seed"));
    json_object_del(settings, "seed");
    if (json_integer_value(seed) == -1) json_integer_set(seed, cli_random_seed());
    json_object_set_new(plan, "seed", seed);
}

int cli_plan_flags(cli_plan *p, const cli_flags *f) {
    json_t *s = json_object();
    p->json = json_object();
    /* A command's own row of a setting stands behind that of generate. */
    for (int i = 0; i < f->n; i++)
        if (f->v[i].part == CLI_RUN && f->v[i].commands & (CLI_GENERATE | f->command))
            put_row(&f->v[i], s);
    move_seed(p->json, s);
    json_object_set_new(p->json, "settings", s);
    const char *resample = json_string_value(json_object_get(s, "resample"));
    int exact = resample && strcmp(resample, "exact") == 0;
    if (exact || (cli_on(f, "json") && cli_option_of(f, "hold")->n == 0))
        json_object_set_new(s, "hold", json_string("all"));
    if (cli_value(f, "trace") && json_integer_value(json_object_get(s, "logprobs")) < 0)
        json_object_set_new(s, "logprobs", json_integer(0));
    put_stops(f, s);
    json_object_set_new(s, "chat", json_boolean(cli_on(f, "chat")));
    if (cli_on(f, "chat") && cli_value(f, "system"))
        json_object_set_new(s, "system", json_string(cli_value(f, "system")));
    int code = put_driver(f, s);
    if (!code) code = put_bias(f, s);
    return code ? code : put_rules(p, f, s);
}

/* ==== The plan to a run ==== */

static json_t *settings_of(const cli_plan *p) {
    return json_object_get(p->json, "settings");
}

/* The flag that a rule came from. */
static const char *flag_of(const cli_plan *p, size_t i, const json_t *rule) {
    const char *name = json_string_value(json_object_get(rule, "name"));
    if ((int)i >= p->n_short) return "--rule";
    if (strcmp(name, "grammar") == 0)
        return json_object_get(rule, "file") ? "--grammar-file" : "--grammar";
    if (json_object_get(rule, "schema")) return "--json-schema";
    if (strcmp(name, "json") == 0)
        return json_object_get(rule, "schema_file") ? "--json-schema-file" : "--json-mode";
    if (json_object_get(rule, "pattern")) return "--ban-regex";
    return json_object_get(rule, "text") ? "--ban" : "--ban-file";
}

/* The library numbers a rule's files, "phrases: file 2, line 7: ..."; a person knows their names.
 */
static int report_rule(const cli_plan *p, size_t i, const json_t *rule, const retrace_error *err) {
    const char *key;
    json_t *names;
    json_object_foreach(json_array_get(p->files, i), key, names) {
        for (size_t k = 0; k < json_array_size(names); k++) {
            cli_buf b = {0};
            cli_printf(&b, "%s: %s %zu", json_string_value(json_object_get(rule, "name")), key,
                       k + 1);
            const char *rest = strncmp(err->msg, b.s, b.n) == 0 ? err->msg + b.n : "0";
            cli_buf_free(&b);
            if (*rest != ',' && *rest != ' ') continue;
            return cli_fail(cli_exit_code(err->code), "%s%s%s",
                            json_string_value(json_array_get(names, k)), *rest == ',' ? ":" : "",
                            rest + (*rest == ','));
        }
    }
    return cli_report(err, flag_of(p, i, rule));
}

int cli_plan_rules(cli_plan *p, const char *where) {
    json_t *rules = json_object_get(settings_of(p), "rules"), *rule;
    size_t i;
    p->rules = cli_alloc((json_array_size(rules) + 1) * sizeof(*p->rules));
    json_array_foreach(rules, i, rule) {
        const char *name = json_string_value(json_object_get(rule, "name"));
        retrace_error err;
        if (!name) return cli_fail(CLI_USAGE, "%s: a rule has no name", where ? where : "--rule");
        cli_settings l = cli_settings_of(rule);
        int rc = retrace_rule_new(&p->rules[p->n_rules], name, l.v, l.n, &err);
        cli_settings_free(&l);
        if (rc) return where ? cli_report(&err, where) : report_rule(p, i, rule, &err);
        p->n_rules++;
    }
    return CLI_OK;
}

static int set_rows(cli_plan *p, const char *where) {
    retrace_error err;
    for (const retrace_setting_info *s = retrace_options_infos(); s->name; s++) {
        int is_seed = strcmp(s->name, "seed") == 0;
        json_t *v = json_object_get(is_seed ? p->json : settings_of(p), s->name);
        if (!v) continue;
        cli_buf b = {0};
        spell(&b, v);
        int rc =
            retrace_options_set(&p->options, (retrace_setting){s->name, cli_buf_text(&b)}, &err);
        cli_buf_free(&b);
        if (rc) return cli_report(&err, where);
    }
    return CLI_OK;
}

static int set_bias(cli_plan *p, const char *where) {
    json_t *bias = json_object_get(settings_of(p), "logit_bias"), *value;
    const char *key;
    int64_t id;
    p->bias = cli_alloc((json_object_size(bias) + 1) * sizeof *p->bias);
    json_object_foreach(bias, key, value) {
        int never = json_is_string(value) && strcmp(json_string_value(value), "-inf") == 0;
        if (!cli_parse_int(key, &id) || id < 0 || id > INT32_MAX ||
            (!never && !json_is_number(value)))
            return cli_fail(CLI_USAGE, "%s: logit_bias: '%s' is wrong", where ? where : "flags",
                            key);
        for (int i = 0; i < p->options.n_bias; i++)
            if (p->bias[i].id == id)
                return cli_fail(CLI_USAGE, "%s: logit_bias: token %lld comes twice",
                                where ? where : "flags", (long long)id);
        double x = never ? -INFINITY : json_number_value(value);
        p->bias[p->options.n_bias++] = (retrace_bias){(retrace_token)id, x};
    }
    p->options.bias = p->bias;
    return CLI_OK;
}

static int set_stops(cli_plan *p, const char *where) {
    json_t *stops = json_object_get(settings_of(p), "stop"), *stop;
    size_t i;
    p->stops = cli_alloc((json_array_size(stops) + 1) * sizeof *p->stops);
    json_array_foreach(stops, i, stop) {
        if (!json_is_string(stop))
            return cli_fail(CLI_USAGE, "%s: stop: not a text", where ? where : "flags");
        p->stops[i] = (retrace_text){json_string_value(stop), json_string_length(stop)};
    }
    p->options.stops = p->stops;
    p->options.n_stops = (int)json_array_size(stops);
    return CLI_OK;
}

static int set_prompt(cli_plan *p, const char *where) {
    json_t *ids = json_object_get(p->json, "prompt_tokens"), *id;
    size_t i;
    if (!json_is_array(ids))
        return cli_fail(CLI_USAGE, "%s: prompt_tokens are missing", where ? where : "prompt");
    p->prompt = cli_alloc((json_array_size(ids) + 1) * sizeof *p->prompt);
    json_array_foreach(ids, i, id) {
        json_int_t v = json_integer_value(id);
        if (!json_is_integer(id) || v < 0 || v > INT32_MAX)
            return cli_fail(CLI_USAGE, "%s: prompt_tokens: not a token", where ? where : "prompt");
        p->prompt[i] = (retrace_token)v;
    }
    p->n_prompt = (int)json_array_size(ids);
    return CLI_OK;
}

/* Which of several answers to one request it is: all but the first have it. */
static int set_head(cli_plan *p, const char *where) {
    json_t *head = json_object_get(p->json, "head");
    json_int_t v = json_integer_value(head);
    if (!head) return CLI_OK;
    if (!json_is_integer(head) || v < 0 || v > INT32_MAX)
        return cli_fail(CLI_USAGE, "%s: head: not a whole number from 0", where ? where : "flags");
    p->options.head = (int)v;
    return CLI_OK;
}

int cli_plan_options(cli_plan *p, const char *where) {
    retrace_options_default(&p->options);
    p->options.rules = p->rules;
    p->options.n_rules = p->n_rules;
    p->options.driver = json_string_value(json_object_get(settings_of(p), "driver"));
    int code = set_rows(p, where);
    if (!code) code = set_head(p, where);
    if (!code) code = set_bias(p, where);
    if (!code) code = set_stops(p, where);
    return code ? code : set_prompt(p, where);
}

void cli_plan_free(cli_plan *p) {
    for (int i = 0; i < p->n_rules; i++) retrace_rule_free(p->rules[i]);
    free(p->rules);
    free(p->stops);
    free(p->bias);
    free(p->prompt);
    json_decref(p->json);
    json_decref(p->files);
    *p = (cli_plan){0};
}
