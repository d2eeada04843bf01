/* worker.h - what the files behind the worker share: slots, pace, lanes, kept runs.
 *
 * Everything here belongs to the worker's thread alone; only srv_worker_give, srv_worker_idle_s and
 * srv_worker_free are called from elsewhere.
 *
 * One turn of the worker: units take what was answered and ask anew (`step`), all questions go
 * into one retrace_model_eval, and so on. A *lane* is one run of a unit in its slot. */
#ifndef WORKER_H
#define WORKER_H

#include "server.h"

/* ==== slots.c: which sequence of the model a run gets, and what each is known to hold ==== */

enum { SRV_NO_SLOT = -1, SRV_SHARE_LEAST = 32 /* tokens of a prefix that are worth waiting for */ };

typedef struct srv_slots srv_slots;

srv_slots *srv_slots_new(int n);
void srv_slots_free(srv_slots *l);
int srv_slots_n_free(const srv_slots *l);
/* Whether someone was refused a slot since the turn began: whoever comes later has to wait. */
void srv_slots_begin_turn(srv_slots *l);
int srv_slots_refused(const srv_slots *l);
/* A free slot for a sequence that begins with these tokens, or SRV_NO_SLOT. again: the sequence is
 * known to have been in one, which is therefore preferred however much of it would be lost. */
int srv_slots_take(srv_slots *l, const retrace_token *v, int n, int again);
void srv_slots_give_back(srv_slots *l, int slot);
/* The slot holds exactly these tokens now. */
void srv_slots_hold(srv_slots *l, int slot, const retrace_token *v, int n);
/* After a failure of the model: nothing is known to be held. */
void srv_slots_forget(srv_slots *l);
/* The longest beginning of these tokens that some slot holds. */
int srv_slots_held(const srv_slots *l, const retrace_token *v, int n);
/* The slot will soon hold these tokens, which must stay where they are until it is told that this
 * is over (NULL). */
void srv_slots_promise(srv_slots *l, int slot, const retrace_token *v, int n);
/* 1 when waiting for another slot's promise saves SRV_SHARE_LEAST tokens or more. */
int srv_slots_wait(const srv_slots *l, int slot, const retrace_token *v, int n);

/* ==== pace.c: how much of other work goes beside live runs ==== */

typedef struct srv_pace {
    int batch;     /* rows of a whole batch */
    int instant;   /* the model answers without computing: no need to divide anything */
    double live_s; /* of a turn with live runs only; 0: not known; so the others */
    double row_s;  /* of a prompt's row beside them */
    double passing_s, passing_free_s; /* of a passing question beside them, and without */
    int n_live;                       /* live questions of the last turn */
    int beside;          /* turns one after the other in which something went beside them */
    int rows, most_rows; /* of prompts that this turn may still feed, and as it began */
    int passing;         /* passing questions that it may still ask */
} srv_pace;

/* What a turn was made of. */
typedef struct srv_turn {
    int n_live, n_passing;
    int rows; /* of prompts */
    double seconds;
} srv_turn;

/* Sets rows and passing for the turn that begins. */
void srv_pace_begin(srv_pace *p);
void srv_pace_learn(srv_pace *p, const srv_turn *t);

/* ==== worker.c ==== */

typedef enum srv_ask_kind {
    SRV_ASK_LIVE,   /* the next token of a run */
    SRV_ASK_PROMPT, /* rows of a prompt */
    SRV_ASK_PASSING
} srv_ask_kind;

/* Adds a question to this turn's. q stays where it is until the unit's next step, which finds it
 * answered; slot takes the place of its own. */
void srv_worker_ask(srv_worker *w, srv_unit *u, retrace_query *q, int slot, srv_ask_kind kind);
/* The client has not read what was sent: the unit says no more until it has. */
int srv_worker_full(const srv_unit *u);
/* Nothing was asked, but there is more to do at once. */
void srv_worker_again(srv_worker *w);
srv_slots *srv_worker_slots(srv_worker *w);
srv_pace *srv_worker_pace(srv_worker *w);
srv_kept *srv_worker_kept(srv_worker *w);
/* When this turn began (cli_clock). */
double srv_worker_now(const srv_worker *w);
/* ==== lane.c: one run in its slot, from its first prompt token to its end; prime.c: the prompt
 * ==== */

/* Scores of a prompt, asked for with echo. */
typedef struct srv_scores {
    int wanted, done;
    int taken; /* by a lane, which fills them */
    int n_top;
    double *logp;
    retrace_candidate *top;
} srv_scores;

typedef enum srv_stage {
    SRV_WAITS,  /* for a slot */
    SRV_SHARES, /* for a prefix that another slot is computing, or for the prompt's scores */
    SRV_PRIMES,
    SRV_FIRST, /* the run goes on; its first question is open */
    SRV_RUNS,
    SRV_OVER
} srv_stage;

typedef struct srv_lane {
    retrace_run *run; /* NULL: only the prompt is scored */
    int choice;       /* in the answer */
    int slot;
    srv_stage stage;
    const retrace_token *tokens; /* what stands before what the run will ask about */
    retrace_token *owned;        /* the same, when it is the lane's own */
    int n, n_prompt;
    int alone, again;
    int fed;            /* tokens that the slot holds, as far as is known */
    int rows;           /* evaluated before the first answer */
    int told;           /* what must come before the first event has been told */
    srv_scores *scores; /* or NULL */
    retrace_query prime;
    int asked;               /* a question is open: prime, or the run's */
    retrace_query *question; /* the run's */
} srv_lane;

/* Takes lane->stage as far as it goes: from SRV_SHARES to SRV_FIRST. The first question of the run
 * may then be asked. */
void srv_prime_step(srv_lane *p, srv_unit *u, srv_worker *w);

/* What the unit of a lane wants to know. */
typedef struct srv_ears {
    void (*before)(void *ud, srv_lane *p); /* the first event */
    void (*event)(void *ud, srv_lane *p, const retrace_event *e);
} srv_ears;

/* One step. 0: goes on or waits; 1: the lane is over; -1 with the library's error. */
int srv_lane_step(srv_lane *p, srv_unit *u, srv_worker *w, const srv_ears *ears, void *ud,
                  retrace_error *err);
/* Ends the run where it is, so that it can be taken up again, and frees the slot. */
void srv_lane_stop(srv_lane *p, srv_worker *w);
void srv_lane_free(srv_lane *p, srv_worker *w);

/* ==== unit_text.c: lanes that make an answer ==== */

typedef struct srv_entry srv_entry;

/* What completions and their rewinding share. Begins with the unit. */
typedef struct srv_text {
    srv_unit unit;
    srv *s;
    srv_request *q; /* of the answer */
    int own_q;      /* 1: freed here; 0: kept's */
    srv_answer *answer;
    srv_entry *entry; /* in use by this unit; NULL: not kept */
    srv_lane *lanes;
    int n_lanes;
    srv_scores *scores; /* by prompt; NULL: none */
    double put_at;      /* when something was last said to the client */
    double first;       /* when the first text had settled; 0: not yet */
    int said;           /* something has been told to the answer in this turn */
} srv_text;

int srv_text_step(srv_unit *u, srv_worker *w);
void srv_text_fail(srv_unit *u, const srv_error *e);
void srv_text_free(srv_unit *u);

/* ==== kept.c: completions that can be taken up again ==== */

struct srv_entry {
    srv_request *q; /* its; and the runs, one for each choice, or NULL */
    retrace_run **runs;
    int n_runs;
    int in_use;
    double since; /* when it was last used */
    srv_entry *next;
};

srv_kept *srv_kept_new(const srv_config *c, struct srv_metrics *m);
void srv_kept_free(srv_kept *k);
/* Takes q. In use until srv_kept_release. */
srv_entry *srv_kept_add(srv_kept *k, srv_request *q, int n_runs);
void srv_kept_release(srv_kept *k, srv_entry *e, double now);
/* Takes it into use; NULL with 404 or 409. */
srv_entry *srv_kept_take(srv_kept *k, const char *id, const unsigned char key[SRV_DIGEST],
                         srv_error *e);
/* Drops what is too old; when the next one will be (0: never). */
double srv_kept_sweep(srv_kept *k, double now);

#endif
