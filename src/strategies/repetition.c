/* repetition.c - the operator `repetition`: a token at most max_repetitions times in a row.
 *
 * Fires when the newest token ends a run of more than max_repetitions equal tokens, compared by id.
 * It goes back to the first copy that is one too many and has not been judged yet: the newest when
 * every token is judged, so the allowed copies stay. A backtrack_count above that goes further
 * back. The length of the run is the place's mark. The try with the shorter run is the better one.
 */
#include "operator.h"
#include "strategies.h"

typedef struct repetition {
    rt_operator common;
    int64_t max_repetitions;
} repetition;

/* How often the newest token has come in a row. */
typedef struct mark {
    int64_t run;
} mark;

/* The run at the end of the prompt, which generated tokens may prolong. */
static int start(const void *memory, const retrace_view *v, void *place, retrace_error *err) {
    const repetition *self = memory;
    mark *m = place;
    (void)err;
    if (!self->common.prompt || v->n_prompt == 0) return RETRACE_OK;
    int last = v->n_prompt - 1, i = last;
    while (i > 0 && v->prompt[i - 1] == v->prompt[last]) i--;
    m->run = last - i + 1;
    return RETRACE_OK;
}

static int same_as_before(const repetition *self, const retrace_view *v) {
    retrace_token newest = v->tokens[v->n - 1];
    if (v->n > 1) return newest == v->tokens[v->n - 2];
    return self->common.prompt && v->n_prompt > 0 && newest == v->prompt[v->n_prompt - 1];
}

static int judge(const void *memory, const retrace_view *v, void *place, retrace_proposal *p,
                 retrace_error *err) {
    const repetition *self = memory;
    const rt_operator *o = &self->common;
    mark *m = place;
    (void)err;
    if (!rt_operator_new_token(v)) return RETRACE_OK;
    m->run = same_as_before(self, v) ? m->run + 1 : 1;
    int64_t count = m->run - self->max_repetitions;
    if (count <= 0 || !rt_operator_due(o, v)) return RETRACE_OK;
    if (count > o->every_n) count = o->every_n;
    if (count < o->backtrack_count) count = o->backtrack_count;
    return rt_operator_object(o, v, count, -(double)m->run, p, "times in a row:", (double)m->run,
                              (double)self->max_repetitions);
}

/* Copies too many since the last test may all be taken back by the next one. */
static int horizon(const void *memory, const retrace_view *v, const void *place) {
    const repetition *self = memory;
    const mark *m = place;
    int64_t count = m->run - self->max_repetitions, untested = v->n % self->common.every_n;
    if (count > untested) count = untested;
    int to = rt_operator_horizon(memory, v, place);
    return count > 0 && v->n - count < to ? v->n - (int)count : to;
}

static const retrace_setting_info settings[] = {
    {"max_repetitions", RETRACE_INT, offsetof(repetition, max_repetitions), "3", 1, 1000000, NULL,
     "times in a row that are fine"},
    RT_OPERATOR_ROWS(repetition, "1"),
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_repetition = {
    .abi = RETRACE_ABI,
    .name = "repetition",
    .help = "goes back over a token that repeats the one before it too often",
    .settings = settings,
    .size = sizeof(repetition),
    .mark_size = sizeof(mark),
    .start = start,
    .judge = judge,
    .horizon = horizon,
};
