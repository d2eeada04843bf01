/* probability_threshold.c - the operator `probability-threshold`: no improbable tokens.
 *
 * Fires when the newest token's probability is below min_probability. Of several tries at a place
 * the most probable one is the best. */
#include "operator.h"
#include "strategies.h"

typedef struct threshold {
    rt_operator common;
    double min_probability;
} threshold;

static int init(void *memory, retrace_error *err) {
    const threshold *self = memory;
    int rc = rt_operator_check_fraction(self->min_probability,
                                        "probability-threshold: min_probability", err);
    return rc ? rc : rt_operator_refuse_prompt(&self->common, "probability-threshold", err);
}

static int judge(const void *memory, const retrace_view *v, void *mark, retrace_proposal *p,
                 retrace_error *err) {
    const threshold *self = memory;
    double here;
    (void)mark, (void)err;
    if (!rt_operator_due(&self->common, v)) return RETRACE_OK;
    if (!rt_operator_probability(&self->common, v, &here)) return RETRACE_OK;
    if (!(here < self->min_probability)) return RETRACE_OK;
    return rt_operator_object(&self->common, v, self->common.backtrack_count, here, p,
                              "probability", here, self->min_probability);
}

static const retrace_setting_info settings[] = {
    {"min_probability", RETRACE_REAL, offsetof(threshold, min_probability), "0.05", 0, 1, NULL,
     "a token less probable than this is taken back"},
    RT_OPERATOR_ROWS(threshold, "1"),
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_probability_threshold = {
    .abi = RETRACE_ABI,
    .name = "probability-threshold",
    .help = "goes back over a token that was improbable",
    .settings = settings,
    .size = sizeof(threshold),
    .init = init,
    .judge = judge,
    .horizon = rt_operator_horizon,
};
