/* fuzz_gbnf.c - a grammar as a stranger might write it, and texts for it.
 *
 * The input is texts, one a line, an empty line, and a grammar. Whatever it is: an error that says
 * something, or a matcher that goes on from a state as it would from the beginning, also when it
 * forgets all the time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "text/earley.h"
#include "text/gbnf.h"

static rt_earley *matcher_of(retrace_text grammar, size_t budget) {
    rt_grammar *g = NULL;
    rt_earley *m = NULL;
    retrace_error err = {0};
    if (failed(rt_gbnf_parse(&g, grammar, (retrace_text){"root", 4}, "g", &err), &err)) {
        must(g == NULL, "a failed grammar left something");
        return NULL;
    }
    return failed(rt_earley_new(&m, g, budget, "g", &err), &err) ? NULL : m;
}

/* Both go on alike, byte by byte; what the second one can end with, the first one can. */
static void feed(rt_earley *m, rt_earley *forgetful, retrace_text text) {
    rt_earley_state *at = rt_earley_start(m), *other = rt_earley_start(forgetful);
    retrace_error err = {0};
    rt_earley_keep(other);
    for (size_t i = 0; i < text.n && i < 200 && at; i++) {
        rt_earley_state *old = other;
        unsigned char c = (unsigned char)text.s[i];
        int rc = rt_earley_step(m, at, c, &at, &err);
        must(rt_earley_step(forgetful, old, c, &other, &err) == rc, "one failed, one did not");
        if (failed(rc, &err)) other = old;
        if (failed(rc, &err)) break;
        must(!at == !other, "one goes on, one does not");
        must(!at || rt_earley_can_end(at) == rt_earley_can_end(other), "one can end");
        rt_earley_keep(other);
        rt_earley_drop(old);
    }
    rt_earley_drop(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *s = (const char *)data;
    size_t at = 0, lines = 0;
    if (size > 4096) return 0;
    while (at < size && s[at] != '\n') {
        const char *end = memchr(s + at, '\n', size - at);
        at = end ? (size_t)(end - s) + 1 : size;
        lines++;
    }
    retrace_text grammar = {s + at, size - at};
    rt_earley *m = matcher_of(grammar, 1 << 20);
    rt_earley *forgetful = m ? matcher_of(grammar, 1) : NULL;
    must(!m == !forgetful, "a grammar that is read once");
    for (size_t from = 0; m && lines > 0; lines--) {
        const char *end = memchr(s + from, '\n', size - from);
        size_t n = end ? (size_t)(end - s) - from : size - from;
        feed(m, forgetful, (retrace_text){s + from, n});
        from += n + 1;
    }
    rt_earley_free(m);
    rt_earley_free(forgetful);
    return 0;
}
