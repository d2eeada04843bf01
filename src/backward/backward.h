/* backward.h - what the files of backward sampling share.
 *
 * backward.c    samples, one step after the other; asks and hands out events
 * posterior.c   the candidates before one suffix, and which are evaluated
 * outcome.c     what those tell about all
 * draw.c        one of them is drawn
 * race.c        ... exactly
 * ask.c         from candidates to the model's questions and back
 * guess.c       what the model itself says should come before
 * rounds.c      what those evaluated first tell about the others
 *
 * A candidate has an *index*: that of its token, or `vocab` for the start. Logarithms are natural.
 * The likelihood of a suffix s1..sT is a product of T *factors*; a candidate's *depth* is how many
 * of them are known, and log_u its prior times those: the score when the depth is T. */
#ifndef RT_BACKWARD_H
#define RT_BACKWARD_H

#include "chain.h"

int rt_backward_check(const retrace_backward_options *o, retrace_error *err);

/* What one object's files read and none changes. */
typedef struct rt_setup {
    retrace_model *model;
    const retrace_bigram *chain;
    retrace_backward_options o;
    int vocab;
    const retrace_token *anchor;
    int n_anchor;
    retrace_token start; /* -1: a document starts with nothing before it */
    int start_row;       /* a token of the start state; -1: there is none */
} rt_setup;

/* ==== guess.c ==== */

/* The model's guesses at the token before a suffix: two questions, whose wording is fixed and in
 * English. */
typedef struct rt_guess {
    retrace_token *words, *passage; /* the beginnings of the two questions, as tokens */
    int n_words, n_passage;
    retrace_token *last; /* the end of the first: "=>" */
    int n_last;
    int usable; /* 0: the model cannot tokenise them, or they do not fit the context */
    retrace_token *tokens[2];
    float *next[2]; /* the answers */
    retrace_query q[2];
    int n; /* questions asked */
} rt_guess;

int rt_guess_new(rt_guess *g, const rt_setup *s, retrace_error *err);
void rt_guess_free(rt_guess *g);
/* Prepares the questions about a suffix that the heuristic wants. */
void rt_guess_ask(rt_guess *g, const rt_setup *s, const retrace_token *suffix, int n);

/* ==== posterior.c ==== */

/* A candidate that was evaluated. */
typedef struct rt_item {
    int index;
    double log_prior, log_score;
    double log_in; /* of the chance that it was evaluated */
} rt_item;

typedef enum rt_phase {
    RT_NEW,      /* nothing but the suffix */
    RT_GUESSING, /* the heuristics' questions */
    RT_PILOT,    /* a few candidates, to choose how many */
    RT_ROUND,    /* some, to learn what the others may be worth */
    RT_SAMPLE,
    RT_READY
} rt_phase;

/* All that is known about the token before one suffix. */
typedef struct rt_posterior {
    retrace_token *suffix;
    int n;
    uint64_t digest; /* of the suffix; keys are made of it */
    rt_phase phase;
    double log_self; /* ln f(suffix); NAN until it is known */
    int uses;        /* samples that have drawn from it */
    int64_t used;    /* when one last did; see rt_posterior_forget */

    /* Every candidate, by index; freed when it is ready, unless the mode is exact. -inf: none. */
    double *log_prior, *log_b, *log_u, *log_g;
    double *log_base; /* log_g before anything was learned; NULL: nothing is */
    int *depth;
    char *known; /* 1: an earlier round's */

    /* Those to be evaluated. */
    int *chosen;
    int n_chosen;
    int n_known;      /* the first of them: those of earlier rounds. Nothing is estimated there */
    int round;        /* rounds that are over */
    double log_heavy; /* the most that a score was over log_g in the rounds after the first */
    double log_kappa; /* of the first key that was not chosen; -inf: all are */
    int wanted;       /* how many, by the pilot */

    /* The outcome; items by rising index. */
    rt_item *items;
    int n_items;
    int complete; /* 1: all candidates were evaluated */
    int nothing;  /* 1: Z is 0 */
    double log_z, log_z_low, log_z_high, se, coverage;
    int reliable;
    retrace_preceding *top;
    int n_top;
    int touched; /* candidates evaluated, in whole or in part */
} rt_posterior;

/* What stands before `tail` is v; v RETRACE_START: nothing does. */
int rt_posterior_new(rt_posterior **out, retrace_token v, const retrace_token *tail, int n_tail,
                     retrace_error *err);
void rt_posterior_free(rt_posterior *p);

/* Every candidate's prior and b. */
int rt_posterior_open(rt_posterior *p, const rt_setup *s, retrace_error *err);
/* 1 when a proposal matters: the scores are not known, and not all will be evaluated. */
int rt_posterior_asks(const rt_posterior *p, const rt_setup *s);

/* log_g of every candidate. guess NULL: none was to be had. */
int rt_posterior_propose(rt_posterior *p, const rt_setup *s, const rt_guess *guess,
                         retrace_error *err);
/* An exponential waiting time of this suffix and candidate. `purpose`: 0 the sample, 1 the
 * pilot, 2 + i the race of sample i, -1 - k round k. */
double rt_posterior_wait(const rt_posterior *p, const rt_setup *s, int index, uint64_t purpose);
/* Chooses the candidates to be evaluated, for p->phase: the pilot, a round or the sample. */
int rt_posterior_choose(rt_posterior *p, const rt_setup *s, retrace_error *err);
/* Candidates in all of a step, of n that there are, when their number is given beforehand. */
int rt_posterior_budget(const rt_posterior *p, const rt_setup *s, int n);
/* ln of the sum of exp(x). */
double rt_log_sum(const double *x, int n);
/* ln of the chance that a chosen candidate was chosen. */
double rt_posterior_log_chance(const rt_posterior *p, const rt_setup *s, int index);
/* From the pilot's scores to `wanted`. */
int rt_posterior_measure(rt_posterior *p, const rt_setup *s, retrace_error *err);
/* Compat: takes the next batch of its order into `chosen`; RETRACE_DONE: enough. */
int rt_posterior_more(rt_posterior *p, const rt_setup *s);
/* Back to a text about which only its list and its own worth are known: evaluating it again gives
 * the same. */
void rt_posterior_forget(rt_posterior *p);
/* Bytes that forgetting would free. */
size_t rt_posterior_size(const rt_posterior *p, int vocab);
void rt_posterior_drop(rt_posterior *p); /* what only matters until the outcome is known */

/* ==== rounds.c ==== */

/* Candidates of the round that comes next; 0: no more rounds, the sample is chosen. */
int rt_round_size(const rt_posterior *p, const rt_setup *s);
/* What was chosen is complete: it is known from now on, and log_g made anew for the others. */
int rt_round_learn(rt_posterior *p, const rt_setup *s, retrace_error *err);
/* After rounds and the sample: ln of what a candidate adds to Z that is as much above the first
 * proposal as any that was met, and was chosen though nothing was learned about it. */
double rt_round_surprise(const rt_posterior *p, const rt_setup *s);

/* ==== outcome.c ==== */

/* All chosen ones have been evaluated: the outcome. */
int rt_posterior_conclude(rt_posterior *p, const rt_setup *s, retrace_error *err);
/* The items by falling score, of equal ones the lower index first; freed with retrace_free. NULL:
 * out of memory, or there are none. */
rt_item *rt_posterior_sorted(const rt_posterior *p);
retrace_preceding rt_posterior_shown(const rt_posterior *p, const rt_setup *s, const rt_item *i);

/* ==== draw.c ==== */

/* Draws for a sample at its step; winner: the candidate that the race has chosen, or -1. */
int rt_backward_draw(const rt_posterior *p, const rt_setup *s, int sample, int step, int winner,
                     retrace_backward_step *out, retrace_error *err);

/* ==== ask.c ==== */

/* Questions in preparation or answered. */
typedef struct rt_ask {
    retrace_query *q;
    retrace_token *tokens;
    double *logp;
    float *next;
    int *index, *depth; /* of the candidate; the depth it will have */
    int n, cap;
    int stride; /* tokens and numbers for each */
} rt_ask;

void rt_ask_free(rt_ask *a);
/* Begins a batch of at most n questions about p. */
int rt_ask_begin(rt_ask *a, const rt_setup *s, const rt_posterior *p, int n, retrace_error *err);
/* Asks for the factors of a candidate up to `depth`, or fewer: at least one. */
int rt_ask_add(rt_ask *a, const rt_setup *s, const rt_posterior *p, int index, int depth,
               retrace_error *err);
/* Asks for the factors of f of the suffix itself after the `known` first ones, the prior counted.
 */
void rt_ask_self(rt_ask *a, const rt_setup *s, const rt_posterior *p, int known);
/* Answers into p->log_u, depth and touched; the batch is empty then. */
void rt_ask_take(rt_ask *a, const rt_setup *s, rt_posterior *p);
/* ln of the product of the factors that question i asked for. */
double rt_ask_sum(const rt_ask *a, const rt_setup *s, const rt_posterior *p, int i);

/* ==== race.c ==== */

/* One sample's race at one suffix; zero-initialised is none. */
typedef struct rt_race {
    int *heap; /* candidates, the largest key on top */
    double *key, *log_wait;
    int n;
    int step; /* candidates asked about next */
} rt_race;

int rt_race_new(rt_race *r, const rt_setup *s, const rt_posterior *p, int sample,
                retrace_error *err);
void rt_race_free(rt_race *r);
/* *winner is a candidate's index, or -1 when questions were added to `a` (which has been begun). No
 * questions either: nobody can win. */
int rt_race_next(rt_race *r, const rt_setup *s, const rt_posterior *p, rt_ask *a, int *winner,
                 retrace_error *err);
/* After their answers have been taken: the keys of those asked about have fallen. */
void rt_race_took(rt_race *r, const rt_setup *s, const rt_posterior *p, const int *index, int n);

#endif
