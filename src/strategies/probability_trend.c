/* probability_trend.c - the operator `probability-trend`: no token far below the recent mean.
 *
 * Fires when the newest token's probability is below drop_threshold times the mean probability of
 * the window_size tokens before it, as soon as half a window of them is known. Each place's mark
 * holds its own token's probability, and the window is read from the places themselves, so it is
 * whole again after any rewind. Of several tries the one nearest to the mean is the best. */
#include "operator.h"
#include "strategies.h"

typedef struct trend {
    rt_operator common;
    int64_t window_size;
    double drop_threshold;
} trend;

/* Of the newest token. */
typedef struct mark {
    double p;
    int known;
} mark;

static int init(void *memory, retrace_error *err) {
    const trend *self = memory;
    int rc =
        rt_operator_check_fraction(self->drop_threshold, "probability-trend: drop_threshold", err);
    return rc ? rc : rt_operator_refuse_prompt(&self->common, "probability-trend", err);
}

/* The mean over the window that ends before the newest token; 0: too few are known. */
static int mean_of(const trend *self, const retrace_view *v, double *mean) {
    int64_t from = v->n > self->window_size ? v->n - self->window_size : 1, known = 0;
    double sum = 0;
    for (int64_t i = from; i < v->n; i++) {
        const mark *m = retrace_view_mark(v, (int)i);
        if (!m->known) continue;
        sum += m->p;
        known++;
    }
    if (known == 0 || known < self->window_size / 2) return 0;
    *mean = sum / (double)known;
    return 1;
}

static int judge(const void *memory, const retrace_view *v, void *place, retrace_proposal *p,
                 retrace_error *err) {
    const trend *self = memory;
    mark *m = place;
    double mean;
    (void)err;
    if (!rt_operator_new_token(v)) return RETRACE_OK;
    m->known = rt_operator_probability(&self->common, v, &m->p);
    if (!m->known || !rt_operator_due(&self->common, v)) return RETRACE_OK;
    if (!mean_of(self, v, &mean)) return RETRACE_OK;
    double least = mean * self->drop_threshold;
    if (!(m->p < least)) return RETRACE_OK;
    return rt_operator_object(&self->common, v, self->common.backtrack_count, m->p / mean, p,
                              "probability", m->p, least);
}

static const retrace_setting_info settings[] = {
    {"window_size", RETRACE_INT, offsetof(trend, window_size), "10", 2, 1000000, NULL,
     "tokens whose mean probability counts"},
    {"drop_threshold", RETRACE_REAL, offsetof(trend, drop_threshold), "0.5", 0, 1, NULL,
     "the part of that mean that a token must reach"},
    RT_OPERATOR_ROWS(trend, "1"),
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_probability_trend = {
    .abi = RETRACE_ABI,
    .name = "probability-trend",
    .help = "goes back over a token far less probable than those before it on average",
    .settings = settings,
    .size = sizeof(trend),
    .mark_size = sizeof(mark),
    .init = init,
    .judge = judge,
    .horizon = rt_operator_horizon,
};
