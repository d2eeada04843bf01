/* stops.c - where an answer ends because it spells a stop text.
 *
 * Stop texts are matched in the generated text, over any split into tokens; one that spells a
 * control token also matches that token, which has no text in an answer. They are few and short, so
 * each new byte is compared with all of them and no state is kept: there is nothing to put right
 * after a rewind. */
#include "run.h"

#include <string.h>

static int ends_here(const char *text, size_t end, retrace_text stop) {
    return stop.n <= end && memcmp(text + end - stop.n, stop.s, stop.n) == 0;
}

int rt_stop_find(const retrace_run *run, size_t from, rt_stop *out) {
    for (size_t end = from + 1; end <= run->text.n; end++) {
        const retrace_text *best = NULL; /* of those that end at the same byte the longest */
        for (int i = 0; i < run->n_stops; i++) {
            if (ends_here(run->text.s, end, run->stops[i]) && (!best || run->stops[i].n > best->n))
                best = &run->stops[i];
        }
        if (best) {
            *out = (rt_stop){end - best->n, end, *best};
            return 1;
        }
    }
    return 0;
}

int rt_stop_token(const retrace_run *run, retrace_token id, rt_stop *out) {
    if (!(run->model->vocab[id].flags & (RETRACE_TOKEN_CONTROL | RETRACE_TOKEN_END))) return 0;
    retrace_text name = retrace_token_name(run->model, id);
    for (int i = 0; i < run->n_stops; i++) {
        if (run->stops[i].n == name.n && memcmp(run->stops[i].s, name.s, name.n) == 0) {
            *out = (rt_stop){run->text.n, SIZE_MAX, run->stops[i]};
            return 1;
        }
    }
    return 0;
}

size_t rt_stop_begun(const retrace_run *run, size_t length) {
    size_t longest = 0;
    for (int i = 0; i < run->n_stops; i++) {
        size_t most = run->stops[i].n - 1 < length ? run->stops[i].n - 1 : length;
        for (size_t n = most; n > longest; n--) {
            if (memcmp(run->text.s + length - n, run->stops[i].s, n) == 0) longest = n;
        }
    }
    return length - longest;
}
