/* fuzz_table.c - a table file and settings as a stranger might write them.
 *
 * The first line of the input is a rule ("phrases:text=a"), the second settings of the run ("temp=1
 * top_k=2"), both may be empty; the rest is the table. Whatever it is: an error that says
 * something, or a model that answers, tokenises and writes a short text whose events agree. */
#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../tests/watch.h"
#include "must.h"

static answer a;

/* Cuts the text before the first end of line; what follows is left in *rest. */
static retrace_text line_of(retrace_text *rest) {
    retrace_text line = *rest;
    const char *end = rest->n ? memchr(rest->s, '\n', rest->n) : NULL;
    if (!end) {
        *rest = (retrace_text){"", 0};
        return line;
    }
    line.n = (size_t)(end - line.s);
    *rest = (retrace_text){end + 1, rest->n - line.n - 1};
    return line;
}

static retrace_rule *read_rule(retrace_text line) {
    char spec[1024];
    if (line.n == 0 || line.n >= sizeof spec) return NULL;
    memcpy(spec, line.s, line.n);
    spec[line.n] = 0;
    retrace_rule_spec *parsed = NULL;
    retrace_rule *r = NULL;
    retrace_error err = {0};
    if (!failed(retrace_rule_parse(&parsed, spec, &err), &err))
        failed(retrace_rule_new(&r, parsed->name, parsed->settings, parsed->n_settings, &err),
               &err);
    retrace_free(parsed);
    return r;
}

/* "name=value name=value" */
static void read_options(retrace_options *o, retrace_text line) {
    char copy[512], *name = copy;
    retrace_options_default(o);
    size_t n = line.n < sizeof copy - 1 ? line.n : sizeof copy - 1;
    if (n) memcpy(copy, line.s, n);
    copy[n] = 0;
    while (*name) {
        char *value = name + strcspn(name, "= "), *next = name + strcspn(name, " ");
        int last = *next == 0;
        *next = 0;
        if (*value == '=' || value == next) {
            if (*value) *value++ = 0;
            retrace_error err = {0};
            retrace_setting s = {name, {value, strlen(value)}};
            failed(retrace_options_set(o, s, &err), &err);
        }
        name = last ? next : next + 1;
    }
    if (o->max_tokens < 0 || o->max_tokens > 12) o->max_tokens = 12;
    if (o->max_rewinds < 0 || o->max_rewinds > 100) o->max_rewinds = 100;
    if (o->logprobs > 20) o->logprobs = 20;
}

static void use(retrace_model *m, const retrace_options *o, retrace_text prompt) {
    retrace_token *tokens = NULL;
    int n = 0;
    retrace_error err = {0};
    retrace_run *run = NULL;
    if (prompt.n > 64) prompt.n = 64;
    if (failed(retrace_tokenize(m, prompt, RETRACE_TOKENIZE_SPECIAL, &tokens, &n, &err), &err)) {
        tokens = NULL;
        n = 0;
    }
    if (!failed(retrace_run_new(&run, m, o, tokens, n, &err), &err)) {
        answer_start(&a);
        int rc = retrace_run_finish(run, see_event, &a, &err);
        must(rc == RETRACE_OK, err.msg);
        answer_end(&a, run);
        must(!broken(m, &a), broken(m, &a));
        retrace_run_free(run);
    }
    retrace_free(tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    retrace_text rest = {(const char *)data, size};
    if (size == 0 || size > 1 << 16) return 0;
    retrace_text rule_line = line_of(&rest), options_line = line_of(&rest);
    int fd = memfd_create("table", 0);
    if (fd < 0) return 0;
    must(rest.n == 0 || write(fd, rest.s, rest.n) == (ssize_t)rest.n, "write");
    char uri[64];
    snprintf(uri, sizeof uri, "table:/proc/self/fd/%d", fd);
    retrace_model *m = NULL;
    retrace_rule *r = read_rule(rule_line);
    retrace_options o;
    retrace_error err = {0};
    read_options(&o, options_line);
    o.rules = &r;
    o.n_rules = r != NULL;
    if (!failed(retrace_model_open(&m, uri, NULL, 0, &err), &err))
        use(m, &o, rule_line);
    else
        must(m == NULL, "a failed open left something");
    close(fd);
    retrace_model_close(m);
    retrace_rule_free(r);
    return 0;
}
