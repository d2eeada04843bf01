/* llama_question.h - which rows a question needs, and what a row answers. */
#ifndef RT_LLAMA_QUESTION_H
#define RT_LLAMA_QUESTION_H

#include "retrace_ext.h"

/* Rows first .. until - 1 are read, and all before `until` are fed. until 0: nothing is to be fed.
 */
typedef struct rt_need {
    int first, until;
} rt_need;

/* What the question needs. Answers what needs no model: the first token has no probability. */
rt_need rt_question_begin(retrace_query *q);

/* Answers from the logits after token i of the question. EMODEL: they are no logits. */
int rt_question_row(retrace_query *q, int i, const float *logits, int vocab, retrace_error *err);

#endif
