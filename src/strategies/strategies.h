/* strategies.h - the rules and drivers that are built in; the tables in strategy.c give their
 * order. */
#ifndef RT_STRATEGIES_H
#define RT_STRATEGIES_H

#include "retrace_ext.h"

extern const retrace_rule_type rt_rule_phrases;
extern const retrace_rule_type rt_rule_regex;
extern const retrace_rule_type rt_rule_replace;
extern const retrace_rule_type rt_rule_creative;
extern const retrace_rule_type rt_rule_adaptive_temperature;
extern const retrace_rule_type rt_rule_dry;
extern const retrace_rule_type rt_rule_probability_threshold;
extern const retrace_rule_type rt_rule_entropy_threshold;
extern const retrace_rule_type rt_rule_probability_margin;
extern const retrace_rule_type rt_rule_probability_drop;
extern const retrace_rule_type rt_rule_probability_trend;
extern const retrace_rule_type rt_rule_repetition;
extern const retrace_rule_type rt_rule_ngram_overlap;
extern const retrace_rule_type rt_rule_logit_threshold;
extern const retrace_rule_type rt_rule_grammar;
extern const retrace_rule_type rt_rule_json;
extern const retrace_rule_type rt_rule_debug;
extern const retrace_driver_type rt_driver_sample;
extern const retrace_driver_type rt_driver_guide;

#endif
