/* trace.c - the tree of everything a run has tried.
 *
 *        (prompt) root --- The --- cat --- sat        head
 *                             \
 *                              --- testament --- to   erased: still here, with bans and
 * distribution
 *
 * Erasing moves the head and destroys nothing. What was learned at a place (what is banned there,
 * the distribution, the rules' marks) hangs on the place, so a ban holds for exactly this context
 * and a place that is visited again is as it was left. */
#include "trace.h"
#include "base.h"

#include <math.h>
#include <string.h>

static int add_chunk(rt_trace *t) {
    int cap = t->cap_chunks;
    if (rt_grow(&t->chunks, &t->cap_chunks, t->n_chunks + 1, sizeof *t->chunks))
        return RETRACE_ENOMEM;
    if (rt_grow(&t->marks, &cap, t->n_chunks + 1, sizeof *t->marks)) {
        t->cap_chunks = cap; /* room is what both have */
        return RETRACE_ENOMEM;
    }
    rt_node *nodes = retrace_calloc(RT_CHUNK, sizeof *nodes);
    char *marks = t->mark_size ? retrace_calloc(RT_CHUNK, t->mark_size) : NULL;
    if (!nodes || (t->mark_size && !marks)) {
        retrace_free(nodes);
        retrace_free(marks);
        return RETRACE_ENOMEM;
    }
    t->chunks[t->n_chunks] = nodes;
    t->marks[t->n_chunks++] = marks;
    return RETRACE_OK;
}

static rt_node *new_node(rt_trace *t, int parent, int depth, retrace_token token) {
    if (t->n == t->n_chunks * RT_CHUNK && add_chunk(t)) return NULL;
    rt_node *node = rt_trace_node(t, t->n);
    char *marks = t->marks[t->n / RT_CHUNK];
    *node = (rt_node){.id = t->n++,
                      .parent = parent,
                      .child = -1,
                      .sibling = -1,
                      .depth = depth,
                      .token = token,
                      .span = -1,
                      .live = 1,
                      .logp = NAN};
    node->mark = marks ? marks + (size_t)(node->id % RT_CHUNK) * t->mark_size : NULL;
    return node;
}

int rt_trace_init(rt_trace *t, size_t mark_size) {
    *t = (rt_trace){.mark_size = mark_size};
    return new_node(t, -1, 0, -1) ? RETRACE_OK : RETRACE_ENOMEM;
}

static void free_tries(rt_try *t) {
    while (t) {
        rt_try *next = t->next;
        retrace_free(t->best);
        retrace_free(t);
        t = next;
    }
}

void rt_trace_free(rt_trace *t) {
    for (int i = 0; i < t->n; i++) {
        rt_node *node = rt_trace_node(t, i);
        rt_keep_drop(node->dist);
        retrace_free(node->bans);
        retrace_free(node->top);
        retrace_free(node->soft);
        retrace_free(node->sampled);
        free_tries(node->tries);
    }
    for (int i = 0; i < t->n_chunks; i++) {
        retrace_free(t->chunks[i]);
        retrace_free(t->marks[i]);
    }
    retrace_free(t->chunks);
    retrace_free(t->marks);
    *t = (rt_trace){0};
}

rt_node *rt_trace_node(const rt_trace *t, int id) {
    return &t->chunks[id / RT_CHUNK][id % RT_CHUNK];
}

rt_node *rt_trace_child(const rt_trace *t, const rt_node *parent, retrace_token token) {
    for (int id = parent->child; id >= 0;) {
        rt_node *node = rt_trace_node(t, id);
        if (node->token == token) return node;
        id = node->sibling;
    }
    return NULL;
}

rt_node *rt_trace_add(rt_trace *t, rt_node *parent, retrace_token token) {
    rt_node *node = new_node(t, parent->id, parent->depth + 1, token);
    if (!node) return NULL;
    node->sibling = parent->child;
    parent->child = node->id;
    return node;
}

static int find_ban(const rt_node *node, retrace_token token) {
    for (int i = 0; i < node->n_bans; i++) {
        if (node->bans[i] == token) return i;
    }
    return -1;
}

int rt_node_banned(const rt_node *node, retrace_token token) {
    return find_ban(node, token) >= 0;
}

int rt_node_banned_hard(const rt_node *node, retrace_token token) {
    int at = find_ban(node, token);
    return at >= 0 && !node->soft[at];
}

int rt_node_ban(rt_node *node, retrace_token token, int soft) {
    int at = find_ban(node, token), cap = node->cap_bans;
    if (at >= 0) {
        if (!soft && node->soft[at]) node->soft[at] = 0, node->n_soft--;
        return RETRACE_DONE;
    }
    if (rt_grow(&node->bans, &cap, node->n_bans + 1, sizeof *node->bans)) return RETRACE_ENOMEM;
    if (rt_grow(&node->soft, &node->cap_bans, node->n_bans + 1, 1)) return RETRACE_ENOMEM;
    node->bans[node->n_bans] = token;
    node->soft[node->n_bans++] = (unsigned char)soft;
    node->n_soft += soft;
    return RETRACE_OK;
}

void rt_node_lift(rt_node *node) {
    int n = 0;
    for (int i = 0; i < node->n_bans; i++) {
        if (node->soft[i]) continue;
        node->soft[n] = 0;
        node->bans[n++] = node->bans[i];
    }
    node->n_bans = n;
    node->n_soft = 0;
}

rt_try *rt_node_tried(const rt_node *node, int rule) {
    rt_try *t = node->tries;
    while (t && t->rule != rule) t = t->next;
    return t;
}

rt_try *rt_node_try(rt_node *node, int rule) {
    rt_try *t = rt_node_tried(node, rule);
    if (t) return t;
    t = retrace_calloc(1, sizeof *t);
    if (!t) return NULL;
    t->rule = rule;
    t->next = node->tries;
    node->tries = t;
    return t;
}
