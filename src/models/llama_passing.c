/* llama_passing.c - many short questions of which nothing is kept; see llama_passing.h.
 *
 * Sequence 0 of a context of their own holds what the questions of a call have in common at their
 * beginning, fed once. Each question gets a copy of it in a sequence of its own and feeds the rest
 * there, as many questions at once as fill a batch. The sequences lie in separate streams: a row
 * looks at its own question only, and the copies stay for the next call. (In one shared cache every
 * row looks at the cells of all questions and masks nearly all of them.)
 *
 * Nothing is ever cut but back to the common beginning. Where a model cannot do that (a running
 * state, a window shorter than the question) each question is fed from its first token. */
#include "llama_passing.h"

#include "base.h"
#include "llama_question.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 256,         /* fill a batch: twice as many are not faster */
    MOST_STREAMS = 64,  /* questions side by side */
    MOST_STATES = 8,    /* the same where a stream has a running state, which may be large */
    LEAST_LENGTH = 256, /* libllama rounds a stream up to this anyway */
    CACHE_MIB = 384     /* about the most memory for the streams, if more than one is left */
};

/* A question on its way. */
typedef struct passer {
    retrace_query *q;
    rt_need need;
    int seq; /* while it is being fed */
    int row; /* of the token at `common` in the batch */
} passer;

/* A row to be read. */
typedef struct reading {
    passer *v;
    int i; /* the token it comes after */
    const float *logits;
} reading;

struct rt_passing {
    const rt_llama *parent;
    rt_work *work;
    rt_llama_facts facts;
    int n_threads;
    rt_llama *l;   /* NULL: none has been made */
    int n_ctx;     /* tokens that fit in a stream of l */
    int n_streams; /* sequences 1 .. n_streams are the questions' */
    int n_batch, n_logits;
    retrace_token *base; /* what sequence 0 holds */
    int n_base;
    reading *readings; /* room for n_logits */
    int n_readings;
    int holds[MOST_STREAMS + 1]; /* tokens of the base that a stream begins with */
};

rt_passing *rt_passing_new(const rt_llama *l, rt_work *work, int n_threads) {
    rt_passing *p = retrace_calloc(1, sizeof *p);
    if (!p) return NULL;
    p->parent = l;
    p->work = work;
    p->n_threads = n_threads;
    rt_llama_facts_of(l, &p->facts);
    return p;
}

static void drop_context(rt_passing *p) {
    rt_llama_close(p->l);
    retrace_free(p->base);
    retrace_free(p->readings);
    p->l = NULL;
    p->base = NULL;
    p->readings = NULL;
    p->n_base = p->n_ctx = 0;
    memset(p->holds, 0, sizeof p->holds);
}

void rt_passing_free(rt_passing *p) {
    if (!p) return;
    drop_context(p);
    retrace_free(p);
}

/* ==== The context ==== */

static int streams_for(const rt_passing *p, int n_ctx) {
    int64_t room = ((int64_t)CACHE_MIB << 20) / (p->facts.cell_bytes * n_ctx + 1) - 1;
    int most = p->facts.recurrent ? MOST_STATES : MOST_STREAMS;
    return room < 1 ? 1 : room > most ? most : (int)room;
}

/* Has a context in which questions of `length` tokens fit. */
static int want_context(rt_passing *p, int length, retrace_error *err) {
    if (p->l && length <= p->n_ctx) return RETRACE_OK;
    drop_context(p);
    int n_ctx = length < LEAST_LENGTH ? LEAST_LENGTH : (length + 255) / 256 * 256;
    if (n_ctx > p->facts.n_ctx) n_ctx = p->facts.n_ctx;
    int n_streams = streams_for(p, n_ctx);
    rt_llama_params params = {
        .n_ctx = n_ctx, .n_batch = ROWS, .n_seq = n_streams + 1, .n_threads = p->n_threads};
    p->base = retrace_alloc((size_t)n_ctx * sizeof *p->base);
    if (!p->base) return rt_nomem(err);
    int rc = rt_llama_share(&p->l, p->parent, &params, err);
    if (rc < 0) return rc;
    rt_llama_facts f;
    rt_llama_facts_of(p->l, &f);
    p->n_batch = f.n_batch;
    p->n_logits = f.n_logits;
    p->n_ctx = n_ctx;
    p->n_streams = n_streams;
    p->readings = retrace_alloc((size_t)p->n_logits * sizeof *p->readings);
    return p->readings ? RETRACE_OK : rt_nomem(err);
}

/* ==== The common beginning ==== */

static int least(int a, int b) {
    return a < b ? a : b;
}

/* How many tokens the questions have in common before the first row that one of them reads. */
static int common_beginning(const rt_passing *p, const passer *v, int n, int longest) {
    int window = p->facts.window;
    if (p->facts.recurrent || (window > 0 && longest > window)) return 0;
    int same = v[0].need.first;
    for (int i = 1; i < n; i++) {
        int limit = least(same, v[i].need.first);
        for (same = 0; same < limit && v[i].q->tokens[same] == v[0].q->tokens[same];) same++;
    }
    return same;
}

/* Makes the base begin with the first `common` tokens of q, which pays for the rows. */
static int feed_base(rt_passing *p, retrace_query *q, int common, retrace_error *err) {
    int same = 0;
    while (same < common && same < p->n_base && p->base[same] == q->tokens[same]) same++;
    if (same == common) return RETRACE_OK;
    for (int i = 1; i <= p->n_streams; i++) p->holds[i] = least(p->holds[i], same);
    if (same < p->n_base && !rt_llama_cut(p->l, 0, same)) {
        rt_llama_cut(p->l, 0, 0);
        same = 0;
    }
    p->n_base = same;
    while (p->n_base < common) {
        int end = least(common, p->n_base + p->n_batch);
        for (int i = p->n_base; i < end; i++) rt_llama_put(p->l, q->tokens[i], i, 0, 0);
        int rc = rt_llama_decode(p->l, err);
        if (rc < 0) return rc;
        memcpy(p->base + p->n_base, q->tokens + p->n_base,
               (size_t)(end - p->n_base) * sizeof *p->base);
        q->evaluated += end - p->n_base;
        p->n_base = end;
    }
    return RETRACE_OK;
}

/* Makes a stream hold the first `common` tokens of the base and nothing behind them. */
static int ready_stream(rt_passing *p, int seq, int common, retrace_error *err) {
    if (common > 0 && p->holds[seq] < common) {
        if (!rt_llama_copy(p->l, 0, seq))
            return retrace_fail(err, RETRACE_EMODEL, "the model's memory cannot be copied");
        p->holds[seq] = p->n_base;
    }
    if (!rt_llama_cut(p->l, seq, common))
        return retrace_fail(err, RETRACE_EMODEL, "the model's memory cannot be cut");
    p->holds[seq] = least(p->holds[seq], common);
    return RETRACE_OK;
}

/* ==== Batches ==== */

static int put(rt_passing *p, const passer *v, int from, int end) {
    int row = -1;
    for (int i = from; i < end; i++) {
        int at = rt_llama_put(p->l, v->q->tokens[i], i, v->seq, i >= v->need.first);
        if (i == from) row = at;
    }
    return row;
}

/* Notes the rows of a question that are to be read. */
static void note_rows(rt_passing *p, passer *v, int from, int end) {
    for (int i = from > v->need.first ? from : v->need.first; i < end; i++)
        p->readings[p->n_readings++] = (reading){v, i, rt_llama_row(p->l, v->row + i - from)};
    v->q->evaluated += end - from;
}

static void read_row(void *ud, int part) {
    rt_passing *p = ud;
    reading *r = &p->readings[part];
    if (rt_question_row(r->v->q, r->i, r->logits, p->facts.vocab, NULL) == RETRACE_OK) r->v = NULL;
}

/* Reads what has been noted; the sums over the vocabulary take a while, so on all threads. */
static int read_noted(rt_passing *p, retrace_error *err) {
    int rc = rt_work_run(p->work, p->n_readings, read_row, p, err);
    for (int k = 0; k < p->n_readings && rc == RETRACE_OK; k++) {
        const reading *r = &p->readings[k];
        if (r->v) rc = rt_question_row(r->v->q, r->i, r->logits, p->facts.vocab, err);
    }
    p->n_readings = 0;
    return rc;
}

static int reads(const passer *v) {
    return v->need.until - v->need.first;
}

/* A question that fills batches by itself. */
static int feed_long(rt_passing *p, passer *v, int common, retrace_error *err) {
    v->seq = 1;
    int rc = ready_stream(p, 1, common, err);
    for (int at = common; at < v->need.until && rc == RETRACE_OK;) {
        int first = v->need.first > at ? v->need.first : at;
        int end = least(least(v->need.until, at + p->n_batch), first + p->n_logits);
        v->row = put(p, v, at, end);
        rc = rt_llama_decode(p->l, err);
        if (rc == RETRACE_OK) {
            note_rows(p, v, at, end);
            rc = read_noted(p, err);
        }
        at = end;
    }
    return rc;
}

/* Feeds as many of n questions as fit in a batch, at least one; *fed is how many. */
static int feed_some(rt_passing *p, passer *v, int n, int common, int *fed, retrace_error *err) {
    int rows = 0, read = 0, k = 0, rc = RETRACE_OK;
    while (k < n && k < p->n_streams && rc == RETRACE_OK) {
        int more = v[k].need.until - common;
        if (rows + more > p->n_batch || read + reads(&v[k]) > p->n_logits) break;
        rows += more;
        read += reads(&v[k]);
        v[k].seq = k + 1;
        rc = ready_stream(p, k + 1, common, err);
        if (rc == RETRACE_OK) v[k].row = put(p, &v[k], common, v[k].need.until);
        k++;
    }
    *fed = k > 0 ? k : 1;
    if (k == 0) return feed_long(p, &v[0], common, err);
    if (rc == RETRACE_OK) rc = rt_llama_decode(p->l, err);
    if (rc < 0) return rc;
    for (int i = 0; i < k; i++) note_rows(p, &v[i], common, v[i].need.until);
    return read_noted(p, err);
}

/* Streams are computed side by side as far as they are equally long, so the like go together. */
static int by_length(const void *a, const void *b) {
    const passer *x = a, *y = b;
    if (x->need.until != y->need.until) return x->need.until < y->need.until ? -1 : 1;
    return (x->q > y->q) - (x->q < y->q);
}

static int feed_all(rt_passing *p, passer *v, int n, retrace_error *err) {
    int longest = 0;
    for (int i = 0; i < n; i++) longest = v[i].need.until > longest ? v[i].need.until : longest;
    int rc = want_context(p, longest, err);
    if (rc < 0) return rc;
    int common = common_beginning(p, v, n, longest);
    rc = feed_base(p, v[0].q, common, err);
    qsort(v, (size_t)n, sizeof *v, by_length);
    for (int at = 0, fed = 0; at < n && rc == RETRACE_OK; at += fed)
        rc = feed_some(p, v + at, n - at, common, &fed, err);
    return rc;
}

int rt_passing_eval(rt_passing *p, retrace_query *q, int n, retrace_error *err) {
    int k = 0;
    passer *v = retrace_calloc((size_t)n + 1, sizeof *v);
    if (!v) return rt_nomem(err);
    for (int i = 0; i < n; i++) {
        if (q[i].slot != RETRACE_PASSING) continue;
        q[i].evaluated = 0;
        v[k] = (passer){.q = &q[i], .need = rt_question_begin(&q[i])};
        if (v[k].need.until > 0) k++;
    }
    int rc = k > 0 ? feed_all(p, v, k, err) : RETRACE_OK;
    if (rc < 0) drop_context(p);
    retrace_free(v);
    return rc;
}
