/* backward.c - how good a backward step's estimate is: the engine itself, over many seeds, with the
 * model's answers taken from a store.
 *
 * `scores` asks the model about every candidate before one suffix and stores all factors of its
 * likelihood but the first one, which is the table's. This takes minutes; a store that is stopped
 * goes on where it was. A few candidates are then compared with what the engine finds by itself.
 * `draws` drives the engine and answers it from the store. Questions of another kind (those of the
 * heuristics) are put to the model once and stored too. Prints tab-separated lines:
 *     truth LOG_Z        posterior ID LOG_POSTERIOR
 *     draw CELL SEED LOG_Z LOW HIGH RELIABLE EVALUATED ID SECONDS
 * Usage: backward scores MODEL TABLE FOLDER THREADS SUFFIX [LIMIT]
 *        backward draws MODEL TABLE FOLDER THREADS SUFFIX MODE:HEURISTIC:BUDGET:SEEDS...
 * TABLE `-`: the chain is made in memory (small vocabularies). LIMIT: candidates to score at most
 * this time. */
#define _POSIX_C_SOURCE 200809L
#include "retrace_ext.h"
#include "../src/backward/chain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 1024, COLUMNS = 8, CHECKED = 32, PATH = 4096 };

static const char magic[8] = "rtscore1";

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what) {
    fprintf(stderr, "backward: %s\n", what);
    exit(1);
}

static void *need_memory(size_t n, size_t size) {
    void *p = calloc(n, size);
    if (!p) die("out of memory");
    return p;
}

static int number(const char *s, int least, int most) {
    char *end;
    long n = strtol(s, &end, 10);
    if (end == s || *end || n < least || n > most) die("a number is not one, or out of range");
    return (int)n;
}

/* ==== A chain that remembers its columns and rows ==== */

/* The engine asks for the same column at every seed: with a table it costs a product with all
 * hidden states. */
typedef struct kept {
    int is_row;
    retrace_token id;
    double *logp;
} kept;

typedef struct memo {
    struct retrace_bigram chain;
    retrace_bigram *inner;
    kept kept[COLUMNS];
    int n;
} memo;

static int recall(memo *m, int is_row, retrace_token id, double *logp, retrace_error *err) {
    size_t size = (size_t)m->chain.facts.vocab * sizeof *logp;
    for (int i = 0; i < COLUMNS && i < m->n; i++) {
        if (m->kept[i].is_row == is_row && m->kept[i].id == id) {
            memcpy(logp, m->kept[i].logp, size);
            return RETRACE_OK;
        }
    }
    int rc = is_row ? retrace_bigram_row(m->inner, id, logp, err)
                    : retrace_bigram_column(m->inner, id, logp, err);
    if (rc) return rc;
    kept *k = &m->kept[m->n++ % COLUMNS];
    if (!k->logp) k->logp = need_memory(1, size);
    k->is_row = is_row;
    k->id = id;
    memcpy(k->logp, logp, size);
    return RETRACE_OK;
}

static int memo_row(const retrace_bigram *b, retrace_token v, double *logp, retrace_error *err) {
    return recall((memo *)(uintptr_t)b, 1, v, logp, err);
}

static int memo_column(const retrace_bigram *b, retrace_token w, double *logp, retrace_error *err) {
    return recall((memo *)(uintptr_t)b, 0, w, logp, err);
}

static void memo_state(const retrace_bigram *b, retrace_token v, float *out) {
    const memo *m = (const memo *)b;
    m->inner->state(m->inner, v, out);
}

static void open_chain(memo *m, retrace_model *model, const char *path) {
    retrace_error err;
    int rc = strcmp(path, "-")
                 ? retrace_bigram_open(&m->inner, path, &err)
                 : retrace_bigram_of(&m->inner, model, (retrace_anchor){.n = -1}, &err);
    if (rc || retrace_bigram_fits(m->inner, model, 0, &err)) die(err.msg);
    retrace_bigram_facts(m->inner, &m->chain.facts);
    m->chain.pi = (double *)(uintptr_t)retrace_bigram_pi(m->inner);
    m->chain.row = memo_row;
    m->chain.column = memo_column;
    m->chain.state = memo_state;
    m->chain.n_state = m->inner->n_state;
}

static void close_chain(memo *m) {
    for (int i = 0; i < COLUMNS; i++) free(m->kept[i].logp);
    retrace_free(m->chain.features);
    retrace_bigram_close(m->inner);
}

/* ==== What one process works on ==== */

/* A question that was put to the model, and its answer. */
typedef struct asked {
    int n, from, evaluated, has_logp, has_next;
    retrace_token *tokens;
    double *logp;
    float *next;
    struct asked *older;
} asked;

typedef struct bench {
    retrace_model *model;
    retrace_model_info facts;
    memo memo;
    const retrace_bigram_info *chain;
    retrace_token *suffix;
    int n, rest;     /* tokens of the suffix; those behind the first one */
    double *column;  /* ln P(s1 | a, v) by v */
    double *factors; /* ln P(s2.. | a, v, s1..): `rest` of them for each v, NAN for tokens that
                        are no candidates */
    char scores[PATH], answers[PATH]; /* files */
    asked *asked;
} bench;

static uint64_t mix(uint64_t hash, const void *data, size_t n) {
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++) hash = (hash ^ p[i]) * 1099511628211u;
    return hash;
}

/* Of all that the stored factors depend on. The prior and the first factor are the table's and are
 * not stored, so a table that is made again leaves the store as it is. */
static uint64_t key(const bench *b) {
    uint64_t h = 14695981039346656037u;
    h = mix(h, &b->facts.hash, sizeof b->facts.hash);
    h = mix(h, &b->facts.vocab_hash, sizeof b->facts.vocab_hash);
    h = mix(h, b->facts.weights, strlen(b->facts.weights));
    h = mix(h, b->chain->anchor, (size_t)b->chain->n_anchor * sizeof *b->chain->anchor);
    h = mix(h, "|", 1);
    return mix(h, b->suffix, (size_t)b->n * sizeof *b->suffix);
}

static void open_model(bench *b, const char *uri, const char *threads) {
    retrace_error err;
    retrace_setting s[] = {{"threads", {threads, strlen(threads)}}, {"weights", {"f32", 3}}};
    int table = strncmp(uri, "table:", 6) == 0;
    if (retrace_model_open(&b->model, uri, s, table ? 0 : 2, &err)) die(err.msg);
    retrace_model_facts(b->model, &b->facts);
}

static void start(bench *b, char **argv) {
    retrace_error err;
    open_model(b, argv[0], argv[3]);
    open_chain(&b->memo, b->model, argv[1]);
    b->chain = &b->memo.chain.facts;
    retrace_text text = {argv[4], strlen(argv[4])};
    if (retrace_tokenize(b->model, text, 0, &b->suffix, &b->n, &err)) die(err.msg);
    if (b->n < 2) die("a suffix of one token is known from the table alone");
    b->rest = b->n - 1;
    b->column = need_memory((size_t)b->facts.vocab, sizeof *b->column);
    if (retrace_bigram_column(&b->memo.chain, b->suffix[0], b->column, &err)) die(err.msg);
    b->factors = need_memory((size_t)b->facts.vocab * (size_t)b->rest, sizeof *b->factors);
    unsigned long long k = key(b);
    snprintf(b->scores, PATH, "%s/%016llx.scores", argv[2], k);
    snprintf(b->answers, PATH, "%s/%016llx.answers", argv[2], k);
}

static void finish(bench *b) {
    for (asked *a = b->asked, *older; a; a = older) {
        older = a->older;
        free(a->tokens);
        free(a->logp);
        free(a->next);
        free(a);
    }
    free(b->factors);
    free(b->column);
    retrace_free(b->suffix);
    close_chain(&b->memo);
    retrace_model_close(b->model);
}

static int is_candidate(const bench *b, retrace_token v) {
    int flags = RETRACE_TOKEN_CONTROL | RETRACE_TOKEN_UNUSED | RETRACE_TOKEN_END;
    return v != b->facts.start && !(b->model->vocab[v].flags & flags);
}

/* ==== The store of factors ==== */

/* The file: magic, vocabulary, factors of a candidate, then the factors of candidates 0, 1, ... as
 * far as they are known. Returns how far that is. */
static int load(bench *b) {
    char found[8];
    int32_t head[2];
    size_t row = (size_t)b->rest;
    FILE *f = fopen(b->scores, "rb");
    if (!f) return 0;
    if (fread(found, 1, 8, f) != 8 || memcmp(found, magic, 8) || fread(head, 4, 2, f) != 2 ||
        head[0] != b->facts.vocab || head[1] != b->rest)
        die("a file in the store is none of these");
    size_t n = fread(b->factors, row * sizeof *b->factors, (size_t)b->facts.vocab, f);
    fclose(f);
    return (int)n;
}

/* Opens the store for what comes after `done` candidates. */
static FILE *open_store(const bench *b, int done) {
    int32_t head[2] = {b->facts.vocab, b->rest};
    FILE *f = fopen(b->scores, done ? "r+b" : "wb");
    if (!f) die("the store cannot be written");
    long at = (long)(8 + sizeof head + (size_t)done * (size_t)b->rest * sizeof *b->factors);
    int bad =
        done ? fseek(f, at, SEEK_SET) : fwrite(magic, 1, 8, f) != 8 || fwrite(head, 4, 2, f) != 2;
    if (bad) die("the store cannot be written");
    return f;
}

/* Questions about the candidates among n tokens from `from` on; returns how many. */
static int ask_block(bench *b, int from, int n, retrace_query *q, retrace_token *tokens) {
    int n_asked = 0, before = b->chain->n_anchor;
    for (int i = 0; i < n; i++) {
        double *logp = b->factors + (size_t)(from + i) * (size_t)b->rest;
        for (int j = 0; j < b->rest; j++) logp[j] = NAN;
        if (!is_candidate(b, from + i)) continue;
        retrace_token *t = tokens + (size_t)n_asked * (size_t)(before + 1 + b->n);
        for (int j = 0; j < before; j++) t[j] = b->chain->anchor[j];
        t[before] = from + i;
        memcpy(t + before + 1, b->suffix, (size_t)b->n * sizeof *t);
        q[n_asked++] = (retrace_query){.tokens = t,
                                       .n = before + 1 + b->n,
                                       .n_prompt = before + 1 + b->n,
                                       .from = before + 2,
                                       .logp = logp,
                                       .slot = RETRACE_PASSING};
    }
    return n_asked;
}

static void say_progress(const bench *b, int first, int done, double since) {
    double rate = (done - first) / (now() - since);
    fprintf(stderr, "%d of %d candidates, %.0f a second, %.0f s left\n", done, b->facts.vocab, rate,
            (b->facts.vocab - done) / rate);
}

static void score_all(bench *b, int done, int limit) {
    retrace_error err;
    retrace_query *q = need_memory(BLOCK, sizeof *q);
    retrace_token *tokens =
        need_memory(BLOCK * (size_t)(b->chain->n_anchor + 1 + b->n), sizeof *tokens);
    FILE *f = open_store(b, done);
    int first = done, end = b->facts.vocab;
    double since = now();
    if (limit && limit < end - done) end = done + limit;
    while (done < end) {
        int n = end - done < BLOCK ? end - done : BLOCK;
        int n_asked = ask_block(b, done, n, q, tokens);
        if (n_asked && retrace_model_eval(b->model, q, n_asked, &err)) die(err.msg);
        size_t row = (size_t)b->rest;
        if (fwrite(b->factors + (size_t)done * row, row * sizeof *b->factors, (size_t)n, f) !=
                (size_t)n ||
            fflush(f))
            die("the store cannot be written");
        done += n;
        say_progress(b, first, done, since);
    }
    if (fclose(f)) die("the store cannot be written");
    free(tokens);
    free(q);
}

/* ==== Questions answered from the store, or by the model once ==== */

static asked *new_asked(bench *b, int n, int from) {
    asked *a = need_memory(1, sizeof *a);
    a->n = n;
    a->from = from;
    a->tokens = need_memory((size_t)n, sizeof *a->tokens);
    a->logp = need_memory((size_t)(n - from) + 1, sizeof *a->logp);
    a->next = need_memory((size_t)b->facts.vocab, sizeof *a->next);
    a->older = b->asked;
    b->asked = a;
    return a;
}

static void read_exactly(FILE *f, void *p, size_t n) {
    if (fread(p, 1, n, f) != n) die("a file of answers is cut off: remove it");
}

/* The file: one answer after the other; each begins with five numbers. */
static void load_answers(bench *b) {
    int32_t head[5];
    FILE *f = fopen(b->answers, "rb");
    if (!f) return;
    while (fread(head, sizeof head, 1, f) == 1) {
        asked *a = new_asked(b, head[0], head[1]);
        a->evaluated = head[2];
        a->has_logp = head[3];
        a->has_next = head[4];
        read_exactly(f, a->tokens, (size_t)a->n * sizeof *a->tokens);
        if (a->has_logp) read_exactly(f, a->logp, (size_t)(a->n - a->from) * sizeof *a->logp);
        if (a->has_next) read_exactly(f, a->next, (size_t)b->facts.vocab * sizeof *a->next);
    }
    fclose(f);
}

static void store_answer(const bench *b, const asked *a) {
    int32_t head[5] = {a->n, a->from, a->evaluated, a->has_logp, a->has_next};
    FILE *f = fopen(b->answers, "ab");
    if (!f) die("the store cannot be written");
    fwrite(head, sizeof head, 1, f);
    fwrite(a->tokens, sizeof *a->tokens, (size_t)a->n, f);
    if (a->has_logp) fwrite(a->logp, sizeof *a->logp, (size_t)(a->n - a->from), f);
    if (a->has_next) fwrite(a->next, sizeof *a->next, (size_t)b->facts.vocab, f);
    if (ferror(f) | fclose(f)) die("the store cannot be written");
}

static const asked *find(const bench *b, const retrace_query *q) {
    for (const asked *a = b->asked; a; a = a->older) {
        if (a->n == q->n && a->from == q->from && a->has_logp == (q->logp != NULL) &&
            a->has_next == (q->next != NULL) &&
            memcmp(a->tokens, q->tokens, (size_t)a->n * sizeof *a->tokens) == 0)
            return a;
    }
    return NULL;
}

static const asked *ask_model(bench *b, const retrace_query *q) {
    retrace_error err;
    retrace_query once = *q;
    asked *a = new_asked(b, q->n, q->from);
    memcpy(a->tokens, q->tokens, (size_t)q->n * sizeof *a->tokens);
    a->has_logp = q->logp != NULL;
    a->has_next = q->next != NULL;
    if (q->logp) once.logp = a->logp;
    if (q->next) once.next = a->next;
    if (retrace_model_eval(b->model, &once, 1, &err)) die(err.msg);
    a->evaluated = once.evaluated;
    store_answer(b, a);
    return a;
}

static void answer_asked(bench *b, retrace_query *q) {
    const asked *a = find(b, q);
    if (!a) a = ask_model(b, q);
    if (q->logp) memcpy(q->logp, a->logp, (size_t)(a->n - a->from) * sizeof *q->logp);
    if (q->next) memcpy(q->next, a->next, (size_t)b->facts.vocab * sizeof *q->next);
    q->evaluated = a->evaluated;
    q->answered = 1;
}

/* 1 when the question is [anchor, v, s1..sj], about the suffix only; answers it. */
static int answer_candidate(const bench *b, retrace_query *q) {
    int before = b->chain->n_anchor, j = q->n - before - 1;
    if (q->next || !q->logp || j < 1 || j > b->n || q->from <= before) return 0;
    for (int i = 0; i < before; i++) {
        if (q->tokens[i] != b->chain->anchor[i]) return 0;
    }
    if (memcmp(q->tokens + before + 1, b->suffix, (size_t)j * sizeof *q->tokens)) return 0;
    retrace_token v = q->tokens[before];
    const double *factors = b->factors + (size_t)v * (size_t)b->rest;
    if (isnan(factors[0])) return 0;
    for (int i = q->from; i < q->n; i++) {
        int k = i - before - 1;
        q->logp[i - q->from] = k ? factors[k - 1] : b->column[v];
    }
    q->evaluated = j;
    q->answered = 1;
    return 1;
}

/* ==== One step of the engine ==== */

static retrace_backward_options one_step(const char *mode, const char *heuristic, int budget) {
    retrace_error err;
    retrace_backward_options o;
    retrace_backward_default(&o);
    o.max_tokens = o.num_samples = 1;
    o.budget = budget;
    o.temp = o.top_p = 1;
    retrace_setting set[] = {{"mode", {mode, strlen(mode)}},
                             {"heuristic", {heuristic, strlen(heuristic)}}};
    for (int i = 0; i < 2; i++) {
        if (retrace_backward_set(&o, set[i], &err)) die(err.msg);
    }
    return o;
}

/* The engine's step from the model (`real`) or the store. The caller frees *w: the step's list
 * lives as long. */
static retrace_backward_step take(bench *b, const retrace_backward_options *o, int real,
                                  retrace_backward **w) {
    retrace_error err;
    retrace_backward_need need;
    retrace_backward_step step = {0};
    int rc, stepped = 0;
    if (retrace_backward_new(w, b->model, &b->memo.chain, o, b->suffix, b->n, &err)) die(err.msg);
    while ((rc = retrace_backward_next(*w, &need, &err)) == RETRACE_OK) {
        if (need.kind == RETRACE_EVENT && need.event->kind == RETRACE_STEPPED) {
            step = *need.event->step;
            stepped = 1;
        }
        if (need.kind != RETRACE_NEED_MODEL) continue;
        if (real) {
            if (retrace_model_eval(b->model, need.queries, need.n_queries, &err)) die(err.msg);
            continue;
        }
        for (int i = 0; i < need.n_queries; i++) {
            if (!answer_candidate(b, &need.queries[i])) answer_asked(b, &need.queries[i]);
        }
    }
    if (rc < 0) die(err.msg);
    if (!stepped) die("the engine made no step");
    return step;
}

/* ==== The truth ==== */

/* ln pi(start) P(s | document start). */
static double log_start(bench *b) {
    retrace_error err;
    int before = b->chain->start >= 0, vocab = b->facts.vocab;
    retrace_token ends = 0;
    while (ends < vocab && !retrace_token_ends(b->model, ends)) ends++;
    if (before) ends = b->chain->start;
    if (ends == vocab) return -INFINITY;
    double *row = need_memory((size_t)vocab, sizeof *row);
    double *logp = need_memory((size_t)b->n, sizeof *logp);
    retrace_token *tokens = need_memory((size_t)b->n + 1, sizeof *tokens);
    if (retrace_bigram_row(&b->memo.chain, ends, row, &err)) die(err.msg);
    tokens[0] = b->chain->start;
    memcpy(tokens + before, b->suffix, (size_t)b->n * sizeof *tokens);
    answer_asked(b, &(retrace_query){.tokens = tokens,
                                     .n = b->n + before,
                                     .n_prompt = b->n + before,
                                     .from = before + 1,
                                     .logp = logp});
    double sum = log(b->chain->start_pi) + row[b->suffix[0]];
    for (int i = 0; i < b->rest; i++) sum += logp[i];
    free(row);
    free(logp);
    free(tokens);
    return sum;
}

static double log_score(const bench *b, retrace_token v) {
    const double *factors = b->factors + (size_t)v * (size_t)b->rest;
    if (isnan(factors[0])) return -INFINITY;
    double sum = log(b->memo.chain.pi[v]) + b->column[v];
    for (int i = 0; i < b->rest; i++) sum += factors[i];
    return sum;
}

/* Z by adding up all scores, beside what the engine makes of it in mode exhaustive. */
static void print_truth(bench *b) {
    int vocab = b->facts.vocab;
    double *score = need_memory((size_t)vocab + 1, sizeof *score), top = -INFINITY, sum = 0;
    for (int v = 0; v <= vocab; v++) {
        score[v] = v < vocab ? log_score(b, v) : log_start(b);
        if (score[v] > top) top = score[v];
    }
    for (int v = 0; v <= vocab; v++) sum += exp(score[v] - top);
    double log_z = top + log(sum);
    retrace_backward_options o = one_step("exhaustive", "bigram", 0);
    retrace_backward *w;
    retrace_backward_step step = take(b, &o, 0, &w);
    retrace_backward_free(w);
    fprintf(stderr, "log Z %.9f by adding up, %.9f by the engine\n", log_z, step.log_z);
    if (!(fabs(log_z - step.log_z) < 1e-4)) die("the engine's Z is another one");
    printf("truth\t%.12g\n", log_z);
    for (int v = 0; v <= vocab; v++) {
        if (score[v] > -INFINITY)
            printf("posterior\t%d\t%.9g\n", v < vocab ? v : RETRACE_START, score[v] - log_z);
    }
    free(score);
}

/* ==== The commands ==== */

/* What the engine finds with the model itself, against the store. */
static void check_store(bench *b) {
    retrace_backward_options o = one_step("priority", "bigram", CHECKED);
    retrace_backward *w;
    o.top = CHECKED;
    retrace_backward_step step = take(b, &o, 1, &w);
    double most = 0;
    int n = 0;
    for (int i = 0; i < step.n_top; i++) {
        const retrace_preceding *p = &step.top[i];
        if (p->id < 0) continue;
        double gap = fabs(p->log_prior + p->log_likelihood - log_score(b, p->id));
        if (!(gap <= most)) most = gap;
        n++;
    }
    printf("checked\t%d\t%.3g\n", n, most);
    if (n == 0 || !(most < 0.05)) die("the engine's own scores are others than the stored ones");
    retrace_backward_free(w);
}

static void scores(bench *b, int limit) {
    int done = load(b);
    fprintf(stderr, "%s: %d of %d candidates stored\n", b->scores, done, b->facts.vocab);
    if (done < b->facts.vocab) score_all(b, done, limit);
    done = load(b);
    printf("stored\t%d\t%d\t%d\t%s\n", done, b->facts.vocab, b->n, b->scores);
    if (done == b->facts.vocab) check_store(b);
}

/* cell: mode:heuristic:budget:seeds */
static void draws(bench *b, const char *cell) {
    char mode[32], heuristic[32];
    int budget, seeds;
    if (sscanf(cell, "%31[^:]:%31[^:]:%d:%d", mode, heuristic, &budget, &seeds) != 4)
        die("a cell is MODE:HEURISTIC:BUDGET:SEEDS");
    retrace_backward_options o = one_step(mode, heuristic, budget);
    for (o.seed = 1; o.seed <= seeds; o.seed++) {
        double began = now();
        retrace_backward *w;
        retrace_backward_step s = take(b, &o, 0, &w);
        printf("draw\t%s:%s:%d\t%lld\t%.9g\t%.9g\t%.9g\t%d\t%d\t%d\t%.6f\n", mode, heuristic,
               budget, (long long)o.seed, s.log_z, s.log_z_low, s.log_z_high, s.reliable,
               s.evaluated, s.drawn.id, now() - began);
        retrace_backward_free(w);
    }
}

int main(int argc, char **argv) {
    static bench b;
    if (argc < 7) die("usage: backward scores|draws MODEL TABLE FOLDER ...");
    int drawing = strcmp(argv[1], "draws") == 0;
    if (!drawing && strcmp(argv[1], "scores")) die("the commands are scores and draws");
    start(&b, argv + 2);
    if (drawing) {
        if (load(&b) < b.facts.vocab) die("the store of this suffix is not complete");
        load_answers(&b);
        print_truth(&b);
        for (int i = 7; i < argc; i++) draws(&b, argv[i]);
    } else {
        scores(&b, argc > 7 ? number(argv[7], 0, 1 << 30) : 0);
    }
    finish(&b);
    return 0;
}
