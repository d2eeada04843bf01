/* top.c - the most probable tokens of one row of logits, without memory of its own: rows are read
 * on several threads at once.
 *
 * The candidates found so far make a heap with the least at its root; in the end it is sorted. */
#include "top.h"

#include <math.h>

/* Falling logits; ties: the lower id first. */
static int before(retrace_candidate a, retrace_candidate b) {
    return a.logp > b.logp || (a.logp == b.logp && a.id < b.id);
}

/* Lets the candidate at i sink until none below it is less. */
static void sink(retrace_candidate *heap, int n, int i) {
    retrace_candidate c = heap[i];
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(heap[child], heap[child + 1])) child++;
        if (!before(c, heap[child])) break;
        heap[i] = heap[child];
    }
    heap[i] = c;
}

static void sort(retrace_candidate *heap, int n) {
    for (int end = n - 1; end > 0; end--) {
        retrace_candidate least = heap[0];
        heap[0] = heap[end];
        heap[end] = least;
        sink(heap, end, 0);
    }
}

void rt_top_of(const float *logits, int n, double norm, int k, retrace_candidate *out) {
    int held = 0;
    for (int i = 0; i < n && k > 0; i++) {
        retrace_candidate c = {i, (double)logits[i]};
        if (held == k && !(c.logp > out[0].logp)) continue;
        if (c.logp == -INFINITY) continue;
        if (held < k) {
            out[held++] = c;
            for (int at = held / 2 - 1; held == k && at >= 0; at--) sink(out, held, at);
            continue;
        }
        out[0] = c;
        sink(out, held, 0);
    }
    for (int at = held / 2 - 1; held < k && at >= 0; at--) sink(out, held, at);
    sort(out, held);
    for (int i = 0; i < held; i++) out[i].logp -= norm;
}
