/* backward_speed.c - what backward sampling costs: the parts that another program drives in turn
 * with a peer, and the parts of a table's making by themselves.
 *
 * `work` opens the model and then does what standard input says, a line at a time, so that two
 * programs can take turns without loading anything anew. Each line is answered by one JSON object:
 *     score N SUFFIX            N candidates scored in full, the passing questions by themselves
 *     step BUDGET SEED SUFFIX   one step of the engine by its defaults, heuristics included
 *     check SUFFIX              log-likelihoods of [v, suffix] for v = 1000, 2000 .. 8000
 *     prior FILE                writes the prior, as doubles
 * With TABLE `-` all factors are the model's, there is no prior and no step; but a small vocabulary
 * gets its chain in memory.
 * `parts` measures the evaluation of the vocabulary and one product with the whole chain, on SHARE
 * of the vocabulary each.
 * Usage: backward_speed work MODEL TABLE THREADS WEIGHTS
 *        backward_speed parts MODEL TABLE THREADS WEIGHTS SHARE */
#define _POSIX_C_SOURCE 200809L
#include "retrace_ext.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 1 << 16, PROBE = 1024, SMALL = 1000 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what) {
    fprintf(stderr, "backward_speed: %s\n", what);
    exit(1);
}

static void *need_memory(size_t n, size_t size) {
    void *p = calloc(n, size);
    if (!p) die("out of memory");
    return p;
}

typedef struct bench {
    retrace_model *model;
    retrace_model_info facts;
    retrace_bigram *table; /* NULL: none */
    retrace_token *anchor;
    int n_anchor;
    int batch;          /* candidates asked about at once, as the engine does it by default */
    retrace_token next; /* the candidate that the next score begins at */
} bench;

static void open_all(bench *b, char **argv) {
    retrace_error err;
    retrace_backward_options o;
    retrace_setting s[] = {{"threads", {argv[2], strlen(argv[2])}},
                           {"weights", {argv[3], strlen(argv[3])}}};
    int n_settings = strncmp(argv[0], "table:", 6) == 0 ? 0 : 2;
    if (retrace_model_open(&b->model, argv[0], s, n_settings, &err)) die(err.msg);
    retrace_model_facts(b->model, &b->facts);
    int rc = RETRACE_OK;
    if (strcmp(argv[1], "-"))
        rc = retrace_bigram_open(&b->table, argv[1], &err);
    else if (b->facts.vocab <= SMALL)
        rc = retrace_bigram_of(&b->table, b->model, (retrace_anchor){.n = -1}, &err);
    if (rc) die(err.msg);
    retrace_backward_default(&o);
    b->batch = (int)o.batch_size;
    b->n_anchor = b->facts.start >= 0;
    b->anchor = &b->facts.start;
}

static retrace_token *tokenize(const bench *b, const char *suffix, int *n) {
    retrace_error err;
    retrace_token *tokens;
    retrace_text text = {suffix, strlen(suffix)};
    if (retrace_tokenize(b->model, text, 0, &tokens, n, &err)) die(err.msg);
    if (*n < 2) die("a suffix of less than two tokens");
    return tokens;
}

/* ==== Candidates scored ==== */

/* The next one in an order that jumps through the vocabulary. */
static retrace_token next_candidate(bench *b) {
    int flags = RETRACE_TOKEN_CONTROL | RETRACE_TOKEN_UNUSED | RETRACE_TOKEN_END;
    do b->next = (retrace_token)(((int64_t)b->next + 7919) % b->facts.vocab);
    while (b->model->vocab[b->next].flags & flags);
    return b->next;
}

/* Scores n candidates, at most a batch; adds to *sum and *rows. */
static void score_batch(bench *b, const retrace_token *suffix, int n_suffix, int n,
                        const double *column, double *sum, int64_t *rows) {
    retrace_error err;
    int before = b->n_anchor, length = before + 1 + n_suffix, from = before + (column ? 2 : 1);
    retrace_query *q = need_memory((size_t)n, sizeof *q);
    retrace_token *tokens = need_memory((size_t)(n * length), sizeof *tokens);
    double *logp = need_memory((size_t)(n * length), sizeof *logp);
    const double *pi = b->table ? retrace_bigram_pi(b->table) : NULL;
    for (int i = 0; i < n; i++) {
        retrace_token *t = tokens + i * length;
        if (before) t[0] = *b->anchor;
        t[before] = next_candidate(b);
        memcpy(t + before + 1, suffix, (size_t)n_suffix * sizeof *t);
        q[i] = (retrace_query){t, length, length, from, logp + i * length, .slot = RETRACE_PASSING};
    }
    if (retrace_model_eval(b->model, q, n, &err)) die(err.msg);
    for (int i = 0; i < n; i++) {
        retrace_token v = q[i].tokens[before];
        double score = (pi ? log(pi[v]) : 0) + (column ? column[v] : 0);
        for (int j = from; j < length; j++) score += q[i].logp[j - from];
        *sum += exp(score);
        *rows += q[i].evaluated;
    }
    free(logp);
    free(tokens);
    free(q);
}

static void score(bench *b, int n, const char *text) {
    retrace_error err;
    int n_suffix;
    int64_t rows = 0;
    double sum = 0, *column = NULL;
    retrace_token *suffix = tokenize(b, text, &n_suffix);
    double began = now();
    if (b->table) {
        column = need_memory((size_t)b->facts.vocab, sizeof *column);
        if (retrace_bigram_column(b->table, suffix[0], column, &err)) die(err.msg);
    }
    for (int done = 0; done < n; done += b->batch)
        score_batch(b, suffix, n_suffix, n - done < b->batch ? n - done : b->batch, column, &sum,
                    &rows);
    printf("{\"seconds\": %.6f, \"candidates\": %d, \"tokens\": %lld, \"log_sum\": %.6f}\n",
           now() - began, n, (long long)rows, log(sum));
    free(column);
    retrace_free(suffix);
}

/* Without an anchor, all factors the model's: what a peer finds too. */
static void check(bench *b, const char *text) {
    retrace_error err;
    int n;
    double logp[512];
    retrace_token *suffix = tokenize(b, text, &n), tokens[513];
    if (n > 512) die("a long suffix");
    memcpy(tokens + 1, suffix, (size_t)n * sizeof *tokens);
    printf("{\"logp\": [");
    for (int i = 1; i <= 8; i++) {
        double sum = 0;
        tokens[0] = 1000 * i % b->facts.vocab;
        retrace_query q = {tokens, n + 1, n + 1, 1, logp, .slot = RETRACE_PASSING};
        if (retrace_model_eval(b->model, &q, 1, &err)) die(err.msg);
        for (int j = 0; j < n; j++) sum += logp[j];
        printf("%s%.6f", i > 1 ? ", " : "", sum);
    }
    printf("]}\n");
    retrace_free(suffix);
}

/* ==== One step ==== */

static int first_step(void *ud, const retrace_backward_event *event) {
    if (event->kind == RETRACE_STEPPED) *(retrace_backward_step *)ud = *event->step;
    return 0;
}

static void step(bench *b, int budget, int seed, const char *text) {
    retrace_error err;
    retrace_backward *w;
    retrace_backward_options o;
    retrace_backward_stats stats;
    retrace_backward_step s = {0};
    int n;
    if (!b->table) die("a step needs a table");
    retrace_token *suffix = tokenize(b, text, &n);
    retrace_backward_default(&o);
    o.max_tokens = o.num_samples = 1;
    o.budget = budget;
    o.seed = seed;
    double began = now();
    if (retrace_backward_new(&w, b->model, b->table, &o, suffix, n, &err) ||
        retrace_backward_finish(w, first_step, &s, &err))
        die(err.msg);
    retrace_backward_totals(w, &stats);
    printf("{\"seconds\": %.6f, \"suffix\": %d, \"candidates\": %d, \"tokens\": %lld, "
           "\"se\": %.5f, \"log_z\": %.6f}\n",
           now() - began, n, s.evaluated, (long long)stats.evaluated, s.se, s.log_z);
    retrace_backward_free(w);
    retrace_free(suffix);
}

/* ==== Lines ==== */

static void write_prior(const bench *b, const char *path) {
    size_t n = (size_t)b->facts.vocab;
    FILE *f = fopen(path, "wb");
    if (!b->table) die("no table, no prior");
    if (!f || fwrite(retrace_bigram_pi(b->table), sizeof(double), n, f) != n || fclose(f))
        die("the prior cannot be written");
    printf("{\"vocab\": %zu}\n", n);
}

static void work(bench *b) {
    char line[4096];
    int x, y, at = 0;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "score %d%n", &x, &at) == 1 && x > 0 && x <= MOST && line[at])
            score(b, x, line + at + 1);
        else if (sscanf(line, "step %d %d%n", &x, &y, &at) == 2 && line[at])
            step(b, x, y, line + at + 1);
        else if (strncmp(line, "check ", 6) == 0)
            check(b, line + 6);
        else if (strncmp(line, "prior ", 6) == 0)
            write_prior(b, line + 6);
        else
            die("a line is none of score, step, check, prior");
        fflush(stdout);
    }
}

/* ==== The parts of a table ==== */

/* Evaluates `share` of the vocabulary, `batch` tokens a call; seconds. */
static double time_states(bench *b, int batch, int n, float *states) {
    retrace_error err;
    const retrace_factors *f = b->model->type->factors;
    retrace_token *tokens = need_memory((size_t)batch, sizeof *tokens);
    double began = now();
    for (int done = 0; done < n; done += batch) {
        int count = n - done < batch ? n - done : batch;
        for (int i = 0; i < count; i++) tokens[i] = done + i;
        if (f->states(b->model, b->anchor, b->n_anchor, tokens, count, states, NULL, &err))
            die(err.msg);
    }
    double spent = now() - began;
    free(tokens);
    return spent;
}

/* The batch that gives most tokens a second. */
static int best_batch(bench *b, int n, float *states) {
    int most = b->model->type->factors->states_batch, best = most;
    double least = INFINITY;
    for (int batch = most; batch >= 16; batch /= 2) {
        double spent = time_states(b, batch, n < PROBE ? n : PROBE, states);
        if (spent < least) {
            least = spent;
            best = batch;
        }
    }
    return best;
}

static double time_products(bench *b, int dim, int n, float *states) {
    enum { ROWS = 256 };
    retrace_error err;
    const retrace_factors *f = b->model->type->factors;
    size_t vocab = (size_t)b->facts.vocab;
    float *w = need_memory(vocab * (size_t)dim, sizeof *w);
    float *x = need_memory(ROWS * vocab, sizeof *x);
    if (f->output(b->model, w, &err)) die(err.msg);
    /* The first call may make a copy of w. */
    if (f->multiply(b->model, w, states, 1, x, &err)) die(err.msg);
    double began = now();
    for (int done = 0; done < n; done += ROWS) {
        int count = n - done < ROWS ? n - done : ROWS;
        if (f->multiply(b->model, w, states, count, x, &err)) die(err.msg);
    }
    double spent = now() - began;
    free(x);
    free(w);
    return spent;
}

static void parts(bench *b, double share) {
    retrace_error err;
    const retrace_factors *f = b->model->type->factors;
    int dim = 0, vocab = b->facts.vocab, n = (int)(share * vocab);
    if (!f || f->dim(b->model, &dim, &err)) die("a model without hidden states");
    int rows = f->states_batch > 256 ? f->states_batch : 256;
    float *states = need_memory((size_t)rows * (size_t)dim, sizeof *states);
    int batch = best_batch(b, n, states);
    double evaluation = time_states(b, batch, n, states),
           product = time_products(b, dim, n, states);
    printf("{\"measured_share\": %.3f, \"batch\": %d, \"states_s\": %.3f, \"product_s\": %.3f}\n",
           (double)n / vocab, batch, evaluation * vocab / n, product * vocab / n);
    free(states);
}

int main(int argc, char **argv) {
    bench b = {0};
    int timing = argc == 7 && strcmp(argv[1], "parts") == 0;
    if (!timing && (argc != 6 || strcmp(argv[1], "work")))
        die("usage: backward_speed work|parts MODEL TABLE THREADS WEIGHTS [SHARE]");
    open_all(&b, argv + 2);
    if (timing) {
        double share = strtod(argv[6], NULL);
        if (!(share > 0.001 && share <= 1)) die("SHARE is above 0.001 and at most 1");
        parts(&b, share);
    } else {
        printf("{\"weights\": \"%s\", \"vocab\": %d, \"batch\": %d}\n", b.facts.weights,
               b.facts.vocab, b.batch);
        fflush(stdout);
        work(&b);
    }
    retrace_bigram_close(b.table);
    retrace_model_close(b.model);
    return 0;
}
