/* fuzz_schema.c - a JSON schema as a stranger might write it.
 *
 * Whatever it is: an error that says something, or a grammar. A text that is led through that
 * grammar by the bytes of the schema itself is, when it is complete, JSON. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "text/earley.h"
#include "text/gbnf.h"
#include "text/schema.h"

enum { LONGEST = 300 };

/* Goes through the grammar: each byte of the input picks one of those that may follow. */
static void walk(rt_earley *m, const uint8_t *data, size_t size) {
    rt_earley_state *at = rt_earley_start(m), *to;
    retrace_error err = {0};
    char text[LONGEST];
    size_t n = 0;
    while (n < LONGEST && n < size) {
        unsigned first = data[n] % 128, c;
        rt_earley_keep(at);
        for (c = 0, to = NULL; c < 256 && !to; c++)
            if (failed(rt_earley_step(m, at, (unsigned char)(first + c), &to, &err), &err)) break;
        rt_earley_drop(at);
        if (err.code) return;
        must(to || rt_earley_can_end(at), "neither goes on nor ends");
        if (!to) break;
        text[n++] = (char)(first + c - 1);
        at = to;
    }
    if (!rt_earley_can_end(at)) return;
    json_error_t wrong;
    json_t *v = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &wrong);
    must(v != NULL, "a complete text is no JSON");
    json_decref(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rt_writer w = {{0}, RETRACE_OK};
    rt_grammar *g = NULL;
    rt_earley *m = NULL;
    retrace_error err = {0};
    if (size > 4096) return 0;
    retrace_text schema = {(const char *)data, size};
    int rc = rt_schema_write(&w, schema, "s", &err);
    if (!failed(rc, &err)) {
        rc = rt_gbnf_parse(&g, (retrace_text){w.buf.s, w.buf.n}, (retrace_text){"root", 4}, "s",
                           &err);
        /* Only a schema without any finite value makes a grammar that cannot be read. */
        must(rc == RETRACE_OK || strstr(err.msg, "can never be finished") ||
                 strstr(err.msg, "more than"),
             err.msg);
        if (!failed(rc, &err) && !failed(rt_earley_new(&m, g, 1 << 20, "s", &err), &err))
            walk(m, data, size);
    }
    rt_earley_free(m);
    rt_buf_free(&w.buf);
    return 0;
}
