/* trace.h - the tree of everything a run has tried. */
#ifndef RT_TRACE_H
#define RT_TRACE_H

#include "dist.h"

/* What one rule has done at a place that it went back to. */
typedef struct rt_try {
    struct rt_try *next;
    int rule;
    int tries;              /* times it went back here, soft */
    unsigned char spent;    /* soft: it does not go back here any more */
    unsigned char banned;   /* soft: it has a ban here */
    unsigned char forced;   /* it has put a text here once */
    unsigned char ban_soft; /* the ban below would be a soft one */
    retrace_token instead;  /* banned when the forced text is withdrawn */
    double measure;         /* of the best try */
    retrace_token *best;    /* its tokens; NULL: none */
    int n_best;
} rt_try;

/* A place: the token that led here, what is banned after it, its distribution, the rules' marks. */
typedef struct rt_node {
    int id, parent, child, sibling; /* node ids; -1: none. child is the newest one */
    int depth;                      /* generated tokens up to and including this one; 0: the root */
    retrace_token token;            /* -1 at the root */
    int draws;                      /* draws made here */
    int n_bans, cap_bans;
    retrace_token *bans; /* in the order they came */
    unsigned char *soft; /* by ban: 1 when a soft rule made it */
    int n_soft;
    rt_try *tries; /* NULL: no rule with a memory has gone back here */
    int span;      /* depth of the place from which a rule's forced text begins that the token is
                      part of; -1: it is part of none */
    int span_rule; /* whose text */
    double p, live, rest;     /* resample exact, see exact.c */
    retrace_dist *dist;       /* after this place; NULL: not known or dropped */
    char *mark;               /* all rules' marks, in the run's layout; NULL when they have none */
    retrace_sampled *sampled; /* how token was drawn; NULL: not asked for, or not drawn */
    double logp;              /* of token, the model's own; NAN: not asked for */
    retrace_candidate *top;
    int n_top;
    unsigned char marked;    /* marks hold something to release */
    unsigned char evaluated; /* the model has seen this place */
    unsigned char refused;   /* resample exact: what constraints refuse here counts as dead */
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

/* Adds a ban unless it is there; a hard one takes the place of a soft one. RETRACE_OK, RETRACE_DONE
 * when it was there, RETRACE_ENOMEM. */
int rt_node_ban(rt_node *node, retrace_token token, int soft);
int rt_node_banned(const rt_node *node, retrace_token token);
int rt_node_banned_hard(const rt_node *node, retrace_token token);
/* Takes all soft bans away. */
void rt_node_lift(rt_node *node);

/* The memory of a rule at a place, made when there is none. NULL: out of memory. */
rt_try *rt_node_try(rt_node *node, int rule);
/* The same without making it. */
rt_try *rt_node_tried(const rt_node *node, int rule);

#endif
