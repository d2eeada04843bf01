/* probability_drop.c - the operator `probability-drop`: no sudden fall of probability.
 *
 * Fires when the newest token's probability is below that of the token before it times
 * (1 - max_drop). The probability of the token now last is the place's mark, so a rejected token's
 * is gone with it. A token whose probability is not known is neither judged nor compared with. Of
 * several tries the one that fell least is the best. */
#include "operator.h"
#include "strategies.h"

typedef struct drop {
    rt_operator common;
    double max_drop;
} drop;

/* Of the newest token. */
typedef struct mark {
    double p;
    int known;
} mark;

static int init(void *memory, retrace_error *err) {
    return rt_operator_refuse_prompt(memory, "probability-drop", err);
}

static int judge(const void *memory, const retrace_view *v, void *place, retrace_proposal *p,
                 retrace_error *err) {
    const drop *self = memory;
    mark *m = place, last = *m;
    (void)err;
    if (!rt_operator_new_token(v)) return RETRACE_OK;
    m->known = rt_operator_probability(&self->common, v, &m->p);
    if (!last.known || !m->known || !rt_operator_due(&self->common, v)) return RETRACE_OK;
    double least = last.p * (1 - self->max_drop);
    if (!(m->p < least)) return RETRACE_OK;
    return rt_operator_object(&self->common, v, self->common.backtrack_count, m->p / last.p, p,
                              "probability", m->p, least);
}

static const retrace_setting_info settings[] = {
    {"max_drop", RETRACE_REAL, offsetof(drop, max_drop), "0.8", 0, 1, NULL,
     "the part of the last token's probability that may be lost"},
    RT_OPERATOR_ROWS(drop, "1"),
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_probability_drop = {
    .abi = RETRACE_ABI,
    .name = "probability-drop",
    .help = "goes back over a token much less probable than the one before it",
    .settings = settings,
    .size = sizeof(drop),
    .mark_size = sizeof(mark),
    .init = init,
    .judge = judge,
    .horizon = rt_operator_horizon,
};
