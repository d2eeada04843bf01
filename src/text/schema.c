/* schema.c - from a schema to rules: what a part of it is, and which rule stands for it.
 *
 * Every part becomes one rule r0, r1, ...; a part that is referred to is written once, so recursion
 * in the schema is recursion in the grammar. schema_types.c writes what a type stands for,
 * schema_join.c knows what several schemas have in common. */
#include "schema_part.h"
#include "gbnf.h"

#include <stdio.h>
#include <string.h>

/* JSON without a schema. Digits are bounded and white space is at most a blank or a line and its
 * indentation, so that a model cannot write either for ever; halves of surrogate pairs are left
 * out. */
static const char common[] =
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,40}\n"
    "value ::= object | array | string | number | boolean | null\n"
    "object ::= \"{\" ws (member (\",\" ws member)*)? \"}\"\n"
    "member ::= string \":\" ws value ws\n"
    "array ::= \"[\" ws (value ws (\",\" ws value ws)*)? \"]\"\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "char ::= [^\"\\\\\\x00-\\x1f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" hex4)\n"
    "hex4 ::= [0-9abcefABCEF] hex{3} | [dD] ([0-7] hex{2} | [89abAB] hex{2} \"\\\\u\" [dD] "
    "[c-fC-F] "
    "hex{2})\n"
    "hex ::= [0-9a-fA-F]\n"
    "whole ::= \"0\" | [1-9] [0-9]{0,15}\n"
    "integer ::= \"-\"? whole\n"
    "number ::= \"-\"? whole (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?\n"
    "boolean ::= \"true\" | \"false\"\n"
    "null ::= \"null\"\n";

/* ==== Failures and places ==== */

void rt_schema_refuse(rt_schema *s, const char *keyword, const char *message) {
    if (s->rc) return;
    s->rc = retrace_fail(s->err, RETRACE_EUSAGE, "%s: schema: %s%s%s: %s", s->what, s->path,
                         keyword ? "/" : "", keyword ? keyword : "", message);
}

size_t rt_schema_enter(rt_schema *s, const char *keyword, const char *name) {
    size_t n = strlen(s->path), room = sizeof s->path - n;
    int k = snprintf(s->path + n, room, "/%s%s%s", keyword, name ? "/" : "", name ? name : "");
    /* A path that is too long shows its beginning. */
    if (k >= (int)room) s->path[n + room - 1 - rt_utf8_tail(s->path, n + room - 1)] = 0;
    return n;
}

void rt_schema_leave(rt_schema *s, size_t length) {
    s->path[length] = 0;
}

int64_t rt_schema_count(rt_schema *s, const json_t *part, const char *keyword, int64_t absent) {
    const json_t *v = json_object_get(part, keyword);
    if (!v) return absent;
    if (json_is_integer(v) && json_integer_value(v) >= 0 &&
        json_integer_value(v) <= RT_GBNF_MAX_REPEAT)
        return json_integer_value(v);
    rt_schema_refuse(s, keyword, "must be a whole number from 0 to 10000");
    return absent;
}

/* ==== Types ==== */

static const struct {
    const char *name;
    int bit;
} types[] = {{"null", RT_TYPE_NULL},     {"boolean", RT_TYPE_BOOLEAN}, {"integer", RT_TYPE_INTEGER},
             {"number", RT_TYPE_NUMBER}, {"string", RT_TYPE_STRING},   {"array", RT_TYPE_ARRAY},
             {"object", RT_TYPE_OBJECT}};

static const struct {
    const char *name;
    int types; /* that it speaks about; 0: any */
    int note;  /* says nothing about values */
} keywords[] = {
    {"title", 0, 1},
    {"description", 0, 1},
    {"default", 0, 1},
    {"examples", 0, 1},
    {"$schema", 0, 1},
    {"$id", 0, 1},
    {"$comment", 0, 1},
    {"$defs", 0, 1},
    {"definitions", 0, 1},
    {"deprecated", 0, 1},
    {"readOnly", 0, 1},
    {"writeOnly", 0, 1},
    {"type", 0, 0},
    {"properties", RT_TYPE_OBJECT, 0},
    {"required", RT_TYPE_OBJECT, 0},
    {"additionalProperties", RT_TYPE_OBJECT, 0},
    {"items", RT_TYPE_ARRAY, 0},
    {"prefixItems", RT_TYPE_ARRAY, 0},
    {"minItems", RT_TYPE_ARRAY, 0},
    {"maxItems", RT_TYPE_ARRAY, 0},
    {"minLength", RT_TYPE_STRING, 0},
    {"maxLength", RT_TYPE_STRING, 0},
    {"pattern", RT_TYPE_STRING, 0},
    {"format", RT_TYPE_STRING, 0},
    {"minimum", RT_TYPE_NUMBER, 0},
    {"maximum", RT_TYPE_NUMBER, 0},
    {"exclusiveMinimum", RT_TYPE_NUMBER, 0},
    {"exclusiveMaximum", RT_TYPE_NUMBER, 0},
};
enum { N_KEYWORDS = sizeof keywords / sizeof *keywords };

static int find_keyword(const char *name) {
    for (int i = 0; i < N_KEYWORDS; i++)
        if (strcmp(keywords[i].name, name) == 0) return i;
    return -1;
}

int rt_schema_type_of(const json_t *v) {
    switch (json_typeof(v)) {
    case JSON_NULL: return RT_TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE: return RT_TYPE_BOOLEAN;
    case JSON_INTEGER: return RT_TYPE_INTEGER | RT_TYPE_NUMBER;
    case JSON_REAL: return RT_TYPE_NUMBER;
    case JSON_STRING: return RT_TYPE_STRING;
    case JSON_ARRAY: return RT_TYPE_ARRAY;
    case JSON_OBJECT: return RT_TYPE_OBJECT;
    }
    return 0;
}

static int type_bit(rt_schema *s, const json_t *name) {
    for (size_t i = 0; json_is_string(name) && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, json_string_value(name)) == 0) return types[i].bit;
    rt_schema_refuse(s, "type", "is none of null, boolean, integer, number, string, array, object");
    return 0;
}

int rt_schema_types(rt_schema *s, const json_t *part) {
    const json_t *type = json_object_get(part, "type");
    int found = 0;
    if (json_is_array(type)) {
        for (size_t i = 0; i < json_array_size(type); i++)
            found |= type_bit(s, json_array_get(type, i));
        if (!found) rt_schema_refuse(s, "type", "names no type");
        return found;
    }
    if (type) return type_bit(s, type);
    for (int i = 0; i < N_KEYWORDS; i++)
        if (keywords[i].types && json_object_get(part, keywords[i].name))
            found |= keywords[i].types;
    return found ? found : RT_TYPE_ALL;
}

/* Refuses all keywords but notes and those named in `allowed`, "|a|b|"; NULL: those of types. */
static void check_keywords(rt_schema *s, json_t *part, const char *allowed) {
    const char *name;
    json_t *value;
    json_object_foreach(part, name, value) {
        char sought[64];
        int k = find_keyword(name);
        if (k >= 0 && (keywords[k].note || !allowed)) continue;
        int n = snprintf(sought, sizeof sought, "|%s|", name);
        if (allowed && n < (int)sizeof sought && strstr(allowed, sought)) continue;
        rt_schema_refuse(s, name,
                         k >= 0 ? "is not supported beside enum, const, $ref, anyOf or oneOf"
                         : json_is_object(json_object_get(part, "schema"))
                             ? "this keyword is not supported; is what stands in \"schema\" meant?"
                             : "this keyword is not supported");
    }
}

/* ==== Constants and alternatives ==== */

static void bar(rt_writer *w, int *any) {
    if ((*any)++) rt_write(w, " | ");
}

static void write_enum(rt_schema *s, rt_writer *w, json_t *part, const char *keyword) {
    json_t *values = json_object_get(part, keyword);
    int any = 0, among = json_object_get(part, "type") ? rt_schema_types(s, part) : 127;
    int one = strcmp(keyword, "const") == 0;
    if (!one && (!json_is_array(values) || json_array_size(values) == 0)) {
        rt_schema_refuse(s, keyword, "must be a list of values, at least one");
        return;
    }
    for (size_t i = 0; i < (one ? 1 : json_array_size(values)); i++) {
        const json_t *value = one ? values : json_array_get(values, i);
        if (!(rt_schema_type_of(value) & among)) continue;
        bar(w, &any);
        rt_schema_constant(s, w, value);
    }
    if (!any) rt_schema_refuse(s, keyword, "no value has the type");
    check_keywords(s, part, one ? "|const|type|" : "|enum|type|");
}

static void write_any_of(rt_schema *s, rt_writer *w, json_t *part, const char *keyword) {
    json_t *list = json_object_get(part, keyword);
    size_t n = json_array_size(list);
    int any = 0;
    if (n == 0) rt_schema_refuse(s, keyword, "must be a list of schemas");
    for (size_t i = 0; !s->rc && keyword[0] == 'o' && i < n; i++) {
        for (size_t k = 0; k < i; k++)
            if (!rt_schema_disjoint(s, json_array_get(list, k), json_array_get(list, i)))
                rt_schema_refuse(s, keyword,
                                 "a value may fit two alternatives; anyOf would allow that");
    }
    for (size_t i = 0; !s->rc && i < n; i++) {
        char number[24];
        snprintf(number, sizeof number, "%lu", (unsigned long)i);
        size_t length = rt_schema_enter(s, keyword, number);
        bar(w, &any);
        rt_write(w, "r%d", rt_schema_rule(s, json_array_get(list, i)));
        rt_schema_leave(s, length);
    }
    check_keywords(s, part, keyword[0] == 'o' ? "|oneOf|" : "|anyOf|");
}

static void write_types(rt_schema *s, rt_writer *w, json_t *part) {
    int found = rt_schema_types(s, part), any = 0;
    check_keywords(s, part, NULL);
    if (found & RT_TYPE_NULL) bar(w, &any), rt_write(w, "null");
    if (found & RT_TYPE_BOOLEAN) bar(w, &any), rt_write(w, "boolean");
    if (found & (RT_TYPE_INTEGER | RT_TYPE_NUMBER)) {
        bar(w, &any);
        rt_schema_number(s, w, part, !(found & RT_TYPE_NUMBER));
    }
    if (found & RT_TYPE_STRING) bar(w, &any), rt_schema_string(s, w, part);
    if (found & RT_TYPE_ARRAY) bar(w, &any), rt_schema_array(s, w, part);
    if (found & RT_TYPE_OBJECT) bar(w, &any), rt_schema_object(s, w, part);
}

/* ==== Rules ==== */

static void write_part(rt_schema *s, rt_writer *w, json_t *part) {
    if (json_is_true(part)) {
        rt_write(w, "value");
        return;
    }
    if (!json_is_object(part)) {
        rt_schema_refuse(s, NULL,
                         json_is_false(part) ? "false: no value is valid"
                                             : "a schema must be an object or a boolean");
        return;
    }
    part = rt_schema_merge(s, part);
    if (s->rc) return;
    if (json_object_get(part, "$ref")) {
        check_keywords(s, part, "|$ref|");
        json_t *target = rt_schema_target(s, part);
        size_t length = rt_schema_enter(s, "$ref", NULL);
        if (target) rt_write(w, "r%d", rt_schema_rule(s, target));
        rt_schema_leave(s, length);
    } else if (json_object_get(part, "const")) {
        write_enum(s, w, part, "const");
    } else if (json_object_get(part, "enum")) {
        write_enum(s, w, part, "enum");
    } else if (json_object_get(part, "anyOf")) {
        write_any_of(s, w, part, "anyOf");
    } else if (json_object_get(part, "oneOf")) {
        write_any_of(s, w, part, "oneOf");
    } else {
        write_types(s, w, part);
    }
}

int rt_schema_rule(rt_schema *s, json_t *part) {
    for (int i = 0; i < s->n_known; i++)
        if (s->known[i].schema == part) return s->known[i].rule;
    int rule = s->n_rules++;
    if (s->rc) return rule;
    if (++s->depth > RT_SCHEMA_MAX_DEPTH) rt_schema_refuse(s, NULL, "nested too deeply");
    /* true and false are one object wherever they stand, which does no harm. */
    if (!s->rc && rt_grow(&s->known, &s->cap_known, s->n_known + 1, sizeof *s->known))
        s->rc = rt_nomem(s->err);
    if (!s->rc) {
        rt_writer own = {{0}, RETRACE_OK};
        s->known[s->n_known++] = (rt_schema_known){part, rule};
        write_part(s, &own, part);
        rt_write(s->w, "r%d ::= ", rule);
        rt_write_bytes(s->w, own.buf.s, own.buf.n);
        rt_write(s->w, "\n");
        if (!s->rc && (own.rc || s->w->rc)) s->rc = rt_nomem(s->err);
        rt_buf_free(&own.buf);
    }
    s->depth--;
    return rule;
}

/* ==== All of it ==== */

int rt_schema_write_any(rt_writer *w, int object_only, retrace_error *err) {
    rt_write(w, "root ::= ws %s\n", object_only ? "object" : "value");
    rt_write_bytes(w, common, sizeof common - 1);
    return w->rc ? rt_nomem(err) : RETRACE_OK;
}

int rt_schema_write(rt_writer *w, retrace_text schema, const char *what, retrace_error *err) {
    json_error_t at;
    if (schema.n > RT_SCHEMA_MAX_TEXT)
        return retrace_fail(err, RETRACE_EUSAGE, "%s: schema has more than %d bytes", what,
                            RT_SCHEMA_MAX_TEXT);
    rt_schema s = {.w = w, .what = what, .err = err, .path = "#"};
    s.root = json_loadb(schema.n ? schema.s : "", schema.n,
                        JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &at);
    if (!s.root && json_error_code(&at) == json_error_out_of_memory) return rt_nomem(err);
    if (!s.root)
        return retrace_fail(err, RETRACE_EUSAGE, "%s: schema is no JSON: line %d, column %d: %s",
                            what, at.line, at.column, at.text);
    s.merged = json_array();
    if (!s.merged) s.rc = rt_nomem(err);
    int rule = rt_schema_rule(&s, s.root);
    rt_write(w, "root ::= ws r%d\n", rule);
    rt_write_bytes(w, common, sizeof common - 1);
    if (!s.rc && w->rc) s.rc = rt_nomem(err);
    json_decref(s.root);
    json_decref(s.merged);
    retrace_free(s.known);
    return s.rc;
}
