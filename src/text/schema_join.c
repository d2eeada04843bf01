/* schema_join.c - several schemas at once: references, allOf, and whether two exclude each other.
 */
#include "schema_part.h"

#include <stdio.h>
#include <string.h>

/* ==== References ==== */

/* The part a JSON pointer leads to, "/a/b~1c"; NULL: none. */
static json_t *follow(json_t *at, const char *pointer) {
    while (at && *pointer == '/') {
        char name[256];
        size_t n = 0;
        for (pointer++; *pointer && *pointer != '/' && n + 1 < sizeof name; pointer++) {
            char c = *pointer;
            if (c == '~' && (pointer[1] == '0' || pointer[1] == '1'))
                c = *++pointer == '0' ? '~' : '/';
            name[n++] = c;
        }
        name[n] = 0;
        if (json_is_array(at)) {
            size_t i = 0;
            if (n == 0 || n > 6 || strspn(name, "0123456789") != n) return NULL;
            for (size_t k = 0; k < n; k++) i = i * 10 + (size_t)(name[k] - '0');
            at = json_array_get(at, i);
        } else {
            at = json_object_get(at, name);
        }
    }
    return *pointer ? NULL : at;
}

json_t *rt_schema_target(rt_schema *s, const json_t *part) {
    const char *ref = json_string_value(json_object_get(part, "$ref"));
    json_t *target = ref && ref[0] == '#' ? follow(s->root, ref + 1) : NULL;
    if (!target)
        rt_schema_refuse(s, "$ref",
                         ref && ref[0] != '#'
                             ? "only references within the schema (#/...) are supported"
                             : "leads nowhere");
    return target;
}

/* Follows references; bounded, as they may go round. */
static json_t *resolve(rt_schema *s, json_t *part) {
    for (int i = 0; part && json_object_get(part, "$ref"); i++) {
        if (i == RT_SCHEMA_MAX_DEPTH) {
            rt_schema_refuse(s, "$ref", "goes round in a circle");
            return NULL;
        }
        part = rt_schema_target(s, part);
    }
    return part;
}

/* ==== allOf ==== */

/* Is it about people only? */
static int is_note(const char *name) {
    static const char notes[] =
        "|title|description|default|examples|$schema|$id|$comment|$defs|definitions|";
    char sought[64];
    int n = snprintf(sought, sizeof sought, "|%s|", name);
    return n < (int)sizeof sought && strstr(notes, sought) != NULL;
}

static void put(rt_schema *s, json_t *into, const char *name, json_t *value) {
    if (json_object_set(into, name, value)) s->rc = rt_nomem(s->err);
}

static void join_properties(rt_schema *s, json_t *into, json_t *more) {
    json_t *both = json_copy(json_object_get(into, "properties")), *value;
    const char *name;
    if (!both) s->rc = rt_nomem(s->err);
    json_object_foreach(more, name, value) {
        const json_t *old = json_object_get(both, name);
        if (old && !json_equal(old, value))
            rt_schema_refuse(s, "allOf", "a property with two schemas is not supported");
        if (!s->rc) put(s, both, name, value);
    }
    if (!s->rc) put(s, into, "properties", both);
    json_decref(both);
}

static void join_required(rt_schema *s, json_t *into, json_t *more) {
    json_t *both = json_copy(json_object_get(into, "required"));
    if (!both || json_array_extend(both, more)) s->rc = rt_nomem(s->err);
    if (!s->rc) put(s, into, "required", both);
    json_decref(both);
}

/* Adds what one of the schemas says. */
static void join(rt_schema *s, json_t *into, json_t *part) {
    const char *name;
    json_t *value;
    json_object_foreach(part, name, value) {
        const json_t *old = json_object_get(into, name);
        if (s->rc || is_note(name) || strcmp(name, "allOf") == 0) continue;
        if (!old)
            put(s, into, name, value);
        else if (strcmp(name, "properties") == 0 && json_is_object(value) && json_is_object(old))
            join_properties(s, into, value);
        else if (strcmp(name, "required") == 0 && json_is_array(value) && json_is_array(old))
            join_required(s, into, value);
        else if (!json_equal(old, value))
            rt_schema_refuse(s, "allOf", "these schemas cannot be merged");
    }
}

/* Closed objects cannot be merged: what one does not name, another one's name or not, is forbidden.
 */
static void check_open(rt_schema *s, json_t *part) {
    const json_t *others = json_object_get(part, "additionalProperties");
    if (others && !json_is_true(others))
        rt_schema_refuse(s, "allOf",
                         "additionalProperties in one of several schemas is not supported");
}

json_t *rt_schema_merge(rt_schema *s, json_t *part) {
    json_t *list = json_object_get(part, "allOf");
    if (!list) return part;
    size_t n = json_array_size(list);
    json_t *out = json_object();
    if (!out || json_array_append_new(s->merged, out)) s->rc = rt_nomem(s->err);
    if (n == 0) rt_schema_refuse(s, "allOf", "must be a list of schemas");
    if (!s->rc) join(s, out, part);
    int own = !s->rc && json_object_size(out) > 0;
    if (own || n > 1) check_open(s, out);
    for (size_t i = 0; !s->rc && i < n; i++) {
        json_t *one = resolve(s, json_array_get(list, i));
        if (s->rc) return NULL;
        if (!json_is_object(one) || json_object_get(one, "allOf"))
            rt_schema_refuse(s, "allOf", "only plain schemas can be merged");
        if (own || n > 1) check_open(s, one);
        if (!s->rc) join(s, out, one);
    }
    return s->rc ? NULL : out;
}

/* ==== Do two schemas exclude each other? ==== */

/* The values a schema lists; NULL: it lists none. A const is put into `one`. */
static const json_t *values_of(json_t *part, json_t *one) {
    json_t *value = json_object_get(part, "const");
    if (!value) return json_object_get(part, "enum");
    json_array_clear(one);
    return json_array_append(one, value) ? NULL : one;
}

static int lists_exclude(json_t *a, json_t *b) {
    json_t *one = json_array(), *other = json_array();
    const json_t *x = one ? values_of(a, one) : NULL, *y = other ? values_of(b, other) : NULL;
    int exclude = x && y;
    for (size_t i = 0; exclude && i < json_array_size(x); i++)
        for (size_t k = 0; exclude && k < json_array_size(y); k++)
            exclude =
                !json_equal(json_array_get(x, i), json_array_get(y, k)) &&
                !(json_is_number(json_array_get(x, i)) && json_is_number(json_array_get(y, k)));
    json_decref(one);
    json_decref(other);
    return exclude;
}

static int is_required(const json_t *part, const char *name) {
    const json_t *list = json_object_get(part, "required");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *one = json_string_value(json_array_get(list, i));
        if (one && strcmp(one, name) == 0) return 1;
    }
    return 0;
}

/* What types a value may have: those of its constants, of its alternatives, or all. */
static int may_be(rt_schema *s, json_t *part) {
    const json_t *list = json_object_get(part, "enum"), *one = json_object_get(part, "const");
    int found = 0;
    if (one) return rt_schema_type_of(one);
    for (size_t i = 0; i < json_array_size(list); i++)
        found |= rt_schema_type_of(json_array_get(list, i));
    if (found) return found;
    found = json_object_get(part, "type") ? rt_schema_types(s, part) : RT_TYPE_ALL;
    return found & (RT_TYPE_NUMBER | RT_TYPE_INTEGER) ? found | RT_TYPE_NUMBER | RT_TYPE_INTEGER
                                                      : found;
}

int rt_schema_disjoint(rt_schema *s, json_t *a, json_t *b) {
    a = resolve(s, a);
    b = s->rc ? NULL : resolve(s, b);
    if (s->rc || !json_is_object(a) || !json_is_object(b)) return 0;
    if (!(may_be(s, a) & may_be(s, b))) return 1;
    if (lists_exclude(a, b)) return 1;
    if (may_be(s, a) != RT_TYPE_OBJECT || may_be(s, b) != RT_TYPE_OBJECT) return 0;
    json_t *x = json_object_get(a, "properties"), *y = json_object_get(b, "properties"), *value;
    const char *name;
    json_object_foreach(x, name, value) {
        json_t *other = json_object_get(y, name);
        if (!other || !is_required(a, name) || !is_required(b, name)) continue;
        json_t *p = resolve(s, value), *q = s->rc ? NULL : resolve(s, other);
        if (s->rc) return 0;
        if (lists_exclude(p, q)) return 1;
    }
    return 0;
}
