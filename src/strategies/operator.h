/* operator.h - what the eight operators share: their common settings, when a test runs, and how a
 * soft proposal is made.
 *
 * An operator looks at the newest token, or at the place it was drawn at, and goes back
 * `backtrack_count` tokens when its test fires. Tests compare strictly. They run when the number of
 * kept tokens, the newest included, is a multiple of `every_n`; what an operator remembers is
 * brought up to date at every token. A rule's struct begins with rt_operator, so that rt_operator_
 * functions that take `self` can stand in its table. */
#ifndef RT_OPERATOR_H
#define RT_OPERATOR_H

#include "retrace_ext.h"

#include <stddef.h>

typedef struct rt_operator {
    int64_t every_n, backtrack_count, max_retries;
    int resample; /* 1: nothing is banned */
    int sampled;  /* 1: on what was drawn from */
    int prompt;
} rt_operator;

#define RT_OPERATOR_INT(type, name, field, preset, most, help)                                     \
    { name, RETRACE_INT, offsetof(type, common.field), preset, 1, most, NULL, help }
#define RT_OPERATOR_WORD(type, kind, name, field, preset, choices, help)                           \
    { name, kind, offsetof(type, common.field), preset, 0, 0, choices, help }

/* The rows of the common settings; the struct's member `common` is the rt_operator. */
#define RT_OPERATOR_ROWS(type, count)                                                              \
    RT_OPERATOR_INT(type, "every_n", every_n, "1", 1000000,                                        \
                    "a test runs when the number of tokens is a multiple of this"),                \
        RT_OPERATOR_INT(type, "backtrack_every_n", every_n, NULL, 1000000,                         \
                        "another spelling of every_n"),                                            \
        RT_OPERATOR_INT(type, "backtrack_count", backtrack_count, count, 1000,                     \
                        "tokens to go back, the newest included"),                                 \
        RT_OPERATOR_WORD(type, RETRACE_CHOICE, "retry", resample, "exclude", "exclude|resample",   \
                         "exclude: the first token that is erased is banned there"),               \
        RT_OPERATOR_WORD(type, RETRACE_CHOICE, "on", sampled, "model", "model|sampled",            \
                         "model: the whole vocabulary at temperature 1, no bans; sampled: what "   \
                         "the token was drawn from, and only drawn tokens"),                       \
        RT_OPERATOR_INT(type, "max_retries", max_retries, "16", 1000,                              \
                        "tries at one place before the best of them is kept"),                     \
        RT_OPERATOR_WORD(type, RETRACE_BOOL, "prompt", prompt, "false", NULL,                      \
                         "the prompt's tokens count too; only where token ids are compared")

/* For init of an operator that judges probabilities: those of the prompt's tokens are not known. */
int rt_operator_refuse_prompt(const rt_operator *o, const char *name, retrace_error *err);

/* For init: EUSAGE unless 0 < x < 1. `setting` names it: "rule: setting". */
int rt_operator_check_fraction(double x, const char *setting, retrace_error *err);

/* 1 when this call judges a new token. The endings other than the end token's ask again about one
 * that has been judged. */
int rt_operator_new_token(const retrace_view *v);
/* 1 when a test of a property of the newest token runs here. */
int rt_operator_due(const rt_operator *o, const retrace_view *v);
/* 1 when a test of the place that the newest token was drawn at runs here: there is an earlier
 * choice to change, backtrack_count tokens back. */
int rt_operator_place_due(const rt_operator *o, const retrace_view *v);

/* Is there, by `on`, a distribution that the newest token was drawn from? 0: it is not judged. *s
 * is what is known of it with on=sampled; with on=model it is v->drawn. */
int rt_operator_known(const rt_operator *o, const retrace_view *v, retrace_sampled *s);
/* The newest token's probability in it; 0: not known. */
int rt_operator_probability(const rt_operator *o, const retrace_view *v, double *p);

/* Fills a soft proposal that erases `count` tokens, or all there are. `why` is formatted with
 * `value` and `bound`. Returns RETRACE_DONE. */
int rt_operator_object(const rt_operator *o, const retrace_view *v, int64_t count, double measure,
                       retrace_proposal *p, const char *why, double value, double bound);

/* The least that a test may go back to from here on. passed: the next token's test is known not to
 * fire. */
int rt_operator_reach(const rt_operator *o, const retrace_view *v, int passed);
/* `horizon` of a rule whose struct begins with rt_operator: the next test goes back from the next
 * multiple of every_n. */
int rt_operator_horizon(const void *self, const retrace_view *v, const void *mark);

#endif
