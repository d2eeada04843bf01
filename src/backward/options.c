/* options.c - the settings of backward sampling: their table, defaults and checks. */
#include "../base.h"
#include "../settings.h"
#include "backward.h"

#include <string.h>

#define AT(field) offsetof(retrace_backward_options, field)

static const retrace_setting_info infos[] = {
    {"max_tokens", RETRACE_INT, AT(max_tokens), "10", 0, 1e6, NULL,
     "tokens to put before the suffix at most"},
    {"num_samples", RETRACE_INT, AT(num_samples), "1", 1, 1e6, NULL, "texts to write"},
    {"seed", RETRACE_INT, AT(seed), "-1", -1, (double)INT64_MAX, NULL,
     "of all chance; -1: drawn by the program and reported"},
    {"temp", RETRACE_REAL, AT(temp), "1", 0, 1000, NULL,
     "temperature of the posterior; 0: always the most probable token"},
    {"top_p", RETRACE_REAL, AT(top_p), "1", 0, 1, NULL,
     "draw from the most probable tokens that together reach p; 1: all"},
    {"mode", RETRACE_CHOICE, AT(mode), "priority", 0, 0, "priority|exact|exhaustive|topk|compat",
     "which candidates are evaluated: a weighted sample, as many as an exact draw needs, all, the "
     "first by bigram, the original's rule"},
    {"heuristic", RETRACE_CHOICE, AT(heuristic), "mixed", 0, 0,
     "mixed|bigram|forward-prompt|reversed",
     "what makes a candidate likely to be evaluated; never changes what is sampled"},
    {"budget", RETRACE_INT, AT(budget), "0", 0, 1e9, NULL,
     "candidates evaluated in a step; 0: 512, in mode compat all"},
    {"threshold", RETRACE_REAL, AT(threshold), "0", 0, 1, NULL,
     "evaluate enough candidates for this share of all probability, instead of a budget; 1: all"},
    {"batch_size", RETRACE_INT, AT(batch_size), "256", 1, 1 << 16, NULL,
     "candidates handed to the model at once"},
    {"top", RETRACE_INT, AT(top), "10", 0, 1e9, NULL, "candidates listed with each step"},
    {"shared_table", RETRACE_BOOL, AT(shared_table), "false", 0, 0, NULL,
     "the table may be of another model with the same tokenizer"},
    {"start", RETRACE_BOOL, AT(start), "true", 0, 0, NULL,
     "the text may begin: the document start is a candidate"},
    {0},
};

const retrace_setting_info *retrace_backward_infos(void) {
    return infos;
}

void retrace_backward_default(retrace_backward_options *o) {
    memset(o, 0, sizeof *o);
    rt_settings_preset(o, infos, NULL);
}

int retrace_backward_set(retrace_backward_options *o, retrace_setting s, retrace_error *err) {
    rt_clear(err);
    const retrace_setting_info *row = rt_setting_find(infos, s.name);
    if (!row) return retrace_fail(err, RETRACE_EUSAGE, "unknown setting '%s'", s.name);
    return rt_setting_put(o, row, s.value, "", err);
}

/* Settings that do not go together. */
static const char *conflict(const retrace_backward_options *o) {
    if (o->temp > 0 && o->temp < 1e-6) return "temp: 0, or at least 1e-6";
    if (o->mode == RETRACE_EXACT && o->shared_table)
        return "mode exact needs the model's own table, not a shared one";
    if (o->mode == RETRACE_EXACT && o->top_p < 1) return "mode exact needs top_p 1";
    if (o->mode == RETRACE_EXHAUSTIVE && o->budget > 0)
        return "mode exhaustive evaluates all candidates and takes no budget";
    if (o->threshold > 0 && (o->mode == RETRACE_EXHAUSTIVE || o->mode == RETRACE_TOPK))
        return "threshold is for the modes priority, exact and compat";
    return NULL;
}

int rt_backward_check(const retrace_backward_options *o, retrace_error *err) {
    int rc = rt_settings_check(o, infos, err);
    if (rc) return rc;
    const char *why = conflict(o);
    return why ? retrace_fail(err, RETRACE_EUSAGE, "%s", why) : RETRACE_OK;
}
