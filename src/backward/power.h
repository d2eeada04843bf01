/* power.h - the stationary law of a chain too large to solve, from products with it.
 *
 * Each exact product pi P costs a pass over the whole chain, so as few as possible are made. During
 * the first one the largest entries of every row are kept. This truncated chain, its tail replaced
 * by one law for all rows, is cheap to iterate, and what it says about a residual corrects pi
 * between exact products (iterative refinement); the corrections so far are combined for the least
 * residual (Anderson 1965). What stops the iteration is the L1 distance of pi and pi P by an exact
 * product. A correction that makes that worse is taken back and plain steps are made for a while.
 *
 * For chains with one law, as those of a softmax are: with several closed classes some law of many
 * is found. Sans-I/O: the caller makes the rows. */
#ifndef RT_POWER_H
#define RT_POWER_H

#include "retrace_ext.h"

typedef struct rt_power rt_power;

/* n states, `keep` entries kept of each row. pi is uniform. */
int rt_power_new(rt_power **out, int n, int keep, retrace_error *err);
void rt_power_free(rt_power *p);

/* One pass: begin, then every row once in a fixed order (blocks of them, the same in each pass),
 * then end. Rows are logits. In the first pass (`first`), also the first after rt_power_state was
 * set, *log_norm receives the logarithm of each row's sum and its largest entries are kept; EMODEL
 * for a row with NaN or infinity, or without mass. Later log_norm is read and the rows are trusted
 * to be the same. log_norm begins with the row `from`. */
void rt_power_begin(rt_power *p, int first);
int rt_power_rows(rt_power *p, int from, int n_rows, const float *logits, double *log_norm,
                  retrace_error *err);
/* *change: the L1 distance of pi and pi P, pi being what the pass began with. Then moves pi on. */
int rt_power_end(rt_power *p, double *change, retrace_error *err);

/* What rt_power_rows does, in two parts for a caller with threads. Different rows may be kept, and
 * then different ranges of columns added, at the same time; all rows of a block are kept before any
 * is added. The result does not depend on how columns are cut. */
int rt_power_keep(rt_power *p, int from, int n_rows, const float *logits, double *log_norm,
                  retrace_error *err);
void rt_power_add(rt_power *p, int from, int n_rows, const float *logits, const double *log_norm,
                  int column, int n_columns);

/* The current pi; may be set before the first pass. */
double *rt_power_pi(rt_power *p);
/* All numbers, *n of them, that decide what comes next, between passes; pi is the first part. Saved
 * and set again in a new object of the same n, before a pass with `first`, they lead on to the same
 * bits. */
double *rt_power_state(rt_power *p, size_t *n);
/* The factor by which plain iteration would shrink the distance each time, estimated on the
 * truncated chain (.53 for .57, say); 0: not known yet. */
double rt_power_rate(const rt_power *p);

#endif
