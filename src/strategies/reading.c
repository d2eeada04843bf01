/* reading.c - see reading.h. */
#include "reading.h"
#include "text/utf8.h"
#include "base.h"

#include <string.h>

rt_match_text rt_reading_text(const retrace_view *v) {
    return (rt_match_text){v->before, v->text};
}

int rt_reading_token(const retrace_view *v, ptrdiff_t byte) {
    int lo = 0, hi = v->n - 1;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (byte < 0 || v->ends[mid] > (size_t)byte)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

void rt_reading_start(const rt_lexicon *l, const retrace_view *v, rt_match_state *st) {
    rt_match_text t = rt_reading_text(v);
    rt_match_feed(l, st, &t, -(ptrdiff_t)v->before.n, 0, NULL, NULL);
}

int rt_reading_horizon(const rt_lexicon *l, const retrace_view *v, const rt_match_state *st,
                       rt_start_fn *wanted, const void *ud) {
    if (v->n == 0) return 0;
    rt_match_text t = rt_reading_text(v);
    ptrdiff_t length = (ptrdiff_t)retrace_view_length(v);
    ptrdiff_t first = rt_match_hold(l, st, &t, length, wanted, ud);
    return first == length ? v->n : rt_reading_token(v, first);
}

void rt_reading_propose(const retrace_view *v, ptrdiff_t begin, ptrdiff_t end, retrace_text name,
                        retrace_proposal *p) {
    size_t n = rt_utf8_cut(name.s, name.n, sizeof p->why - 1);
    memcpy(p->why, name.s, n);
    p->why[n] = '\0';
    p->to = rt_reading_token(v, begin);
    p->end = (size_t)end;
}

int rt_reading_check(const char *what, retrace_text phrase, retrace_error *err) {
    if (phrase.n == 0) return retrace_fail(err, RETRACE_EUSAGE, "%s is empty", what);
    if (phrase.n > RT_PHRASE_MAX)
        return retrace_fail(err, RETRACE_EUSAGE, "%s has more than %d bytes", what, RT_PHRASE_MAX);
    size_t at = rt_utf8_check(phrase.s, phrase.n);
    if (at < phrase.n)
        return retrace_fail(err, RETRACE_EUSAGE, "%s is not valid UTF-8 at byte %lu", what,
                            (unsigned long)at);
    return RETRACE_OK;
}
