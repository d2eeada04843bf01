/* ask.c - from candidates to the model's questions and back.
 *
 *     [anchor, v, s1 .. sT]      a candidate
 *     [document start, s1 .. sT] the text starts here
 *     [anchor, s1 .. sT]         f of the suffix by itself
 *
 * The log-probabilities asked for are those of the factors that are not known yet. The questions
 * begin alike and are forgotten at once, see RETRACE_PASSING. */
#include "../base.h"
#include "../expv.h"
#include "backward.h"

#include <string.h>

void rt_ask_free(rt_ask *a) {
    retrace_free(a->q);
    retrace_free(a->tokens);
    retrace_free(a->logp);
    retrace_free(a->next);
    retrace_free(a->index);
    retrace_free(a->depth);
    *a = (rt_ask){0};
}

int rt_ask_begin(rt_ask *a, const rt_setup *s, const rt_posterior *p, int n, retrace_error *err) {
    int stride = s->n_anchor + 1 + p->n;
    if (n > a->cap || stride > a->stride) {
        size_t all = (size_t)n, each = (size_t)stride;
        rt_ask_free(a);
        a->q = retrace_calloc(all, sizeof *a->q);
        a->tokens = retrace_alloc(all * each * sizeof *a->tokens);
        a->logp = retrace_alloc(all * each * sizeof *a->logp);
        a->index = retrace_alloc(all * sizeof *a->index);
        a->depth = retrace_alloc(all * sizeof *a->depth);
        if (!a->q || !a->tokens || !a->logp || !a->index || !a->depth) {
            rt_ask_free(a);
            return rt_nomem(err);
        }
        a->cap = n;
        a->stride = stride;
    }
    a->n = 0;
    return RETRACE_OK;
}

/* A question about tokens `from` on of head and the first n of the suffix. */
static retrace_query *put(rt_ask *a, const rt_posterior *p, int index, const retrace_token *head,
                          int n_head, retrace_token v, int from, int n) {
    retrace_token *t = a->tokens + (size_t)a->n * (size_t)a->stride;
    retrace_query *q = &a->q[a->n];
    *q = (retrace_query){.tokens = t, .from = from, .slot = RETRACE_PASSING};
    q->logp = a->logp + (size_t)a->n * (size_t)a->stride;
    if (n_head) memcpy(t, head, (size_t)n_head * sizeof *t);
    if (v >= 0) t[n_head++] = v;
    memcpy(t + n_head, p->suffix, (size_t)n * sizeof *t);
    q->n = q->n_prompt = n_head + n;
    a->index[a->n] = index;
    a->depth[a->n++] = n;
    return q;
}

/* With nothing before a document there is nothing to score its first token after: the distribution
 * at the very beginning is asked for. */
static int put_first(rt_ask *a, const rt_setup *s, const rt_posterior *p, int index,
                     retrace_error *err) {
    if (!a->next) a->next = retrace_alloc((size_t)s->vocab * sizeof *a->next);
    if (!a->next) return rt_nomem(err);
    retrace_query *q = put(a, p, index, NULL, 0, -1, 0, 1);
    q->n = q->n_prompt = 0;
    q->logp = NULL;
    q->next = a->next;
    return RETRACE_OK;
}

int rt_ask_add(rt_ask *a, const rt_setup *s, const rt_posterior *p, int index, int depth,
               retrace_error *err) {
    int known = p->depth[index];
    if (index < s->vocab) {
        put(a, p, index, s->anchor, s->n_anchor, index, s->n_anchor + 1 + known, depth);
        return RETRACE_OK;
    }
    int n_head = s->start >= 0;
    if (!n_head && !known) return put_first(a, s, p, index, err);
    put(a, p, index, &s->start, n_head, -1, n_head + known, depth);
    return RETRACE_OK;
}

void rt_ask_self(rt_ask *a, const rt_setup *s, const rt_posterior *p, int known) {
    put(a, p, -1, s->anchor, s->n_anchor, -1, s->n_anchor + known, p->n);
}

double rt_ask_sum(const rt_ask *a, const rt_setup *s, const rt_posterior *p, int i) {
    const retrace_query *q = &a->q[i];
    if (q->next) return (double)q->next[p->suffix[0]] - rt_log_norm(q->next, s->vocab);
    double sum = 0;
    for (int k = 0; k < q->n - q->from; k++) sum += q->logp[k];
    return sum;
}

void rt_ask_take(rt_ask *a, const rt_setup *s, rt_posterior *p) {
    for (int i = 0; i < a->n; i++) {
        int index = a->index[i];
        p->touched += p->depth[index] <= !s->o.shared_table;
        p->log_u[index] += rt_ask_sum(a, s, p, i);
        p->depth[index] = a->depth[i];
    }
    a->n = 0;
}
