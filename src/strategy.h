/* strategy.h - a rule with its settings, and the tables. */
#ifndef RT_STRATEGY_H
#define RT_STRATEGY_H

#include "retrace_ext.h"

struct retrace_rule {
    const retrace_rule_type *type;
    void *self;
    uint64_t digest; /* of its name and settings */
};

/* NULL: the default. NULL is returned, with err, for an unknown name. */
const retrace_driver_type *rt_driver_find(const char *name, retrace_error *err);

/* As retrace_rule_new, from a table that need not be built in. */
int rt_rule_make(retrace_rule **out, const retrace_rule_type *type, const retrace_setting *settings,
                 int n_settings, retrace_error *err);

#endif
