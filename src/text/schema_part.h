/* schema_part.h - what the two files that read schemas share. */
#ifndef RT_SCHEMA_PART_H
#define RT_SCHEMA_PART_H

#include "schema.h"

#include <jansson.h>

enum { RT_SCHEMA_MAX_PATH = 400 };

/* A schema that has a rule of its own already: the target of a reference, or one being written. */
typedef struct rt_schema_known {
    const json_t *schema;
    int rule;
} rt_schema_known;

typedef struct rt_schema {
    json_t *root;
    rt_writer *w; /* finished rules */
    const char *what;
    retrace_error *err;
    int rc; /* the first failure */
    rt_schema_known *known;
    int n_known, cap_known, n_rules, depth;
    json_t *merged;                /* an array that owns what allOf made */
    char path[RT_SCHEMA_MAX_PATH]; /* of the schema that is read, "#/properties/a" */
} rt_schema;

/* "what: PATH: message"; the path is that of the keyword when there is one. */
void rt_schema_refuse(rt_schema *s, const char *keyword, const char *message);

/* Goes down in the path, and back to the length it had. */
size_t rt_schema_enter(rt_schema *s, const char *keyword, const char *name);
void rt_schema_leave(rt_schema *s, size_t length);

/* The number of the rule of a part of the schema; the path is that of the part. */
int rt_schema_rule(rt_schema *s, json_t *part);

/* The keyword as a count; `absent` when it is not there. */
int64_t rt_schema_count(rt_schema *s, const json_t *part, const char *keyword, int64_t absent);

/* Writes the expression for one type into `w`. */
void rt_schema_object(rt_schema *s, rt_writer *w, json_t *part);
void rt_schema_array(rt_schema *s, rt_writer *w, json_t *part);
void rt_schema_string(rt_schema *s, rt_writer *w, json_t *part);
void rt_schema_number(rt_schema *s, rt_writer *w, json_t *part, int whole);

/* A value as JSON text, in a literal. */
void rt_schema_constant(rt_schema *s, rt_writer *w, const json_t *value);

/* 1 when no value is valid by both: of other types, or with other constants in a required
 * property. */
int rt_schema_disjoint(rt_schema *s, json_t *a, json_t *b);
/* The schema with its allOf merged into it; borrowed. NULL after a failure. */
json_t *rt_schema_merge(rt_schema *s, json_t *part);
/* The target of a $ref. NULL after a failure. */
json_t *rt_schema_target(rt_schema *s, const json_t *part);

/* Types as bits, in this order. */
enum {
    RT_TYPE_NULL = 1,
    RT_TYPE_BOOLEAN = 2,
    RT_TYPE_INTEGER = 4,
    RT_TYPE_NUMBER = 8,
    RT_TYPE_STRING = 16,
    RT_TYPE_ARRAY = 32,
    RT_TYPE_OBJECT = 64,
    RT_TYPE_ALL = 127 - RT_TYPE_INTEGER
};
/* What `type` says, or what the keywords speak about, or all. */
int rt_schema_types(rt_schema *s, const json_t *part);
int rt_schema_type_of(const json_t *value);

#endif
