/* backward.c - samples of what precedes a suffix, step by step, without calling the model.
 *
 * Each text that occurs is one posterior, found by its tokens; samples that get to the same text
 * share it. A sample goes on until the text starts, is long enough, or nothing can precede it; then
 * the next one begins. What comes next is decided by what is there: an event to hand out, a text
 * whose posterior is not ready, a race that is going on, a draw. */
#include "backward.h"
#include "../base.h"

#include <math.h>
#include <string.h>

typedef struct sample {
    rt_posterior *at;
    retrace_backward_step *steps;
    int n_steps, cap_steps;
    double log_q;
    int started, blocked, done;
} sample;

/* Outcomes that are kept for other samples; past this the one that was used longest ago goes. */
static const size_t KEPT_BYTES = (size_t)256 << 20;

typedef enum asked { NOTHING, SELF, GUESS, FACTORS, RACE } asked;

struct retrace_backward {
    rt_setup setup;
    retrace_token *suffix;
    int n_suffix;
    rt_posterior **texts; /* all that occurred */
    int n_texts, cap_texts;
    size_t kept;  /* bytes of the outcomes of all texts */
    int64_t uses; /* draws so far */
    int *table;   /* open addressing over texts: number + 1; 0: free */
    int n_table;
    sample *samples;
    int n_started, current; /* samples that have begun; the one that is being written */
    rt_guess guess;
    rt_ask ask;
    rt_race race;
    int racing;
    asked asked;
    double own_part; /* ln of the factors of f of the suffix that the chain knows */
    retrace_query *queries;
    int n_queries;
    retrace_backward_event event;
    int stepped; /* a step has been handed out; the sample may be complete */
    int failed;
    retrace_backward_stats stats;
};

/* ==== Texts ==== */

static int same_text(const rt_posterior *p, retrace_token v, const retrace_token *tail, int n) {
    return p->n == n + 1 && p->suffix[0] == v &&
           memcmp(p->suffix + 1, tail, (size_t)n * sizeof *tail) == 0;
}

static uint64_t text_hash(retrace_token v, const retrace_token *tail, int n) {
    uint64_t h = rt_digest(0, (const char *)&v, sizeof v);
    return rt_digest(h, (const char *)tail, (size_t)n * sizeof *tail);
}

static void place(retrace_backward *b, int number) {
    const rt_posterior *p = b->texts[number];
    size_t mask = (size_t)b->n_table - 1;
    size_t i = text_hash(p->suffix[0], p->suffix + 1, p->n - 1) & mask;
    while (b->table[i]) i = (i + 1) & mask;
    b->table[i] = number + 1;
}

static int grow_table(retrace_backward *b, retrace_error *err) {
    if (2 * (b->n_texts + 1) <= b->n_table) return RETRACE_OK;
    int n = b->n_table ? 2 * b->n_table : 64;
    int *table = retrace_calloc((size_t)n, sizeof *table);
    if (!table) return rt_nomem(err);
    retrace_free(b->table);
    b->table = table;
    b->n_table = n;
    for (int i = 0; i < b->n_texts; i++) place(b, i);
    return RETRACE_OK;
}

/* The text v tail: the one that is there, or a new one whose own worth is log_self. */
static int find_text(retrace_backward *b, retrace_token v, const retrace_token *tail, int n,
                     double log_self, rt_posterior **out, retrace_error *err) {
    size_t mask = (size_t)b->n_table - 1;
    for (size_t i = b->n_table ? text_hash(v, tail, n) & mask : 0; b->n_table && b->table[i];
         i = (i + 1) & mask) {
        *out = b->texts[b->table[i] - 1];
        if (same_text(*out, v, tail, n)) return RETRACE_OK;
    }
    int rc = grow_table(b, err);
    if (rc == RETRACE_OK && rt_grow(&b->texts, &b->cap_texts, b->n_texts + 1, sizeof *b->texts))
        rc = rt_nomem(err);
    if (rc == RETRACE_OK) rc = rt_posterior_new(out, v, tail, n, err);
    if (rc) return rc;
    (*out)->log_self = log_self;
    b->texts[b->n_texts] = *out;
    place(b, b->n_texts++);
    return RETRACE_OK;
}

/* Makes room for an outcome that has just come to be. */
static void keep(retrace_backward *b, const rt_posterior *p) {
    b->kept += rt_posterior_size(p, b->setup.vocab);
    while (b->kept > KEPT_BYTES) {
        rt_posterior *oldest = NULL;
        for (int i = 0; i < b->n_texts; i++) {
            rt_posterior *t = b->texts[i];
            if (t == p || t->phase != RT_READY) continue;
            if (!oldest || t->used < oldest->used) oldest = t;
        }
        if (!oldest) return;
        b->kept -= rt_posterior_size(oldest, b->setup.vocab);
        rt_posterior_forget(oldest);
    }
}

/* ==== Life ==== */

void retrace_backward_free(retrace_backward *b) {
    if (!b) return;
    for (int i = 0; i < b->n_texts; i++) rt_posterior_free(b->texts[i]);
    for (int i = 0; b->samples && i < b->setup.o.num_samples; i++)
        retrace_free(b->samples[i].steps);
    rt_guess_free(&b->guess);
    rt_ask_free(&b->ask);
    rt_race_free(&b->race);
    retrace_free(b->texts);
    retrace_free(b->table);
    retrace_free(b->samples);
    retrace_free(b->suffix);
    retrace_free(b);
}

static int check(const retrace_model *m, const retrace_bigram *chain,
                 const retrace_backward_options *o, const retrace_token *suffix, int n,
                 retrace_error *err) {
    int rc = rt_backward_check(o, err);
    if (rc == RETRACE_OK) rc = retrace_bigram_fits(chain, m, o->shared_table, err);
    if (rc) return rc;
    if (n <= 0) return retrace_fail(err, RETRACE_EUSAGE, "the suffix is empty");
    int room = m->facts.n_ctx - chain->facts.n_anchor - 1;
    if (n > room)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "the suffix has %d tokens; with what stands before it %d fit", n,
                            room > 0 ? room : 0);
    for (int i = 0; i < n; i++)
        if (suffix[i] < 0 || suffix[i] >= m->facts.vocab)
            return retrace_fail(err, RETRACE_EUSAGE,
                                "suffix: token %d at %d is outside the vocabulary of %d",
                                (int)suffix[i], i, m->facts.vocab);
    return RETRACE_OK;
}

static int start_row(const retrace_model *m) {
    for (int v = 0; v < m->facts.vocab; v++)
        if (rt_chain_starts(m, v)) return v;
    return -1;
}

static int fill(retrace_backward *b, retrace_model *m, const retrace_bigram *chain,
                const retrace_backward_options *o, const retrace_token *suffix, int n,
                retrace_error *err) {
    b->setup = (rt_setup){.model = m,
                          .chain = chain,
                          .o = *o,
                          .vocab = m->facts.vocab,
                          .anchor = chain->facts.anchor,
                          .n_anchor = chain->facts.n_anchor,
                          .start = m->facts.start,
                          .start_row = start_row(m)};
    b->stats.log_f = NAN;
    b->suffix = retrace_alloc((size_t)n * sizeof *suffix);
    b->samples = retrace_calloc((size_t)o->num_samples, sizeof *b->samples);
    if (!b->suffix || !b->samples) return rt_nomem(err);
    memcpy(b->suffix, suffix, (size_t)n * sizeof *suffix);
    b->n_suffix = n;
    return RETRACE_OK;
}

/* A heuristic that was asked for by name must be possible; `mixed` does without. */
static int prepare_guess(retrace_backward *b, retrace_error *err) {
    int heuristic = b->setup.o.heuristic;
    if (heuristic == RETRACE_BIGRAM) return RETRACE_OK;
    int rc = rt_guess_new(&b->guess, &b->setup, err);
    if (rc || b->guess.usable || heuristic == RETRACE_MIXED) return rc;
    return retrace_fail(err, RETRACE_EUSAGE,
                        "heuristic: this model cannot be asked in English, or not in its context");
}

int retrace_backward_new(retrace_backward **out, retrace_model *m, const retrace_bigram *chain,
                         const retrace_backward_options *o, const retrace_token *suffix,
                         int n_suffix, retrace_error *err) {
    rt_clear(err);
    int rc = check(m, chain, o, suffix, n_suffix, err);
    if (rc) return rc;
    retrace_backward *b = retrace_calloc(1, sizeof *b);
    if (!b) return rt_nomem(err);
    rc = fill(b, m, chain, o, suffix, n_suffix, err);
    if (rc == RETRACE_OK) rc = prepare_guess(b, err);
    if (rc) {
        retrace_backward_free(b);
        return rc;
    }
    *out = b;
    return RETRACE_OK;
}

/* ==== Questions ==== */

static void pose(retrace_backward *b, asked what, retrace_query *q, int n) {
    b->asked = what;
    b->queries = q;
    b->n_queries = n;
}

static void pose_batch(retrace_backward *b, asked what) {
    pose(b, what, b->ask.q, b->ask.n);
}

/* f of the suffix itself: the chain's factor, and what the model has to say. The row of a token of
 * the start state is no such factor: it tells what follows a document's start. */
static int begin_self(retrace_backward *b, rt_posterior *p, retrace_error *err) {
    const rt_setup *s = &b->setup;
    double log_f = log(retrace_bigram_pi(s->chain)[p->suffix[0]]);
    int known = s->o.shared_table || rt_chain_starts(s->model, p->suffix[0]) ? 1 : 2;
    if (p->n > 1 && known == 2) {
        double *row = retrace_alloc((size_t)s->vocab * sizeof *row);
        if (!row) return rt_nomem(err);
        int rc = retrace_bigram_row(s->chain, p->suffix[0], row, err);
        log_f += rc ? 0 : row[p->suffix[1]];
        retrace_free(row);
        if (rc) return rc;
    }
    b->own_part = log_f;
    if (p->n <= known || log_f == -INFINITY) {
        b->stats.log_f = p->log_self = log_f;
        return RETRACE_OK;
    }
    int rc = rt_ask_begin(&b->ask, s, p, 1, err);
    if (rc) return rc;
    rt_ask_self(&b->ask, s, p, known);
    pose_batch(b, SELF);
    return RETRACE_OK;
}

static int begin_guess(retrace_backward *b, rt_posterior *p) {
    if (!b->guess.usable || !rt_posterior_asks(p, &b->setup)) return RETRACE_DONE;
    rt_guess_ask(&b->guess, &b->setup, p->suffix, p->n);
    pose(b, GUESS, b->guess.q, b->guess.n);
    return RETRACE_OK;
}

/* A batch of chosen candidates that are not complete; DONE when all are. */
static int begin_factors(retrace_backward *b, rt_posterior *p, retrace_error *err) {
    int most = (int)b->setup.o.batch_size;
    int rc = rt_ask_begin(&b->ask, &b->setup, p, most, err);
    for (int k = 0; k < p->n_chosen && b->ask.n < most && rc == RETRACE_OK; k++) {
        int index = p->chosen[k];
        if (p->depth[index] < p->n && p->log_u[index] > -INFINITY)
            rc = rt_ask_add(&b->ask, &b->setup, p, index, p->n, err);
    }
    if (rc) return rc;
    if (b->ask.n == 0) return RETRACE_DONE;
    pose_batch(b, FACTORS);
    return RETRACE_OK;
}

/* ==== One text's posterior ==== */

static int needs_pilot(const rt_posterior *p, const rt_setup *s) {
    int estimates = s->o.mode == RETRACE_PRIORITY || s->o.mode == RETRACE_EXACT;
    int known = p->n == 1 && !s->o.shared_table;
    return estimates && s->o.threshold > 0 && s->o.threshold < 1 && !known;
}

static int choose(rt_posterior *p, const rt_setup *s, int pilot, retrace_error *err) {
    p->phase = pilot ? RT_PILOT : rt_round_size(p, s) > 0 ? RT_ROUND : RT_SAMPLE;
    return rt_posterior_choose(p, s, err);
}

/* Everything chosen is complete. */
static int go_on(retrace_backward *b, rt_posterior *p, retrace_error *err) {
    const rt_setup *s = &b->setup;
    if (p->phase == RT_PILOT || p->phase == RT_ROUND) {
        int rc = p->phase == RT_PILOT ? rt_posterior_measure(p, s, err) : rt_round_learn(p, s, err);
        return rc ? rc : choose(p, s, 0, err);
    }
    if (s->o.mode == RETRACE_COMPAT && rt_posterior_more(p, s) == RETRACE_OK) return RETRACE_OK;
    int rc = rt_posterior_conclude(p, s, err);
    b->stats.candidates += p->touched;
    if (rc == RETRACE_OK) keep(b, p);
    return rc;
}

/* One move towards the outcome. */
static int prepare(retrace_backward *b, rt_posterior *p, retrace_error *err) {
    const rt_setup *s = &b->setup;
    int rc;
    switch (p->phase) {
    case RT_NEW: return rt_posterior_open(p, s, err);
    case RT_GUESSING:
        rc = begin_guess(b, p);
        if (rc == RETRACE_DONE) rc = rt_posterior_propose(p, s, NULL, err);
        if (rc == RETRACE_OK && b->asked == NOTHING) rc = choose(p, s, needs_pilot(p, s), err);
        return rc;
    default: rc = begin_factors(b, p, err); return rc == RETRACE_DONE ? go_on(b, p, err) : rc;
    }
}

/* The questions have been answered. */
static int take(retrace_backward *b, rt_posterior *p, retrace_error *err) {
    const rt_setup *s = &b->setup;
    asked what = b->asked;
    b->asked = NOTHING;
    for (int i = 0; i < b->n_queries; i++) b->stats.evaluated += b->queries[i].evaluated;
    int n = b->ask.n, rc = RETRACE_OK, before = p->touched;
    if (what == SELF) {
        b->stats.log_f = p->log_self = b->own_part + rt_ask_sum(&b->ask, s, p, 0);
    } else if (what == GUESS) {
        rc = rt_posterior_propose(p, s, &b->guess, err);
        if (rc == RETRACE_OK) rc = choose(p, s, needs_pilot(p, s), err);
    } else {
        rt_ask_take(&b->ask, s, p);
    }
    if (what == RACE) {
        rt_race_took(&b->race, s, p, b->ask.index, n);
        b->stats.candidates += p->touched - before;
    }
    return rc;
}

/* ==== Samples ==== */

static int has_room(const retrace_backward *b, const sample *m) {
    return b->setup.n_anchor + 1 + m->at->n <= b->setup.model->facts.n_ctx;
}

static int is_complete(const retrace_backward *b, const sample *m) {
    return m->started || m->blocked || m->n_steps >= b->setup.o.max_tokens || !has_room(b, m);
}

static int begin_sample(retrace_backward *b, retrace_error *err) {
    sample *m = &b->samples[b->current];
    b->n_started = b->current + 1;
    return find_text(b, b->suffix[0], b->suffix + 1, b->n_suffix - 1, NAN, &m->at, err);
}

/* An exact draw: RETRACE_DONE with *winner, RETRACE_OK when questions were asked. */
static int run_race(retrace_backward *b, rt_posterior *p, int *winner, retrace_error *err) {
    const rt_setup *s = &b->setup;
    int rc = RETRACE_OK;
    if (!b->racing) rc = rt_race_new(&b->race, s, p, b->current, err);
    b->racing = 1;
    if (rc == RETRACE_OK) rc = rt_ask_begin(&b->ask, s, p, (int)s->o.batch_size, err);
    if (rc == RETRACE_OK) rc = rt_race_next(&b->race, s, p, &b->ask, winner, err);
    if (rc) return rc;
    if (b->ask.n > 0) {
        pose_batch(b, RACE);
        return RETRACE_OK;
    }
    rt_race_free(&b->race);
    b->racing = 0;
    return RETRACE_DONE;
}

static int put_step(retrace_backward *b, sample *m, const retrace_backward_step *step,
                    retrace_error *err) {
    if (rt_grow(&m->steps, &m->cap_steps, m->n_steps + 1, sizeof *m->steps)) return rt_nomem(err);
    double log_self = step->drawn.log_prior + step->drawn.log_likelihood;
    rt_posterior *p = m->at;
    if (step->drawn.id != RETRACE_START) {
        int rc = find_text(b, step->drawn.id, p->suffix, p->n, log_self, &m->at, err);
        if (rc) return rc;
    }
    p->uses++;
    p->used = ++b->uses;
    m->steps[m->n_steps++] = *step;
    m->log_q += step->log_q;
    m->started = step->drawn.id == RETRACE_START;
    b->event = (retrace_backward_event){RETRACE_STEPPED, b->current, &m->steps[m->n_steps - 1]};
    b->stepped = 1;
    return RETRACE_OK;
}

static int draw(retrace_backward *b, sample *m, retrace_error *err) {
    rt_posterior *p = m->at;
    if (p->nothing && p->complete && m->n_steps == 0)
        return retrace_fail(err, RETRACE_EUSAGE, "nothing can precede the suffix");
    int winner = -1, race = b->setup.o.mode == RETRACE_EXACT && !p->complete;
    if (race) {
        int rc = run_race(b, p, &winner, err);
        if (rc != RETRACE_DONE) return rc;
    }
    if (race ? winner < 0 : p->nothing) {
        m->blocked = 1;
        return RETRACE_OK;
    }
    retrace_backward_step step;
    int rc = rt_backward_draw(p, &b->setup, b->current, m->n_steps, winner, &step, err);
    return rc ? rc : put_step(b, m, &step, err);
}

/* (sum w)^2 / sum w^2 of the samples that are done. */
static double effective(const retrace_backward *b) {
    double max = -INFINITY, sum = 0, squares = 0;
    retrace_backward_sample x;
    for (int i = 0; retrace_backward_at(b, i, &x); i++)
        if (x.done) max = fmax(max, x.log_w);
    for (int i = 0; max > -INFINITY && retrace_backward_at(b, i, &x); i++) {
        double w = x.done ? exp(x.log_w - max) : 0;
        sum += w;
        squares += w * w;
    }
    return squares > 0 ? sum * sum / squares : 0;
}

static void end_sample(retrace_backward *b, sample *m) {
    m->done = 1;
    b->event = (retrace_backward_event){RETRACE_SAMPLED, b->current, NULL};
    b->stepped = 1;
    b->current++;
}

/* One move: ends with an event, a question, or something done. */
static int move(retrace_backward *b, retrace_error *err) {
    sample *m = &b->samples[b->current];
    if (!m->at) return begin_sample(b, err);
    rt_posterior *p = m->at;
    if (b->asked != NOTHING) return take(b, p, err);
    /* Its own worth is what a text without steps has to show. */
    if (isnan(p->log_self)) return begin_self(b, p, err);
    if (is_complete(b, m)) return end_sample(b, m), RETRACE_OK;
    return p->phase == RT_READY ? draw(b, m, err) : prepare(b, p, err);
}

int retrace_backward_next(retrace_backward *b, retrace_backward_need *need, retrace_error *err) {
    rt_clear(err);
    *need = (retrace_backward_need){.kind = RETRACE_NEED_NOTHING};
    if (b->failed) return retrace_fail(err, RETRACE_EUSAGE, "backward sampling has failed before");
    for (int i = 0; b->asked != NOTHING && i < b->n_queries; i++)
        if (!b->queries[i].answered)
            return retrace_fail(err, RETRACE_EUSAGE, "the questions have not been answered");
    b->stepped = 0;
    do {
        if (b->current >= b->setup.o.num_samples) return RETRACE_DONE;
        int rc = move(b, err);
        if (rc) {
            b->failed = 1;
            return rc;
        }
    } while (!b->stepped && b->asked == NOTHING);
    need->kind = b->stepped ? RETRACE_EVENT : RETRACE_NEED_MODEL;
    need->event = b->stepped ? &b->event : NULL;
    need->queries = b->stepped ? NULL : b->queries;
    need->n_queries = b->stepped ? 0 : b->n_queries;
    return RETRACE_OK;
}

int retrace_backward_finish(retrace_backward *b, retrace_backward_fn *each, void *ud,
                            retrace_error *err) {
    retrace_backward_need need;
    int rc;
    while ((rc = retrace_backward_next(b, &need, err)) == RETRACE_OK) {
        if (need.kind == RETRACE_EVENT) {
            if (each && each(ud, need.event)) return RETRACE_OK;
            continue;
        }
        rc = retrace_model_eval(b->setup.model, need.queries, need.n_queries, err);
        if (rc) return rc;
    }
    return rc == RETRACE_DONE ? RETRACE_OK : rc;
}

/* ==== Results ==== */

/* Candidates that were left out for good bias the weights. */
static int is_improper(const rt_setup *s, const sample *m) {
    int cuts = s->o.mode == RETRACE_TOPK || s->o.mode == RETRACE_COMPAT;
    int improper = s->o.temp == 0 || s->o.top_p < 1;
    for (int i = 0; i < m->n_steps; i++) improper |= cuts && !m->steps[i].exact;
    return improper;
}

int retrace_backward_at(const retrace_backward *b, int i, retrace_backward_sample *out) {
    if (i < 0 || i >= b->n_started || !b->samples[i].at) return 0;
    const sample *m = &b->samples[i];
    double log_f = m->at->log_self;
    if (m->started) {
        const retrace_preceding *first = &m->steps[m->n_steps - 1].drawn;
        log_f = first->log_prior + first->log_likelihood;
    }
    *out = (retrace_backward_sample){
        .tokens = m->at->suffix,
        .n = m->at->n,
        .steps = m->steps,
        .n_steps = m->n_steps,
        .done = m->done,
        .started = m->started,
        .blocked = m->blocked,
        .improper = is_improper(&b->setup, m),
        .log_f = log_f,
        .log_q = m->log_q,
        .log_w = m->blocked ? -INFINITY : log_f - m->log_q,
    };
    return 1;
}

void retrace_backward_totals(const retrace_backward *b, retrace_backward_stats *out) {
    *out = b->stats;
    out->ess = effective(b);
}
