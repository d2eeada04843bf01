/* watch.h - an answer and everything that was seen of it, and what must hold for every run.
 *
 * The stream of events is applied to a plain list of tokens; at the end list, text, tree and
 * figures must agree. For tests (through helper.h) and fuzz targets alike. */
#ifndef RT_WATCH_H
#define RT_WATCH_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "retrace.h"

/* A program need not use all of this. */
#if defined(__GNUC__)
#define UNUSED_OK __attribute__((unused))
#else
#define UNUSED_OK
#endif

enum { MAX_ANSWER = 8192, MAX_NODES = 1 << 16 };

/* Everything is a copy. */
typedef struct answer {
    char text[4 * MAX_ANSWER];
    char streamed[4 * MAX_ANSWER]; /* joined from SETTLE events */
    size_t n_text, n_streamed;
    retrace_token tokens[MAX_ANSWER];
    int n_tokens;
    retrace_finish finish;
    retrace_stats stats;
    int pushes, erases, settles, ends;
    int first_settle; /* pushes before the first text settled; -1: none did before the end */
    int settled;      /* the last SETTLE's position */
    /* What the events alone lead to. */
    retrace_token path[MAX_ANSWER];
    int nodes[MAX_ANSWER + 1];
    int n_path;
    struct {
        int parent; /* -1: not seen yet */
        retrace_token id;
    } tree[MAX_NODES];
    int n_tree;
    const char *wrong; /* the first promise that was broken */
} answer;

static void blame(answer *a, const char *what) {
    if (!a->wrong) a->wrong = what;
}

UNUSED_OK static void answer_start(answer *a) {
    a->n_text = a->n_streamed = 0;
    a->text[0] = a->streamed[0] = 0;
    a->n_tokens = a->n_path = a->n_tree = 0;
    a->finish = RETRACE_FINISH_NONE;
    memset(&a->stats, 0, sizeof a->stats);
    a->pushes = a->erases = a->settles = a->ends = a->settled = 0;
    a->first_settle = -1;
    a->nodes[0] = 0;
    a->wrong = NULL;
}

/* A node is one token after one parent, whenever it is named. */
static void see_node(answer *a, int node, int parent, retrace_token id) {
    assert(node < MAX_NODES);
    if (node <= 0) {
        blame(a, "PUSH to the place after the prompt");
        return;
    }
    while (a->n_tree <= node) a->tree[a->n_tree++].parent = -1;
    if (a->tree[node].parent < 0) {
        a->tree[node].parent = parent;
        a->tree[node].id = id;
    }
    if (a->tree[node].parent != parent || a->tree[node].id != id) blame(a, "one node, two places");
}

static void see_push(answer *a, const retrace_event *e) {
    assert(a->n_path < MAX_ANSWER);
    if (e->pos != a->n_path) blame(a, "PUSH at another position than the head's");
    if (e->parent != a->nodes[a->n_path]) blame(a, "PUSH after another node than the head");
    see_node(a, e->node, e->parent, e->id);
    a->path[a->n_path++] = e->id;
    a->nodes[a->n_path] = e->node;
    a->pushes++;
}

static void see_erase(answer *a, const retrace_event *e) {
    a->erases++;
    if (e->to < 0 || e->to >= a->n_path) {
        blame(a, "ERASE of nothing");
        return;
    }
    if (e->to < a->settled) blame(a, "ERASE of settled tokens");
    if (e->node != a->nodes[e->to]) blame(a, "ERASE to another node than the one at its position");
    if (!e->rule || !e->rule[0]) blame(a, "ERASE by nobody");
    a->n_path = e->to;
}

static void see_settle(answer *a, const retrace_event *e) {
    if (e->to < a->settled) blame(a, "SETTLE went back");
    if (e->to > a->n_path) blame(a, "SETTLE beyond the head");
    if (e->text.n && a->first_settle < 0) a->first_settle = a->pushes;
    a->settled = e->to;
    a->settles++;
    assert(a->n_streamed + e->text.n < sizeof a->streamed);
    if (e->text.n) memcpy(a->streamed + a->n_streamed, e->text.s, e->text.n);
    a->n_streamed += e->text.n;
}

static void see_end(answer *a, const retrace_event *e) {
    a->ends++;
    a->finish = e->finish;
    if (e->text.n != a->n_streamed ||
        memcmp(e->text.s ? e->text.s : "", a->streamed, e->text.n) != 0)
        blame(a, "the text of END is not the streamed text");
}

UNUSED_OK static void see(answer *a, const retrace_event *e) {
    if (a->ends) blame(a, "an event after END");
    switch (e->kind) {
    case RETRACE_PUSH: see_push(a, e); break;
    case RETRACE_ERASE: see_erase(a, e); break;
    case RETRACE_SETTLE: see_settle(a, e); break;
    case RETRACE_NOTE: break;
    case RETRACE_END: see_end(a, e); break;
    }
}

UNUSED_OK static int see_event(void *ud, const retrace_event *e) {
    see(ud, e);
    return 0;
}

UNUSED_OK static void answer_end(answer *a, const retrace_run *run) {
    retrace_text t = retrace_run_text(run);
    assert(t.n < sizeof a->text);
    if (t.n) memcpy(a->text, t.s, t.n);
    a->text[t.n] = 0;
    a->n_text = t.n;
    a->streamed[a->n_streamed] = 0;
    const retrace_token *tokens = retrace_run_tokens(run, &a->n_tokens);
    assert(a->n_tokens <= MAX_ANSWER);
    if (a->n_tokens) memcpy(a->tokens, tokens, (size_t)a->n_tokens * sizeof *tokens);
    retrace_run_stats(run, &a->stats);
    if (retrace_run_finished(run) != a->finish) blame(a, "END and retrace_run_finished differ");
}

/* The pieces make the text, but for a stop text that began within the last one. */
static const char *joined_differs(const retrace_model *m, const answer *a) {
    size_t at = 0;
    for (int i = 0; i < a->n_tokens; i++) {
        retrace_text p = retrace_piece(m, a->tokens[i]);
        size_t n = p.n < a->n_text - at ? p.n : a->n_text - at;
        if (n && memcmp(p.s, a->text + at, n) != 0) return "text and tokens differ";
        if (n < p.n && (i + 1 < a->n_tokens || a->finish != RETRACE_FINISH_STOP))
            return "the text ends before its tokens";
        at += n;
    }
    return at == a->n_text ? NULL : "the text is longer than its tokens";
}

/* What holds for every run that has ended, whatever its settings. NULL, or what does not. */
UNUSED_OK static const char *broken(const retrace_model *m, const answer *a) {
    const retrace_stats *s = &a->stats;
    if (a->wrong) return a->wrong;
    if (a->ends != 1) return "not one END";
    if (a->finish == RETRACE_FINISH_NONE) return "no finish";
    if (a->n_path != a->n_tokens) return "events lead to another number of tokens";
    if (a->n_path && memcmp(a->path, a->tokens, (size_t)a->n_path * sizeof a->path[0]) != 0)
        return "events lead to other tokens";
    if (a->settled != a->n_tokens) return "not all settled at the end";
    if (a->n_streamed != a->n_text || memcmp(a->streamed, a->text, a->n_text) != 0)
        return "streamed text is not the text";
    if (s->kept != a->n_tokens) return "kept is not the number of tokens";
    if (s->kept + s->erased != a->pushes) return "kept + erased is not the number of pushes";
    if (s->evaluated - s->reevaluated > s->kept + s->erased) return "evaluated more than was drawn";
    if (s->prompt_evaluated < 0 || s->prompt_evaluated > s->prompt)
        return "more of the prompt was evaluated than there is";
    if (s->reevaluated < 0 || s->rewinds < 0 || s->accepted < 0 || s->held_max_bytes < 0)
        return "a negative figure";
    return joined_differs(m, a);
}

#endif
