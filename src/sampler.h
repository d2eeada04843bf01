/* sampler.h - from a distribution to the weights that the next token is drawn with. */
#ifndef RT_SAMPLER_H
#define RT_SAMPLER_H

#include "dist.h"

/* Logits that differ from the model's for the draw at hand. */
typedef struct rt_edit {
    retrace_token id;
    double logit;
    unsigned char banned, counted;
} rt_edit;

/* The draw at hand: the model's logits, edits to a few of them, one factor for all. */
struct retrace_shape {
    retrace_dist *dist;
    double scale;
    rt_edit *edits;
    int n_edits, cap_edits;
    int *table; /* open addressing over edits: index + 1; 0: free */
    int n_table;
};

/* The truncations and the temperature, as in retrace_options. */
typedef struct rt_sampling {
    int top_k; /* <= 0: all */
    double top_p, min_p, typical, temp;
    int (*admits)(void *ud, retrace_token id); /* NULL: all are */
    void *ud;
} rt_sampling;

/* One token that may be drawn. */
typedef struct rt_cand {
    retrace_token id;
    double logit, p;
} rt_cand;

/* The buffers of one run, kept between draws. */
typedef struct rt_sampler {
    struct retrace_shape shape;
    rt_cand *cands; /* falling logit, or rising id when `by_id` */
    int n_cands, cap_cands, by_id;
    double max;         /* the best candidate's logit */
    double *weights;    /* by candidate, or by token when ids is NULL */
    retrace_token *ids; /* rising */
    int cap_weights, cap_ids;
    float *saved; /* logits put aside while edited ones are hidden from a scan */
    int cap_saved;
} rt_sampler;

void rt_sampler_free(rt_sampler *s);

/* Starts a draw from d without edits. */
void rt_shape_begin(struct retrace_shape *s, retrace_dist *d);
/* The logit as edited so far. */
double rt_shape_logit(const struct retrace_shape *s, retrace_token id);
/* Replaces it. */
int rt_shape_put(struct retrace_shape *s, retrace_token id, double logit, retrace_error *err);

/* Takes `each` from it, and `once` as well the first time this is called for that token. */
int rt_shape_count(struct retrace_shape *s, retrace_token id, double each, double once,
                   retrace_error *err);

/* The weights of the draw. RETRACE_DONE: so many candidates are not admitted, or the truncation is
 * such, that the whole mask is needed. Without truncation `admits` is not asked. *ids NULL: weight
 * i is token i's. *n is 0 when nothing can be drawn. */
int rt_sampler_weigh(rt_sampler *s, const rt_sampling *o, const double **weights,
                     const retrace_token **ids, int *n, retrace_error *err);

/* The share of the model's own probability that is left when these tokens are taken away, 0..1. */
int rt_sampler_live(rt_sampler *s, retrace_dist *d, const retrace_token *bans, int n_bans,
                    double *live, retrace_error *err);

#endif
