/* strategy.h - a rule with its settings, and the tables. */
#ifndef RT_STRATEGY_H
#define RT_STRATEGY_H

#include "retrace_ext.h"

struct retrace_rule {
    const retrace_rule_type *type;
    void *self;
    uint64_t digest; /* of its name and settings */
};

/* A driver from its spec ("guide:top_k=5"; NULL: the default), with its settings. On an error *self
 * is NULL. */
int rt_driver_make(const retrace_driver_type **type, void **self, const char *spec,
                   retrace_error *err);
void rt_driver_free(const retrace_driver_type *type, void *self);

/* As retrace_rule_new, from a table that need not be built in. */
int rt_rule_make(retrace_rule **out, const retrace_rule_type *type, const retrace_setting *settings,
                 int n_settings, retrace_error *err);

#endif
