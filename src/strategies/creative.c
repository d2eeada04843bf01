/* creative.c - the rule `creative`: prefers the second most probable token.
 *
 * Law: the most probable token gives up its place to the others, except where it ends the answer,
 * is a forced continuation (more probable than `forced`), or goes on with a character that the text
 * broke off in. Where this has led to a flat place, one that needs top_k_threshold_flat tokens or
 * more to reach the probability top_p_flat, the last such choice is taken back and the most
 * probable token put there. Of tries that led to flat places the one stands whose place was least
 * so: its top_k_threshold_flat - 1 best tokens had the most mass. The mark holds that choice, so
 * after a rewind it is again the last one that stands.
 *
 * One rewind may lead to another, from choice to choice. So that text can leave, the first choice
 * begins a stretch of `reach` tokens: choices are gone back to only while it lasts, and the next
 * choice after it begins another one.
 *
 * A token that gives way is not banned but made so improbable that it is drawn only when nothing
 * else is left, so this rule never makes a run stuck. */
#include "base.h"
#include "strategies.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

enum { MOST_ENDS = 8, MOST_FLAT = 1000 };

/* Taken from a logit: no other token's is so much smaller, at any temperature. */
static const double out_of_reach = 1e6;

typedef struct creative {
    double top_p_flat, eos_penalty, forced;
    int64_t top_k_threshold_flat, reach, max_retries;
} creative;

/* The last choice that another token was given the most probable one's place by. The end tokens of
 * the model are looked up once, at the start; n_ends > MOST_ENDS: they are too many to keep. */
typedef struct mark {
    int chosen; /* 1: there is one */
    int place;
    int since;          /* the place of the first choice of its stretch */
    retrace_token best; /* what gave way there */
    int n_ends;
    retrace_token ends[MOST_ENDS];
} mark;

static int start(const void *memory, const retrace_view *v, void *place, retrace_error *err) {
    mark *m = place;
    (void)memory, (void)err;
    retrace_model_info facts;
    retrace_model_facts(v->model, &facts);
    for (retrace_token i = 0; i < facts.vocab && m->n_ends <= MOST_ENDS; i++) {
        if (!retrace_token_ends(v->model, i)) continue;
        if (m->n_ends < MOST_ENDS) m->ends[m->n_ends] = i;
        m->n_ends++;
    }
    return RETRACE_OK;
}

/* ==== Who gives way ==== */

/* Does the piece go on with a character that text[0..length) broke off in? */
static int completes(const retrace_view *v, size_t length, retrace_token id) {
    retrace_text piece = retrace_piece(v->model, id);
    return rt_utf8_tail(v->text, length) > 0 && piece.n > 0 &&
           ((unsigned char)piece.s[0] & 0xC0) == 0x80;
}

/* 1 with the token that gives way at a place, given its distribution and the length of the text
 * there; 0: none does; or negative. */
static int gives_way(const creative *self, const retrace_view *v, retrace_dist *d, size_t length,
                     retrace_token *id, retrace_error *err) {
    retrace_candidate top;
    if (!d) return 0;
    if (retrace_dist_top(d, 1, &top) == 0) return rt_nomem(err);
    *id = top.id;
    return exp(top.logp) <= self->forced && !retrace_token_ends(v->model, top.id) &&
           !completes(v, length, top.id);
}

static int penalise_ends(const creative *self, const retrace_view *v, const mark *m,
                         retrace_shape *s, retrace_error *err) {
    double x = self->eos_penalty > 0 ? log(self->eos_penalty) : -out_of_reach;
    int rc = RETRACE_OK;
    if (self->eos_penalty >= 1) return RETRACE_OK;
    for (int i = 0; i < m->n_ends && m->n_ends <= MOST_ENDS && rc == RETRACE_OK; i++)
        rc = retrace_shape_add(s, m->ends[i], x, err);
    if (m->n_ends <= MOST_ENDS) return rc;
    for (retrace_token i = 0; i < retrace_dist_size(v->next) && rc == RETRACE_OK; i++) {
        if (retrace_token_ends(v->model, i)) rc = retrace_shape_add(s, i, x, err);
    }
    return rc;
}

static int shape(const void *memory, const retrace_view *v, const void *place, retrace_shape *s,
                 retrace_error *err) {
    const creative *self = memory;
    retrace_token best;
    int rc = penalise_ends(self, v, place, s, err);
    if (rc) return rc;
    rc = gives_way(self, v, v->next, retrace_view_length(v), &best, err);
    return rc > 0 ? retrace_shape_add(s, best, -out_of_reach, err) : rc;
}

/* ==== Going back ==== */

static int judge(const void *memory, const retrace_view *v, void *place, retrace_proposal *p,
                 retrace_error *err) {
    const creative *self = memory;
    mark *m = place;
    retrace_token best;
    (void)p;
    if (v->n == 0) return RETRACE_OK;
    int rc = gives_way(self, v, v->drawn, retrace_view_start(v), &best, err);
    if (rc < 0) return rc;
    if (rc == 0 || v->tokens[v->n - 1] == best) return RETRACE_OK;
    if (!m->chosen || v->n - 1 - m->since >= self->reach) m->since = v->n - 1;
    m->chosen = 1;
    m->place = v->n - 1;
    m->best = best;
    return RETRACE_OK;
}

static int in_reach(const creative *self, const retrace_view *v, const mark *m) {
    return m->chosen && v->n - m->since <= self->reach;
}

/* 1 when the place is flat, 0 when not, or negative; *mass: of one token less than would make it
 * so. */
static int flat(const creative *self, retrace_dist *d, double *mass, retrace_error *err) {
    retrace_candidate top[MOST_FLAT];
    int k = (int)self->top_k_threshold_flat - 1, n = retrace_dist_top(d, k, top);
    if (k > 0 && n == 0) return rt_nomem(err);
    *mass = 0;
    for (int i = 0; i < n; i++) *mass += exp(top[i].logp);
    return *mass < self->top_p_flat;
}

static int review(const void *memory, const retrace_view *v, const void *place, retrace_proposal *p,
                  retrace_error *err) {
    const creative *self = memory;
    const mark *m = place;
    double mass;
    if (!in_reach(self, v, m)) return RETRACE_OK;
    int rc = flat(self, v->next, &mass, err);
    if (rc <= 0) return rc;
    p->force = retrace_alloc(sizeof *p->force);
    if (!p->force) return rt_nomem(err);
    p->force[0] = m->best;
    p->n_force = 1;
    p->to = m->place;
    p->max_retries = (int)self->max_retries;
    p->measure = mass;
    snprintf(p->why, sizeof p->why, "flat: %d tokens have %.3g, limit %.3g",
             (int)self->top_k_threshold_flat - 1, mass, self->top_p_flat);
    return RETRACE_DONE;
}

static int horizon(const void *memory, const retrace_view *v, const void *place) {
    const mark *m = place;
    return in_reach(memory, v, m) ? m->place : v->n;
}

/* ==== The table ==== */

static const retrace_setting_info settings[] = {
    {"top_p_flat", RETRACE_REAL, offsetof(creative, top_p_flat), "0.65", 0, 1, NULL,
     "the probability that a few tokens reach where the place is not flat; 0: none is"},
    {"top_k_threshold_flat", RETRACE_INT, offsetof(creative, top_k_threshold_flat), "9", 1,
     MOST_FLAT, NULL, "a place that needs as many tokens for that is flat"},
    {"eos_penalty", RETRACE_REAL, offsetof(creative, eos_penalty), "0.8", 0, 1, NULL,
     "factor on the weight of tokens that end the answer; 1: none, 0: only when nothing else is "
     "left"},
    {"forced", RETRACE_REAL, offsetof(creative, forced), "0.99", 0, 1, NULL,
     "a token more probable than this does not give way; 1: any does"},
    {"reach", RETRACE_INT, offsetof(creative, reach), "32", 1, 1000000, NULL,
     "tokens from the first of several choices to where they are settled"},
    {"max_retries", RETRACE_INT, offsetof(creative, max_retries), "1", 1, 1000, NULL,
     "tries at one place before the best of them is kept"},
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_creative = {
    .abi = RETRACE_ABI,
    .name = "creative",
    .help = "prefers the second most probable token, and goes back where that leads nowhere",
    .settings = settings,
    .size = sizeof(creative),
    .mark_size = sizeof(mark),
    .start = start,
    .shape = shape,
    .judge = judge,
    .review = review,
    .horizon = horizon,
};
