/* json.c - the rule `json`: the answer is JSON, by a schema or of any kind.
 *
 * A grammar like any other (constraint.c); schema.h says which schemas it can come from. */
#include "constraint.h"
#include "strategies.h"
#include "text/gbnf.h"
#include "text/schema.h"

#include <stddef.h>

typedef struct json {
    rt_constraint base;
    retrace_text schema;
    retrace_texts schema_file;
    int root;
} json;

static int write_grammar(const json *self, rt_writer *w, retrace_error *err) {
    retrace_text source;
    int given;
    int rc = rt_constraint_source(self->schema, &self->schema_file, "json", "schema", "schema_file",
                                  &given, &source, err);
    if (rc) return rc;
    return given ? rt_schema_write(w, source, "json", err)
                 : rt_schema_write_any(w, self->root == 0, err);
}

static int init(void *memory, retrace_error *err) {
    json *self = memory;
    rt_writer w = {{0}, RETRACE_OK};
    rt_grammar *g = NULL;
    int rc = write_grammar(self, &w, err);
    if (rc == RETRACE_OK)
        rc = rt_gbnf_parse(&g, (retrace_text){w.buf.s, w.buf.n}, (retrace_text){"root", 4},
                           "json: the schema as a grammar", err);
    rt_buf_free(&w.buf);
    return rc ? rc : rt_constraint_init(&self->base, g, "json", err);
}

static const retrace_setting_info settings[] = {
    {"schema", RETRACE_TEXT, offsetof(json, schema), NULL, 0, 0, NULL,
     "a JSON schema that the answer follows"},
    {"schema_file", RETRACE_FILE, offsetof(json, schema_file), NULL, 0, RT_SCHEMA_MAX_TEXT, NULL,
     "a file with the schema"},
    {"root", RETRACE_CHOICE, offsetof(json, root), "object", 0, 0, "object|value",
     "without a schema: what the answer is"},
    {0},
};

const retrace_rule_type rt_rule_json = {
    .abi = RETRACE_ABI,
    .name = "json",
    .help = "the answer is JSON, by a schema or any object",
    .settings = settings,
    .size = sizeof(json),
    .mark_size = sizeof(rt_constraint_mark),
    .certain = rt_constraint_certain,
    .init = init,
    .fini = rt_constraint_fini,
    .start = rt_constraint_start,
    .mark_copy = rt_constraint_copy,
    .mark_free = rt_constraint_free,
    .admits = rt_constraint_admits,
    .mask = rt_constraint_mask,
    .judge = rt_constraint_judge,
};
