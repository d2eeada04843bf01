/* unit_text.c - a completion: its choices are runs, what happens in them goes into one answer.
 *
 * All runs are made at the beginning, so that whatever is wrong with the request is told before
 * anything is sent. They begin in order, each when a slot is free. A client that leaves, an answer
 * that takes too long, a model that fails: the runs end where they are and are kept. */
#include "worker.h"

#include <math.h>
#include <stdlib.h>

/* ==== Making one ==== */

static int scores_wanted(const srv_request *q) {
    return q->echo && (q->logprobs >= 0 || q->n_probs > 0);
}

static int runs_wanted(const srv_request *q) {
    return !(q->echo && q->options.max_tokens == 0);
}

static void make_scores(srv_text *t) {
    const srv_request *q = t->q;
    int n_top = q->logprobs > q->n_probs ? q->logprobs : q->n_probs;
    t->scores = cli_alloc((size_t)q->n_prompts * sizeof *t->scores);
    for (int i = 0; i < q->n_prompts; i++) {
        size_t n = (size_t)q->prompts[i].n;
        t->scores[i] = (srv_scores){.wanted = 1, .n_top = n_top};
        t->scores[i].logp = cli_alloc((n + 1) * sizeof(double));
        if (n_top > 0)
            t->scores[i].top = cli_alloc((n * (size_t)n_top + 1) * sizeof(retrace_candidate));
    }
}

/* The slot is put into the questions on their way to the model. */
static int make_run(srv_text *t, srv_lane *p, int head, retrace_error *err) {
    retrace_options o = t->q->options;
    o.head = head;
    o.slot = 0;
    return retrace_run_new(&t->entry->runs[p->choice], t->s->model, &o, p->tokens, p->n, err);
}

static int make_lane(srv_text *t, int choice, retrace_error *err) {
    const srv_request *q = t->q;
    const srv_prompt *prompt = &q->prompts[choice / q->n];
    srv_lane *p = &t->lanes[choice];
    *p = (srv_lane){.choice = choice,
                    .slot = SRV_NO_SLOT,
                    .tokens = prompt->tokens,
                    .n = prompt->n,
                    .n_prompt = prompt->n,
                    .alone = q->options.alone,
                    .scores = t->scores ? &t->scores[choice / q->n] : NULL};
    if (!runs_wanted(q)) return RETRACE_OK;
    int rc = make_run(t, p, choice % q->n, err);
    p->run = t->entry->runs[choice];
    return rc;
}

static void count_prompts(const srv_text *t) {
    for (int i = 0; i < t->q->n_prompts; i++)
        srv_count_up(t->s->metrics, SRV_C_PROMPT_TOKENS, t->q->prompts[i].n);
}

static int begin(srv_unit *u, srv_worker *w) {
    srv_text *t = (srv_text *)u;
    retrace_error err;
    t->own_q = 0;
    t->put_at = srv_worker_now(w);
    t->n_lanes = t->q->n_prompts * t->q->n;
    t->lanes = cli_alloc((size_t)t->n_lanes * sizeof *t->lanes);
    t->entry = srv_kept_add(srv_worker_kept(w), t->q, t->n_lanes);
    if (scores_wanted(t->q)) make_scores(t);
    for (int i = 0; i < t->n_lanes; i++) t->lanes[i].slot = SRV_NO_SLOT;
    for (int i = 0; i < t->n_lanes; i++) {
        if (make_lane(t, i, &err) == RETRACE_OK) continue;
        srv_error e = {0};
        srv_fail_with(&e, &err, NULL);
        srv_text_fail(u, &e);
        return -1;
    }
    count_prompts(t);
    t->answer = srv_answer_new(t->s, t->q, u->reply);
    return 0;
}

/* ==== What lanes tell ==== */

static void before(void *ud, srv_lane *p) {
    srv_text *t = ud;
    int saved = p->n_prompt - p->rows;
    if (p->scores && p->scores->done)
        srv_answer_scored(t->answer, p->choice, p->scores->logp, p->scores->top, p->scores->n_top);
    if (p->again || saved < 0) saved = 0;
    srv_answer_cached(t->answer, p->choice, saved);
    if (p->choice % t->q->n == 0) srv_count_up(t->s->metrics, SRV_C_CACHED_TOKENS, saved);
}

static void event(void *ud, srv_lane *p, const retrace_event *e) {
    srv_text *t = ud;
    t->said = 1;
    if (t->first <= 0 && (e->kind == RETRACE_SETTLE || e->kind == RETRACE_END) && e->text.n)
        t->first = cli_clock();
    srv_answer_event(t->answer, p->choice, p->run, e);
}

static const srv_ears ears = {before, event};

/* ==== Steps ==== */

static void count_run(const srv_text *t, const retrace_run *run) {
    struct srv_metrics *m = t->s->metrics;
    retrace_stats s;
    retrace_rule_stats r;
    retrace_run_stats(run, &s);
    srv_count_up(m, SRV_C_TOKENS, s.kept);
    srv_count_up(m, SRV_C_ERASED, s.erased);
    srv_count_up(m, SRV_C_REWINDS, s.rewinds);
    srv_count_up(m, SRV_C_ACCEPTED, s.accepted);
    for (int i = 0; retrace_run_rule_stats(run, i, &r); i++)
        srv_count_rule(m, r.name, r.hits, r.erased);
}

static int step_lane(srv_text *t, srv_lane *p, srv_worker *w, retrace_error *err) {
    if (p->stage == SRV_OVER) return 1;
    int over = srv_lane_step(p, &t->unit, w, &ears, t, err);
    if (over == 0) srv_answer_turn(t->answer, p->choice);
    if (over <= 0) return over;
    if (p->run) count_run(t, p->run);
    srv_answer_done(t->answer, p->choice, p->run);
    t->said = 1;
    return 1;
}

static void observe(const srv_text *t) {
    double arrived = t->unit.arrived;
    double first = t->q->stream && t->first > 0 ? t->first - arrived : -1; /* seen by a client */
    srv_observe(t->s->metrics, cli_clock() - arrived, first);
}

static void ping(srv_text *t, double now) {
    if (t->said) t->put_at = now;
    if (now - t->put_at < SRV_PING_S) return;
    srv_answer_ping(t->answer);
    t->put_at = now;
}

int srv_text_step(srv_unit *u, srv_worker *w) {
    srv_text *t = (srv_text *)u;
    retrace_error err;
    int n_over = 0;
    t->said = 0;
    for (int i = 0; i < t->n_lanes; i++) {
        int over = step_lane(t, &t->lanes[i], w, &err);
        if (over < 0) {
            srv_error e = {0};
            srv_fail_with(&e, &err, NULL);
            srv_text_fail(u, &e);
            return 1;
        }
        n_over += over;
    }
    ping(t, srv_worker_now(w));
    if (n_over < t->n_lanes) return 0;
    observe(t);
    return 1;
}

/* ==== The end ==== */

void srv_text_fail(srv_unit *u, const srv_error *e) {
    srv_text *t = (srv_text *)u;
    if (t->answer)
        srv_answer_fail(t->answer, e);
    else
        srv_reply_error(u->reply, e);
}

void srv_text_free(srv_unit *u) {
    srv_text *t = (srv_text *)u;
    srv_worker *w = t->s->worker;
    for (int i = 0; i < t->n_lanes; i++) {
        int running = t->lanes[i].stage != SRV_OVER;
        if (running) srv_lane_stop(&t->lanes[i], w);
        if (running && t->lanes[i].run) count_run(t, t->lanes[i].run);
        srv_lane_free(&t->lanes[i], w);
    }
    srv_answer_free(t->answer);
    for (int i = 0; t->scores && i < t->q->n_prompts; i++) {
        free(t->scores[i].logp);
        free(t->scores[i].top);
    }
    free(t->scores);
    free(t->lanes);
    if (t->own_q) srv_request_free(t->q);
    if (t->entry) srv_kept_release(srv_worker_kept(w), t->entry, cli_clock());
    srv_reply_drop(u->reply);
    free(t);
}

static const srv_unit_type type = {"completion",  1,   begin, srv_text_step, srv_text_fail,
                                   srv_text_free, NULL};

srv_unit *srv_unit_text(srv *s, srv_request *q, srv_reply *r) {
    srv_text *t = cli_alloc(sizeof *t);
    t->unit = (srv_unit){.type = &type, .reply = srv_reply_hold(r), .arrived = cli_clock()};
    t->s = s;
    t->q = q;
    t->own_q = 1;
    return &t->unit;
}
