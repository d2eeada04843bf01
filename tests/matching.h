/* matching.h - a matcher from a grammar's text, for tests. Included after helper.h. */
#ifndef TEST_MATCHING_H
#define TEST_MATCHING_H

#include "text/earley.h"
#include "text/gbnf.h"

UNUSED_OK static int try_matcher(rt_earley **out, const char *gbnf, size_t budget,
                                 retrace_error *err) {
    rt_grammar *g = NULL;
    int rc = rt_gbnf_parse(&g, text_of(gbnf), text_of("root"), "grammar", err);
    return rc ? rc : rt_earley_new(out, g, budget, "grammar", err);
}

UNUSED_OK static rt_earley *make_matcher(const char *gbnf, size_t budget) {
    rt_earley *m = NULL;
    retrace_error err = {0};
    if (try_matcher(&m, gbnf, budget, &err)) fail_msg("%s\n%s", err.msg, gbnf);
    return m;
}

/* 'y': a text of the grammar, 'b': the beginning of one, 'n': neither. */
UNUSED_OK static char fits_bytes(rt_earley *m, const char *s, size_t n) {
    rt_earley_state *at;
    retrace_error err = {0};
    if (rt_earley_feed(m, rt_earley_start(m), s, n, &at, &err)) fail_msg("%s", err.msg);
    return at ? (rt_earley_can_end(at) ? 'y' : 'b') : 'n';
}

UNUSED_OK static char fits(rt_earley *m, const char *s) {
    return fits_bytes(m, s, strlen(s));
}

#endif
