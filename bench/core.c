/* core.c - what retrace itself costs, without a model: microseconds per token at a vocabulary of
 * 151,936, and what a list of 50,000 phrases costs to compile.
 *
 * The model is a table of random logits (normal, deviation 3); the time it takes to answer is
 * measured and taken off. Prints one JSON object. Usage: core FILE, where FILE is a scratch file
 * for the table. */
#define _POSIX_C_SOURCE 200809L
#include "retrace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VOCAB = 151936, TOKENS = 200, ROUNDS = 21, PHRASES = 50000 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void die(const char *what) {
    fprintf(stderr, "core: %s\n", what);
    exit(1);
}

/* Reproducible on every machine, unlike rand(). */
static double uniform(void) {
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return ((double)(x >> 11) + 0.5) * 0x1p-53;
}

static void write_table(const char *path) {
    FILE *f = fopen(path, "w");
    if (!f) die("cannot write the table");
    fprintf(f, "{\"tokens\": [\"t0\"");
    for (int i = 1; i < VOCAB; i++) fprintf(f, ", \"t%d\"", i);
    fprintf(f, "], \"rows\": [{\"context\": [], \"next\": {");
    for (int i = 0; i < VOCAB; i++) {
        double normal = sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
        fprintf(f, "%s\"%d\": %.17g", i ? ", " : "", i, exp(3 * normal));
    }
    fprintf(f, "}}]}\n");
    if (fclose(f)) die("cannot write the table");
}

/* Microseconds per token of everything but the model's answers. */
static double one(retrace_model *m, const retrace_options *o) {
    retrace_error err;
    retrace_run *run;
    retrace_need need;
    retrace_stats stats;
    double start = now(), model = 0;
    if (retrace_run_new(&run, m, o, NULL, 0, &err)) die(err.msg);
    while (retrace_run_next(run, &need, &err) == RETRACE_OK) {
        if (need.kind != RETRACE_NEED_MODEL) continue;
        double asked = now();
        if (retrace_model_eval(m, need.queries, need.n_queries, &err)) die(err.msg);
        model += now() - asked;
    }
    double spent = now() - start - model;
    retrace_run_stats(run, &stats);
    retrace_run_free(run);
    return spent / (double)stats.kept;
}

static int rising(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Median and a 95 % interval of it by order statistics (of 21: the 6th and the 16th). */
static void report(const char *name, retrace_model *m, const retrace_options *o) {
    double us[ROUNDS];
    one(m, o);
    for (int i = 0; i < ROUNDS; i++) us[i] = one(m, o);
    qsort(us, ROUNDS, sizeof *us, rising);
    printf("  \"%s\": {\"us_per_token\": %.1f, \"interval\": [%.1f, %.1f]},\n", name,
           us[ROUNDS / 2], us[5], us[15]);
}

static int64_t live, peak;

static void *counting(void *ud, void *p, size_t old, size_t size) {
    (void)ud;
    live += (int64_t)size - (int64_t)old;
    if (live > peak) peak = live;
    if (size) return realloc(p, size);
    free(p);
    return NULL;
}

/* Three to five pseudo-words each. */
static char *make_list(void) {
    static const char *const syllables[] = {"ba",  "ten", "lor", "mi",  "ska", "du",
                                            "ren", "fo",  "gal", "thi", "vey", "om"};
    char *list = malloc(PHRASES * 64u), *at = list;
    if (!list) die("out of memory");
    for (int i = 0; i < PHRASES; i++) {
        int words = 3 + (int)(uniform() * 3);
        for (int w = 0; w < words; w++) {
            for (int s = 0; s < 2 + (int)(uniform() * 2); s++) {
                const char *syllable = syllables[(int)(uniform() * 12)];
                size_t n = strlen(syllable);
                memcpy(at, syllable, n);
                at += n;
            }
            *at++ = w + 1 < words ? ' ' : '\n';
        }
    }
    *at = '\0';
    return list;
}

static void report_list(void) {
    retrace_error err;
    retrace_rule *rule;
    char *list = make_list();
    double ms[ROUNDS];
    retrace_setting file = {"file", {list, strlen(list)}};
    for (int i = 0; i < ROUNDS; i++) {
        double start = now();
        if (retrace_rule_new(&rule, "phrases", &file, 1, &err)) die(err.msg);
        ms[i] = (now() - start) * 1e-3;
        if (i + 1 < ROUNDS) retrace_rule_free(rule);
    }
    qsort(ms, ROUNDS, sizeof *ms, rising);
    printf("  \"list_50000\": {\"build_ms\": %.1f, \"kept_mb\": %.1f, \"peak_mb\": %.1f}\n",
           ms[ROUNDS / 2], (double)live * 1e-6, (double)peak * 1e-6);
    retrace_rule_free(rule);
    free(list);
}

int main(int argc, char **argv) {
    retrace_error err;
    retrace_model *m;
    retrace_options o;
    if (argc != 2) die("usage: core SCRATCH-FILE");
    write_table(argv[1]);
    char uri[4096];
    snprintf(uri, sizeof uri, "table:%s", argv[1]);
    retrace_set_alloc(counting, NULL);
    printf("{\n");
    if (retrace_model_open(&m, uri, NULL, 0, &err)) die(err.msg);
    remove(argv[1]);

    retrace_options_default(&o);
    o.max_tokens = TOKENS;
    o.seed = 1;
    report("default", m, &o);
    o.top_k = 0;
    o.top_p = 1;
    o.min_p = 0;
    o.temp = 1;
    o.logprobs = 0;
    report("untruncated_logprobs_temp_1", m, &o);
    o.temp = 0.8;
    report("untruncated_logprobs_temp_0.8", m, &o);
    o.logprobs = -1;
    o.temp = 1;
    o.top_p = 0.95;
    report("top_p_only", m, &o);
    retrace_model_close(m);
    live = peak = 0;
    report_list();
    printf("}\n");
    return 0;
}
