/* guide.c - the driver in which a person draws the tokens.
 *
 * At every place the most probable tokens that may come next are shown, and a person takes one, has
 * one drawn, forces a text or goes back (retrace_run_choose). A place whose best token is at least
 * as probable as min_autopass is passed without asking: a token is drawn there as the driver
 * `sample` would. Nothing settles before the end, so that every place can be gone back to.
 *
 * Law: no claim; where every answer is "draw" it is that of `sample`. */
#include "strategies.h"

#include <math.h>

typedef struct guide {
    int64_t top_k;
    double min_autopass;
} guide;

static int passes(const guide *g, retrace_run *run) {
    retrace_candidate best;
    if (g->min_autopass <= 0) return 1;
    if (retrace_dist_top(retrace_run_dist(run), 1, &best) < 1) return 0;
    return exp(best.logp) >= g->min_autopass;
}

static int step(const void *self, retrace_run *run, retrace_error *err) {
    const guide *g = self;
    retrace_token id;
    if (!passes(g, run)) return retrace_run_ask(run, (int)g->top_k, err);
    int rc = retrace_run_draw(run, &id, err);
    return rc == RETRACE_OK ? retrace_run_push(run, id, err) : rc;
}

static const retrace_setting_info settings[] = {
    {"top_k", RETRACE_INT, offsetof(guide, top_k), "3", 1, 1000, NULL,
     "how many candidates are shown"},
    {"min_autopass", RETRACE_REAL, offsetof(guide, min_autopass), "1", 0, 1, NULL,
     "a place whose best token is at least this probable is passed without asking"},
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_driver_type rt_driver_guide = {
    .abi = RETRACE_ABI,
    .name = "guide",
    .help = "a person chooses among the most probable tokens",
    .settings = settings,
    .size = sizeof(guide),
    .step = step,
    .holds = 1,
};
