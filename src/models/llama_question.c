/* llama_question.c - which rows a question needs, and what a row answers; see llama_question.h.
 *
 * The row after token i answers logp of token i + 1, and `next` when i is the last. The last token
 * is therefore fed only when `next` is asked for. Both ways of answering, in slots and passing, go
 * through here, so they cannot differ in what they read off a row. */
#include "llama_question.h"

#include "base.h"
#include "expv.h"

#include <math.h>
#include <string.h>

rt_need rt_question_begin(retrace_query *q) {
    int scored = q->logp && q->from < q->n;
    rt_need need;
    need.until = q->next ? q->n : scored ? q->n - 1 : 0;
    need.first = q->next ? q->n - 1 : need.until;
    int before = q->from > 0 ? q->from - 1 : 0;
    if (scored && before < need.first) need.first = before;
    if (scored && q->from == 0) q->logp[0] = NAN;
    return need;
}

/* Log-probability of a token from one row of logits; 0 when there is none. */
static int score(const float *logits, int n, retrace_token id, double *out) {
    if (rt_any_bad(logits, n)) return 0;
    *out = (double)logits[id] - rt_log_norm(logits, n);
    return 1;
}

int rt_question_row(retrace_query *q, int i, const float *logits, int vocab, retrace_error *err) {
    int t = i + 1;
    if (!logits) return retrace_fail(err, RETRACE_EMODEL, "the model gave no logits");
    if (q->logp && t >= q->from && t < q->n &&
        !score(logits, vocab, q->tokens[t], &q->logp[t - q->from])) {
        return retrace_fail(err, RETRACE_EMODEL, "the model gave no probability for token %d", t);
    }
    if (q->next && t == q->n) memcpy(q->next, logits, (size_t)vocab * sizeof *logits);
    return RETRACE_OK;
}
