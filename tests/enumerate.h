/* enumerate.h - what backward sampling must give on small table models, by enumeration.
 *
 * A *world* is a table model made here together with everything that follows from its weights by
 * the definitions in retrace.h: the probability of any text, the chain's rows, the long-run law pi,
 * scores, Z and f. It is computed in long double and by other means than the library's: pi by
 * absorption into closed classes and Gaussian elimination, texts token by token from the rows.
 * Weights are whole numbers, so that their sums are exact and the library's float logits are known
 * to the last bit. */
#ifndef TEST_ENUMERATE_H
#define TEST_ENUMERATE_H

#include "retrace_ext.h"

enum { MOST_VOCAB = 256, MOST_ORDER = 3, MOST_ANCHOR = 3, MOST_TEXT = 16 };

typedef struct world_row {
    retrace_token context[MOST_ORDER];
    int n;
    double *weights;
    long double *p;
} world_row;

typedef struct world {
    int vocab, n_ctx;
    int flags[MOST_VOCAB]; /* RETRACE_TOKEN_... */
    retrace_token start;   /* of a document; -1: nothing stands there */
    int letters; /* 1: the first tokens are the characters of ASCII, so that it reads text */
    world_row *rows;
    int n_rows, cap_rows;
    int *index[MOST_ORDER + 1]; /* rows by the digits of their context, -1: none; NULL: no such */
    retrace_token anchor[MOST_ANCHOR];
    int n_anchor;
    retrace_model *model;
    retrace_bigram *chain;
    long double *pi;         /* by direct solution; NULL before world_chain */
    long double pi_start;    /* of "the text starts here" */
    int may_start;           /* options.start */
    const struct world *law; /* NULL; or the world whose pi takes the place of this one's */
} world;

/* ==== Making ==== */

void world_begin(world *w, int vocab);
/* A row of zero weights after `context`, to be filled. The empty context must be among them. */
double *world_row_of(world *w, const retrace_token *context, int n);
/* Makes the model. */
void world_open(world *w);
/* Makes the chain with this anchor (n -1: the document start), and pi. */
void world_chain(world *w, const retrace_token *anchor, int n);
void world_close(world *w);

typedef struct world_shape {
    int vocab, order;
    int ends, controls, unused; /* how many tokens are such */
    int zeros;                  /* percent of weights that are 0 */
    int period;                 /* above 1: tokens lead to the next class modulo this only */
    int start;                  /* 1: the first end or control token stands before documents */
    int anchor;                 /* tokens of it; -1: the document start */
    int letters;
    double spread; /* weights are e to the power of +- half of this */
} world_shape;

/* A random world with its chain. */
void world_random(world *w, const world_shape *s, uint64_t seed);
/* The i-th shape of a fixed list that mixes everything. */
world_shape world_some_shape(int i);

/* ==== Truth ==== */

/* P(next | tokens). */
long double world_p(const world *w, const retrace_token *tokens, int n, retrace_token next);
/* P(text | before). */
long double world_text(const world *w, const retrace_token *before, int n_before,
                       const retrace_token *text, int n);
/* 1 for tokens of the start state. */
int world_starts(const world *w, retrace_token v);
/* 1 for a token that may be put before a text, and for RETRACE_START where there is such a state.
 */
int world_candidate(const world *w, retrace_token v);
/* The row of v in the chain: P(next | v). */
long double world_step(const world *w, retrace_token v, retrace_token next);
/* The prior, the likelihood P(s | a, v) or P(s | document start), and their product; v may be
 * RETRACE_START. score is 0 for what is no candidate. */
long double world_prior(const world *w, retrace_token v);
long double world_likelihood(const world *w, retrace_token v, const retrace_token *s, int n);
long double world_score(const world *w, retrace_token v, const retrace_token *s, int n);
/* The sum of all scores. */
long double world_z(const world *w, const retrace_token *s, int n);
/* Sum of score^(1/temp) over the smallest set of largest scores with mass >= top_p of Z; keep[1 +
 * v] tells which those are, v from RETRACE_START. temp 0 is not for here. */
long double world_kept(const world *w, const retrace_token *s, int n, double temp, double top_p,
                       int *keep);
/* 1 when drawing up to `depth` tokens before s can come to a text that nothing can precede. */
int world_dead(const world *w, const retrace_token *s, int n, int depth);
/* f: what a whole text is worth; started: it begins a document. */
long double world_f(const world *w, const retrace_token *x, int n, int started);

/* ==== The engine ==== */

/* Temperature 1, no truncation, the bigram proposal, every candidate listed. */
retrace_backward_options law_options(int mode, int max_tokens, int samples);
/* Makes an object for the world and runs it to its end; fails the test when it cannot. */
retrace_backward *law_run(const world *w, const retrace_backward_options *o, const retrace_token *s,
                          int n);
/* What making or running it says: a status; the object is freed. */
int law_try(const world *w, const retrace_backward_options *o, const retrace_token *s, int n,
            retrace_error *err);
retrace_backward_sample law_sample(const retrace_backward *b, int i);
/* NULL, or what does not hold of a step before x whose candidates were all evaluated; numbers to
 * 1e-12. The drawn candidate's q is not looked at. */
const char *law_step_broken(const world *w, const retrace_token *x, int n,
                            const retrace_backward_step *step);
/* NULL, or what does not hold of one listed candidate, with Z as the step says. */
const char *law_listed_broken(const world *w, const retrace_token *x, int n, double log_z,
                              const retrace_preceding *c);
/* A random text of n tokens that something can precede. Returns 0 where none was found. */
int world_suffix(const world *w, uint64_t *chance, int n, retrace_token *out);

/* The long-run law of a chain p (n x n) that begins with `first`, by absorption and elimination. */
void solve_long_run(const long double *p, int n, const long double *first, long double *pi);

/* The first n samples of both are the same, but for how far a race looked: that depends on the
 * batches. */
void law_assert_same(const retrace_backward *a, const retrace_backward *b, int n, int mode);
/* The samples are the same whatever the batch size, and when fewer are asked for. Leaves
 * o->num_samples and o->batch_size changed. */
void law_assert_batches(const world *w, retrace_backward_options *o, const retrace_token *suffix,
                        int n, const int *batches, int n_batches);

#endif
