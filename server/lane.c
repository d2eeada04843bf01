/* lane.c - one run in its slot, step by step.
 *
 *     waits for a slot -> shares -> primes -> first question -> runs -> over
 *
 * A run that goes on for long without the model (what is asked again is kept) is interrupted, so
 * that the others get their turn. One whose client does not read what is sent pauses, but not
 * before its prompt is read: others may wait for that. */
#include "worker.h"

#include <stdlib.h>

enum { MOST_EVENTS = 256 /* of one run in one turn */ };

/* ==== Slots ==== */

/* Remembers what the slot holds and gives it back. */
static void leave_slot(srv_lane *p, srv_worker *w) {
    if (p->slot == SRV_NO_SLOT) return;
    srv_slots_promise(srv_worker_slots(w), p->slot, NULL, 0);
    srv_slots_give_back(srv_worker_slots(w), p->slot);
    p->slot = SRV_NO_SLOT;
}

/* Of a prompt that is only scored, once another lane has it. */
static int needs_nothing(const srv_lane *p) {
    return !p->run && (!p->scores || !p->scores->wanted || p->scores->done);
}

static int take_slot(srv_lane *p, const srv_unit *u, srv_worker *w) {
    if (srv_worker_full(u) || (!p->run && p->scores->taken)) return 0;
    p->slot = srv_slots_take(srv_worker_slots(w), p->tokens, p->n, p->again);
    if (p->slot == SRV_NO_SLOT) return 0;
    p->stage = SRV_SHARES;
    return 1;
}

/* ==== The run ==== */

static void ask(srv_lane *p, srv_unit *u, srv_worker *w, retrace_query *q) {
    srv_pace *pace = srv_worker_pace(w);
    srv_ask_kind kind = p->stage == SRV_RUNS ? SRV_ASK_LIVE : SRV_ASK_PROMPT;
    p->question = q;
    p->asked = 1;
    int rows = q->n - p->fed;
    if (kind == SRV_ASK_PROMPT && rows > 0) pace->rows -= rows < pace->rows ? rows : pace->rows;
    srv_worker_ask(w, u, q, p->slot, kind);
}

static void take_answer(srv_lane *p, srv_worker *w) {
    srv_slots *l = srv_worker_slots(w);
    p->asked = 0;
    srv_slots_hold(l, p->slot, p->question->tokens, p->question->n);
    if (p->stage != SRV_FIRST) return;
    p->rows += p->question->evaluated;
    srv_slots_promise(l, p->slot, NULL, 0);
    p->stage = SRV_RUNS;
}

static void tell_before(srv_lane *p, const srv_ears *ears, void *ud) {
    if (!p->told) ears->before(ud, p);
    p->told = 1;
}

/* A choice that nobody is there to make is left to the generator. */
static int go_on(srv_lane *p, srv_unit *u, srv_worker *w, const srv_ears *ears, void *ud,
                 retrace_error *err) {
    retrace_need need;
    for (int i = 0; i < MOST_EVENTS; i++) {
        int rc = retrace_run_next(p->run, &need, err);
        if (rc < 0) return -1;
        if (rc == RETRACE_DONE) return 1;
        if (need.kind == RETRACE_NEED_MODEL) {
            ask(p, u, w, need.queries);
            return 0;
        }
        if (need.kind == RETRACE_NEED_CHOICE) {
            rc = retrace_run_choose(p->run, &(retrace_choice){.kind = RETRACE_CHOOSE_DRAW}, err);
            if (rc < 0) return -1;
            continue;
        }
        tell_before(p, ears, ud);
        ears->event(ud, p, need.event);
    }
    srv_worker_again(w);
    return 0;
}

int srv_lane_step(srv_lane *p, srv_unit *u, srv_worker *w, const srv_ears *ears, void *ud,
                  retrace_error *err) {
    if (p->stage == SRV_OVER) return 1;
    if (p->stage == SRV_WAITS && !needs_nothing(p) && !take_slot(p, u, w)) return 0;
    if (!needs_nothing(p) && (p->stage == SRV_SHARES || p->stage == SRV_PRIMES))
        srv_prime_step(p, u, w);
    int over = 0;
    if (needs_nothing(p)) {
        tell_before(p, ears, ud);
        over = 1;
    } else if (p->stage == SRV_FIRST || p->stage == SRV_RUNS) {
        if (p->asked) take_answer(p, w);
        if (p->stage == SRV_RUNS && srv_worker_full(u)) return 0;
        over = go_on(p, u, w, ears, ud, err);
    }
    if (over <= 0) return over;
    leave_slot(p, w);
    p->stage = SRV_OVER;
    return 1;
}

/* ==== The end ==== */

/* A cancelled run ends without the model; what it still says interests nobody. */
static void end_run(retrace_run *run) {
    retrace_need need;
    if (retrace_run_finished(run) == RETRACE_FINISH_NONE) retrace_run_cancel(run);
    while (retrace_run_next(run, &need, NULL) == RETRACE_OK)
        if (need.kind != RETRACE_EVENT) retrace_run_abort(run);
}

void srv_lane_stop(srv_lane *p, srv_worker *w) {
    if (p->scores && !p->scores->done) p->scores->taken = 0;
    if (p->run) end_run(p->run);
    leave_slot(p, w);
    p->asked = 0;
    p->stage = SRV_OVER;
}

void srv_lane_free(srv_lane *p, srv_worker *w) {
    if (p->slot != SRV_NO_SLOT) srv_lane_stop(p, w);
    free(p->owned);
    p->owned = NULL;
}
