/* enumerate.c - worlds whose laws are known; see enumerate.h. */
#include "helper.h"

#include "enumerate.h"

#include <math.h>

static void *room(size_t n, size_t size) {
    void *p = calloc(n ? n : 1, size);
    assert_non_null(p);
    return p;
}

/* ==== Making ==== */

void world_begin(world *w, int vocab) {
    assert_true(vocab > 0 && vocab <= MOST_VOCAB);
    memset(w, 0, sizeof *w);
    w->vocab = vocab;
    w->n_ctx = 64;
    w->start = -1;
    w->may_start = 1;
}

double *world_row_of(world *w, const retrace_token *context, int n) {
    if (w->n_rows == w->cap_rows) {
        w->cap_rows = 2 * w->cap_rows + 16;
        w->rows = realloc(w->rows, (size_t)w->cap_rows * sizeof *w->rows);
        assert_non_null(w->rows);
    }
    world_row *r = &w->rows[w->n_rows++];
    memset(r, 0, sizeof *r);
    if (n) memcpy(r->context, context, (size_t)n * sizeof *context);
    r->n = n;
    r->weights = room((size_t)w->vocab, sizeof *r->weights);
    r->p = room((size_t)w->vocab, sizeof *r->p);
    return r->weights;
}

/* Logits are floats; what they say is made to sum to 1. */
static void row_finish(const world *w, world_row *r) {
    double total = 0;
    long double sum = 0;
    for (int v = 0; v < w->vocab; v++) total += r->weights[v];
    assert_true(total > 0);
    for (int v = 0; v < w->vocab; v++) {
        if (r->weights[v] > 0) r->p[v] = expl((long double)(float)log(r->weights[v] / total));
        sum += r->p[v];
    }
    for (int v = 0; v < w->vocab; v++) r->p[v] /= sum;
}

typedef struct writer {
    char *s;
    size_t n, cap;
} writer;

static void put(writer *out, const char *format, ...) {
    va_list args;
    if (out->cap - out->n < 128) {
        out->cap = 2 * out->cap + 4096;
        out->s = realloc(out->s, out->cap);
        assert_non_null(out->s);
    }
    va_start(args, format);
    out->n += (size_t)vsnprintf(out->s + out->n, out->cap - out->n, format, args);
    va_end(args);
}

static void put_tokens(writer *out, const world *w) {
    put(out, "{\"n_ctx\": %d, \"tokens\": [", w->n_ctx);
    for (int v = 0; v < w->vocab; v++) {
        put(out, "%s{", v ? ", " : "");
        if (w->letters && v < 128)
            put(out, "\"bytes\": [%d]", v);
        else
            put(out, "\"text\": \"t%d;\"", v);
        if (w->flags[v] & RETRACE_TOKEN_END) put(out, ", \"end\": true");
        if (w->flags[v] & RETRACE_TOKEN_CONTROL) put(out, ", \"control\": true");
        if (w->flags[v] & RETRACE_TOKEN_UNUSED) put(out, ", \"unused\": true");
        put(out, "}");
    }
    put(out, "], \"rows\": [");
}

static void put_row(writer *out, const world *w, const world_row *r) {
    put(out, "{\"context\": [");
    for (int i = 0; i < r->n; i++) put(out, "%s%d", i ? ", " : "", (int)r->context[i]);
    put(out, "], \"next\": {");
    const char *comma = "";
    for (int v = 0; v < w->vocab; v++) {
        if (!(r->weights[v] > 0)) continue;
        put(out, "%s\"%d\": %.0f", comma, v, r->weights[v]);
        comma = ", ";
    }
    put(out, "}}");
}

/* A context is numbered by its tokens as digits, the last one being the lowest. */
static void index_row(world *w, int i) {
    const world_row *r = &w->rows[i];
    int at = 0, size = 1;
    for (int k = 1; k <= r->n; k++) {
        at += size * r->context[r->n - k];
        size *= w->vocab;
    }
    if (!w->index[r->n]) {
        w->index[r->n] = room((size_t)size, sizeof(int));
        memset(w->index[r->n], -1, (size_t)size * sizeof(int));
    }
    w->index[r->n][at] = i;
}

void world_open(world *w) {
    writer out = {0};
    put_tokens(&out, w);
    for (int i = 0; i < w->n_rows; i++) index_row(w, i);
    for (int i = 0; i < w->n_rows; i++) {
        row_finish(w, &w->rows[i]);
        put_row(&out, w, &w->rows[i]);
        put(&out, i + 1 < w->n_rows ? ",\n" : "]}");
    }
    w->model = open_table(out.s);
    free(out.s);
    /* A table has no document start of its own; models with a BOS do. */
    w->model->facts.start = w->start;
}

void world_chain(world *w, const retrace_token *anchor, int n) {
    retrace_error err = {0};
    if (retrace_bigram_of(&w->chain, w->model, (retrace_anchor){anchor, n}, &err))
        fail_msg("chain: %s", err.msg);
    if (n < 0) anchor = &w->start;
    if (n < 0) n = w->start < 0 ? 0 : 1;
    assert_true(n <= MOST_ANCHOR);
    if (n) memcpy(w->anchor, anchor, (size_t)n * sizeof *anchor);
    w->n_anchor = n;
    size_t vocab = (size_t)w->vocab;
    long double *p = room(vocab * vocab, sizeof *p), *first = room(vocab, sizeof *first);
    w->pi = room(vocab, sizeof *w->pi);
    for (int v = 0; v < w->vocab; v++) {
        first[v] = world_p(w, &w->start, w->start < 0 ? 0 : 1, v);
        for (int next = 0; next < w->vocab; next++)
            p[(size_t)v * vocab + (size_t)next] = world_step(w, v, next);
    }
    solve_long_run(p, w->vocab, first, w->pi);
    for (int v = 0; v < w->vocab; v++)
        if (world_starts(w, v)) w->pi_start += w->pi[v];
    free(p);
    free(first);
}

void world_close(world *w) {
    retrace_bigram_close(w->chain);
    retrace_model_close(w->model);
    for (int i = 0; i < w->n_rows; i++) {
        free(w->rows[i].weights);
        free(w->rows[i].p);
    }
    for (int k = 0; k <= MOST_ORDER; k++) free(w->index[k]);
    free(w->rows);
    free(w->pi);
    memset(w, 0, sizeof *w);
}

/* ==== Random worlds ==== */

/* Whole weights, so that sums are exact. Every row keeps at least one. */
static void random_row(world *w, const world_shape *s, uint64_t *chance, const retrace_token *c,
                       int n) {
    double *weights = world_row_of(w, c, n);
    int allowed = 0, only = 0;
    for (int v = 0; v < w->vocab; v++) {
        if (s->period > 1 && n > 0 && v % s->period != (c[n - 1] + 1) % s->period) continue;
        if (roll_from(chance, ++allowed) == 0) only = v;
        double x = (roll_from(chance, 1 << 20) / 1048576.0 - .5) * s->spread;
        if (roll_from(chance, 100) >= s->zeros) weights[v] = floor(1e5 * exp(x)) + 1;
    }
    if (!(weights[only] > 0)) weights[only] = 1000;
}

static void random_rows(world *w, const world_shape *s, uint64_t *chance) {
    retrace_token c[MOST_ORDER];
    int v = w->vocab;
    random_row(w, s, chance, c, 0);
    for (c[0] = 0; c[0] < v && s->order >= 1; c[0]++) random_row(w, s, chance, c, 1);
    for (int i = 0; i < v * v && s->order >= 2; i++) {
        if (v > 8 && roll_from(chance, v) > 6) continue;
        c[0] = i / v, c[1] = i % v;
        random_row(w, s, chance, c, 2);
    }
    for (int i = 0; i < v * v * v && s->order >= 3; i++) {
        if (v > 5 && roll_from(chance, v * v) > 25) continue;
        c[0] = i / v / v, c[1] = i / v % v, c[2] = i % v;
        random_row(w, s, chance, c, 3);
    }
}

void world_random(world *w, const world_shape *s, uint64_t seed) {
    uint64_t chance = seed * 7919 + 12345;
    roll_from(&chance, 2);
    world_begin(w, s->vocab);
    w->letters = s->letters;
    if (s->letters) w->n_ctx = 8192;
    /* Special tokens come last, in this order. */
    for (int i = 0; i < s->ends + s->controls + s->unused; i++) {
        int v = s->vocab - 1 - i;
        w->flags[v] = i < s->ends                 ? RETRACE_TOKEN_END
                      : i < s->ends + s->controls ? RETRACE_TOKEN_CONTROL
                                                  : RETRACE_TOKEN_UNUSED;
    }
    if (s->start) w->start = s->vocab - 1 - (s->controls ? s->ends : 0);
    random_rows(w, s, &chance);
    world_open(w);
    retrace_token anchor[MOST_ANCHOR];
    for (int i = 0; i < s->anchor; i++) anchor[i] = roll_from(&chance, s->vocab);
    world_chain(w, anchor, s->anchor);
}

world_shape world_some_shape(int i) {
    static const int vocabs[] = {4, 5, 7, 9, 12, 16, 24};
    static const int zeros[] = {0, 0, 25, 60};
    world_shape s = {.vocab = vocabs[i % COUNT(vocabs)],
                     .order = 1 + i % 3,
                     .ends = i / 3 % 3,
                     .controls = i / 2 % 2,
                     .unused = i / 4 % 2,
                     .zeros = zeros[i / 2 % COUNT(zeros)],
                     .period = i % 5 == 4 ? 2 + i / 5 % 2 : 1,
                     .start = i / 5 % 2,
                     .anchor = i % 4 - 1,
                     .spread = 2.0 + i % 6};
    if (s.vocab < 7) s.unused = 0;
    if (s.ends + s.controls == 0) s.start = 0;
    return s;
}

/* ==== Truth ==== */

/* The row of the longest context that the sequence ends with. */
static const world_row *row_for(const world *w, const retrace_token *tokens, int n) {
    int at = 0, unit = 1, best = w->index[0][0];
    for (int k = 1; k <= MOST_ORDER && k <= n; k++) {
        at += unit * tokens[n - k];
        unit *= w->vocab;
        if (w->index[k] && w->index[k][at] >= 0) best = w->index[k][at];
    }
    return &w->rows[best];
}

long double world_p(const world *w, const retrace_token *tokens, int n, retrace_token next) {
    return row_for(w, tokens, n)->p[next];
}

long double world_text(const world *w, const retrace_token *before, int n_before,
                       const retrace_token *text, int n) {
    retrace_token all[MOST_ANCHOR + MOST_TEXT + 1];
    assert_true(n_before + n <= COUNT(all));
    if (n_before) memcpy(all, before, (size_t)n_before * sizeof *all);
    if (n) memcpy(all + n_before, text, (size_t)n * sizeof *all);
    long double p = 1;
    for (int i = 0; i < n && p > 0; i++) p *= world_p(w, all, n_before + i, text[i]);
    return p;
}

int world_starts(const world *w, retrace_token v) {
    return v == w->start || (w->flags[v] & RETRACE_TOKEN_END) != 0;
}

int world_candidate(const world *w, retrace_token v) {
    if (v != RETRACE_START)
        return !world_starts(w, v) &&
               !(w->flags[v] & (RETRACE_TOKEN_CONTROL | RETRACE_TOKEN_UNUSED));
    return w->may_start && world_prior(w, v) > 0;
}

long double world_step(const world *w, retrace_token v, retrace_token next) {
    retrace_token after[MOST_ANCHOR + 1];
    if (world_starts(w, v)) return world_p(w, &w->start, w->start < 0 ? 0 : 1, next);
    if (w->n_anchor) memcpy(after, w->anchor, (size_t)w->n_anchor * sizeof *after);
    after[w->n_anchor] = v;
    return world_p(w, after, w->n_anchor + 1, next);
}

long double world_prior(const world *w, retrace_token v) {
    if (w->law) w = w->law;
    return v == RETRACE_START ? w->pi_start : w->pi[v];
}

long double world_likelihood(const world *w, retrace_token v, const retrace_token *s, int n) {
    retrace_token before[MOST_ANCHOR + 1];
    if (v == RETRACE_START) return world_text(w, &w->start, w->start < 0 ? 0 : 1, s, n);
    if (w->n_anchor) memcpy(before, w->anchor, (size_t)w->n_anchor * sizeof *before);
    before[w->n_anchor] = v;
    return world_text(w, before, w->n_anchor + 1, s, n);
}

long double world_score(const world *w, retrace_token v, const retrace_token *s, int n) {
    return world_candidate(w, v) ? world_prior(w, v) * world_likelihood(w, v, s, n) : 0;
}

long double world_z(const world *w, const retrace_token *s, int n) {
    long double z = 0;
    for (retrace_token v = RETRACE_START; v < w->vocab; v++) z += world_score(w, v, s, n);
    return z;
}

long double world_kept(const world *w, const retrace_token *s, int n, double temp, double top_p,
                       int *keep) {
    long double score[MOST_VOCAB + 1], mass = 0, z = 0, kept = 0;
    for (int v = RETRACE_START; v < w->vocab; v++) {
        keep[1 + v] = 0;
        z += score[1 + v] = world_score(w, v, s, n);
    }
    while (mass < z * (long double)top_p * (1 - 1e-15L)) {
        int best = -1;
        for (int i = 0; i <= w->vocab; i++)
            if (!keep[i] && score[i] > 0 && (best < 0 || score[i] > score[best])) best = i;
        if (best < 0) break;
        keep[best] = 1;
        mass += score[best];
        kept += powl(score[best], 1 / (long double)temp);
    }
    return kept;
}

int world_dead(const world *w, const retrace_token *s, int n, int depth) {
    retrace_token x[MOST_TEXT];
    memcpy(x + 1, s, (size_t)n * sizeof *s);
    if (depth > 0 && !(world_z(w, s, n) > 0)) return 1;
    for (x[0] = 0; x[0] < w->vocab && depth > 1; x[0]++)
        if (world_score(w, x[0], s, n) > 0 && world_dead(w, x, n + 1, depth - 1)) return 1;
    return 0;
}

long double world_f(const world *w, const retrace_token *x, int n, int started) {
    if (started) return world_prior(w, RETRACE_START) * world_likelihood(w, RETRACE_START, x, n);
    return world_prior(w, x[0]) * world_likelihood(w, x[0], x + 1, n - 1);
}

int world_suffix(const world *w, uint64_t *chance, int n, retrace_token *out) {
    for (int tries = 0; tries < 50; tries++) {
        out[0] = roll_from(chance, w->vocab);
        for (int i = 1; i < n; i++) {
            for (int k = 0; k < 50; k++) {
                out[i] = roll_from(chance, w->vocab);
                if (world_likelihood(w, out[0], out + 1, i) > 0) break;
            }
        }
        if (!world_starts(w, out[0]) && world_f(w, out, n, 0) > 0 && world_z(w, out, n) > 0)
            return 1;
    }
    return 0;
}

/* ==== The engine ==== */

retrace_backward_options law_options(int mode, int max_tokens, int samples) {
    retrace_backward_options o;
    retrace_backward_default(&o);
    o.max_tokens = max_tokens;
    o.num_samples = samples;
    o.seed = 1;
    o.temp = 1;
    o.top_p = 1;
    o.mode = mode;
    o.heuristic = RETRACE_BIGRAM;
    o.budget = 0;
    o.threshold = 0;
    o.batch_size = 16;
    o.top = MOST_VOCAB + 1;
    o.shared_table = 0;
    o.start = 1;
    return o;
}

static int make(retrace_backward **out, const world *w, const retrace_backward_options *o,
                const retrace_token *s, int n, retrace_error *err) {
    return retrace_backward_new(out, w->model, w->law ? w->law->chain : w->chain, o, s, n, err);
}

retrace_backward *law_run(const world *w, const retrace_backward_options *o, const retrace_token *s,
                          int n) {
    retrace_backward *b = NULL;
    retrace_error err = {0};
    if (make(&b, w, o, s, n, &err)) fail_msg("backward: %s", err.msg);
    int rc = retrace_backward_finish(b, NULL, NULL, &err);
    if (rc != RETRACE_OK) fail_msg("backward: %d: %s", rc, err.msg);
    return b;
}

int law_try(const world *w, const retrace_backward_options *o, const retrace_token *s, int n,
            retrace_error *err) {
    retrace_backward *b = NULL;
    int rc = make(&b, w, o, s, n, err);
    if (rc == RETRACE_OK) rc = retrace_backward_finish(b, NULL, NULL, err);
    retrace_backward_free(b);
    return rc;
}

retrace_backward_sample law_sample(const retrace_backward *b, int i) {
    retrace_backward_sample s;
    if (!retrace_backward_at(b, i, &s)) fail_msg("there is no sample %d", i);
    return s;
}

/* Both are logarithms. */
static int near(double got, long double expected) {
    if (isinf((double)expected)) return got == (double)expected;
    return fabsl((long double)got - expected) <= 1e-12L;
}

const char *law_listed_broken(const world *w, const retrace_token *x, int n, double log_z,
                              const retrace_preceding *c) {
    if (c->id < RETRACE_START || c->id >= w->vocab || !world_candidate(w, c->id))
        return "something listed is no candidate";
    long double score = world_score(w, c->id, x, n);
    if (!near(c->log_prior, logl(world_prior(w, c->id)))) return "a prior is not pi";
    if (!near(c->log_likelihood, logl(world_likelihood(w, c->id, x, n))))
        return "a likelihood is not the model's";
    if (!near(c->log_posterior, logl(score) - (long double)log_z))
        return "a posterior is not score / Z";
    return NULL;
}

/* Falling, each once, and none forgotten. */
static const char *list_broken(const world *w, const retrace_token *x, int n,
                               const retrace_backward_step *step) {
    char seen[MOST_VOCAB + 1] = {0};
    long double sum = 0;
    for (int i = 0; i < step->n_top; i++) {
        const retrace_preceding *c = &step->top[i];
        const char *why = law_listed_broken(w, x, n, step->log_z, c);
        if (why) return why;
        if (i && !(c->log_posterior <= step->top[i - 1].log_posterior)) return "the list rises";
        if (seen[1 + c->id]++) return "a candidate is listed twice";
        sum += expl((long double)c->log_posterior);
    }
    if (fabsl(sum - 1) > 1e-12L) return "what is listed does not sum to 1";
    for (retrace_token v = RETRACE_START; v < w->vocab; v++)
        if (!seen[1 + v] && world_score(w, v, x, n) > 0) return "a candidate is not listed";
    return NULL;
}

const char *law_step_broken(const world *w, const retrace_token *x, int n,
                            const retrace_backward_step *step) {
    int candidates = 0, possible = 0;
    for (retrace_token v = RETRACE_START; v < w->vocab; v++) {
        candidates += world_candidate(w, v);
        possible += world_score(w, v, x, n) > 0;
    }
    if (!near(step->log_z, logl(world_z(w, x, n)))) return "Z is not the sum of all scores";
    if (step->log_z_low != step->log_z || step->log_z_high != step->log_z)
        return "Z is known, but has an interval";
    if (step->se != 0) return "Z is known, but has an error";
    if (!step->reliable) return "Z is known, but is not reliable";
    if (!step->exact) return "all are evaluated, but the draw is not exact";
    if (fabs(step->coverage - 1) > 1e-12) return "all are evaluated, but not all is covered";
    if (step->evaluated < possible || step->evaluated > candidates)
        return "the number of evaluated candidates is wrong";
    const char *why = law_listed_broken(w, x, n, step->log_z, &step->drawn);
    if (why) return why;
    if (!(world_score(w, step->drawn.id, x, n) > 0)) return "something impossible was drawn";
    return list_broken(w, x, n, step);
}

/* ==== The long-run law ====
 *
 * By subtraction, which loses digits where a class is hardly ever left: so with more of them. */

#ifdef __SIZEOF_FLOAT128__
__extension__ typedef __float128 wide;
#else
typedef long double wide;
#endif

static wide size_of(wide x) {
    return x < 0 ? -x : x;
}

/* Solves a x = b (n x n, by rows) in place, the larger pivot first; x is left in b. */
static void solve(wide *a, wide *b, int n) {
    for (int k = 0; k < n; k++) {
        int best = k;
        for (int i = k + 1; i < n; i++)
            if (size_of(a[i * n + k]) > size_of(a[best * n + k])) best = i;
        assert_true(size_of(a[best * n + k]) > 0);
        for (int j = 0; j < n; j++) {
            wide t = a[k * n + j];
            a[k * n + j] = a[best * n + j], a[best * n + j] = t;
        }
        wide t = b[k];
        b[k] = b[best], b[best] = t;
        for (int i = k + 1; i < n; i++) {
            wide m = a[i * n + k] / a[k * n + k];
            for (int j = k; j < n; j++) a[i * n + j] -= m * a[k * n + j];
            b[i] -= m * b[k];
        }
    }
    for (int k = n - 1; k >= 0; k--) {
        for (int j = k + 1; j < n; j++) b[k] -= a[k * n + j] * b[j];
        b[k] /= a[k * n + k];
    }
}

/* reach[v * n + w]: w can be come to from v in 0 or more steps. */
static char *reaches(const wide *p, int n) {
    char *reach = room((size_t)n * (size_t)n, 1);
    for (int i = 0; i < n * n; i++) reach[i] = p[i] > 0 || i % n == i / n;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n && reach[i * n + k]; j++) reach[i * n + j] |= reach[k * n + j];
    return reach;
}

/* Class of each state: its least member where the class is closed, -1 for transient states. */
static void classes(const char *reach, int n, int *class) {
    for (int v = 0; v < n; v++) {
        class[v] = v;
        for (int w = n - 1; w >= 0; w--) {
            if (!reach[v * n + w]) continue;
            if (reach[w * n + v] && class[v] >= 0) class[v] = w < class[v] ? w : class[v];
            if (!reach[w * n + v]) class[v] = -1;
        }
    }
}

/* Expected visits to each transient state; then the chance of entering each class, at its least
 * member. */
static void absorb(const wide *p, int n, const wide *first, const int *class, wide *entered) {
    wide *a = room((size_t)n * (size_t)n, sizeof *a), *h = room((size_t)n, sizeof *h);
    for (int v = 0; v < n; v++) {
        h[v] = class[v] < 0 ? first[v] : 0;
        for (int u = 0; u < n; u++)
            a[v * n + u] = (u == v) - (class[v] < 0 && class[u] < 0 ? p[u * n + v] : 0);
    }
    solve(a, h, n);
    for (int v = 0; v < n; v++) {
        if (class[v] < 0) continue;
        entered[class[v]] += first[v];
        for (int u = 0; u < n; u++)
            if (class[u] < 0) entered[class[v]] += h[u] * p[u * n + v];
    }
    free(a);
    free(h);
}

/* pi P = pi within one class, one equation replaced by "the sum is `mass`". */
static void settle(const wide *p, int n, const int *class, int which, wide mass, long double *pi) {
    int *member = room((size_t)n, sizeof *member), k = 0;
    for (int v = 0; v < n; v++)
        if (class[v] == which) member[k++] = v;
    wide *a = room((size_t)k * (size_t)k, sizeof *a), *b = room((size_t)k, sizeof *b);
    for (int i = 0; i < k; i++)
        for (int j = 0; j < k; j++)
            a[i * k + j] = i == k - 1 ? 1 : p[member[j] * n + member[i]] - (i == j);
    b[k - 1] = mass;
    solve(a, b, k);
    for (int i = 0; i < k; i++) pi[member[i]] = (long double)b[i];
    free(member);
    free(a);
    free(b);
}

/* Made to sum to 1 in all the digits. */
static wide *widen(const long double *p, int rows, int n) {
    wide *out = room((size_t)rows * (size_t)n, sizeof *out);
    for (int i = 0; i < rows; i++) {
        wide sum = 0;
        for (int k = 0; k < n; k++) sum += p[i * n + k];
        for (int k = 0; k < n; k++) out[i * n + k] = p[i * n + k] / sum;
    }
    return out;
}

void solve_long_run(const long double *p, int n, const long double *first, long double *pi) {
    int *class = room((size_t)n, sizeof *class);
    wide *entered = room((size_t)n, sizeof *entered);
    wide *wide_p = widen(p, n, n), *wide_first = widen(first, 1, n);
    char *reach = reaches(wide_p, n);
    classes(reach, n, class);
    absorb(wide_p, n, wide_first, class, entered);
    for (int v = 0; v < n; v++) pi[v] = 0;
    for (int v = 0; v < n; v++)
        if (class[v] == v && entered[v] > 0) settle(wide_p, n, class, v, entered[v], pi);
    free(reach);
    free(class);
    free(entered);
    free(wide_p);
    free(wide_first);
}

void law_assert_same(const retrace_backward *a, const retrace_backward *b, int n, int mode) {
    for (int i = 0; i < n; i++) {
        retrace_backward_sample x = law_sample(a, i), y = law_sample(b, i);
        assert_int_equal(x.n, y.n);
        assert_memory_equal(x.tokens, y.tokens, (size_t)x.n * sizeof *x.tokens);
        assert_int_equal(x.started, y.started);
        assert_int_equal(x.improper, y.improper);
        assert_true(fabs(x.log_f - y.log_f) <= 1e-12);
        assert_true(fabs(x.log_q - y.log_q) <= 1e-12);
        assert_int_equal(x.n_steps, y.n_steps);
        for (int k = 0; k < x.n_steps; k++) {
            const retrace_backward_step *s = &x.steps[k], *t = &y.steps[k];
            assert_true(fabs(s->log_z - t->log_z) <= 1e-12);
            if (mode != RETRACE_EXACT) assert_int_equal(s->evaluated, t->evaluated);
            assert_int_equal(s->exact, t->exact);
            assert_int_equal(s->n_top, t->n_top);
        }
    }
}

void law_assert_batches(const world *w, retrace_backward_options *o, const retrace_token *suffix,
                        int n, const int *batches, int n_batches) {
    int all = (int)o->num_samples, few = 2;
    o->batch_size = 2;
    retrace_backward *first = law_run(w, o, suffix, n);
    for (int k = 0; k < n_batches; k++) {
        o->batch_size = batches[k];
        retrace_backward *b = law_run(w, o, suffix, n);
        law_assert_same(first, b, all, o->mode);
        retrace_backward_free(b);
    }
    o->num_samples = few;
    retrace_backward *fewer = law_run(w, o, suffix, n);
    law_assert_same(first, fewer, few, o->mode);
    retrace_backward_free(fewer);
    retrace_backward_free(first);
}
