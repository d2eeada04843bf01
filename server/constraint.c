/* constraint.c - grammar, json_schema and response_format: what an answer must be.
 *
 * All of them are short forms of the rules `grammar` and `json`, and an answer has at most one
 * constraint. What is empty means none: some clients always send all fields. A constraint that is
 * not offered is refused, because an answer that ignores it would be wrong. */
#include "read.h"

#include <stdlib.h>
#include <string.h>

int srv_constrained(srv_reading *r, const char *param) {
    if (*r->constraint)
        return srv_fail(r->e, 400, "conflict", param, "%s and %s exclude each other", r->constraint,
                        param);
    snprintf(r->constraint, sizeof r->constraint, "%s", param);
    return 0;
}

static int add(srv_reading *r, const char *rule, const char *setting, json_t *value,
               const char *param) {
    retrace_error err;
    json_t *made = json_pack("{s:s}", "name", rule);
    if (setting) json_object_set(made, setting, value);
    int rc = srv_constrained(r, param);
    if (rc) json_decref(made);
    if (!rc && srv_rule_add(r, made, &err)) rc = srv_fail_with(r->e, &err, param);
    return rc;
}

static int check_size(srv_reading *r, json_t *text, const char *param) {
    if (json_string_length(text) <= SRV_MAX_GRAMMAR) return 0;
    return srv_fail(r->e, 400, "too_long", param, "%s: more than %d bytes", param, SRV_MAX_GRAMMAR);
}

/* A schema as an object, true or false, or as the text of one. */
static int add_schema(srv_reading *r, json_t *v, const char *param) {
    json_t *text;
    if (json_is_string(v)) {
        text = json_incref(v);
    } else if (json_is_object(v) || json_is_boolean(v)) {
        char *s = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
        text = s ? json_string(s) : NULL;
        free(s);
    } else {
        return srv_wrong(r->e, param, v, "a schema");
    }
    if (!text) return srv_wrong(r->e, param, v, "a schema that can be written");
    int rc = check_size(r, text, param);
    if (!rc) rc = add(r, "json", "schema", text, param);
    json_decref(text);
    return rc;
}

static int add_grammar(srv_reading *r, json_t *v, const char *param) {
    if (!json_is_string(v)) return srv_wrong(r->e, param, v, "a text");
    if (check_size(r, v, param)) return -1;
    return add(r, "grammar", "text", v, param);
}

/* ==== response_format ==== */

/* llama-server's own form: the schema stands beside the type. */
static json_t *plain_schema(json_t *format) {
    json_t *schema = json_object_get(format, "schema");
    return schema && !json_is_null(schema) && !srv_is_off(schema) ? schema : NULL;
}

static int add_plain(srv_reading *r, json_t *schema, const char *used) {
    char param[96];
    snprintf(param, sizeof param, "%s.schema", used);
    return add_schema(r, schema, param);
}

static int format_schema(srv_reading *r, json_t *format, const char *used) {
    char param[96];
    json_t *outer = json_object_get(format, "json_schema"), *plain = plain_schema(format);
    if ((!outer || json_is_null(outer)) && plain) return add_plain(r, plain, used);
    snprintf(param, sizeof param, "%s.json_schema", used);
    if (!outer || json_is_null(outer))
        return srv_fail(r->e, 400, "missing_field", param, "%s: it is missing", param);
    if (!json_is_object(outer)) return srv_wrong(r->e, param, outer, "an object");
    json_t *schema = json_object_get(outer, "schema");
    snprintf(param, sizeof param, "%s.json_schema.schema", used);
    if (!schema || json_is_null(schema))
        return srv_fail(r->e, 400, "missing_field", param, "%s: it is missing", param);
    return add_schema(r, schema, param);
}

static int read_format(srv_reading *r) {
    const char *used;
    char param[96];
    json_t *format = srv_find(r->body, srv_fields_rules, "response_format", &used);
    if (!format || srv_is_off(format)) return 0;
    if (!json_is_object(format)) return srv_wrong(r->e, used, format, "an object");
    snprintf(param, sizeof param, "%s.type", used);
    json_t *type = json_object_get(format, "type");
    if (!type) return srv_fail(r->e, 400, "missing_field", param, "%s: it is missing", param);
    const char *t = json_is_string(type) ? json_string_value(type) : "";
    if (strcmp(t, "text") == 0) return 0;
    if (strcmp(t, "json_schema") == 0) return format_schema(r, format, used);
    if (strcmp(t, "json_object") != 0)
        return srv_wrong(r->e, param, type, "text, json_object or json_schema");
    json_t *schema = plain_schema(format);
    return schema ? add_plain(r, schema, used) : add(r, "json", NULL, NULL, used);
}

/* ==== What others have ==== */

/* Fields that would change what may be written, in other servers. */
static int refuse_others(srv_reading *r) {
    static const char *const names[] = {
        "regex_pattern",  "allowed_token_ids",  "guided_json", "guided_regex", "guided_choice",
        "guided_grammar", "structured_outputs", "regex",       "ebnf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *v = json_object_get(r->body, names[i]);
        if (!v || json_is_null(v) || json_is_false(v) || srv_is_off(v)) continue;
        return srv_fail(r->e, 400, "unsupported_value", names[i],
                        "%s: not offered; grammar, json_schema and response_format are", names[i]);
    }
    return 0;
}

int srv_read_constraint(srv_reading *r) {
    const char *used;
    json_t *v = srv_find(r->body, srv_fields_rules, "grammar", &used);
    if (v && !srv_is_off(v) && add_grammar(r, v, used)) return -1;
    v = srv_find(r->body, srv_fields_rules, "json_schema", &used);
    if (v && !srv_is_off(v) && add_schema(r, v, used)) return -1;
    return read_format(r) ? -1 : refuse_others(r);
}
