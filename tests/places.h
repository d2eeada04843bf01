/* places.h - one rule on a run made by hand: every place has the distribution that the test gives
 * it, and the test says what is pushed and what is erased. */
#ifndef RT_PLACES_H
#define RT_PLACES_H

#include "helper.h"

#include "run.h"

enum { HAND_PLACES = 64, HAND_VOCAB = 8 };

static struct {
    retrace_run run;
    rt_watch watch;
    retrace_rule rule;
    int path[HAND_PLACES + 1];
    retrace_token tokens[2 * HAND_PLACES];
    size_t ends[HAND_PLACES];
    char text[16 * HAND_PLACES];
    retrace_dist dists[HAND_PLACES * 4];
    float logits[HAND_PLACES * 4][HAND_VOCAB];
    int n_dists;
    retrace_proposal p; /* of the last judgement */
    retrace_error err;
} hand;

UNUSED_OK static void hand_close(void) {
    const retrace_rule_type *type = hand.rule.type;
    if (!type) return;
    for (int i = 0; i < hand.run.trace.n; i++) rt_trace_node(&hand.run.trace, i)->dist = NULL;
    rt_trace_free(&hand.run.trace);
    if (type->fini) type->fini(hand.rule.self);
    retrace_settings_free(hand.rule.self, type->settings);
    retrace_free(hand.rule.self);
    retrace_free(hand.p.force);
    memset(&hand, 0, sizeof hand);
}

/* Settings as in make_rule. */
static int hand_fill(const retrace_rule_type *type, const char *const *pairs) {
    retrace_setting s[32];
    int n = 0;
    for (; pairs[2 * n]; n++) s[n] = (retrace_setting){pairs[2 * n], text_of(pairs[2 * n + 1])};
    hand.rule.type = type;
    hand.rule.self = retrace_calloc(1, type->size);
    assert_non_null(hand.rule.self);
    int rc = retrace_settings_fill(hand.rule.self, type->settings, s, n, type->name, &hand.err);
    if (rc == RETRACE_OK && type->init) rc = type->init(hand.rule.self, &hand.err);
    return rc;
}

UNUSED_OK static void hand_start(const retrace_rule_type *type, const char *const *pairs,
                                 retrace_model *m, const retrace_token *prompt, int n_prompt) {
    hand_close();
    if (hand_fill(type, pairs)) fail_msg("%s", hand.err.msg);
    hand.run.model = m;
    hand.watch.rule = &hand.rule;
    hand.run.watch = &hand.watch;
    hand.run.n_watch = 1;
    hand.run.path = hand.path;
    hand.run.tokens = hand.tokens;
    hand.run.ends = hand.ends;
    hand.run.text.s = hand.text;
    hand.run.drawn.node = -1;
    hand.run.n_prompt = n_prompt;
    for (int i = 0; i < n_prompt; i++) hand.tokens[i] = prompt[i];
    assert_int_equal(rt_trace_init(&hand.run.trace, (type->mark_size + 31) / 16 * 16), RETRACE_OK);
    retrace_view v;
    rt_view(&hand.run, 0, 0, RETRACE_GOING, &v);
    if (type->start)
        assert_int_equal(type->start(hand.rule.self, &v, rt_head(&hand.run)->mark, NULL),
                         RETRACE_OK);
}

/* Gives the head this distribution, unless it has one. */
UNUSED_OK static void hand_place(const float *logits, int n) {
    rt_node *node = rt_head(&hand.run);
    if (node->dist) return;
    assert_true(hand.n_dists < HAND_PLACES * 4 && n <= HAND_VOCAB);
    retrace_dist *d = &hand.dists[hand.n_dists];
    memcpy(hand.logits[hand.n_dists], logits, (size_t)n * sizeof *logits);
    *d = (retrace_dist){.n = n, .logits = hand.logits[hand.n_dists++]};
    node->dist = d;
}

static int hand_ask(retrace_ending ending, void *mark) {
    retrace_view v;
    retrace_free(hand.p.force);
    hand.p = (retrace_proposal){0};
    rt_view(&hand.run, hand.run.n, 0, ending, &v);
    int rc = hand.rule.type->judge(hand.rule.self, &v, mark, &hand.p, &hand.err);
    if (rc == RETRACE_OK) return -1;
    assert_int_equal(rc, RETRACE_DONE);
    assert_in_range(hand.p.to, 0, hand.run.n - 1);
    assert_true(hand.p.why[0]);
    return hand.p.to;
}

/* Pushes a token after the head and judges it: the number of tokens to keep, or -1. */
UNUSED_OK static int hand_push_ending(retrace_token id, retrace_ending ending) {
    retrace_run *run = &hand.run;
    assert_true(run->n < HAND_PLACES);
    rt_node *parent = rt_head(run), *node = rt_trace_child(&run->trace, parent, id);
    if (!node) node = rt_trace_add(&run->trace, parent, id);
    assert_non_null(node);
    retrace_text piece = run->model ? retrace_piece(run->model, id) : text_of("");
    size_t at = run->n ? run->ends[run->n - 1] : 0;
    memcpy(hand.text + at, piece.s, piece.n);
    run->tokens[run->n_prompt + run->n] = id;
    run->ends[run->n++] = at + piece.n;
    run->path[run->n] = node->id;
    memcpy(node->mark, parent->mark, run->trace.mark_size);
    return hand_ask(ending, node->mark);
}

UNUSED_OK static int hand_push(retrace_token id) {
    return hand_push_ending(id, RETRACE_GOING);
}

/* Judges the newest token again for an ending; its mark stays as it is. */
UNUSED_OK static int hand_end(retrace_ending ending) {
    union {
        char bytes[256];
        max_align_t align;
    } mark;
    retrace_run *run = &hand.run;
    const rt_node *from = rt_trace_node(&run->trace, run->path[run->n ? run->n - 1 : 0]);
    assert_true(run->trace.mark_size <= sizeof mark);
    memcpy(&mark, from->mark, run->trace.mark_size);
    return hand_ask(ending, &mark);
}

UNUSED_OK static void hand_erase(int to) {
    hand.run.n = to;
}

UNUSED_OK static int hand_horizon(void) {
    retrace_view v;
    rt_view(&hand.run, hand.run.n, 0, RETRACE_GOING, &v);
    return hand.rule.type->horizon(hand.rule.self, &v, rt_head(&hand.run)->mark);
}

/* Says how the child with that token is drawn at the head. */
UNUSED_OK static void hand_sampled(retrace_token id, retrace_sampled s) {
    rt_node *parent = rt_head(&hand.run), *node = rt_trace_child(&hand.run.trace, parent, id);
    if (!node) node = rt_trace_add(&hand.run.trace, parent, id);
    assert_non_null(node);
    if (!node->sampled) node->sampled = retrace_alloc(sizeof s);
    assert_non_null(node->sampled);
    *node->sampled = s;
}

#endif
