/* trace.h - the tree of everything a run has tried. */
#ifndef RT_TRACE_H
#define RT_TRACE_H

#include "dist.h"

/* A place: the token that led here, what is banned after it, its distribution, the rules' marks. */
typedef struct rt_node {
    int id, parent, child, sibling; /* node ids; -1: none. child is the newest one */
    int depth;                      /* generated tokens up to and including this one; 0: the root */
    retrace_token token;            /* -1 at the root */
    int draws;                      /* draws made here */
    int n_bans, cap_bans;
    retrace_token *bans; /* in the order they came */
    retrace_dist *dist;  /* after this place; NULL: not known or dropped */
    char *mark;          /* all rules' marks, in the run's layout; NULL when they have none */
    retrace_sampled *sampled; /* how token was drawn; NULL: not asked for, or not drawn */
    double logp;         /* of token, the model's own; NAN: not asked for */
    retrace_candidate *top;
    int n_top;
    unsigned char marked;    /* marks hold something to release */
    unsigned char evaluated; /* the model has seen this place */
    unsigned char exempt;    /* a hit that would erase to here is let through; 2: one was */
} rt_node;

enum { RT_CHUNK = 256 };

/* Nodes lie in chunks, so a pointer to one stays valid. */
typedef struct rt_trace {
    rt_node **chunks;
    char **marks;
    int n_chunks, cap_chunks, n;
    size_t mark_size; /* of one node, a multiple of 16 */
} rt_trace;

/* Makes the root. */
int rt_trace_init(rt_trace *t, size_t mark_size);
/* Releases all; marks that own memory must have been released before. */
void rt_trace_free(rt_trace *t);

rt_node *rt_trace_node(const rt_trace *t, int id);
/* The child of `parent` with that token, NULL when there is none. */
rt_node *rt_trace_child(const rt_trace *t, const rt_node *parent, retrace_token token);
/* A new child. NULL: out of memory. */
rt_node *rt_trace_add(rt_trace *t, rt_node *parent, retrace_token token);

/* Adds a ban unless it is there. RETRACE_OK, RETRACE_DONE when it was there, RETRACE_ENOMEM. */
int rt_node_ban(rt_node *node, retrace_token token);

#endif
