/* rules.c - `rules` of a request, and the dry_* fields, as compiled rules.
 *
 * A rule's settings come as JSON values and are handed to the library as text, as from the command
 * line; the library checks them. Two kinds differ over HTTP: a file of the server's is never read
 * because a client names it, and a list is one of those that the server was started with. */
#include "read.h"

#include <stdlib.h>
#include <string.h>

/* ==== A rule of a request ==== */

int srv_rule_add(srv_reading *r, json_t *rule, retrace_error *err) {
    srv_request *q = r->q;
    json_t *rules = json_object_get(json_object_get(q->start, "settings"), "rules");
    srv_shared *s;
    int rc = srv_compiled_get(r->s->compiled, rule, &s, err);
    if (rc) return rc;
    json_array_append(rules, s->json);
    q->shared = cli_realloc(q->shared, (size_t)(q->n_rules + 1) * sizeof(*q->shared));
    q->rules = cli_realloc(q->rules, (size_t)(q->n_rules + 1) * sizeof(*q->rules));
    q->shared[q->n_rules] = s;
    q->rules[q->n_rules++] = s->rule;
    return RETRACE_OK;
}

static int too_many(srv_reading *r, const char *param, int most, const char *what) {
    return srv_fail(r->e, 400, "too_many", param, "%s: more than %d %s in one request", param, most,
                    what);
}

static int check_text(srv_reading *r, retrace_text t, size_t most, const char *param) {
    if (t.n > most)
        return srv_fail(r->e, 400, "too_long", param, "%s: more than %zu bytes", param, most);
    if (memchr(t.s, '\0', t.n))
        return srv_fail(r->e, 400, "invalid_value", param, "%s: a NUL character", param);
    return 0;
}

int srv_count_phrase(srv_reading *r, retrace_text text, const char *param) {
    if (check_text(r, text, SRV_MAX_PHRASE, param)) return -1;
    if (++r->n_phrases > SRV_MAX_PHRASES) return too_many(r, param, SRV_MAX_PHRASES, "phrases");
    r->phrase_bytes += text.n;
    if (r->phrase_bytes <= SRV_MAX_PHRASE_BYTES) return 0;
    return too_many(r, param, SRV_MAX_PHRASE_BYTES, "bytes of phrases");
}

int srv_count_pattern(srv_reading *r, retrace_text text, const char *param) {
    if (check_text(r, text, SRV_MAX_PATTERN, param)) return -1;
    if (++r->n_patterns <= SRV_MAX_PATTERNS) return 0;
    return too_many(r, param, SRV_MAX_PATTERNS, "regular expressions");
}

/* ==== Lists ==== */

static int unknown_list(srv_reading *r, const char *name, const char *param) {
    json_t *names = srv_lists_names(r->s->lists), *item;
    size_t i;
    cli_buf b = {0}, shown = {0};
    json_array_foreach(names, i, item) {
        cli_puts(&b, i ? ", " : "");
        cli_puts(&b, json_string_value(item));
    }
    retrace_text t = {name, strlen(name)};
    t.n = cli_utf8_whole((retrace_text){name, t.n > 40 ? 40 : t.n});
    cli_escape(&shown, t, 0);
    srv_fail(r->e, 400, "unknown_list", param, "%s: there is no ban list '%s'; %s%.400s", param,
             shown.s ? shown.s : "", b.n ? "there are: " : "the server has none", b.s ? b.s : "");
    cli_buf_free(&b);
    cli_buf_free(&shown);
    json_decref(names);
    return -1;
}

json_t *srv_list_named(srv_reading *r, const char *name, const char *param) {
    if (++r->n_lists > SRV_MAX_LISTS) {
        too_many(r, param, SRV_MAX_LISTS, "ban lists");
        return NULL;
    }
    json_t *text = srv_list_text(r->s->lists, name);
    if (!text) {
        unknown_list(r, name, param);
        return NULL;
    }
    r->list_bytes += json_string_length(text);
    if (r->list_bytes <= SRV_MAX_LIST_BYTES) return text;
    too_many(r, param, SRV_MAX_LIST_BYTES, "bytes of ban lists");
    json_decref(text);
    return NULL;
}

/* ==== Settings of one rule ==== */

typedef struct one {
    srv_reading *r;
    char where[32]; /* "rules[1]" */
    const char *name;
    json_t *made; /* what the library gets, and the trace shows */
} one;

/* "rules[1].key", cut where it would be too long. */
static void name_setting(const one *o, const char *key, char param[96]) {
    retrace_text t = {key, strlen(key)};
    t.n = cli_utf8_whole((retrace_text){key, t.n > 48 ? 48 : t.n});
    snprintf(param, 96, "%s.%.*s", o->where, (int)t.n, key);
}

static const retrace_setting_info *setting_of(const retrace_plugin_info *p, const char *key) {
    for (const retrace_setting_info *s = p->settings; s && s->name; s++)
        if (strcmp(s->name, key) == 0) return s;
    return NULL;
}

static int count_text(const one *o, const char *key, json_t *v, const char *param) {
    retrace_text t = srv_text_of(v);
    if (strcmp(o->name, "phrases") == 0 && strcmp(key, "text") == 0)
        return srv_count_phrase(o->r, t, param);
    if (strcmp(o->name, "regex") == 0 && strcmp(key, "pattern") == 0)
        return srv_count_pattern(o->r, t, param);
    return check_text(o->r, t, SRV_MAX_GRAMMAR, param);
}

/* One of the texts of a setting that repeats, or the text of the list that it names. */
static int put_text(const one *o, const retrace_setting_info *s, json_t *v, json_t *to,
                    const char *param) {
    if (!json_is_string(v)) return srv_wrong(o->r->e, param, v, "a text");
    if (s->type != RETRACE_LIST) {
        json_array_append(to, v);
        return count_text(o, s->name, v, param);
    }
    json_t *text = srv_list_named(o->r, json_string_value(v), param);
    return text ? json_array_append_new(to, text) : -1;
}

static int put_texts(const one *o, const retrace_setting_info *s, json_t *v, const char *param) {
    json_t *to = json_array(), *item;
    size_t i;
    json_object_set_new(o->made, s->name, to);
    if (!json_is_array(v)) return put_text(o, s, v, to, param);
    if (json_array_size(v) > SRV_MAX_PHRASES)
        return too_many(o->r, param, SRV_MAX_PHRASES, "texts");
    json_array_foreach(v, i, item) {
        char at[128]; /* an error cuts what is too long */
        snprintf(at, sizeof at, "%s[%zu]", param, i);
        if (put_text(o, s, item, to, at)) return -1;
    }
    return 0;
}

/* A schema may be written as what it is. */
static int put_schema(const one *o, const retrace_setting_info *s, json_t *v, const char *param) {
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    json_t *j = text ? json_string(text) : NULL;
    free(text);
    if (!j) return srv_wrong(o->r->e, param, v, "a schema");
    json_object_set_new(o->made, s->name, j);
    return check_text(o->r, srv_text_of(j), SRV_MAX_GRAMMAR, param);
}

static int put_plain(const one *o, const retrace_setting_info *s, json_t *v, const char *param) {
    static const char *const wants[] = {"true or false", "a whole number", "a number",
                                        "a text",        "a text",         "a text"};
    int fits = json_is_string(v) || (s->type == RETRACE_BOOL && json_is_boolean(v)) ||
               (s->type == RETRACE_CHOICE && json_is_boolean(v)) ||
               (s->type == RETRACE_INT && json_is_integer(v)) ||
               (s->type == RETRACE_REAL && json_is_number(v));
    if (!fits) return srv_wrong(o->r->e, param, v, wants[s->type]);
    json_object_set(o->made, s->name, v);
    return json_is_string(v) ? check_text(o->r, srv_text_of(v), SRV_MAX_GRAMMAR, param) : 0;
}

static int no_setting(const one *o, const retrace_plugin_info *p, const char *key,
                      const char *param) {
    const char *names[32];
    int n = 0;
    for (const retrace_setting_info *s = p->settings; s && s->name && n < 32; s++)
        if (s->type != RETRACE_FILE) names[n++] = s->name;
    const char *near = cli_nearest(key, names, n);
    return srv_fail(o->r->e, 400, "unknown_setting", param,
                    "%s: the rule '%s' has no such setting%s%s%s", param, o->name,
                    near ? "; is '" : "", near ? near : "", near ? "' meant?" : "");
}

static int put_setting(const one *o, const retrace_plugin_info *p, const char *key, json_t *v) {
    char param[96];
    name_setting(o, key, param);
    const retrace_setting_info *s = setting_of(p, key);
    if (!s) return no_setting(o, p, key, param);
    if (s->type == RETRACE_FILE)
        return srv_fail(o->r->e, 400, "unsupported_value", param,
                        "%s: files are not read over HTTP; give the text itself, or a ban list of "
                        "the server by its name",
                        param);
    if (s->type == RETRACE_TEXTS || s->type == RETRACE_LIST) return put_texts(o, s, v, param);
    if (strcmp(key, "schema") == 0 && !json_is_string(v)) return put_schema(o, s, v, param);
    return put_plain(o, s, v, param);
}

/* The setting that a message of the library speaks of, else the rule. */
static void blame(const one *o, const char *msg, char param[96]) {
    const char *key;
    json_t *v;
    snprintf(param, 96, "%s", o->where);
    json_object_foreach(o->made, key, v) {
        const char *at = strcmp(key, "name") != 0 ? strstr(msg, key) : NULL;
        if (!at || strchr("abcdefghijklmnopqrstuvwxyz_", at[strlen(key)])) continue;
        name_setting(o, key, param);
        return;
    }
}

static int find_rule(const one *o, retrace_plugin_info *p) {
    const char *names[64];
    int n = 0;
    for (; n < 64 && retrace_rule_at(n, p); n++) {
        if (strcmp(p->name, o->name) == 0) return 0;
        names[n] = p->name;
    }
    char param[96], shown[64];
    const char *near = cli_nearest(o->name, names, n);
    json_t *name = json_string(o->name);
    name_setting(o, "name", param);
    srv_fail(o->r->e, 400, "unknown_rule", param, "%s: there is no rule %s%s%s%s", param,
             srv_shown(name, shown), near ? "; is '" : "", near ? near : "",
             near ? "' meant?" : "");
    json_decref(name);
    return -1;
}

static int compile(one *o) {
    retrace_error err;
    char param[96];
    if (strcmp(o->name, "grammar") == 0 || strcmp(o->name, "json") == 0)
        if (srv_constrained(o->r, o->where)) return -1;
    if (srv_rule_add(o->r, json_incref(o->made), &err) == RETRACE_OK) return 0;
    blame(o, err.msg, param);
    return srv_fail_with(o->r->e, &err, param);
}

static int read_settings(one *o, json_t *rule) {
    retrace_plugin_info p;
    const char *key;
    json_t *v;
    if (find_rule(o, &p)) return -1;
    json_object_set_new(o->made, "name", json_string(o->name));
    json_object_foreach(rule, key, v) {
        if (strcmp(key, "name") == 0 || json_is_null(v)) continue;
        if (put_setting(o, &p, key, v)) return -1;
    }
    return compile(o);
}

static int read_rule(srv_reading *r, json_t *rule, size_t i) {
    one o = {.r = r};
    char param[96];
    snprintf(o.where, sizeof o.where, "rules[%zu]", i);
    if (!json_is_object(rule)) return srv_wrong(r->e, o.where, rule, "an object with a name");
    json_t *name = json_object_get(rule, "name");
    name_setting(&o, "name", param);
    if (!name) return srv_fail(r->e, 400, "missing_field", param, "%s: a rule has a name", param);
    if (!json_is_string(name)) return srv_wrong(r->e, param, name, "a text");
    o.name = json_string_value(name);
    o.made = json_object();
    int rc = read_settings(&o, rule);
    json_decref(o.made);
    return rc;
}

/* ==== dry_* ==== */

static int put_breaker(srv_reading *r, json_t *to, json_t *v, const char *used) {
    if (!json_is_string(v)) return srv_wrong(r->e, used, v, "a list of texts");
    if (json_array_size(to) == 64) return too_many(r, used, 64, "breakers");
    if (json_string_length(v) > 64)
        return srv_fail(r->e, 400, "too_long", used, "%s: more than 64 bytes", used);
    if (json_string_length(v) > 0) json_array_append(to, v);
    return 0;
}

/* Some clients send the list as the text of a JSON list. */
static int read_breakers(srv_reading *r, json_t *rule) {
    const char *used;
    json_t *v = srv_find(r->body, srv_fields_rules, "dry_sequence_breakers", &used), *item;
    if (!v || srv_is_off(v)) return 0;
    json_t *list =
        json_is_string(v) ? srv_json_text(srv_text_of(v), used, used, r->e) : json_incref(v);
    if (!list) return -1;
    json_t *to = json_array();
    size_t i;
    int rc = json_is_array(list) ? 0 : srv_wrong(r->e, used, list, "a list of texts");
    json_array_foreach(list, i, item) {
        rc = rc ? rc : put_breaker(r, to, item, used);
    }
    if (json_array_size(to) > 0) json_object_set(rule, "breaker", to);
    json_decref(to);
    json_decref(list);
    return rc;
}

static int dry_numbers(srv_reading *r, json_t *rule) {
    double base = 1.75;
    int64_t allowed = 2, last = 0;
    if (srv_get_real(r->body, srv_fields_rules, "dry_base", &base, r->e) ||
        srv_get_int(r->body, srv_fields_rules, "dry_allowed_length", &allowed, r->e) ||
        srv_get_int(r->body, srv_fields_rules, "dry_penalty_last_n", &last, r->e))
        return -1;
    json_object_set_new(rule, "base", json_real(base));
    json_object_set_new(rule, "allowed_length", json_integer(allowed));
    json_object_set_new(rule, "last", json_integer(last < 0 ? 0 : last));
    return 0;
}

static int read_dry(srv_reading *r) {
    double multiplier = 0;
    retrace_error err;
    if (srv_get_real(r->body, srv_fields_rules, "dry_multiplier", &multiplier, r->e)) return -1;
    if (multiplier == 0) return 0; /* off; clients send the others all the same */
    json_t *rule = json_pack("{s:s, s:f}", "name", "dry", "multiplier", multiplier);
    if (dry_numbers(r, rule) || read_breakers(r, rule)) {
        json_decref(rule);
        return -1;
    }
    if (srv_rule_add(r, rule, &err) == RETRACE_OK) return 0;
    return srv_fail_with(r->e, &err, "dry_sequence_breakers");
}

int srv_read_rules(srv_reading *r) {
    const char *used;
    json_t *rules = srv_find(r->body, srv_fields_rules, "rules", &used), *rule;
    size_t i;
    if (read_dry(r)) return -1;
    if (!rules || srv_is_off(rules)) return 0;
    if (!json_is_array(rules)) return srv_wrong(r->e, used, rules, "a list of rules");
    if (json_array_size(rules) > SRV_MAX_RULES) return too_many(r, used, SRV_MAX_RULES, "rules");
    json_array_foreach(rules, i, rule) {
        if (read_rule(r, rule, i)) return -1;
    }
    return 0;
}
