/* strategies.h - the rules and drivers that are built in; the tables in strategy.c give their
 * order. */
#ifndef RT_STRATEGIES_H
#define RT_STRATEGIES_H

#include "retrace_ext.h"

extern const retrace_rule_type rt_rule_phrases;
extern const retrace_driver_type rt_driver_sample;

#endif
