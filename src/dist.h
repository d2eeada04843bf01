/* dist.h - distributions and the store that keeps them. */
#ifndef RT_DIST_H
#define RT_DIST_H

#include "retrace_ext.h"

typedef struct retrace_keep rt_keep;

struct retrace_dist {
    int n;
    float *logits;
    double max, lse, entropy; /* valid by the flags below; lse: log of the sum of exp(logits) */
    unsigned char have_max, have_lse, have_entropy, pinned;
    retrace_dist **owner; /* the pointer to this, cleared when the store drops it */
    rt_keep *keep;
    retrace_dist *older, *newer;
};

/* A store for distributions over `vocab` tokens with a budget in bytes. */
rt_keep *rt_keep_new(int vocab, size_t budget);
void rt_keep_free(rt_keep *k); /* all taken ones must have been dropped */

/* A distribution with room for logits and nothing computed, pinned. Drops the oldest unpinned ones
 * to stay within the budget. *owner is set. NULL: out of memory. */
retrace_dist *rt_keep_take(rt_keep *k, retrace_dist **owner);
/* Drops it; *owner becomes NULL. NULL is fine. */
void rt_keep_drop(retrace_dist *d);
/* A pinned distribution is not dropped by others' needs; pinning also makes it the newest. */
void rt_keep_pin(retrace_dist *d, int on);

double rt_dist_max(retrace_dist *d);
double rt_dist_lse(retrace_dist *d);

#endif
