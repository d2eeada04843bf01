/* sampler.c - from a distribution to the weights that the next token is drawn with.
 *
 * The order is llama.cpp's: (penalties, bias, bans: edits made before), top-k, typical, top-p,
 * min-p, temperature. Truncations work on probabilities at temperature 1 among what the ones before
 * have left; everything is computed in double from the model's float logits. Bans act first, so a
 * truncation never leaves banned candidates only. Candidates go out in token-id order: how they
 * were sorted on the way never changes a text.
 *
 * Cost. With a top-k the vocabulary is read once, by a vector comparison per block. Without any
 * truncation one pass of exponentials makes the weights. Edited logits are few: they are hidden
 * from the scan and merged afterwards.
 *
 * Sources: top-k (Fan et al. 2018), top-p (Holtzman et al. 2020), typical (Meister et al. 2023),
 * min-p (Nguyen et al. 2024). */
#include "sampler.h"
#include "base.h"
#include "expv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ==== Edits ==== */

void rt_sampler_free(rt_sampler *s) {
    retrace_free(s->shape.edits);
    retrace_free(s->shape.table);
    retrace_free(s->cands);
    retrace_free(s->weights);
    retrace_free(s->ids);
    retrace_free(s->saved);
    *s = (rt_sampler){0};
}

void rt_shape_begin(struct retrace_shape *s, retrace_dist *d) {
    s->dist = d;
    s->scale = 1;
    s->n_edits = 0;
    if (s->n_table) memset(s->table, 0, (size_t)s->n_table * sizeof *s->table);
}

/* The place of an id in the table: its own, or the free one where it would go. n_table > 0. */
static int *place(const struct retrace_shape *s, retrace_token id) {
    unsigned at = (unsigned)id * 2654435761u;
    for (;; at++) {
        int *p = &s->table[at & (unsigned)(s->n_table - 1)];
        if (*p == 0 || s->edits[*p - 1].id == id) return p;
    }
}

static int widen(struct retrace_shape *s) {
    int n = s->n_table ? s->n_table * 2 : 64;
    int *table = retrace_calloc((size_t)n, sizeof *table);
    if (!table) return RETRACE_ENOMEM;
    retrace_free(s->table);
    s->table = table;
    s->n_table = n;
    for (int i = 0; i < s->n_edits; i++) *place(s, s->edits[i].id) = i + 1;
    return RETRACE_OK;
}

static rt_edit *edit(struct retrace_shape *s, retrace_token id, retrace_error *err) {
    if (2 * (s->n_edits + 1) > s->n_table && widen(s)) return rt_nomem(err), NULL;
    int *p = place(s, id);
    if (*p) return &s->edits[*p - 1];
    if (rt_grow(&s->edits, &s->cap_edits, s->n_edits + 1, sizeof *s->edits))
        return rt_nomem(err), NULL;
    *p = s->n_edits + 1;
    s->edits[s->n_edits] = (rt_edit){id, (double)s->dist->logits[id], 0, 0};
    return &s->edits[s->n_edits++];
}

double rt_shape_logit(const struct retrace_shape *s, retrace_token id) {
    int *p = s->n_table ? place(s, id) : NULL;
    return p && *p ? s->edits[*p - 1].logit : (double)s->dist->logits[id];
}

int rt_shape_put(struct retrace_shape *s, retrace_token id, double logit, retrace_error *err) {
    rt_edit *e = edit(s, id, err);
    if (!e) return RETRACE_ENOMEM;
    e->logit = logit;
    return RETRACE_OK;
}

int rt_shape_count(struct retrace_shape *s, retrace_token id, double each, double once,
                   retrace_error *err) {
    rt_edit *e = edit(s, id, err);
    if (!e) return RETRACE_ENOMEM;
    e->logit -= each + (e->counted ? 0 : once);
    e->counted = 1;
    return RETRACE_OK;
}

void retrace_shape_scale(retrace_shape *s, double factor) {
    s->scale *= factor;
}

int retrace_shape_add(retrace_shape *s, retrace_token id, double x, retrace_error *err) {
    return rt_shape_put(s, id, rt_shape_logit(s, id) + x, err);
}

int retrace_shape_ban(retrace_shape *s, retrace_token id, retrace_error *err) {
    rt_edit *e = edit(s, id, err);
    if (!e) return RETRACE_ENOMEM;
    e->banned = 1;
    return RETRACE_OK;
}

/* Takes edited logits out of the vocabulary for a scan of the rest, and puts them back. */
static int hide(rt_sampler *s, retrace_error *err) {
    if (rt_grow(&s->saved, &s->cap_saved, s->shape.n_edits, sizeof *s->saved)) return rt_nomem(err);
    for (int i = 0; i < s->shape.n_edits; i++) {
        float *logit = &s->shape.dist->logits[s->shape.edits[i].id];
        s->saved[i] = *logit;
        *logit = -INFINITY;
    }
    return RETRACE_OK;
}

static void unhide(rt_sampler *s) {
    for (int i = 0; i < s->shape.n_edits; i++)
        s->shape.dist->logits[s->shape.edits[i].id] = s->saved[i];
}

static double edited(const struct retrace_shape *s, int i) {
    return s->edits[i].banned ? -INFINITY : s->edits[i].logit * s->scale;
}

/* ==== Candidates, most probable first ==== */

static int by_logit(const void *a, const void *b) {
    const rt_cand *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static int order_id(const void *a, const void *b) {
    const rt_cand *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static int room(rt_sampler *s, int n, retrace_error *err) {
    if (rt_grow(&s->cands, &s->cap_cands, n, sizeof *s->cands)) return rt_nomem(err);
    if (rt_grow(&s->ids, &s->cap_ids, n, sizeof *s->ids)) return rt_nomem(err);
    return RETRACE_OK;
}

/* The k best of edited and unedited tokens together, in falling order. */
static int gather(rt_sampler *s, int k, retrace_error *err) {
    struct retrace_shape *h = &s->shape;
    int rc = room(s, k + h->n_edits, err);
    if (rc == RETRACE_OK) rc = hide(s, err);
    if (rc) return rc;
    int n = rt_top(h->dist->logits, h->dist->n, k, s->ids);
    for (int i = 0; i < n; i++) {
        double logit = (double)h->dist->logits[s->ids[i]] * h->scale;
        s->cands[i] = (rt_cand){s->ids[i], logit, 0};
    }
    unhide(s);
    for (int i = 0; i < h->n_edits; i++) {
        double logit = edited(h, i);
        if (logit > -INFINITY) s->cands[n++] = (rt_cand){h->edits[i].id, logit, 0};
    }
    if (h->n_edits) qsort(s->cands, (size_t)n, sizeof *s->cands, by_logit);
    s->n_cands = n < k ? n : k;
    s->max = s->n_cands ? s->cands[0].logit : -INFINITY;
    s->by_id = 0;
    return RETRACE_OK;
}

/* Probabilities at temperature 1 among the candidates; among all tokens when `total`, their mass in
 * units of the first candidate's, is given. */
static void normalise(rt_sampler *s, double total) {
    double sum = 0;
    for (int i = 0; i < s->n_cands; i++) sum += s->cands[i].p = exp(s->cands[i].logit - s->max);
    if (total > 0) sum = total;
    for (int i = 0; i < s->n_cands; i++) s->cands[i].p /= sum;
}

/* ==== Truncations ==== */

typedef struct ranked {
    double off;
    rt_cand cand;
} ranked;

static int by_off(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->off != y->off) return x->off < y->off ? -1 : 1;
    return order_id(&x->cand, &y->cand);
}

/* Keeps the tokens whose surprise is nearest to the entropy, until their mass exceeds `typical`. */
static int keep_typical(rt_sampler *s, double typical, retrace_error *err) {
    ranked *r = retrace_alloc((size_t)s->n_cands * sizeof *r);
    if (!r) return rt_nomem(err);
    normalise(s, 0);
    double entropy = 0, sum = 0;
    for (int i = 0; i < s->n_cands; i++) {
        if (s->cands[i].p > 0) entropy -= s->cands[i].p * log(s->cands[i].p);
    }
    for (int i = 0; i < s->n_cands; i++)
        r[i] = (ranked){fabs(-log(s->cands[i].p) - entropy), s->cands[i]};
    qsort(r, (size_t)s->n_cands, sizeof *r, by_off);
    int n = 0;
    while (n < s->n_cands && !(sum > typical)) sum += r[n++].cand.p;
    for (int i = 0; i < n; i++) s->cands[i] = r[i].cand;
    qsort(s->cands, (size_t)n, sizeof *s->cands, by_logit);
    s->n_cands = n;
    s->max = s->cands[0].logit;
    retrace_free(r);
    return RETRACE_OK;
}

/* Keeps the most probable tokens that together reach top_p; 0 when all of them do not. */
static int keep_top_p(rt_sampler *s, double top_p, double total) {
    normalise(s, total);
    double sum = 0;
    for (int n = 0; n < s->n_cands;) {
        sum += s->cands[n++].p;
        if (sum >= top_p) {
            s->n_cands = n;
            return 1;
        }
    }
    return 0;
}

/* Keeps tokens at least min_p times as probable as the best one. */
static void keep_min_p(rt_sampler *s, double min_p) {
    double least = s->max + log(min_p);
    int n = 0;
    for (int i = 0; i < s->n_cands; i++) {
        if (s->cands[i].logit >= least) s->cands[n++] = s->cands[i];
    }
    s->n_cands = n;
}

/* The mass of all tokens at temperature 1 in units of the first candidate's. */
static int total_mass(rt_sampler *s, double *total, retrace_error *err) {
    struct retrace_shape *h = &s->shape;
    double max = s->max;
    int rc = hide(s, err);
    if (rc) return rc;
    *total = rt_exp_sum(h->dist->logits, h->dist->n, max / h->scale, h->scale, NULL);
    unhide(s);
    for (int i = 0; i < h->n_edits; i++) *total += exp(edited(h, i) - max);
    return RETRACE_OK;
}

/* All tokens that can be drawn, by id. */
static int gather_all(rt_sampler *s, retrace_error *err) {
    struct retrace_shape *h = &s->shape;
    int rc = room(s, h->dist->n, err), n = 0;
    if (rc == RETRACE_OK) rc = hide(s, err);
    if (rc) return rc;
    for (int i = 0; i < h->dist->n; i++)
        s->cands[i] = (rt_cand){i, (double)h->dist->logits[i] * h->scale, 0};
    unhide(s);
    for (int i = 0; i < h->n_edits; i++) s->cands[h->edits[i].id].logit = edited(h, i);
    for (int i = 0; i < h->dist->n; i++) {
        if (s->cands[i].logit > -INFINITY) s->cands[n++] = s->cands[i];
    }
    s->n_cands = n;
    s->by_id = 1;
    return RETRACE_OK;
}

enum { BUCKETS = 4096 };

/* Falling logit; whatever is out of range, the tail of the tail, shares the last one. */
static int bucket(const rt_sampler *s, const rt_cand *c) {
    double below = (s->max - c->logit) * (BUCKETS / 40.0);
    return below < BUCKETS - 1 ? (int)below : BUCKETS - 1;
}

/* The last token of the nucleus, given the bucket it lies in and the mass before that. */
static int find_last(const rt_sampler *s, int at, double sum, double top_p, rt_cand *last,
                     retrace_error *err) {
    int n = 0, i = 0;
    for (int k = 0; k < s->n_cands; k++) n += bucket(s, &s->cands[k]) == at;
    rt_cand *in = retrace_alloc((size_t)(n + 1) * sizeof *in);
    if (!in) return rt_nomem(err);
    n = 0;
    for (int k = 0; k < s->n_cands; k++) {
        if (bucket(s, &s->cands[k]) == at) in[n++] = s->cands[k];
    }
    qsort(in, (size_t)n, sizeof *in, by_logit);
    while (i < n - 1 && (sum += in[i].p) < top_p) i++;
    *last = in[i];
    retrace_free(in);
    return RETRACE_OK;
}

/* Top-p over a flat distribution, whose nucleus is large: only the bucket in which the mass reaches
 * top_p is put in order. */
static int keep_nucleus(rt_sampler *s, double top_p, retrace_error *err) {
    double *mass = retrace_calloc(BUCKETS, sizeof *mass), sum = 0;
    if (!mass) return rt_nomem(err);
    normalise(s, 0);
    for (int i = 0; i < s->n_cands; i++) mass[bucket(s, &s->cands[i])] += s->cands[i].p;
    int at = BUCKETS - 1, n = 0;
    while (at > 0 && mass[at] == 0) at--; /* the last one that holds something */
    int end = at;
    for (at = 0; at < end && sum + mass[at] < top_p; at++) sum += mass[at];
    retrace_free(mass);
    rt_cand last = {0};
    int rc = find_last(s, at, sum, top_p, &last, err);
    for (int i = 0; rc == RETRACE_OK && i < s->n_cands; i++) {
        if (by_logit(&s->cands[i], &last) <= 0) s->cands[n++] = s->cands[i];
    }
    s->n_cands = n;
    return rc;
}

/* Top-p and min-p without a top-k. Sorting a vocabulary is dear and its tail is rarely wanted: if
 * the cut does not lie among the best few, everything is looked at, but not sorted. */
static int truncate_all(rt_sampler *s, const rt_sampling *o, retrace_error *err) {
    enum { FEW = 256 };
    double total = 0;
    if (o->admits) return RETRACE_DONE;
    int rc = gather(s, FEW, err), cut;
    if (rc || s->n_cands < 2) return rc;
    if (o->top_p < 1) {
        rc = total_mass(s, &total, err);
        cut = rc == RETRACE_OK && keep_top_p(s, o->top_p, total);
    } else {
        cut = s->cands[s->n_cands - 1].logit < s->max + log(o->min_p);
    }
    if (rc == RETRACE_OK && !cut) rc = gather_all(s, err);
    if (rc == RETRACE_OK && !cut && o->top_p < 1) rc = keep_nucleus(s, o->top_p, err);
    if (rc == RETRACE_OK && o->min_p > 0) keep_min_p(s, o->min_p);
    return rc;
}

/* The k best that are admitted. */
static int gather_admitted(rt_sampler *s, const rt_sampling *o, int k, retrace_error *err) {
    enum { ROUNDS = 12, MANY = 256 };
    if (o->admits && k > MANY) return RETRACE_DONE;
    for (int round = 0; round < ROUNDS; round++) {
        int rc = gather(s, k, err), refused = 0;
        for (int i = 0; rc == RETRACE_OK && o->admits && i < s->n_cands; i++) {
            if (o->admits(o->ud, s->cands[i].id)) continue;
            refused++;
            rc = retrace_shape_ban(&s->shape, s->cands[i].id, err);
        }
        if (rc || !refused) return rc;
    }
    return RETRACE_DONE;
}

/* After a top-k, or with `typical`, which needs every candidate. */
static int truncate_top(rt_sampler *s, const rt_sampling *o, int k, retrace_error *err) {
    int rc = gather_admitted(s, o, k, err);
    if (rc == RETRACE_OK && s->n_cands > 1 && o->typical < 1) rc = keep_typical(s, o->typical, err);
    if (rc || s->n_cands < 2) return rc;
    if (o->top_p < 1) keep_top_p(s, o->top_p, 0);
    if (o->min_p > 0) keep_min_p(s, o->min_p);
    return RETRACE_OK;
}

/* ==== Weights ==== */

/* Without truncation: one weight per token of the vocabulary. */
static int weigh_all(rt_sampler *s, const rt_sampling *o, retrace_error *err) {
    struct retrace_shape *h = &s->shape;
    int n = h->dist->n;
    if (rt_grow(&s->weights, &s->cap_weights, n, sizeof *s->weights)) return rt_nomem(err);
    int rc = hide(s, err);
    if (rc) return rc;
    double max = h->n_edits ? (double)rt_max(h->dist->logits, n) : rt_dist_max(h->dist);
    max *= h->scale;
    for (int i = 0; i < h->n_edits; i++) max = edited(h, i) > max ? edited(h, i) : max;
    if (max == -INFINITY) {
        unhide(s);
        s->n_cands = 0;
        return RETRACE_OK;
    }
    double sum = rt_exp_sum(h->dist->logits, n, max / h->scale, h->scale / o->temp, s->weights);
    int plain = h->n_edits == 0 && h->scale == 1 && o->temp == 1;
    if (plain && !h->dist->have_lse) { /* the normaliser comes for free */
        h->dist->lse = max + log(sum);
        h->dist->have_lse = 1;
    }
    unhide(s);
    for (int i = 0; i < h->n_edits; i++)
        s->weights[h->edits[i].id] = exp((edited(h, i) - max) / o->temp);
    s->n_cands = n;
    return RETRACE_OK;
}

static int weigh_cands(rt_sampler *s, double temp, retrace_error *err) {
    int n = s->n_cands;
    if (rt_grow(&s->weights, &s->cap_weights, n, sizeof *s->weights)) return rt_nomem(err);
    if (!s->by_id) qsort(s->cands, (size_t)n, sizeof *s->cands, order_id);
    for (int i = 0; i < n; i++) {
        s->ids[i] = s->cands[i].id;
        s->weights[i] = exp((s->cands[i].logit - s->max) / temp);
    }
    return RETRACE_OK;
}

static int truncates(const rt_sampling *o, int vocab) {
    return (o->top_k > 0 && o->top_k < vocab) || o->top_p < 1 || o->min_p > 0 || o->typical < 1 ||
           o->temp <= 0;
}

int rt_sampler_weigh(rt_sampler *s, const rt_sampling *o, const double **weights,
                     const retrace_token **ids, int *n, retrace_error *err) {
    int vocab = s->shape.dist->n;
    int sparse = truncates(o, vocab), rc;
    if (!sparse) {
        rc = weigh_all(s, o, err);
    } else {
        int k = o->temp <= 0 ? 1 : o->top_k > 0 && o->top_k < vocab ? o->top_k : vocab;
        rc = k == vocab && o->typical >= 1 ? truncate_all(s, o, err) : truncate_top(s, o, k, err);
        if (rc == RETRACE_OK && s->n_cands) rc = weigh_cands(s, o->temp > 0 ? o->temp : 1, err);
    }
    *weights = s->weights;
    *ids = sparse ? s->ids : NULL;
    *n = rc == RETRACE_OK ? s->n_cands : 0;
    return rc;
}

/* Summed over the live tokens, not as 1 - dead: exact however little is left. */
int rt_sampler_live(rt_sampler *s, retrace_dist *d, const retrace_token *bans, int n_bans,
                    double *live, retrace_error *err) {
    double lse = rt_dist_lse(d);
    if (rt_grow(&s->saved, &s->cap_saved, n_bans, sizeof *s->saved)) return rt_nomem(err);
    for (int i = 0; i < n_bans; i++) {
        s->saved[i] = d->logits[bans[i]];
        d->logits[bans[i]] = -INFINITY;
    }
    double max = (double)rt_max(d->logits, d->n);
    *live = max == -INFINITY ? 0 : rt_exp_sum(d->logits, d->n, max, 1, NULL) * exp(max - lse);
    for (int i = 0; i < n_bans; i++) d->logits[bans[i]] = s->saved[i];
    return RETRACE_OK;
}
