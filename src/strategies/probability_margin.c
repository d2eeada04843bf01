/* probability_margin.c - the operator `probability-margin`: no places where two tokens vie.
 *
 * Fires when the two most probable tokens of the distribution that the newest token was drawn from
 * lie less than min_margin apart; never where only one could come. That is a property of the place:
 * going back two tokens changes the choice that led there, and where no generated token precedes it
 * does not fire. The try with the largest margin is the best. */
#include "base.h"
#include "operator.h"
#include "strategies.h"

#include <math.h>

typedef struct margin {
    rt_operator common;
    double min_margin;
} margin;

static int init(void *memory, retrace_error *err) {
    return rt_operator_refuse_prompt(memory, "probability-margin", err);
}

/* Of a distribution as the model gave it: 1 with the margin, 0 when there is none, or negative. */
static int margin_in(retrace_dist *d, double *out, retrace_error *err) {
    retrace_candidate top[2];
    int n = retrace_dist_top(d, 2, top);
    if (n == 0) return rt_nomem(err);
    if (n < 2) return 0;
    *out = exp(top[0].logp) - exp(top[1].logp);
    return 1;
}

/* Of what the newest token was drawn from. */
static int margin_of(const margin *self, const retrace_view *v, double *out, retrace_error *err) {
    retrace_sampled s;
    if (!rt_operator_known(&self->common, v, &s)) return 0;
    if (!self->common.sampled) return margin_in(v->drawn, out, err);
    *out = s.first - s.second;
    return s.n > 1;
}

static int judge(const void *memory, const retrace_view *v, void *mark, retrace_proposal *p,
                 retrace_error *err) {
    const margin *self = memory;
    double here = 0;
    (void)mark;
    if (!rt_operator_place_due(&self->common, v)) return RETRACE_OK;
    int rc = margin_of(self, v, &here, err);
    if (rc < 0) return rc;
    if (rc == 0 || !(here < self->min_margin)) return RETRACE_OK;
    return rt_operator_object(&self->common, v, self->common.backtrack_count, here, p, "margin",
                              here, self->min_margin);
}

/* A place that has passed the test passes it again, whatever is drawn there. */
static int horizon(const void *memory, const retrace_view *v, const void *mark) {
    const margin *self = memory;
    double there = 0;
    (void)mark;
    int rc = v->next && !self->common.sampled ? margin_in(v->next, &there, NULL) : -1;
    return rt_operator_reach(&self->common, v, rc == 0 || (rc > 0 && there >= self->min_margin));
}

static const retrace_setting_info settings[] = {
    {"min_margin", RETRACE_REAL, offsetof(margin, min_margin), "0.05", 0, 1, NULL,
     "the two most probable tokens are to lie this far apart"},
    RT_OPERATOR_ROWS(margin, "2"),
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_probability_margin = {
    .abi = RETRACE_ABI,
    .name = "probability-margin",
    .help = "goes back over the choice that led to a place where two tokens vie",
    .settings = settings,
    .size = sizeof(margin),
    .init = init,
    .judge = judge,
    .horizon = horizon,
};
