/* rules.c - what a rule costs that has nothing to do: tokens per second with it and without, on a
 * real model, in turns within one process.
 *
 * The settings make every rule look at every token and object to none, so both runs of a pair write
 * the same text from the same seed. Constrained output has another text than free output; there the
 * number of tokens is the same. Only the ratio inside a pair counts; reported is the median and its
 * 95 % interval by order statistics, and beside it the time that the core itself took per token
 * more than without the rule, which no noise of the model hides. Prints one JSON object. Usage:
 * rules MODEL THREADS [PAIRS [TOKENS]] */
#define _POSIX_C_SOURCE 200809L
#include "retrace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_PAIRS = 64 };

static const char prompt_text[] =
    "Once upon a time there was a small village between the river and the";

/* A schema that goes on longer than any run here. */
static const char schema[] =
    "json:schema=\"{\\\"type\\\": \\\"array\\\", \\\"minItems\\\": 500, \\\"items\\\": "
    "{\\\"type\\\": "
    "\\\"object\\\", \\\"properties\\\": {\\\"name\\\": {\\\"type\\\": \\\"string\\\"}, "
    "\\\"age\\\": "
    "{\\\"type\\\": \\\"integer\\\"}, \\\"tags\\\": {\\\"type\\\": \\\"array\\\", \\\"items\\\": "
    "{\\\"type\\\": \\\"string\\\"}}}, \\\"required\\\": [\\\"name\\\", \\\"age\\\", "
    "\\\"tags\\\"]}}\"";

static const char *const probability_threshold = "probability-threshold:min_probability=1e-30";
static const char *const entropy_threshold = "entropy-threshold:max_entropy=1000";
static const char *const probability_margin = "probability-margin:min_margin=0";
static const char *const probability_drop = "probability-drop:max_drop=1";
static const char *const probability_trend = "probability-trend:drop_threshold=1e-30";
static const char *const repetition = "repetition:max_repetitions=1000";
static const char *const ngram_overlap = "ngram-overlap:ngram_size=60";
static const char *const logit_threshold = "logit-threshold:min_logit=-1e9";

typedef struct test {
    const char *name;
    double aim;           /* 0: none */
    const char *rules[8]; /* specs; "regex64": the published set, made below */
} test;

static test tests[] = {
    {"nothing (control)", 0, {NULL}},
    {"phrases", 0.97, {"phrases:text=\"a testament to\""}},
    {"regex", 0.97, {"regex:pattern=\"eyes? (glint|gleam|a?glow)\""}},
    {"regex, 64 patterns", 0, {"regex64"}},
    {"replace", 0.97, {"replace:find=\"a testament to\",replace=\"proof of\""}},
    {"adaptive-temperature", 0, {"adaptive-temperature"}},
    {"dry", 0, {"dry:multiplier=0.000001"}},
    {"probability-threshold", 0.97, {probability_threshold}},
    {"entropy-threshold", 0.97, {entropy_threshold}},
    {"probability-margin", 0.97, {probability_margin}},
    {"probability-drop", 0.97, {probability_drop}},
    {"probability-trend", 0.97, {probability_trend}},
    {"repetition", 0.97, {repetition}},
    {"ngram-overlap", 0.97, {ngram_overlap}},
    {"logit-threshold", 0.97, {logit_threshold}},
    {"all eight operators",
     0.95,
     {probability_threshold, entropy_threshold, probability_margin, probability_drop,
      probability_trend, repetition, ngram_overlap, logit_threshold}},
    {"debug", 0, {"debug"}},
    {"grammar", 0.97, {"grammar:text=\"root ::= [^\\\\x00]*\""}},
    {"json", 0.95, {schema}},
};
enum { N_TESTS = sizeof tests / sizeof *tests };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what) {
    fprintf(stderr, "rules: %s\n", what);
    exit(1);
}

/* ==== Rules ==== */

static const char *const stems[] = {"shiver",  "whisper",   "glint", "testament",
                                    "tapestr", "ministrat", "orbs",  "crimson"};

/* 64 patterns of the kind that ban lists hold. */
static retrace_rule *regex64(void) {
    static char text[64][96];
    retrace_setting s[64];
    retrace_rule *rule;
    retrace_error err;
    for (int i = 0; i < 64; i++) {
        const char *stem = stems[i % 8];
        switch (i / 8) {
        case 0:
            snprintf(text[i], sizeof text[i], "(?i)\\b%s(s|ed|ing)? down (his|her) spine", stem);
            break;
        case 1: snprintf(text[i], sizeof text[i], "a %s (of|to) (the|his|her) \\w+ly", stem); break;
        case 2: snprintf(text[i], sizeof text[i], "barely above (a|the) %s", stem); break;
        case 3:
            snprintf(text[i], sizeof text[i], "(not|never) (only|just) .{1,40}, but %s", stem);
            break;
        case 4:
            snprintf(text[i], sizeof text[i], "[Ee]yes? (glint|gleam)\\w* with %s", stem);
            break;
        case 5: snprintf(text[i], sizeof text[i], "%s[a-z]* [^.!?]{0,60}%s", stem, stem); break;
        case 6: snprintf(text[i], sizeof text[i], "(?i)in a world where \\w+ %s", stem); break;
        default: snprintf(text[i], sizeof text[i], "\\bmore than (just )?a %s\\b", stem); break;
        }
        s[i] = (retrace_setting){"pattern", {text[i], strlen(text[i])}};
    }
    if (retrace_rule_new(&rule, "regex", s, 64, &err)) die(err.msg);
    return rule;
}

static retrace_rule *make(const char *spec) {
    retrace_rule_spec *parsed;
    retrace_rule *rule;
    retrace_error err;
    if (strcmp(spec, "regex64") == 0) return regex64();
    if (retrace_rule_parse(&parsed, spec, &err)) die(err.msg);
    if (retrace_rule_new(&rule, parsed->name, parsed->settings, parsed->n_settings, &err))
        die(err.msg);
    retrace_free(parsed);
    return rule;
}

/* ==== Runs ==== */

typedef struct bench {
    retrace_model *model;
    retrace_token *prompt;
    int n_prompt;
    retrace_bias *ends;
    int n_ends, tokens;
} bench;

typedef struct spent {
    double total, core; /* seconds, from the prompt's logits on */
    int64_t rewinds;
} spent;

static spent run_once(bench *b, retrace_rule *const *rules, int n_rules, int seed) {
    retrace_error err;
    retrace_options o;
    retrace_run *run;
    retrace_need need;
    retrace_stats stats;
    retrace_options_default(&o);
    o.max_tokens = b->tokens;
    o.seed = seed;
    o.bias = b->ends;
    o.n_bias = b->n_ends;
    o.rules = rules;
    o.n_rules = n_rules;
    if (retrace_run_new(&run, b->model, &o, b->prompt, b->n_prompt, &err)) die(err.msg);
    double start = 0, model = 0;
    while (retrace_run_next(run, &need, &err) == RETRACE_OK) {
        if (need.kind != RETRACE_NEED_MODEL) continue;
        double asked = now();
        if (retrace_model_eval(b->model, need.queries, need.n_queries, &err)) die(err.msg);
        if (start == 0)
            start = now();
        else
            model += now() - asked;
    }
    spent s = {.total = now() - start};
    s.core = s.total - model;
    retrace_run_stats(run, &stats);
    s.rewinds = stats.rewinds;
    if (stats.kept != b->tokens) die("a run came to a stop");
    retrace_run_free(run);
    return s;
}

static int rising(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, rising);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Largest k whose order statistics leave 95 % between them; the extremes below six pairs. */
static int rank_of(int n) {
    double term = pow(0.5, n), below = 0;
    int k = 0;
    while (2 * (below + term) <= 0.05) {
        below += term;
        term *= (double)(n - k) / (k + 1);
        k++;
    }
    return k < 1 ? 1 : k;
}

static void measure(bench *b, const test *t, int pairs, int seed, int last) {
    retrace_rule *rules[8];
    double ratio[MOST_PAIRS], core[MOST_PAIRS];
    int n = 0, k = rank_of(pairs);
    int64_t rewinds = 0;
    for (; n < 8 && t->rules[n]; n++) rules[n] = make(t->rules[n]);
    for (int i = 0; i < pairs; i++) {
        spent with = {0}, without = {0};
        if (i % 2) with = run_once(b, rules, n, seed + i);
        without = run_once(b, NULL, 0, seed + i);
        if (i % 2 == 0) with = run_once(b, rules, n, seed + i);
        ratio[i] = without.total / with.total;
        core[i] = 1e6 * (with.core - without.core) / b->tokens;
        rewinds += with.rewinds;
    }
    double mid = median(ratio, pairs);
    printf("  {\"name\": \"%s\", \"aim\": %g, \"ratio\": %.4f, \"interval\": [%.4f, %.4f], "
           "\"core_us\": %.1f, \"rewinds\": %lld}%s\n",
           t->name, t->aim, mid, ratio[k - 1], ratio[pairs - k], median(core, pairs),
           (long long)rewinds, last ? "" : ",");
    fflush(stdout);
    for (int i = 0; i < n; i++) retrace_rule_free(rules[i]);
}

static void find_ends(bench *b) {
    retrace_model_info facts;
    retrace_model_facts(b->model, &facts);
    b->ends = malloc((size_t)facts.vocab * sizeof *b->ends);
    if (!b->ends) die("out of memory");
    for (retrace_token id = 0; id < facts.vocab; id++) {
        if (retrace_token_ends(b->model, id)) b->ends[b->n_ends++] = (retrace_bias){id, -INFINITY};
    }
}

static int number(const char *s, int least, int most) {
    char *end;
    long n = strtol(s, &end, 10);
    if (end == s || *end || n < least || n > most) die("a number is not one, or out of range");
    return (int)n;
}

int main(int argc, char **argv) {
    retrace_error err;
    bench b = {0};
    if (argc < 3) die("usage: rules MODEL THREADS [PAIRS [TOKENS]]");
    int pairs = argc > 3 ? number(argv[3], 1, MOST_PAIRS) : 12;
    b.tokens = argc > 4 ? number(argv[4], 8, 512) : 64;
    retrace_setting s[] = {{"threads", {argv[2], strlen(argv[2])}}, {"ctx_size", {"1024", 4}}};
    if (retrace_model_open(&b.model, argv[1], s, 2, &err)) die(err.msg);
    retrace_text text = {prompt_text, sizeof prompt_text - 1};
    if (retrace_tokenize(b.model, text, RETRACE_TOKENIZE_BOS, &b.prompt, &b.n_prompt, &err))
        die(err.msg);
    find_ends(&b);
    run_once(&b, NULL, 0, 0);
    printf("{\"pairs\": %d, \"tokens\": %d, \"rules\": [\n", pairs, b.tokens);
    for (int i = 0; i < N_TESTS; i++) measure(&b, &tests[i], pairs, 1000 * i, i + 1 == N_TESTS);
    printf("]}\n");
    retrace_free(b.prompt);
    free(b.ends);
    retrace_model_close(b.model);
    return 0;
}
