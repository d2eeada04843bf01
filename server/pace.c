/* pace.c - how many rows of prompts, and how many passing questions, go beside live runs.
 *
 * Nobody's stream should stop because somebody else came with a long prompt. What is added to a
 * turn with live runs may take a share of the time they take themselves, by averages of what was
 * measured: such a turn takes about one and a half times as long as without, and since averages are
 * off at times, hardly ever three times. With nobody waiting for a token a whole batch
 * is fed, and passing questions are asked for a second, after which the worker looks round
 * again: they share their beginnings, so few at a time are dear. */
#include "worker.h"

enum { FEWEST_ROWS = 2, FIRST_ROWS = 4, FEWEST_PASSING = 1, FEWEST_FREE = 32 };

/* After so many turns beside live runs one goes without, to see how long it takes. */
enum { MEASURE = 6 };

static const double SHARE = 0.45; /* of the time that live runs take, for others' work */
static const double SLICE_S = 1;  /* of passing questions when nobody waits */
static const double WEIGHT = 0.3; /* of the newest measurement in an average */

static void average(double *mean, double x) {
    *mean = *mean > 0 ? (1 - WEIGHT) * *mean + WEIGHT * x : x;
}

/* How many things of `each` seconds take `seconds`. */
static int count(double seconds, double each, int unknown, int least, int most) {
    double n = each > 0 ? seconds / each : (double)unknown;
    if (n < least) return least;
    return n > most ? most : (int)n;
}

void srv_pace_begin(srv_pace *p) {
    enum { NO_LIMIT = 1 << 30 };
    if (p->instant || p->n_live == 0 || p->live_s <= 0) {
        p->rows = p->most_rows = p->batch;
        p->passing = count(SLICE_S, p->passing_free_s, FEWEST_FREE, FEWEST_FREE, NO_LIMIT);
        if (p->instant) p->passing = NO_LIMIT;
        return;
    }
    if (p->beside >= MEASURE) {
        p->rows = p->most_rows = p->passing = 0;
        return;
    }
    p->rows = p->most_rows = count(SHARE * p->live_s, p->row_s, FIRST_ROWS, FEWEST_ROWS, p->batch);
    p->passing = count(SHARE * p->live_s, p->passing_s, FEWEST_PASSING, FEWEST_PASSING, NO_LIMIT);
}

/* Rows and questions are learned apart for turns with live runs: large batches are cheaper.
 * The time of added work is what the turn took beyond its usual time; a quarter of a fair share at
 * least, since averages may be off. */
static double added(const srv_pace *p, const srv_turn *t, int n) {
    double all = t->seconds, rest = t->n_live ? all - p->live_s : all;
    double least = all / (t->n_live + n) * n / 4;
    return (rest > least ? rest : least) / n;
}

void srv_pace_learn(srv_pace *p, const srv_turn *t) {
    p->n_live = t->n_live;
    p->beside = t->n_live && (t->rows || t->n_passing) && p->beside < MEASURE ? p->beside + 1 : 0;
    if (t->n_live && !t->rows && !t->n_passing) average(&p->live_s, t->seconds);
    if (t->n_live && t->rows && !t->n_passing) average(&p->row_s, added(p, t, t->rows));
    if (t->n_passing && !t->rows)
        average(t->n_live ? &p->passing_s : &p->passing_free_s, added(p, t, t->n_passing));
}
