/* llama_question.c - which rows a question needs, and what a row answers; see llama_question.h.
 *
 * The row after token i answers logp of token i + 1, and `next` when i is the last. The last token
 * is therefore fed only when `next` is asked for, or when nothing is: then all are fed and no row
 * is read. Both ways of answering, in slots and passing, go through here, so they cannot differ in
 * what they read off a row. */
#include "llama_question.h"

#include "base.h"
#include "expv.h"
#include "top.h"

#include <math.h>
#include <string.h>

/* Neither scored nor asked what comes next: the tokens are fed for a later question. */
static int only_fed(const retrace_query *q) {
    return !q->next && !q->logp && q->slot != RETRACE_PASSING;
}

rt_need rt_question_begin(retrace_query *q) {
    int scored = q->logp && q->from < q->n;
    if (only_fed(q)) return (rt_need){q->n, q->n};
    rt_need need;
    need.until = q->next ? q->n : scored ? q->n - 1 : 0;
    need.first = q->next ? q->n - 1 : need.until;
    int before = q->from > 0 ? q->from - 1 : 0;
    if (scored && before < need.first) need.first = before;
    if (scored && q->from == 0) q->logp[0] = NAN;
    return need;
}

int rt_question_row(retrace_query *q, int i, const float *logits, int vocab, retrace_error *err) {
    int t = i + 1, last = q->next && t == q->n;
    int scored = q->logp && t >= q->from && t < q->n;
    if (!logits) return retrace_fail(err, RETRACE_EMODEL, "the model gave no logits");
    if (last) memcpy(q->next, logits, (size_t)vocab * sizeof *logits);
    if (!scored && !(last && q->top)) return RETRACE_OK;
    if (rt_any_bad(logits, vocab))
        return retrace_fail(err, RETRACE_EMODEL, "the model gave no probability for token %d", t);
    double norm = rt_log_norm(logits, vocab);
    if (scored) q->logp[t - q->from] = (double)logits[q->tokens[t]] - norm;
    if (q->top) rt_top_of(logits, vocab, norm, q->n_top, rt_top_at(q, t));
    return RETRACE_OK;
}
