/* sample.c - the driver that most runs use: draw a token, push it.
 *
 * Law: without a rule, tokens follow the model's distribution after penalties, bias, truncation and
 * temperature, exactly. */
#include "strategies.h"

static int step(const void *self, retrace_run *run, retrace_error *err) {
    (void)self;
    retrace_token id;
    int rc = retrace_run_draw(run, &id, err);
    return rc == RETRACE_OK ? retrace_run_push(run, id, err) : rc;
}

const retrace_driver_type rt_driver_sample = {
    .abi = RETRACE_ABI,
    .name = "sample",
    .help = "draws one token after the other",
    .step = step,
};
