/* adaptive_temperature.c - the rule `adaptive-temperature`: sharper where the model is less sure.
 *
 * Law: at each draw all logits are multiplied by c4 H^4 + c3 H^3 + c2 H^2 + c1 H + c0, but by no
 * less than 1, H being the entropy in nats of the model's own distribution at that place, at
 * temperature 1; where H is at most `threshold` they stay as they are. It goes back over nothing
 * and remembers nothing. The defaults are the published coefficients. */
#include "strategies.h"

#include <stddef.h>

typedef struct adaptive {
    double c4, c3, c2, c1, c0, threshold;
} adaptive;

static int shape(const void *memory, const retrace_view *v, const void *mark, retrace_shape *s,
                 retrace_error *err) {
    const adaptive *self = memory;
    double h = retrace_dist_entropy(v->next);
    (void)mark, (void)err;
    if (!(h > self->threshold)) return RETRACE_OK;
    double factor = (((self->c4 * h + self->c3) * h + self->c2) * h + self->c1) * h + self->c0;
    if (factor > 1) retrace_shape_scale(s, factor);
    return RETRACE_OK;
}

#define COEFFICIENT(name, preset, power)                                                           \
    {                                                                                              \
#name, RETRACE_REAL, offsetof(adaptive, name), preset, -1000, 1000, NULL,                  \
            "the polynomial's coefficient of " power                                               \
    }

static const retrace_setting_info settings[] = {
    COEFFICIENT(c4, "-0.037", "H^4"),
    COEFFICIENT(c3, "0.481", "H^3"),
    COEFFICIENT(c2, "-2.3", "H^2"),
    COEFFICIENT(c1, "4.917", "H"),
    COEFFICIENT(c0, "-1.791", "1"),
    {"threshold", RETRACE_REAL, offsetof(adaptive, threshold), "0.5", 0, 100, NULL,
     "nats; places of no more entropy are left alone"},
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_adaptive_temperature = {
    .abi = RETRACE_ABI,
    .name = "adaptive-temperature",
    .help = "a temperature from the entropy at each place",
    .settings = settings,
    .size = sizeof(adaptive),
    .shape = shape,
};
