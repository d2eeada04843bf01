/* ops.h - a run over a table model written down as it went: "ab<1(c)" says a and b were drawn, all
 * but the first token was taken back, and c was put there without a draw. */
#ifndef RT_OPS_H
#define RT_OPS_H

#include "helper.h"

enum { OPS_ROOM = 4096 };

typedef struct ops {
    char text[OPS_ROOM];
    size_t n;
    char notes[OPS_ROOM]; /* one a line */
    size_t n_notes;
    answer seen;
} ops;

static void ops_add(ops *o, const char *before, retrace_text t, const char *after) {
    assert_true(o->n + t.n + 16 < OPS_ROOM);
    int n = snprintf(o->text + o->n, OPS_ROOM - o->n, "%s%.*s%s", before, (int)t.n, t.s, after);
    o->n += (size_t)n;
}

static int ops_see(void *ud, const retrace_event *e) {
    ops *o = ud;
    char to[16];
    see(&o->seen, e);
    if (e->kind == RETRACE_PUSH) {
        retrace_text t = e->text.n ? e->text : text_of(".");
        ops_add(o, e->drawn ? "" : "(", t, e->drawn ? "" : ")");
    }
    if (e->kind == RETRACE_ERASE) {
        snprintf(to, sizeof to, "<%d", e->to);
        ops_add(o, "", text_of(to), "");
    }
    if (e->kind == RETRACE_NOTE) {
        assert_true(o->n_notes + 300 < OPS_ROOM);
        o->n_notes +=
            (size_t)snprintf(o->notes + o->n_notes, OPS_ROOM - o->n_notes, "%s\n", e->why);
    }
    return 0;
}

/* A rule as a person writes it. */
UNUSED_OK static retrace_rule *rule_by(const char *spec) {
    retrace_rule_spec *s = NULL;
    retrace_rule *r = NULL;
    retrace_error err = {0};
    if (retrace_rule_parse(&s, spec, &err)) fail_msg("%s", err.msg);
    if (retrace_rule_new(&r, s->name, s->settings, s->n_settings, &err)) fail_msg("%s", err.msg);
    retrace_free(s);
    return r;
}

/* Runs with up to two rules; the draws wanted are the letters of `script` in turn. `stats`, when
 * not NULL, receives the first rule's. */
UNUSED_OK static const char *ops_run(ops *out, retrace_model *m, retrace_options o,
                                     const char *first, const char *second, const char *prompt,
                                     const char *script_, retrace_rule_stats *stats) {
    retrace_rule *rules[2] = {NULL, NULL};
    retrace_token want[256], *tokens = NULL;
    script choice = {want, (int)strlen(script_), 0, 0};
    retrace_run *run = NULL;
    retrace_error err = {0};
    int n_prompt = 0;
    for (int i = 0; i < choice.n; i++)
        want[i] = token_of(m, script_[i] == '.' ? "</s>" : (const char[]){script_[i], 0});
    if (first) rules[o.n_rules++] = rule_by(first);
    if (second) rules[o.n_rules++] = rule_by(second);
    o.rules = rules;
    o.choose = choose_script;
    o.choose_ud = &choice;
    out->n = out->n_notes = 0;
    out->text[0] = out->notes[0] = 0;
    answer_start(&out->seen);
    if (retrace_tokenize(m, text_of(prompt), 0, &tokens, &n_prompt, &err)) fail_msg("%s", err.msg);
    if (retrace_run_new(&run, m, &o, tokens, n_prompt, &err)) fail_msg("%s", err.msg);
    if (retrace_run_finish(run, ops_see, out, &err)) fail_msg("%s", err.msg);
    answer_end(&out->seen, run);
    if (stats) assert_int_equal(retrace_run_rule_stats(run, 0, stats), 1);
    retrace_run_free(run);
    const char *why = broken(m, &out->seen);
    if (why) fail_msg("%s (%s)", why, out->text);
    if (choice.missed)
        fail_msg("%d of '%s' were not on offer: %s", choice.missed, script_, out->text);
    for (int i = 0; i < 2; i++) retrace_rule_free(rules[i]);
    retrace_free(tokens);
    return out->text;
}

#endif
