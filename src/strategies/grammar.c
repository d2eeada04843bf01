/* grammar.c - the rule `grammar`: the answer is a text of a grammar.
 *
 * The grammar speaks about the answer from its first byte; the prompt is no part of it. How: see
 * constraint.c. */
#include "constraint.h"
#include "strategies.h"
#include "text/gbnf.h"

#include <stddef.h>

typedef struct grammar {
    rt_constraint base;
    retrace_text text, root;
    retrace_texts file;
} grammar;

static int init(void *memory, retrace_error *err) {
    grammar *self = memory;
    retrace_text source;
    rt_grammar *g = NULL;
    int given;
    int rc = rt_constraint_source(self->text, &self->file, "grammar", "text", "file", &given,
                                  &source, err);
    if (rc) return rc;
    if (!given) return retrace_fail(err, RETRACE_EUSAGE, "grammar: needs text or file");
    rc = rt_gbnf_parse(&g, source, self->root, "grammar", err);
    return rc ? rc : rt_constraint_init(&self->base, g, "grammar", err);
}

static const retrace_setting_info settings[] = {
    {"text", RETRACE_TEXT, offsetof(grammar, text), NULL, 0, 0, NULL,
     "the grammar, in GBNF as llama.cpp has it"},
    {"file", RETRACE_FILE, offsetof(grammar, file), NULL, 0, RT_GBNF_MAX_TEXT, NULL,
     "a file with the grammar"},
    {"root", RETRACE_TEXT, offsetof(grammar, root), "root", 0, 0, NULL,
     "the rule that the whole answer follows"},
    {0},
};

const retrace_rule_type rt_rule_grammar = {
    .abi = RETRACE_ABI,
    .name = "grammar",
    .help = "the answer is a text of a grammar",
    .settings = settings,
    .size = sizeof(grammar),
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
