/* prime.c - a prompt on its way into a slot.
 *
 * The prompt is fed by questions that want nothing, each a little longer than the one before, so
 * that between them other runs have their turn. The last piece goes along with the run's own first
 * question. With echo and log-probabilities the same questions ask for the prompt's scores.
 *
 *     |-- held --|-- piece --|-- piece --|-- the run's first question --|
 *
 * A run that wants the same bits whatever happens beside it (`alone`) is fed in the batches of the
 * plan by which it would be fed at once. */
#include "worker.h"

static int least(int a, int b) {
    return a < b ? a : b;
}

static int scoring(const srv_lane *p) {
    return p->scores && p->scores->wanted && !p->scores->done;
}

/* Someone else scores this prompt, or computes what it begins with. */
static int must_wait(srv_lane *p, srv_worker *w) {
    srv_scores *s = p->scores;
    if (s && s->wanted && !s->done && s->taken) return 1;
    return srv_slots_wait(srv_worker_slots(w), p->slot, p->tokens, p->n);
}

static void begin(srv_lane *p, srv_worker *w) {
    srv_slots *l = srv_worker_slots(w);
    p->fed = p->alone || scoring(p) ? 0 : srv_slots_held(l, p->tokens, p->n);
    if (scoring(p)) p->scores->taken = 1;
    if (scoring(p) && p->n == 0) p->scores->done = 1;
    srv_slots_promise(l, p->slot, p->tokens, p->n);
    p->stage = SRV_PRIMES;
}

/* Up to where the next piece goes; p->n: all that is left. */
static int piece_end(const srv_lane *p, const srv_pace *pace) {
    if (p->alone) return least(p->n, (p->fed / pace->batch + 1) * pace->batch);
    return least(p->n, p->fed + pace->rows);
}

/* Rows up to `end` also score the token behind it, which is fed later. */
static void ask_scores(srv_lane *p, int end) {
    srv_scores *s = p->scores;
    int from = p->fed ? p->fed + 1 : 0;
    p->prime.n = least(p->n, end + 1);
    p->prime.from = from;
    p->prime.logp = s->logp + from;
    p->prime.n_top = s->n_top;
    p->prime.top = s->n_top ? s->top + (size_t)from * (size_t)s->n_top : NULL;
}

static void ask_piece(srv_lane *p, int end, srv_unit *u, srv_worker *w) {
    srv_pace *pace = srv_worker_pace(w);
    int plan = p->alone ? p->n_prompt : end;
    p->prime = (retrace_query){.tokens = p->tokens, .n = end, .n_prompt = plan, .alone = p->alone};
    if (scoring(p)) ask_scores(p, end);
    srv_worker_ask(w, u, &p->prime, p->slot, SRV_ASK_PROMPT);
    p->asked = 1;
    pace->rows -= least(pace->rows, end - p->fed);
    p->fed = end;
}

static void take_piece(srv_lane *p, srv_worker *w) {
    p->asked = 0;
    p->rows += p->prime.evaluated;
    srv_slots_hold(srv_worker_slots(w), p->slot, p->tokens, p->fed);
    if (scoring(p) && p->fed >= p->n - 1) p->scores->done = 1;
}

/* What is left goes along with the run's own question. A run that was taken up again would ask for
 * its old tokens one by one, so all of them are fed here. */
static int is_rest(const srv_lane *p, int end) {
    if (scoring(p)) return 0;
    int whole = p->again && !p->alone;
    return whole ? p->fed >= p->n : end >= p->n;
}

void srv_prime_step(srv_lane *p, srv_unit *u, srv_worker *w) {
    if (p->stage == SRV_SHARES) {
        if (must_wait(p, w)) return;
        begin(p, w);
    }
    if (p->asked) take_piece(p, w);
    const srv_pace *pace = srv_worker_pace(w);
    if (!scoring(p) && p->fed >= p->n - 1 && !p->again) {
        p->stage = SRV_FIRST;
        return;
    }
    if (pace->rows <= 0) return;
    int end = piece_end(p, pace);
    if (is_rest(p, end)) {
        p->stage = SRV_FIRST;
        return;
    }
    if (scoring(p)) end = least(end, p->n - 1);
    ask_piece(p, end, u, w);
}
