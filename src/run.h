/* run.h - the state of one run, shared by run.c, engine.c, stuck.c, draw.c, stops.c, reopen.c. */
#ifndef RT_RUN_H
#define RT_RUN_H

#include "base.h"
#include "model.h"
#include "sampler.h"
#include "strategy.h"
#include "trace.h"

/* Draws made so far, by position. */
typedef struct rt_attempts {
    int *v;
    int cap;
} rt_attempts;

/* A rule at work in this run. */
typedef struct rt_watch {
    const retrace_rule *rule;
    size_t mark_at; /* of its mark in a node's */
    uint64_t purpose;
    rt_attempts attempts;
    int64_t hits, erased, accepted;
    retrace_proposal proposal; /* of the judgement going on */
    int proposes;
} rt_watch;

/* An event and the text that its `why` points to. */
typedef struct rt_said {
    retrace_event event;
    char why[256];
} rt_said;

/* The newest draw, whose weights are still in the sampler. */
typedef struct rt_drawn {
    retrace_token id;
    int node;  /* where it was pushed; -1: not yet, or not */
    int at, n; /* its index among n weights */
    double logit;
} rt_drawn;

/* Tokens that are put one after the other instead of drawing. */
enum { RT_FORCE_NONE = -1, RT_FORCE_BEST = -2, RT_FORCE_HAND = -3 };
typedef struct rt_force {
    retrace_token *v;
    int n, at;   /* how many, and how many of them stand */
    int by;      /* a rule, or one of the above: a best try put back, a person */
    int to;      /* the place they begin from */
    int rewound; /* by a person who took the run up again: there is no question to ask again */
} rt_force;

struct retrace_run {
    retrace_model *model;
    retrace_options
        o; /* its arrays are not used after run_new; budgets and max_tokens are resolved */
    const retrace_driver_type *driver;
    void *driver_self;
    retrace_text *stops;
    int n_stops;
    retrace_bias *bias;
    retrace_token *end_tokens; /* to ban: with ignore_eos */
    int n_end_tokens, cap_end_tokens;
    rt_watch *watch;
    int n_watch;
    int *singles; /* pairs, of the prompt */
    int n_singles;
    rt_buf before; /* the prompt as text, from its last control token */

    /* The tree, and the head as a path in it. */
    rt_trace trace;
    int *path; /* node ids: path[i] is the place after i generated tokens; path[0] the root */
    retrace_token *tokens; /* prompt, then generated */
    size_t *ends;          /* of the generated tokens in text */
    int n_prompt, n, cap_path, cap_tokens, cap_ends;
    rt_buf text;
    char *scratch; /* a place's marks, for judgements that leave none */

    rt_force force;
    retrace_dist masked;   /* what constraints admit at a place; its own logits */
    int masked_node;       /* which place; -1: none */
    retrace_token *banned; /* scratch */
    int cap_banned;

    /* A person's move. */
    retrace_candidate *menu;
    int n_menu, cap_menu;
    int asked_for;           /* candidates */
    int choosing;            /* waiting for it */
    int ask_again, draw_one; /* what the next move is instead of the driver's */

    /* Resample exact: of the newest draw. */
    struct {
        const retrace_token *ids;
        int n;
        double total, p;
    } exact;

    int settled; /* tokens */
    size_t settled_bytes;
    int floor;   /* tokens that were kept when the run was taken up again: none of them is erased */
    int resumed; /* 1: nothing has been done since then; 2: the model has not been asked since then
                  */

    /* As they were given; o has them resolved, or changed at the end. */
    int64_t given_tokens, given_rewinds, given_evaluated;
    int given_hold;

    /* The stuck ladder's episode: the deepest place that was exhausted; -1: none. */
    int stuck_depth, stuck_node, stuck_step;

    rt_sampler sampler;
    rt_drawn drawn;
    rt_attempts attempts;
    retrace_stats stats;

    retrace_query query;
    int asked, reviewed, pushed;
    int asked_at; /* the place that the question is about: the head, or one to be decided about */
    int may_wait; /* proposals may wait for a distribution that was dropped */
    int waits;    /* they do: with those of the judgement (1) or of the review (2) */
    int untold;   /* the newest token is an end token, told of only if it is taken back */
    int starved;  /* a rule's draw ran out of memory */
    int cancelled;
    retrace_finish finish;

    rt_said *events;
    int n_events, cap_events, next_event;
};

/* ==== options.c ==== */
int rt_options_check(const retrace_options *o, int vocab, retrace_error *err);

/* ==== stops.c ==== */

/* A stop text found: the answer is cut at `start`; `end` is where it completed (SIZE_MAX: by a
 * control token, after all text). */
typedef struct rt_stop {
    size_t start, end;
    retrace_text text;
} rt_stop;

/* The first stop text that completes behind byte `from` of the text. */
int rt_stop_find(const retrace_run *run, size_t from, rt_stop *out);
/* Whether this control token is a stop. */
int rt_stop_token(const retrace_run *run, retrace_token id, rt_stop *out);
/* Where the longest beginning of a stop text at the end of text[0..length) begins; length: none. */
size_t rt_stop_begun(const retrace_run *run, size_t length);

/* ==== draw.c: retrace_run_draw, and ==== */

/* Edits the distribution for a draw at the head. */
int rt_shape(retrace_run *run, retrace_dist *d, retrace_error *err);
rt_sampling rt_sampling_of(const retrace_run *run);
int rt_choose(retrace_run *run, rt_attempts *attempts, uint64_t purpose, int pos, const double *p,
              const retrace_token *ids, int n, retrace_error *err);

/* ==== view.c ==== */

/* The place n tokens into the answer as rule `rule` sees it. */
void rt_view(retrace_run *run, int n, int rule, retrace_ending ending, retrace_view *out);
/* Tokens that spell the text exactly; RETRACE_DONE: none do. *out is the caller's. */
int rt_spell(const retrace_model *m, retrace_text text, retrace_token **out, int *n,
             retrace_error *err);

/* ==== constrain.c ==== */

int rt_constrained(const retrace_run *run);
/* May the token stand behind the place n tokens in? */
int rt_admits(retrace_run *run, int n, retrace_token id);
/* The model's distribution at that place, -INFINITY where a token is not admitted. The run's,
 * overwritten by the next place's. */
int rt_masked(retrace_run *run, int n, retrace_dist **out, retrace_error *err);
/* Puts the weights of tokens, by id, that are not admitted there to 0. */
int rt_mask_weights(retrace_run *run, int n, double *weights, int n_weights, retrace_error *err);
/* The share of the model's probability, over what is admitted, that the bans there and `more`
 * leave. 1 when the place's distribution has been dropped. */
int rt_live(retrace_run *run, int n, const retrace_token *more, int n_more, double *live,
            retrace_error *err);

/* ==== retry.c ==== */

void rt_proposal_clear(retrace_proposal *p);
/* Takes the force out of it. */
void rt_proposal_plain(retrace_proposal *p);
/* Is the rule spent at the place `to`? */
int rt_soft_spent(const retrace_run *run, int rule, int to);
/* What to do with the soft proposal of w: RETRACE_OK with *carry_out, or without it: dropped;
 * RETRACE_DONE: the best try is being put back, or asked_at is a place whose distribution has to be
 * asked for before this can be decided, and `waits` is set. */
int rt_soft_decide(retrace_run *run, rt_watch *w, int *carry_out, retrace_error *err);
/* The draws that a soft rule takes back, from place `to` on, exhaust nothing. */
void rt_soft_uncount(retrace_run *run, int to);
/* Takes soft bans away from an exhausted place; 0: there were none. */
int rt_soft_lift(rt_node *node);

/* From the head on these tokens are put; the memory is the run's from here on. */
void rt_force_set(retrace_run *run, retrace_token *tokens, int n, int by);
void rt_force_drop(retrace_run *run);
/* Forgets a text all of which stands and has been judged. */
void rt_force_done(retrace_run *run);
void rt_force_once(const retrace_run *run, int rule, retrace_proposal *p);
/* Starts the force that w proposes, at the head; `instead` had led on from there. */
int rt_force_begin(retrace_run *run, rt_watch *w, retrace_token instead, retrace_error *err);
/* Puts the next of them and judges it. */
int rt_force_push(retrace_run *run, retrace_error *err);
/* Where an erase to `to`, below the head, goes back to: forced text goes as a whole. */
int rt_back_to(const retrace_run *run, int to);
/* Erases to there and withdraws what was forced. n_old as in rt_erase, of that place. */
int rt_back(retrace_run *run, int to, const char *rule, const char *why, int n_old,
            retrace_error *err);

/* ==== choice.c ==== */

/* The question as handed out. */
void rt_choice_hand(const retrace_run *run, retrace_need *need);
/* The next move: the driver's, or what a person's answer asks for. */
int rt_choice_step(retrace_run *run, retrace_error *err);

/* ==== exact.c ==== */

int rt_exact(const retrace_run *run);
/* Are the options and rules of the run admitted? */
int rt_exact_check(const retrace_run *run, retrace_error *err);
/* As retrace_run_draw. */
int rt_exact_draw(retrace_run *run, retrace_token *id, retrace_error *err);
/* The token drawn has been pushed. */
void rt_exact_pushed(retrace_run *run);
/* w rejects what stands: its place is dead, and the run starts again. */
int rt_exact_reject(retrace_run *run, rt_watch *w, retrace_error *err);
/* The base law does not go on from the head. */
int rt_exact_dead_end(retrace_run *run, retrace_error *err);

/* ==== run.c ==== */

/* Works out what the budgets are for o.max_tokens. */
void rt_set_budgets(retrace_run *run);

/* ==== engine.c ==== */

static inline rt_node *rt_head(const retrace_run *run) {
    return rt_trace_node(&run->trace, run->path[run->n]);
}

/* Appends an event; returns it for filling, or NULL: out of memory. why is copied; NULL: none. */
retrace_event *rt_event(retrace_run *run, retrace_event_kind kind, const char *why);

/* Moves the head to a child with that token, new or visited before, without judging. */
int rt_enter(retrace_run *run, retrace_token token, retrace_error *err);
/* Tells of the newest token, and whether it was drawn. */
int rt_tell_push(retrace_run *run, int drawn, retrace_error *err);
/* Takes back the tokens from position `to` on and tells. The bans are those of the node gone back
 * to, from index n_old on. */
int rt_erase(retrace_run *run, int to, const char *rule, const char *why, int n_old,
             retrace_error *err);
/* Judges the newest token, or the start when there is none, and acts on it. */
int rt_judge(retrace_run *run, retrace_error *err);
/* Ends the run if nothing may follow what stands. */
int rt_stands(retrace_run *run, retrace_error *err);
/* Lets rules look at the head's distribution, and acts on it. */
int rt_review(retrace_run *run, retrace_error *err);
/* Goes on with proposals that have waited. */
int rt_resume(retrace_run *run, retrace_error *err);
/* Cuts the text, while an ending is judged again and again, until no rule objects. */
int rt_cut_clean(retrace_run *run, retrace_error *err);
/* Settles what nothing can erase any more, if `hold` lets it. */
int rt_settle(retrace_run *run, retrace_error *err);
/* Ends the run: what stands is the answer. */
int rt_end(retrace_run *run, retrace_finish finish, retrace_error *err);
/* Ends it with what has settled. */
int rt_give_up(retrace_run *run, retrace_finish finish, const char *why, retrace_error *err);
/* Sets up the marks of the root. */
int rt_start_marks(retrace_run *run, retrace_error *err);
void rt_free_marks(retrace_run *run);

/* ==== stuck.c ==== */

/* The head is exhausted: steps back, or ends the run by its policy. */
int rt_stuck(retrace_run *run, retrace_error *err);

#endif
