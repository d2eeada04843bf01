/* logit_threshold.c - the operator `logit-threshold`: no token with a low logit.
 *
 * Fires when the newest token's logit is below min_logit. on=model: as the model gave it, whatever
 * the temperature; on=sampled: as edited, divided by the temperature. Of several tries the one with
 * the largest logit is the best. */
#include "operator.h"
#include "strategies.h"

typedef struct threshold {
    rt_operator common;
    double min_logit;
} threshold;

static int init(void *memory, retrace_error *err) {
    return rt_operator_refuse_prompt(memory, "logit-threshold", err);
}

/* 0: not known. */
static int logit_of(const threshold *self, const retrace_view *v, double *x) {
    retrace_sampled s;
    if (!rt_operator_known(&self->common, v, &s)) return 0;
    *x =
        self->common.sampled ? s.logit : (double)retrace_dist_logits(v->drawn)[v->tokens[v->n - 1]];
    return 1;
}

static int judge(const void *memory, const retrace_view *v, void *mark, retrace_proposal *p,
                 retrace_error *err) {
    const threshold *self = memory;
    double x;
    (void)mark, (void)err;
    if (!rt_operator_due(&self->common, v)) return RETRACE_OK;
    if (!logit_of(self, v, &x) || !(x < self->min_logit)) return RETRACE_OK;
    return rt_operator_object(&self->common, v, self->common.backtrack_count, x, p, "logit", x,
                              self->min_logit);
}

static const retrace_setting_info settings[] = {
    {"min_logit", RETRACE_REAL, offsetof(threshold, min_logit), "-20", -1e9, 1e9, NULL,
     "a token with a smaller logit is taken back"},
    RT_OPERATOR_ROWS(threshold, "1"),
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_logit_threshold = {
    .abi = RETRACE_ABI,
    .name = "logit-threshold",
    .help = "goes back over a token with a low logit",
    .settings = settings,
    .size = sizeof(threshold),
    .init = init,
    .judge = judge,
    .horizon = rt_operator_horizon,
};
