/* entropy_threshold.c - the operator `entropy-threshold`: no places where the model is unsure.
 *
 * Fires when the entropy, in nats, of the distribution that the newest token was drawn from is
 * above max_entropy. That is a property of the place, which the token drawn there cannot change:
 * going back two tokens changes the choice that led there, and where no generated token precedes it
 * does not fire. The try with the least entropy is the best. */
#include "operator.h"
#include "strategies.h"

typedef struct entropy {
    rt_operator common;
    double max_entropy;
} entropy;

static int init(void *memory, retrace_error *err) {
    return rt_operator_refuse_prompt(memory, "entropy-threshold", err);
}

/* 0: not known. */
static int entropy_of(const entropy *self, const retrace_view *v, double *h) {
    retrace_sampled s;
    if (!rt_operator_known(&self->common, v, &s)) return 0;
    *h = self->common.sampled ? s.entropy : retrace_dist_entropy(v->drawn);
    return 1;
}

static int judge(const void *memory, const retrace_view *v, void *mark, retrace_proposal *p,
                 retrace_error *err) {
    const entropy *self = memory;
    double h;
    (void)mark, (void)err;
    if (!rt_operator_place_due(&self->common, v)) return RETRACE_OK;
    if (!entropy_of(self, v, &h) || !(h > self->max_entropy)) return RETRACE_OK;
    return rt_operator_object(&self->common, v, self->common.backtrack_count, -h, p, "entropy", h,
                              self->max_entropy);
}

/* A place that has passed the test passes it again, whatever is drawn there. */
static int horizon(const void *memory, const retrace_view *v, const void *mark) {
    const entropy *self = memory;
    (void)mark;
    int passed =
        v->next && !self->common.sampled && !(retrace_dist_entropy(v->next) > self->max_entropy);
    return rt_operator_reach(&self->common, v, passed);
}

static const retrace_setting_info settings[] = {
    {"max_entropy", RETRACE_REAL, offsetof(entropy, max_entropy), "0.2", 0, 1000, NULL,
     "nats; a place of more entropy is left"},
    RT_OPERATOR_ROWS(entropy, "2"),
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_entropy_threshold = {
    .abi = RETRACE_ABI,
    .name = "entropy-threshold",
    .help = "goes back over the choice that led to a place of high entropy",
    .settings = settings,
    .size = sizeof(entropy),
    .init = init,
    .judge = judge,
    .horizon = horizon,
};
