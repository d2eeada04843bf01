/* operator.c - what the eight operators share; operator.h says what that is.
 *
 * Proposals are soft: the engine counts the tries at each place, keeps the best one after
 * max_retries and then leaves the rule unheard there, so an operator alone never ends a run. */
#include "operator.h"

#include <math.h>
#include <stdio.h>

int rt_operator_refuse_prompt(const rt_operator *o, const char *name, retrace_error *err) {
    if (!o->prompt) return RETRACE_OK;
    return retrace_fail(err, RETRACE_EUSAGE,
                        "%s: prompt: the probabilities of the prompt's tokens are not known", name);
}

int rt_operator_check_fraction(double x, const char *setting, retrace_error *err) {
    if (x > 0 && x < 1) return RETRACE_OK;
    return retrace_fail(err, RETRACE_EUSAGE, "%s must lie between 0 and 1, both excluded", setting);
}

int rt_operator_new_token(const retrace_view *v) {
    return v->n > 0 && (v->ending == RETRACE_GOING || v->ending == RETRACE_ENDING_END);
}

/* With on=sampled a token that was not drawn is not judged, whatever the test looks at. */
static int judged(const rt_operator *o, const retrace_view *v) {
    retrace_sampled s;
    return !o->sampled || retrace_view_sampled(v, &s);
}

int rt_operator_due(const rt_operator *o, const retrace_view *v) {
    return rt_operator_new_token(v) && v->n % o->every_n == 0 && judged(o, v);
}

int rt_operator_place_due(const rt_operator *o, const retrace_view *v) {
    return v->n > 1 && v->n >= o->backtrack_count && rt_operator_due(o, v);
}

int rt_operator_known(const rt_operator *o, const retrace_view *v, retrace_sampled *s) {
    *s = (retrace_sampled){0};
    return o->sampled ? retrace_view_sampled(v, s) : v->drawn != NULL;
}

int rt_operator_probability(const rt_operator *o, const retrace_view *v, double *p) {
    retrace_sampled s;
    if (!rt_operator_known(o, v, &s)) return 0;
    *p = o->sampled ? s.p : exp(retrace_dist_logp(v->drawn, v->tokens[v->n - 1]));
    return 1;
}

int rt_operator_object(const rt_operator *o, const retrace_view *v, int64_t count, double measure,
                       retrace_proposal *p, const char *why, double value, double bound) {
    p->to = count < v->n ? v->n - (int)count : 0;
    p->no_ban = o->resample;
    p->max_retries = (int)o->max_retries;
    p->measure = measure;
    snprintf(p->why, sizeof p->why, "%s %.3g, limit %.3g", why, value, bound);
    return RETRACE_DONE;
}

int rt_operator_reach(const rt_operator *o, const retrace_view *v, int passed) {
    int64_t from = v->n + passed, next = (from / o->every_n + 1) * o->every_n;
    int64_t to = next - o->backtrack_count;
    return to >= v->n ? v->n : to > 0 ? (int)to : 0;
}

int rt_operator_horizon(const void *self, const retrace_view *v, const void *mark) {
    (void)mark;
    return rt_operator_reach(self, v, 0);
}
