/* hand.h - a rule and a run made by hand: what the rule proposes and holds back, token by token,
 * without an engine. HAND_RULE is the rule's table. Included once by each test program. */
#ifndef RT_HAND_H
#define RT_HAND_H

#include "helper.h"

#include "run.h"
#include "strategies/strategies.h"

enum { MOST_TOKENS = 64, ROOM = 8192, MOST_MARK = 96 };

static const retrace_rule_type *const type = &HAND_RULE;

static struct {
    void *self;
    char text[ROOM];
    size_t ends[MOST_TOKENS];
    int n;
    retrace_text before;
    size_t limit;
    union {
        char bytes[MOST_MARK];
        max_align_t align;
    } marks[MOST_TOKENS + 1];
    retrace_model *model; /* to split forced texts; or NULL */
    int forced;           /* of the next push */
    retrace_proposal p;   /* of the last judgement; its force is freed */
    char force[ROOM];     /* as text */
    retrace_error err;
} now;

UNUSED_OK static void close_rule(void) {
    if (!now.self) return;
    type->fini(now.self);
    retrace_settings_free(now.self, type->settings);
    retrace_free(now.self);
    now.self = NULL;
}

/* Settings as in make_rule, with lengths for values that hold a NUL. */
UNUSED_OK static int try_settings(const retrace_setting *s, int n) {
    close_rule();
    now.err = (retrace_error){0};
    now.self = retrace_calloc(1, type->size);
    if (!now.self) return now.err.code = RETRACE_ENOMEM;
    int rc = retrace_settings_fill(now.self, type->settings, s, n, type->name, &now.err);
    return rc ? rc : type->init(now.self, &now.err);
}

UNUSED_OK static int try_pairs(const char *const *pairs) {
    retrace_setting s[32];
    int n = 0;
    for (; pairs[2 * n]; n++) s[n] = (retrace_setting){pairs[2 * n], text_of(pairs[2 * n + 1])};
    return try_settings(s, n);
}

/* So much of a run that the marks can be asked for. */
UNUSED_OK static retrace_run *run_of(void) {
    static rt_node nodes[RT_CHUNK];
    static rt_node *chunk = nodes;
    static rt_watch watch;
    static int path[MOST_TOKENS + 1];
    static retrace_run run;
    for (int i = 0; i <= MOST_TOKENS; i++) {
        path[i] = i;
        nodes[i].mark = now.marks[i].bytes;
    }
    run.trace.chunks = &chunk;
    run.trace.n = MOST_TOKENS + 1;
    run.watch = &watch;
    run.path = path;
    return &run;
}

UNUSED_OK static retrace_view view_of(retrace_ending ending) {
    return (retrace_view){.tokens = NULL,
                          .model = now.model,
                          .run = run_of(),
                          .forced = now.forced,
                          .n = now.n,
                          .text = now.text,
                          .ends = now.ends,
                          .before = now.before,
                          .ending = ending,
                          .limit = now.limit};
}

UNUSED_OK static void start(const char *before) {
    now.n = 0;
    now.limit = SIZE_MAX;
    now.before = text_of(before);
    memset(&now.marks[0], 0, sizeof now.marks[0]);
    retrace_view v = view_of(RETRACE_GOING);
    assert_int_equal(type->start(now.self, &v, &now.marks[0], NULL), RETRACE_OK);
}

#define RULE(...)                                                                                  \
    do {                                                                                           \
        if (try_pairs((const char *const[]){__VA_ARGS__, NULL})) fail_msg("%s", now.err.msg);      \
        start("");                                                                                 \
    } while (0)

UNUSED_OK static int judge(retrace_ending ending, void *mark) {
    retrace_view v = view_of(ending);
    now.p = (retrace_proposal){0};
    int rc = type->judge(now.self, &v, mark, &now.p, NULL);
    if (rc == RETRACE_OK) return -1;
    assert_int_equal(rc, RETRACE_DONE);
    assert_int_equal(now.p.n_ban, 0);
    size_t n = 0;
    for (int i = 0; i < now.p.n_force; i++) {
        retrace_text piece = retrace_piece(now.model, now.p.force[i]);
        assert_true(n + piece.n < ROOM);
        memcpy(now.force + n, piece.s, piece.n);
        n += piece.n;
    }
    now.force[n] = '\0';
    retrace_free(now.p.force);
    assert_in_range(now.p.to, 0, now.n - 1);
    return now.p.to;
}

/* The number of tokens to keep, or -1: no objection. */
UNUSED_OK static int push_bytes(const char *s, size_t n) {
    size_t at = now.n ? now.ends[now.n - 1] : 0;
    assert_true(now.n < MOST_TOKENS && at + n <= ROOM);
    memcpy(now.text + at, s, n);
    now.ends[now.n++] = at + n;
    now.marks[now.n] = now.marks[now.n - 1];
    return judge(RETRACE_GOING, &now.marks[now.n]);
}

UNUSED_OK static int push(const char *s) {
    return push_bytes(s, strlen(s));
}

/* Pushes all; what the last one gives. Of the others none may be objected to. */
UNUSED_OK static int push_all(const char *const *pieces) {
    int to = -1;
    for (; *pieces; pieces++) {
        assert_int_equal(to, -1);
        to = push(*pieces);
    }
    return to;
}

#define PUSH(...) push_all((const char *const[]){__VA_ARGS__, NULL})

UNUSED_OK static int end_by(retrace_ending ending) {
    union {
        char bytes[MOST_MARK];
        max_align_t align;
    } mark;
    memcpy(&mark, &now.marks[now.n ? now.n - 1 : 0], sizeof mark);
    return judge(ending, &mark);
}

UNUSED_OK static int horizon(void) {
    retrace_view v = view_of(RETRACE_GOING);
    return type->horizon(now.self, &v, &now.marks[now.n]);
}

/* ==== Memory ==== */

/* Gives memory `allowed` times, and counts the bytes that live. */
UNUSED_OK static long allowed, live;

UNUSED_OK static void *counting(void *ud, void *ptr, size_t old_size, size_t new_size) {
    (void)ud;
    if (new_size == 0) {
        live -= (long)old_size;
        free(ptr);
        return NULL;
    }
    void *p = allowed-- > 0 ? realloc(ptr, new_size) : NULL;
    if (p) live += (long)new_size - (long)old_size;
    return p;
}

#endif
