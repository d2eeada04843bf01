/* regex.c - see regex.h. */
#include "regex.h"
#include "utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORKSPACE = 2 + 2 * RT_REGEX_STATE * RT_REGEX_STATES,
    MATCH_LIMIT = 5000, /* lookarounds evaluated in one step: one a byte of the window, and some */
    DEPTH_LIMIT = 50,   /* one in another */
    HEAP_LIMIT = 4096,  /* KiB */
    CODE_MAX = 1 << 20  /* bytes of a compiled pattern */
};

struct rt_regex_tools {
    pcre2_general_context *memory;
    pcre2_compile_context *compile;
    pcre2_match_context *match;
    pcre2_match_data *data;
    int workspace[WORKSPACE];
};

static void *get_memory(size_t n, void *ud) {
    (void)ud;
    return retrace_alloc(n);
}

static void put_memory(void *p, void *ud) {
    (void)ud;
    retrace_free(p);
}

/* ==== States in the workspace ==== */

/* Two lists of states lie in it, of which workspace[0] names the one in force and workspace[1]
 * tells the length. */
static void load_states(int *w, const rt_states *states) {
    w[0] = 0;
    w[1] = states->n;
    memcpy(w + 2, states->v, (size_t)states->n * RT_REGEX_STATE * sizeof *w);
}

static int compare_states(const void *x, const void *y) {
    const int *a = x, *b = y;
    for (int i = 0; i < RT_REGEX_STATE; i++)
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
}

/* Sorted, each once, with counts no larger than can matter. */
static void save_states(const int *w, int most, rt_states *states) {
    const int *from = w + 2 + (w[0] ? RT_REGEX_STATE * RT_REGEX_STATES : 0);
    int *v = states->v, n = 0;
    memcpy(v, from, (size_t)w[1] * RT_REGEX_STATE * sizeof *w);
    for (int i = 0; i < w[1]; i++)
        if (v[i * RT_REGEX_STATE + 1] > most) v[i * RT_REGEX_STATE + 1] = most;
    qsort(v, (size_t)w[1], RT_REGEX_STATE * sizeof *v, compare_states);
    for (int i = 0; i < w[1]; i++) {
        const int *state = v + i * RT_REGEX_STATE;
        if (n && compare_states(state, state - RT_REGEX_STATE) == 0) continue;
        memmove(v + n * RT_REGEX_STATE, state, RT_REGEX_STATE * sizeof *v);
        n++;
    }
    states->n = n;
}

/* ==== A step ==== */

static int run(rt_regex_tools *t, const rt_regex *p, const char *s, size_t n, size_t from,
               const rt_states *states, int ends, size_t *end) {
    uint32_t how = PCRE2_ANCHORED | PCRE2_DFA_SHORTEST | PCRE2_NO_UTF_CHECK |
                   (ends ? 0 : PCRE2_PARTIAL_HARD) | (states->n ? PCRE2_DFA_RESTART : 0);
    load_states(t->workspace, states);
    int rc = pcre2_dfa_match(p->code, (PCRE2_SPTR)s, n, from, how, t->data, t->match, t->workspace,
                             WORKSPACE);
    if (rc >= 0) *end = pcre2_get_ovector_pointer(t->data)[1];
    return rc;
}

/* A match that ends with the piece, in a pattern with \b or \B: does it stand whatever follows? */
static int stands(rt_regex_tools *t, const rt_regex *p, const rt_piece *piece,
                  const rt_states *states) {
    size_t end = 0, n = piece->n;
    if (piece->ends) return 1;
    if (n < piece->known) {
        uint32_t cp;
        int more = rt_utf8_decode(piece->s + n, piece->known - n, &cp);
        return run(t, p, piece->s, n + (size_t)(more > 0 ? more : 1), n, states, 0, &end) >= 0 &&
               end == n;
    }
    char kept = piece->s[n];
    int both = 1;
    for (const char *c = "a "; *c && both; c++) {
        piece->s[n] = *c;
        both = run(t, p, piece->s, n + 1, n, states, 0, &end) >= 0 && end == n;
    }
    piece->s[n] = kept;
    return both;
}

static int64_t cost(const rt_regex *p, size_t bytes, int before, int after) {
    int64_t n = before > after ? before : after;
    return (int64_t)(bytes + 1) * (p->facts.ahead ? 16 : n + n * n / 8 + 2);
}

rt_step rt_regex_step(rt_regex_tools *t, const rt_regex *p, const rt_piece *piece, size_t from,
                      rt_states *states, size_t *end, int64_t *work, int *rc) {
    int before = states->n;
    int got = run(t, p, piece->s, piece->n, from, states, piece->ends, end);
    if (got == PCRE2_ERROR_NOMATCH || got >= 0 || got == PCRE2_ERROR_PARTIAL) {
        int live = got != PCRE2_ERROR_NOMATCH && !p->facts.ahead;
        if (live) save_states(t->workspace, p->facts.most + 1, states);
        *work += cost(p, piece->n - from, before, live ? states->n : 0);
        if (got == PCRE2_ERROR_NOMATCH) return RT_STEP_DEAD;
        if (got == PCRE2_ERROR_PARTIAL) return RT_STEP_LIVE;
        if (!p->facts.edge || *end < piece->n) return RT_STEP_HIT;
        return stands(t, p, piece, states) ? RT_STEP_HIT : RT_STEP_LIVE;
    }
    *rc = got == PCRE2_ERROR_NOMEMORY ? RETRACE_ENOMEM : RETRACE_EUSAGE;
    return RT_STEP_FAILED;
}

/* ==== Tools ==== */

/* Do the states say what is thought of them? "xab+c" is read up to its b, and on from there. */
static int try_states(rt_regex_tools *t, retrace_error *err) {
    rt_regex p;
    rt_states states = {0};
    char text[] = "xabbbc";
    size_t end = 0;
    int64_t work = 0;
    int rc = rt_regex_new(&p, t, (retrace_text){"xa(?:b+|d)c", 11}, 0, err), bad = 0;
    rt_piece piece = {.s = text, .n = 4, .known = 4};
    int right = rc == RETRACE_OK &&
                rt_regex_step(t, &p, &piece, 0, &states, &end, &work, &bad) == RT_STEP_LIVE &&
                states.n > 0 && states.n < 8;
    memset(t->workspace, 0, sizeof t->workspace);
    piece.n = piece.known = 6;
    right = right && rt_regex_step(t, &p, &piece, 4, &states, &end, &work, &bad) == RT_STEP_HIT &&
            end == 6;
    rt_regex_free(&p);
    if (rc || right) return rc;
    if (bad == RETRACE_ENOMEM) return rt_nomem(err);
    return retrace_fail(err, RETRACE_EMODEL,
                        "this version of PCRE2 keeps partial matches in a way that is not known");
}

int rt_regex_tools_new(rt_regex_tools **out, retrace_error *err) {
    rt_regex_tools *t = retrace_calloc(1, sizeof *t);
    *out = t;
    if (!t) return rt_nomem(err);
    t->memory = pcre2_general_context_create(get_memory, put_memory, NULL);
    if (!t->memory) return rt_nomem(err);
    t->compile = pcre2_compile_context_create(t->memory);
    t->match = pcre2_match_context_create(t->memory);
    t->data = pcre2_match_data_create(1, t->memory);
    if (!t->compile || !t->match || !t->data) return rt_nomem(err);
    pcre2_set_newline(t->compile, PCRE2_NEWLINE_LF);
    pcre2_set_match_limit(t->match, MATCH_LIMIT);
    pcre2_set_depth_limit(t->match, DEPTH_LIMIT);
    pcre2_set_heap_limit(t->match, HEAP_LIMIT);
    return try_states(t, err);
}

void rt_regex_tools_free(rt_regex_tools *t) {
    if (!t) return;
    pcre2_match_data_free(t->data);
    pcre2_match_context_free(t->match);
    pcre2_compile_context_free(t->compile);
    pcre2_general_context_free(t->memory);
    retrace_free(t);
}

/* ==== Patterns ==== */

static void allow(rt_regex *p, unsigned char c) {
    p->first[c / 8] = (unsigned char)(p->first[c / 8] | 1 << c % 8);
}

/* A first byte is not said to be of either case, so both are allowed. */
static void find_first(rt_regex *p) {
    uint32_t kind = 0, unit = 0;
    const uint8_t *bitmap = NULL;
    pcre2_pattern_info(p->code, PCRE2_INFO_FIRSTCODETYPE, &kind);
    pcre2_pattern_info(p->code, PCRE2_INFO_FIRSTCODEUNIT, &unit);
    pcre2_pattern_info(p->code, PCRE2_INFO_FIRSTBITMAP, &bitmap);
    memset(p->first, kind == 1 ? 0 : 0xFF, sizeof p->first);
    if (kind == 1) {
        unsigned char c = (unsigned char)unit, other = c ^ 0x20;
        allow(p, c);
        if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') allow(p, other);
    } else if (bitmap) {
        memcpy(p->first, bitmap, sizeof p->first);
    }
}

static int check(rt_regex *p, retrace_error *err) {
    uint32_t empty = 0, least = 0, behind = 0, refs = 0, all = 0;
    size_t size = 0;
    pcre2_pattern_info(p->code, PCRE2_INFO_MATCHEMPTY, &empty);
    pcre2_pattern_info(p->code, PCRE2_INFO_MINLENGTH, &least);
    pcre2_pattern_info(p->code, PCRE2_INFO_MAXLOOKBEHIND, &behind);
    pcre2_pattern_info(p->code, PCRE2_INFO_BACKREFMAX, &refs);
    pcre2_pattern_info(p->code, PCRE2_INFO_ALLOPTIONS, &all);
    pcre2_pattern_info(p->code, PCRE2_INFO_SIZE, &size);
    if (refs) return retrace_fail(err, RETRACE_EUSAGE, "back references are not supported");
    if (empty)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "it can match the empty text, which would ban everything");
    if (least > RT_REGEX_WINDOW)
        return retrace_fail(err, RETRACE_EUSAGE, "it needs %lu characters; at most %d are kept",
                            (unsigned long)least, RT_REGEX_WINDOW);
    if (behind > RT_REGEX_WINDOW)
        return retrace_fail(err, RETRACE_EUSAGE,
                            "it looks back %lu characters; at most %d are kept",
                            (unsigned long)behind, RT_REGEX_WINDOW);
    if (size > CODE_MAX)
        return retrace_fail(err, RETRACE_EUSAGE, "compiled it takes more than %d bytes", CODE_MAX);
    p->only_start = (all & PCRE2_ANCHORED) != 0;
    p->behind = ((int)behind + 1) * RT_UTF8_MAX;
    find_first(p);
    return RETRACE_OK;
}

int rt_regex_new(rt_regex *out, rt_regex_tools *t, retrace_text pattern, int fold,
                 retrace_error *err) {
    rt_buf source = {0};
    const char *why = NULL;
    int code = 0;
    size_t where = 0;
    *out = (rt_regex){0};
    int rc = rt_regex_read(pattern, &source, &out->facts, &why);
    if (rc || why) {
        rt_buf_free(&source);
        return rc ? rt_nomem(err) : retrace_fail(err, RETRACE_EUSAGE, "%s", why);
    }
    uint32_t how = PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_POSSESS | PCRE2_NO_DOTSTAR_ANCHOR |
                   PCRE2_NEVER_BACKSLASH_C | (fold ? PCRE2_CASELESS : 0);
    out->code = pcre2_compile((PCRE2_SPTR)(source.n ? source.s : ""), source.n, how, &code, &where,
                              t->compile);
    rt_buf_free(&source);
    if (out->code) return check(out, err);
    if (code == PCRE2_ERROR_HEAP_FAILED) return rt_nomem(err);
    char words[160];
    pcre2_get_error_message(code, (PCRE2_UCHAR *)words, sizeof words);
    return retrace_fail(err, RETRACE_EUSAGE, "%s", words);
}

void rt_regex_free(rt_regex *p) {
    pcre2_code_free(p->code);
    *p = (rt_regex){0};
}
