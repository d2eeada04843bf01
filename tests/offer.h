/* offer.h - what the first draw of a run is made from, under one rule. */
#ifndef RT_OFFER_H
#define RT_OFFER_H

#include "ops.h"

/* The weights of the first draw by token, normalised. */
typedef struct offer {
    double p[16];
    int seen;
} offer;

static int take_offer(void *ud, const double *p, const retrace_token *ids, int n, uint64_t purpose,
                      int pos, int attempt) {
    offer *o = ud;
    double sum = 0;
    (void)purpose, (void)pos, (void)attempt;
    for (int i = 0; i < n; i++) sum += p[i];
    for (int i = 0; i < n && !o->seen; i++) o->p[ids ? ids[i] : i] = p[i] / sum;
    o->seen = 1;
    for (int i = 0; i < n; i++) {
        if (p[i] > 0) return i;
    }
    return n;
}

UNUSED_OK static offer first_draw(retrace_model *m, retrace_options o, const char *spec,
                                  const char *prompt) {
    static answer a;
    offer out = {{0}, 0};
    retrace_rule *r = rule_by(spec);
    o.rules = &r;
    o.n_rules = 1;
    o.choose = take_offer;
    o.choose_ud = &out;
    finish_text(&a, m, &o, prompt);
    retrace_rule_free(r);
    return out;
}

#endif
