/* schema_types.c - what the types of a schema stand for: objects, arrays, strings, numbers.
 *
 * The properties of an object come in the schema's order. Rules f0, f1, ... of an object say what
 * may come from property i on when nothing has been written, t0, t1, ... when something has, so
 * commas are right and the size is linear whichever of them are required. */
#include "schema_part.h"
#include "pattern.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ==== Constants ==== */

typedef struct sink {
    rt_buf buf;
    int rc;
} sink;

static int take(const char *s, size_t n, void *ud) {
    sink *k = ud;
    if (k->rc == RETRACE_OK) k->rc = rt_buf_add(&k->buf, s, n);
    return k->rc ? -1 : 0;
}

/* With as few digits as give the same number again. */
static size_t precision_of(const json_t *value) {
    char digits[64];
    double x = json_real_value(value);
    for (int n = 1; json_is_real(value) && n < 17; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, x);
        if (strtod(digits, NULL) == x) return (size_t)n;
    }
    return 17;
}

void rt_schema_constant(rt_schema *s, rt_writer *w, const json_t *value) {
    sink k = {{0}, RETRACE_OK};
    size_t flags = JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(precision_of(value));
    if (s->rc) return;
    if (json_dump_callback(value, take, &k, flags)) s->rc = rt_nomem(s->err);
    rt_write_literal(w, k.buf.s, k.buf.n);
    rt_buf_free(&k.buf);
}

/* ==== Objects ==== */

typedef struct property {
    const char *name;
    int required, rule; /* rule -1: any value */
} property;

typedef struct object {
    property *p;
    int n, cap;
    int id;        /* in the names of its rules */
    int open;      /* other properties may follow */
    int open_rule; /* their rule; -1: any value */
} object;

static int find(const object *o, const char *name) {
    for (int i = 0; i < o->n; i++)
        if (strcmp(o->p[i].name, name) == 0) return i;
    return -1;
}

static property *add(rt_schema *s, object *o, const char *name) {
    if (rt_grow(&o->p, &o->cap, o->n + 1, sizeof *o->p)) {
        s->rc = rt_nomem(s->err);
        return NULL;
    }
    o->p[o->n] = (property){name, 0, -1};
    return &o->p[o->n++];
}

static void read_properties(rt_schema *s, object *o, json_t *part) {
    json_t *properties = json_object_get(part, "properties"), *value;
    const char *name;
    if (properties && !json_is_object(properties))
        rt_schema_refuse(s, "properties", "must be an object");
    json_object_foreach(properties, name, value) {
        size_t length = rt_schema_enter(s, "properties", name);
        property *p = s->rc ? NULL : add(s, o, name);
        if (p) {
            int rule = rt_schema_rule(s, value);
            o->p[o->n - 1].rule = rule;
        }
        rt_schema_leave(s, length);
    }
}

static void read_others(rt_schema *s, object *o, json_t *part) {
    json_t *others = json_object_get(part, "additionalProperties");
    o->open_rule = -1;
    o->open = others ? !json_is_false(others) : json_object_get(part, "properties") == NULL;
    if (!json_is_object(others)) {
        if (others && !json_is_boolean(others))
            rt_schema_refuse(s, "additionalProperties", "must be a schema");
        return;
    }
    size_t length = rt_schema_enter(s, "additionalProperties", NULL);
    o->open_rule = rt_schema_rule(s, others);
    rt_schema_leave(s, length);
}

static void read_required(rt_schema *s, object *o, json_t *part) {
    json_t *required = json_object_get(part, "required");
    const json_t *others = json_object_get(part, "additionalProperties");
    if (required && !json_is_array(required)) rt_schema_refuse(s, "required", "must be a list");
    for (size_t i = 0; !s->rc && i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        int k = name ? find(o, name) : -1;
        if (!name) rt_schema_refuse(s, "required", "must be a list of names");
        if (name && k < 0 && json_is_false(others))
            rt_schema_refuse(s, "required", "names a property that additionalProperties forbids");
        if (name && k < 0 && !s->rc) {
            property *p = add(s, o, name);
            if (p) p->rule = o->open_rule;
            k = o->n - 1;
        }
        if (!s->rc) o->p[k].required = 1;
    }
}

static void write_rule_name(rt_writer *w, int rule) {
    if (rule < 0)
        rt_write(w, "value");
    else
        rt_write(w, "r%d", rule);
}

/* Strings that are none of the names: by the names that begin with the n bytes of `begin`. A
 * character in which they differ from all names is written plainly. */
static void write_other_names(rt_schema *s, rt_writer *w, const object *o, const char *begin,
                              size_t n, int depth) {
    unsigned char next[256] = {0};
    int is_name = 0, any = 0;
    if (depth > 150) rt_schema_refuse(s, "properties", "a name of more than 150 bytes");
    for (int i = 0; i < o->n; i++) {
        if (strncmp(o->p[i].name, begin, n) != 0) continue;
        is_name |= o->p[i].name[n] == 0;
        next[(unsigned char)o->p[i].name[n]] = 1;
    }
    rt_write(w, "(%s", is_name ? "" : "\"\"");
    any = !is_name;
    for (int c = 1; c < 256 && !s->rc; c++) {
        if (!next[c] || c == '"' || c == '\\' || c < ' ' || c > 0x7e) continue;
        char longer[256];
        if (n) memcpy(longer, begin, n);
        longer[n] = (char)c;
        longer[n + 1] = 0;
        rt_write(w, "%s[\\x%02x] ", any ? " | " : "", c);
        write_other_names(s, w, o, longer, n + 1, depth + 1);
        any = 1;
    }
    /* Names go on with other than plain ASCII: no others do. */
    rt_write(w, "%s[^\"\\\\\\x00-\\x1f", any ? " | " : "");
    int beyond = 0;
    for (int c = 1; c < 256; c++) {
        if (!next[c]) continue;
        if (c >= ' ' && c <= 0x7e && c != '"' && c != '\\') rt_write(w, "\\x%02x", c);
        beyond |= c > 0x7e;
    }
    rt_write(w, "%s] char*)", beyond ? "\\x7f-\\U0010ffff" : "");
}

static void write_others(rt_schema *s, rt_writer *w, const object *o) {
    rt_write(w, "o%d ::= \"\\\"\" ", o->id);
    write_other_names(s, w, o, "", 0, 0);
    rt_write(w, " \"\\\"\" \":\" ws ");
    write_rule_name(w, o->open_rule);
    rt_write(w, " ws\n");
}

static void write_member(rt_schema *s, rt_writer *w, const property *p) {
    json_t *name = json_string(p->name);
    if (!name) s->rc = rt_nomem(s->err);
    if (name) rt_schema_constant(s, w, name);
    json_decref(name);
    rt_write(w, " \":\" ws ");
    write_rule_name(w, p->rule);
    rt_write(w, " ws");
}

/* The rules from property i on; `first`: nothing stands before. */
static void write_from(rt_schema *s, rt_writer *w, const object *o, int i, int first) {
    char c = first ? 'f' : 't';
    rt_write(w, "%c%d-%d ::= ", c, o->id, i);
    if (i == o->n) {
        if (o->open && first) rt_write(w, "(o%d (\",\" ws o%d)*)?", o->id, o->id);
        if (o->open && !first) rt_write(w, "(\",\" ws o%d)*", o->id);
        rt_write(w, o->open ? "\n" : "\"\"\n");
        return;
    }
    if (!first) rt_write(w, "\",\" ws ");
    write_member(s, w, &o->p[i]);
    rt_write(w, " t%d-%d", o->id, i + 1);
    if (!o->p[i].required) rt_write(w, " | %c%d-%d", c, o->id, i + 1);
    rt_write(w, "\n");
}

void rt_schema_object(rt_schema *s, rt_writer *w, json_t *part) {
    object o = {.id = s->n_rules++};
    read_properties(s, &o, part);
    if (!s->rc) read_others(s, &o, part);
    if (!s->rc) read_required(s, &o, part);
    if (!s->rc && o.n == 0 && o.open && o.open_rule < 0) {
        rt_write(w, "object");
    } else if (!s->rc) {
        if (o.open) write_others(s, s->w, &o);
        for (int i = 0; i <= o.n && !s->rc; i++) {
            write_from(s, s->w, &o, i, 1);
            write_from(s, s->w, &o, i, 0);
        }
        rt_write(w, "\"{\" ws f%d-0 \"}\"", o.id);
    }
    retrace_free(o.p);
}

/* ==== Arrays ==== */

/* [low, high] times "," ws item ws; high -1: any number. */
static void write_more(rt_writer *w, int rule, int64_t low, int64_t high) {
    if (high == 0) return;
    rt_write(w, " (\",\" ws ");
    write_rule_name(w, rule);
    if (high < 0)
        rt_write(w, " ws){%d,}", (int)low);
    else
        rt_write(w, " ws){%d,%d}", (int)low, (int)high);
}

/* Items from number i on of those with a schema of their own. */
static void write_items(rt_writer *w, const int *rules, int n, int i, int rest, int has_rest,
                        int64_t low, int64_t high) {
    int closed = i >= n && (!has_rest || high == i);
    if (closed || high == i) return;
    int optional = i >= low;
    int64_t left = low > i + 1 ? low - i - 1 : 0;
    rt_write(w, optional ? " (" : " ");
    if (i) rt_write(w, "\",\" ws ");
    write_rule_name(w, i < n ? rules[i] : rest);
    rt_write(w, " ws");
    if (i < n)
        write_items(w, rules, n, i + 1, rest, has_rest, low, high);
    else
        write_more(w, rest, left, high < 0 ? -1 : high - i - 1);
    if (optional) rt_write(w, ")?");
}

enum { MAX_PREFIX = 100 };

void rt_schema_array(rt_schema *s, rt_writer *w, json_t *part) {
    json_t *items = json_object_get(part, "items"), *prefix = json_object_get(part, "prefixItems");
    int rules[MAX_PREFIX], n = (int)json_array_size(prefix), rest = -1;
    int64_t low = rt_schema_count(s, part, "minItems", 0);
    int64_t high = rt_schema_count(s, part, "maxItems", -1);
    if (prefix && (!json_is_array(prefix) || n > MAX_PREFIX))
        rt_schema_refuse(s, "prefixItems", "must be a list of at most 100 schemas");
    if (json_is_array(items))
        rt_schema_refuse(s, "items", "a list is not supported here; use prefixItems");
    for (int i = 0; i < n && !s->rc; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        size_t length = rt_schema_enter(s, "prefixItems", number);
        rules[i] = rt_schema_rule(s, json_array_get(prefix, (size_t)i));
        rt_schema_leave(s, length);
    }
    int has_rest = items ? !json_is_false(items) : 1;
    if (items && has_rest && !s->rc) {
        size_t length = rt_schema_enter(s, "items", NULL);
        rest = rt_schema_rule(s, items);
        rt_schema_leave(s, length);
    }
    if (high >= 0 && low > high) rt_schema_refuse(s, "minItems", "is more than maxItems");
    if (!has_rest && low > n) rt_schema_refuse(s, "minItems", "there cannot be so many");
    if (s->rc) return;
    rt_write(w, "\"[\" ws");
    write_items(w, rules, n, 0, rest, has_rest, low, high);
    rt_write(w, " \"]\"");
}

/* ==== Strings ==== */

static const struct {
    const char *name, *gbnf;
} formats[] = {
    {"date", "[0-9]{4} \"-\" ((\"0\" [13578] | \"1\" [02]) \"-\" (\"0\" [1-9] | [12] [0-9] | "
             "\"3\" [01]) | (\"0\" [469] | \"11\") \"-\" (\"0\" [1-9] | [12] [0-9] | \"30\") | "
             "\"02-\" (\"0\" [1-9] | \"1\" [0-9] | \"2\" [0-8]))"},
    {"time",
     "([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9] \":\" [0-5] [0-9] (\".\" [0-9]{1,6})? (\"Z\" | "
     "[+-] ([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9])"},
    {"date-time", NULL},
    {"uuid", "[0-9a-f]{8} (\"-\" [0-9a-f]{4}){3} \"-\" [0-9a-f]{12}"},
    {"ipv4",
     "([1-9]? [0-9] | \"1\" [0-9]{2}) (\".\" ([1-9]? [0-9] | \"1\" [0-9]{2} | \"2\" [0-4] [0-9] | "
     "\"25\" [0-5])){3}"},
    {"email", "[a-zA-Z0-9_+-]{1,32} (\".\" [a-zA-Z0-9_+-]{1,32})* \"@\" [a-z0-9] [a-z0-9-]{0,30} "
              "(\".\" [a-z]{2,20}){1,4}"},
};

static void write_format(rt_schema *s, rt_writer *w, const char *name) {
    for (size_t i = 0; name && i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(name, formats[i].name) != 0) continue;
        rt_write(w, "\"\\\"\" ");
        for (size_t k = 0; k < 2; k++) {
            const char *gbnf = formats[i].gbnf ? formats[i].gbnf : formats[k].gbnf;
            rt_write_bytes(w, gbnf, strlen(gbnf));
            if (formats[i].gbnf) break;
            if (k == 0) rt_write(w, " \"T\" ");
        }
        rt_write(w, " \"\\\"\"");
        return;
    }
    rt_schema_refuse(s, "format", "only date, time, date-time, uuid, ipv4 and email are supported");
}

void rt_schema_string(rt_schema *s, rt_writer *w, json_t *part) {
    const json_t *pattern = json_object_get(part, "pattern");
    const json_t *format = json_object_get(part, "format");
    int64_t low = rt_schema_count(s, part, "minLength", 0);
    int64_t high = rt_schema_count(s, part, "maxLength", -1);
    int lengths = low > 0 || high >= 0;
    if (high >= 0 && low > high) rt_schema_refuse(s, "minLength", "is more than maxLength");
    if (lengths + (pattern != NULL) + (format != NULL) > 1)
        rt_schema_refuse(s, pattern ? "pattern" : "format",
                         "is not supported beside format or bounds of the length");
    if (s->rc) return;
    if (format) {
        write_format(s, w, json_string_value(format));
    } else if (pattern && !json_is_string(pattern)) {
        rt_schema_refuse(s, "pattern", "must be a text");
    } else if (pattern) {
        char what[RT_SCHEMA_MAX_PATH + 40];
        retrace_text t = {json_string_value(pattern), json_string_length(pattern)};
        snprintf(what, sizeof what, "%s: schema: %s", s->what, s->path);
        rt_write(w, "\"\\\"\" ");
        s->rc = rt_pattern_write(w, t, what, s->err);
        rt_write(w, " \"\\\"\"");
    } else if (high >= 0) {
        rt_write(w, "\"\\\"\" char{%d,%d} \"\\\"\"", (int)low, (int)high);
    } else {
        rt_write(w, low ? "\"\\\"\" char{%d,} \"\\\"\"" : "string", (int)low);
    }
}

/* ==== Numbers ==== */

enum { LARGEST = 1 << 30 };

/* A bound from one keyword; the narrower one stays. */
static void read_bound(rt_schema *s, json_t *part, const char *keyword, int upper, int open,
                       int whole, rt_bounds *b) {
    const json_t *v = json_object_get(part, keyword);
    if (!v) return;
    double x = json_number_value(v), limit = 9e15;
    int *has = upper ? &b->has_high : &b->has_low;
    int *is_open = upper ? &b->open_high : &b->open_low;
    int64_t *to = upper ? &b->high : &b->low;
    if (!json_is_number(v)) rt_schema_refuse(s, keyword, "must be a number");
    if (!(fabs(x) <= limit)) rt_schema_refuse(s, keyword, "is supported up to 9e15");
    if (!whole && x != floor(x))
        rt_schema_refuse(s, keyword,
                         "only whole bounds are supported for numbers that are not integers");
    if (s->rc) return;
    double rounded = upper ? floor(x) : ceil(x);
    if (rounded != x) open = 0;
    int64_t value = (int64_t)rounded;
    int narrower = !*has || (upper ? value < *to : value > *to) || (value == *to && open);
    if (!narrower) return;
    *has = 1;
    *to = value;
    *is_open = open;
}

void rt_schema_number(rt_schema *s, rt_writer *w, json_t *part, int whole) {
    rt_bounds b = {0};
    read_bound(s, part, "minimum", 0, 0, whole, &b);
    read_bound(s, part, "exclusiveMinimum", 0, 1, whole, &b);
    read_bound(s, part, "maximum", 1, 0, whole, &b);
    read_bound(s, part, "exclusiveMaximum", 1, 1, whole, &b);
    if (s->rc) return;
    if (!b.has_low && !b.has_high) {
        rt_write(w, whole ? "integer" : "number");
        return;
    }
    rt_write(w, "(");
    if (!(whole ? rt_write_integers(w, &b) : rt_write_decimals(w, &b)))
        rt_schema_refuse(s, NULL, "no number lies within the bounds");
    rt_write(w, ")");
}
