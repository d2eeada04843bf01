/* retrace_backward.h - texts that end in a given suffix. A part of retrace.h, which includes it;
 * its conventions hold here too. docs/backward.md has the law and how to use it. */
#ifndef RETRACE_BACKWARD_H
#define RETRACE_BACKWARD_H

#include "retrace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Bigram chains ====
 *
 * The chain of single tokens of a model: P(w | a, v), the probability that w follows v when only a
 * fixed *anchor* a stands before it, and the law pi that this chain settles to, which serves as the
 * prior of a token when nothing is known about what precedes it. Without an anchor the first token
 * of many models takes the place of a beginning and loses most of its meaning, so the anchor is by
 * default what stands before a document.
 *
 * Documents follow each other: the row of a token that ends one, and of the document start itself,
 * is the law of a document's first token. So these tokens together are one state, "the text starts
 * here", whose probability is one over the mean length of a document. pi is the long-run frequency
 * of states when one begins with a document, which exists for every chain, periodic ones included.
 *
 * Source of the prior: Pfau et al., "Eliciting Language Model Behaviors using Reverse Language
 * Models" (2023), openreview.net/forum?id=m6xyTie61H, its stationary reversal. */

typedef struct retrace_bigram retrace_bigram;

typedef struct retrace_bigram_info {
    const char *kind; /* "factored": hidden states and output matrix; "dense": all rows */
    const char *model, *weights; /* of the model it was made from */
    uint64_t model_hash, vocab_hash;
    int vocab;
    int dim; /* factored: length of a hidden state; dense: 0 */
    const retrace_token *anchor;
    int n_anchor;
    retrace_token start; /* the model's document start, see retrace_model_info */
    int iterations;      /* factored: products with the whole chain; dense: 0, solved directly */
    double residual;     /* L1 distance of pi and pi P */
    double rate;         /* by which plain iteration would shrink it each time; 0: not known */
    double entropy;      /* of pi, in nats */
    double start_pi;     /* probability of the start state */
    int64_t size_bytes;  /* of the file; 0: in memory */
} retrace_bigram_info;

/* Reads a table that retrace_bigram_build wrote: all of it, so that nothing can change under the
 * reader. EIO: it cannot be read; EMODEL: no table, truncated, damaged, or of a later version. */
RETRACE_API int retrace_bigram_open(retrace_bigram **out, const char *path, retrace_error *err);

/* Which anchor: n -1 means the model's document start (none where that is -1), 0 none. */
typedef struct retrace_anchor {
    const retrace_token *tokens;
    int n;
} retrace_anchor;

/* The chain of a small vocabulary in memory, in double: every row is asked for and the stationary
 * law solved for directly. EUSAGE beyond 4,096 tokens. */
RETRACE_API int retrace_bigram_of(retrace_bigram **out, retrace_model *m, retrace_anchor anchor,
                                  retrace_error *err);
RETRACE_API void retrace_bigram_close(retrace_bigram *b);

RETRACE_API void retrace_bigram_facts(const retrace_bigram *b, retrace_bigram_info *out);
/* pi by token id; sums to 1. Borrowed from b. */
RETRACE_API const double *retrace_bigram_pi(const retrace_bigram *b);
/* ln P(w | a, v) for all w (row of v), for all v (column of w), into logp[0..vocab). The rows of
 * the start state's tokens are those of a document's first token. */
RETRACE_API int retrace_bigram_row(const retrace_bigram *b, retrace_token v, double *logp,
                                   retrace_error *err);
RETRACE_API int retrace_bigram_column(const retrace_bigram *b, retrace_token w, double *logp,
                                      retrace_error *err);
/* Whether the chain was made from this model and these weights; with `shared`, whether it has the
 * same tokenizer at least. EUSAGE says what differs. */
RETRACE_API int retrace_bigram_fits(const retrace_bigram *b, const retrace_model *m, int shared,
                                    retrace_error *err);

typedef enum retrace_build_stage {
    RETRACE_BUILD_STATES, /* every token is evaluated after the anchor */
    RETRACE_BUILD_LAW,    /* products with the whole chain, until pi stands still */
    RETRACE_BUILD_WRITE
} retrace_build_stage;

typedef struct retrace_build_progress {
    retrace_build_stage stage;
    double share;  /* 0..1 of the whole work, as far as it can be foreseen */
    int iteration; /* LAW: from 1 */
    double change; /* LAW: the last L1 change; NAN before the first */
} retrace_build_progress;

/* Sees how far the work is; when it returns non-zero the build stops with ECANCEL. */
typedef int retrace_build_fn(void *ud, const retrace_build_progress *p);

/* Makes the table of a model and puts it at `path`, atomically. Until then the work is kept in
 * `path`.part, which a later call with the same model, anchor and settings goes on from: the file
 * that results is the same, bit for bit. restart: begin anew all the same. Small vocabularies of
 * models without hidden states get a dense table. EMODEL: the model's logits are no plain product
 * of a hidden state and an output matrix, or such a product does not give them (some rows are
 * compared). EIO: the disk is full, say; the part stays. */
RETRACE_API int retrace_bigram_build(const char *path, retrace_model *m, retrace_anchor anchor,
                                     int restart, retrace_build_fn *each, void *ud,
                                     retrace_error *err);

/* ==== Backward sampling ====
 *
 * Writes what comes before a given suffix s = s1..sT, from right to left. One step draws the token
 * before it by Bayes' rule:
 *
 *     score(v) = pi(v) P(s1..sT | a, v)        posterior(v) = score(v) / Z,  Z = sum of all scores
 *
 * Candidates are all tokens but control tokens and holes, and one more: the text starts here
 * (RETRACE_START), with pi(start) P(s | document start). The first factor of the likelihood comes
 * from the bigram chain, for all v at once: b(v) = pi(v) P(s1 | a, v). The others cost a pass of
 * the model for each candidate, so the modes differ in which are evaluated and how much is known
 * about the rest:
 *
 * priority    (default) `budget` candidates, drawn without replacement in proportion to a proposal
 *             g: the largest keys g(v) / E_v, E_v exponential. Each score, divided by its chance of
 *             being included, is an unbiased estimate, for every v; so is Z, and its standard error
 *             is known. (Duffield, Lund and Thorup 2007, "Priority sampling for estimation of
 *             arbitrary subset sums", with exponential ranks.)
 * exact       the draw is exact: a race of u(v) / E_v where the bound u falls with each factor that
 *             is evaluated (A* sampling, Maddison, Tarlow and Minka 2014). Z as in priority.
 * exhaustive  every candidate is evaluated
 * topk        the `budget` candidates of largest b, nothing about the rest
 * compat      for comparison, the rule of the project where this began: candidates in an order of
 *             their own, a batch at a time, until their scores reach `threshold` times f(s); so
 *             here the batch size matters
 *
 * Several steps draw x = p s with probability q; f(x) = pi(x1) P(x2.. | a, x1) is what the whole
 * text is worth (for a text that starts there, pi(start) P(x | document start)). log_w = log f(x) -
 * sum of log q makes weighted samples of f's own law, whatever the budget.
 *
 * Like a run this calls no model: retrace_backward_next() says what must be asked. The same seed
 * and the same answers give the same draws for any batch size: keys are a hash of (seed, suffix,
 * v), draws of (seed, sample, step). A table model's answers do not depend on the batch; libllama's
 * do in their last digits. There the heuristic `mixed`, whose later candidates are chosen by the
 * scores of earlier ones, can evaluate others and so draw others when the batch size changes; the
 * other heuristics evaluate the same. Samples whose suffixes are equal share one evaluation. */

enum { RETRACE_START = -1 }; /* the candidate "the text starts here" */

typedef enum retrace_backward_mode {
    RETRACE_PRIORITY,
    RETRACE_EXACT,
    RETRACE_EXHAUSTIVE,
    RETRACE_TOPK,
    RETRACE_COMPAT
} retrace_backward_mode;

/* The proposal g. q_fp and q_rev are the model's own guesses at what precedes the suffix: asked in
 * words with examples, and shown as a passage written backwards. In compat they are the orders
 * themselves, and `bigram` is P(s1 | v). A model that cannot tokenise the questions has none: then
 * `mixed` begins with `bigram`, and the two others are refused. */
typedef enum retrace_heuristic {
    RETRACE_MIXED,          /* the mean of b and b (q_fp + q_rev)^(1/2), each normalised; then what
                               rounds of evaluated candidates tell about the others. Those count
                               as they are, and the last round estimates the rest */
    RETRACE_BIGRAM,         /* b */
    RETRACE_FORWARD_PROMPT, /* b q_fp^(1/2) */
    RETRACE_REVERSED        /* b q_rev^(1/2) */
} retrace_heuristic;

typedef struct retrace_backward_options {
    int64_t max_tokens, num_samples, seed;
    double temp;  /* of the posterior: 0, or at least 1e-6 */
    double top_p; /* of the posterior: the smallest set of that mass; before the temperature */
    int mode, heuristic;
    int64_t budget;     /* candidates evaluated in a step; 0: 512, in compat all */
    double threshold;   /* priority: as many as are expected to cover this share of Z, estimated
                           from 64 others; 1: all; at most `budget` when that is given. compat: see
                           above. 0: not given */
    int64_t batch_size; /* candidates asked about at once */
    int64_t top;        /* candidates listed with each step */
    int shared_table;   /* 1: the chain may be another model's with the same tokenizer; then every
                           factor of the likelihood is the model's, and only pi and the order are
                           the chain's */
    int start;          /* 1: the text may start */
} retrace_backward_options;

RETRACE_API void retrace_backward_default(retrace_backward_options *o);
/* The settings table of retrace_backward_options. Static. */
RETRACE_API const retrace_setting_info *retrace_backward_infos(void);
RETRACE_API int retrace_backward_set(retrace_backward_options *o, retrace_setting s,
                                     retrace_error *err);

typedef struct retrace_backward retrace_backward;

/* One candidate of a step. All natural logarithms. */
typedef struct retrace_preceding {
    retrace_token id;      /* or RETRACE_START */
    double log_posterior;  /* score / Z, Z as estimated; at most 0 */
    double log_prior;      /* pi */
    double log_likelihood; /* P(suffix | a, v) */
} retrace_preceding;

/* What is known about the token before a suffix, and the one that was drawn. */
typedef struct retrace_backward_step {
    retrace_preceding drawn;
    double log_q; /* of the draw: log score / temp - log Z_temp, Z_temp the (estimated) sum of
                     score^(1/temp) over what top_p keeps */
    double log_z; /* Z, estimated unless all were evaluated */
    double log_z_low, log_z_high; /* a 95 % interval; both log_z when Z is known; in topk and compat
                                     what is certain, by b */
    double se;    /* relative standard error of Z; 0 when it is known, NAN in topk and compat */
    int reliable; /* 0: too few candidates tell of the error, so no interval is stated: log_z_low is
                     what was evaluated, log_z_high +inf. 1 otherwise */
    double coverage; /* evaluated scores / Z; topk and compat: a lower bound, NAN with a shared
                        table */
    int evaluated;   /* candidates; all when a single token follows: the chain knows their scores */
    int exact;       /* 1: the draw follows the posterior itself, not an estimate */
    int shared;      /* 1: another sample had evaluated it already */
    const retrace_preceding *top; /* falling posterior; borrowed until the object is freed */
    int n_top;
} retrace_backward_step;

typedef struct retrace_backward_sample {
    const retrace_token *tokens; /* of the whole text, suffix included */
    int n;
    const retrace_backward_step *steps; /* in the order they were drawn: the rightmost first */
    int n_steps;
    int done;
    int started;  /* 1: the text starts here; 0: max_tokens was reached, or the context is full */
    int blocked;  /* 1: nothing that was evaluated can precede the text; log_w is -inf */
    int improper; /* 1: log_w does not weigh properly: top_p below 1, temp 0, or a step of topk or
                     compat that left candidates out */
    double log_f, log_q, log_w;
} retrace_backward_sample;

typedef enum retrace_backward_event_kind {
    RETRACE_STEPPED, /* a token was put before the sample's text, or its start was drawn */
    RETRACE_SAMPLED  /* the sample is complete */
} retrace_backward_event_kind;

typedef struct retrace_backward_event {
    retrace_backward_event_kind kind;
    int sample;
    const retrace_backward_step *step; /* STEPPED */
} retrace_backward_event;

typedef struct retrace_backward_need {
    retrace_need_kind kind; /* NEED_MODEL, EVENT or NEED_NOTHING */
    retrace_query *queries; /* valid until the next call */
    int n_queries;
    const retrace_backward_event *event;
} retrace_backward_need;

typedef struct retrace_backward_stats {
    int64_t candidates; /* likelihoods that were evaluated, in whole or in part */
    int64_t evaluated;  /* token rows given to the model */
    double ess;         /* effective sample size of the samples done: (sum w)^2 / sum w^2 */
    double log_f;       /* f of the suffix by itself; NAN until it is known */
} retrace_backward_stats;

/* The chain must outlive the object. EUSAGE: an empty suffix, one that does not fit the context
 * with the anchor and one more token, an option out of range or at odds with another (exact with
 * shared_table, or with top_p below 1), a heuristic that the model cannot be asked about, a chain
 * that does not fit the model. */
RETRACE_API int retrace_backward_new(retrace_backward **out, retrace_model *m,
                                     const retrace_bigram *chain, const retrace_backward_options *o,
                                     const retrace_token *suffix, int n_suffix, retrace_error *err);
RETRACE_API void retrace_backward_free(retrace_backward *b);

/* As retrace_run_next. EUSAGE otherwise means one thing: nothing can precede the suffix (Z is known
 * to be 0). */
RETRACE_API int retrace_backward_next(retrace_backward *b, retrace_backward_need *need,
                                      retrace_error *err);
/* The loop over it and the model. When each returns non-zero the rest is left: RETRACE_OK. */
typedef int retrace_backward_fn(void *ud, const retrace_backward_event *event);
RETRACE_API int retrace_backward_finish(retrace_backward *b, retrace_backward_fn *each, void *ud,
                                        retrace_error *err);

/* The i-th sample so far; 0 when there are no more that have begun. Pointers are valid until the
 * next call. */
RETRACE_API int retrace_backward_at(const retrace_backward *b, int i, retrace_backward_sample *out);
RETRACE_API void retrace_backward_totals(const retrace_backward *b, retrace_backward_stats *out);

#ifdef __cplusplus
}
#endif
#endif
