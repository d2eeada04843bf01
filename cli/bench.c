/* bench.c - retrace against a bare libllama loop, alternating in one process.
 *
 * Both draw n tokens after the same prompt with the same sampling and threads, end tokens excluded;
 * the clock runs from the prompt's last logits to the last token. The two take turns in pairs, so
 * what slows the machine down hits both, and only the ratio inside a pair counts: reported is the
 * median with the 95 % interval that order statistics give without any assumption about the noise.
 *
 * The phrase lists are made here: a common word followed by words that do not exist. They begin all
 * the time in a real text and are never completed, so they cost what matching costs. */
#define _GNU_SOURCE
#include "bare.h"
#include "cli.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { N_CASES = 3, MOST_PAIRS = 64, CTX = 1024, BATCH = 512 };

static const char *const case_names[N_CASES] = {"none", "phrases500", "phrases50000"};
static const int case_phrases[N_CASES] = {0, 500, 50000};
static const char prompt_text[] =
    "Once upon a time there was a small village between the river and the";

typedef struct bench {
    retrace_model *model;
    cli_bare *bare;
    retrace_token *prompt;
    int n_prompt;
    retrace_bias *ends; /* against end tokens, as the bare loop has it */
    int n_ends;
    int n;                   /* tokens of a run */
    int n_pairs, most_pairs; /* of each case: made, wanted */
    double until;            /* the clock when the last one should be done */
    int threads, gpu_layers;
    int draws; /* runs made, for seeds */
    retrace_rule *rules[N_CASES];
    double build_s[N_CASES];
    double ratio[N_CASES][MOST_PAIRS];
    double bare_rate[N_CASES * MOST_PAIRS], rate[N_CASES][MOST_PAIRS];
    int n_bare;
    double rewind_us;
    int64_t rewinds, reevaluated; /* of those runs */
} bench;

/* ==== The lists ==== */

static uint32_t scramble(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void invent_word(cli_buf *b, uint32_t *state) {
    static const char *const heads[] = {"b",  "dr", "f",  "gl", "k", "m",
                                        "pr", "qu", "sk", "t",  "v", "z"};
    static const char *const tails[] = {"ab", "eg", "iv", "om", "ul",
                                        "az", "ex", "ig", "ob", "urn"};
    for (int i = 0; i < 3; i++) {
        cli_puts(b, heads[scramble(state) % 12]);
        cli_puts(b, tails[scramble(state) % 10]);
    }
}

/* n phrases, one a line: "the drabqueggloz mivskom". */
static void invent_list(cli_buf *b, int n) {
    static const char *const common[] = {"the",      "a",      "of",     "and",     "in the",
                                         "to",       "her",    "his",    "with",    "there was a",
                                         "sense of", "as the", "it was", "into the"};
    uint32_t state = 12345;
    for (int i = 0; i < n; i++) {
        cli_puts(b, common[scramble(&state) % 14]);
        cli_puts(b, " ");
        invent_word(b, &state);
        cli_puts(b, " ");
        invent_word(b, &state);
        cli_puts(b, "\n");
    }
}

static int build_rules(bench *b) {
    retrace_error err;
    for (int i = 0; i < N_CASES; i++) {
        cli_buf list = {0};
        if (case_phrases[i] == 0) continue;
        invent_list(&list, case_phrases[i]);
        retrace_setting s = {"file", cli_buf_text(&list)};
        double start = cli_clock();
        int rc = retrace_rule_new(&b->rules[i], "phrases", &s, 1, &err);
        b->build_s[i] = cli_clock() - start;
        cli_buf_free(&list);
        if (rc) return cli_report(&err, NULL);
    }
    return CLI_OK;
}

/* ==== One run of either kind ==== */

/* Generates, and notes the time between the prompt's logits and the last event. */
static int drive(bench *b, retrace_run *run, double *seconds, retrace_error *err) {
    retrace_need need;
    double start = 0;
    for (;;) {
        int rc = retrace_run_next(run, &need, err);
        if (rc < 0) return rc;
        if (rc == RETRACE_DONE) break;
        if (need.kind != RETRACE_NEED_MODEL) continue;
        rc = retrace_model_eval(b->model, need.queries, need.n_queries, err);
        if (rc) return rc;
        if (start == 0) start = cli_clock();
    }
    *seconds = cli_clock() - start;
    return RETRACE_OK;
}

static int run_retrace(bench *b, int which, double *seconds) {
    retrace_error err;
    retrace_options o;
    retrace_run *run;
    int kept;
    retrace_options_default(&o);
    o.max_tokens = b->n;
    o.seed = b->draws++;
    o.bias = b->ends;
    o.n_bias = b->n_ends;
    o.rules = &b->rules[which];
    o.n_rules = b->rules[which] != NULL;
    if (retrace_run_new(&run, b->model, &o, b->prompt, b->n_prompt, &err))
        return cli_report(&err, NULL);
    int rc = drive(b, run, seconds, &err);
    retrace_run_tokens(run, &kept);
    retrace_run_free(run);
    if (rc) return cli_report(&err, NULL);
    return kept == b->n ? CLI_OK : cli_fail(CLI_MODEL, "a run gave %d of %d tokens", kept, b->n);
}

static int run_bare(bench *b, double *seconds) {
    char msg[256] = "";
    uint32_t seed = (uint32_t)b->draws++;
    if (cli_bare_run(b->bare, b->prompt, b->n_prompt, b->n, seed, cli_clock, seconds, msg,
                     sizeof msg))
        return cli_fail(CLI_MODEL, "%s", msg);
    b->bare_rate[b->n_bare++] = b->n / *seconds;
    return CLI_OK;
}

static int run_pair(bench *b, int which, int i) {
    double bare = 0, own = 0;
    int code = i % 2 ? run_retrace(b, which, &own) : run_bare(b, &bare);
    if (!code) code = i % 2 ? run_bare(b, &bare) : run_retrace(b, which, &own);
    if (code) return code;
    b->ratio[which][i] = bare / own;
    b->rate[which][i] = b->n / own;
    cli_progress("%d of %d pairs ...", i * N_CASES + which + 1, b->most_pairs * N_CASES);
    return CLI_OK;
}

/* ==== What a rewind costs ==== */

/* From the push that completes a phrase to the push that replaces it: judging, erasing and drawing
 * again. The model is not asked in between. */
typedef struct lap {
    double last_push, sum;
    int erased, n;
} lap;

static int time_rewind(void *ud, const retrace_event *e) {
    lap *l = ud;
    double now = cli_clock();
    if (e->kind == RETRACE_ERASE) l->erased = 1;
    if (e->kind != RETRACE_PUSH) return 0;
    if (l->erased) {
        l->sum += now - l->last_push;
        l->n++;
    }
    l->erased = 0;
    l->last_push = now;
    return 0;
}

static int run_rewinds(bench *b, retrace_rule *rule, lap *l) {
    retrace_error err;
    retrace_options o;
    retrace_run *run = NULL;
    retrace_stats stats = {0};
    retrace_options_default(&o);
    o.max_tokens = b->n;
    o.seed = b->draws++;
    o.bias = b->ends;
    o.n_bias = b->n_ends;
    o.on_stuck = RETRACE_STUCK_STOP;
    o.rules = &rule;
    o.n_rules = 1;
    int rc = retrace_run_new(&run, b->model, &o, b->prompt, b->n_prompt, &err);
    if (!rc) rc = retrace_run_finish(run, time_rewind, l, &err);
    if (!rc) retrace_run_stats(run, &stats);
    b->rewinds += stats.rewinds;
    b->reevaluated += stats.reevaluated;
    l->erased = 0;
    retrace_run_free(run);
    return rc ? cli_report(&err, NULL) : CLI_OK;
}

/* A letter that hardly a word does without is banned, so there is a rewind at almost every token.
 */
static int measure_rewinds(bench *b, int wanted) {
    retrace_error err;
    retrace_rule *rule;
    retrace_setting s = {"text", {"e", 1}};
    lap l = {0};
    int code = CLI_OK;
    if (retrace_rule_new(&rule, "phrases", &s, 1, &err)) return cli_report(&err, NULL);
    for (int i = 0; i < 40 && b->rewinds < wanted && !code; i++) {
        if (i && cli_clock() > b->until) break;
        code = run_rewinds(b, rule, &l);
    }
    b->rewind_us = l.n ? 1e6 * l.sum / l.n : NAN;
    retrace_rule_free(rule);
    return code;
}

/* ==== Figures ==== */

static int rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *v, int n) {
    double sorted[N_CASES * MOST_PAIRS];
    memcpy(sorted, v, (size_t)n * sizeof *v);
    qsort(sorted, (size_t)n, sizeof *sorted, rising);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* The k-th smallest and largest of n enclose the median with probability 1 - 2 P(Bin(n, 1/2) < k);
 * the largest k that leaves 95 %. Below six pairs there is none, and the extremes stand. */
static void interval(const double *v, int n, double *low, double *high) {
    double sorted[MOST_PAIRS], term = pow(0.5, n), below = 0;
    int k = 0;
    memcpy(sorted, v, (size_t)n * sizeof *v);
    qsort(sorted, (size_t)n, sizeof *sorted, rising);
    while (2 * (below + term) <= 0.05) {
        below += term;
        term *= (double)(n - k) / (k + 1);
        k++;
    }
    if (k < 1) k = 1;
    *low = sorted[k - 1];
    *high = sorted[n - k];
}

static json_t *digits(double x, double unit) {
    return cli_json_real(isfinite(x) ? round(x / unit) * unit : x);
}

static int print_json(const bench *b) {
    retrace_model_info facts;
    retrace_model_facts(b->model, &facts);
    json_t *ratios = json_object(), *intervals = json_object(), *rates = json_object();
    json_t *build = json_object(), *o = json_object();
    for (int i = 0; i < N_CASES; i++) {
        double low, high;
        interval(b->ratio[i], b->n_pairs, &low, &high);
        json_t *pair = json_array();
        json_array_append_new(pair, digits(low, 1e-4));
        json_array_append_new(pair, digits(high, 1e-4));
        json_object_set_new(ratios, case_names[i], digits(median(b->ratio[i], b->n_pairs), 1e-4));
        json_object_set_new(intervals, case_names[i], pair);
        json_object_set_new(rates, case_names[i], digits(median(b->rate[i], b->n_pairs), 1e-2));
        if (b->rules[i]) json_object_set_new(build, case_names[i], digits(b->build_s[i], 1e-6));
    }
    json_object_set_new(o, "ratios", ratios);
    json_object_set_new(o, "intervals", intervals);
    json_object_set_new(o, "bare_tokens_per_s", digits(median(b->bare_rate, b->n_bare), 1e-2));
    json_object_set_new(o, "tokens_per_s", rates);
    json_object_set_new(o, "pairs", json_integer(b->n_pairs));
    json_object_set_new(o, "tokens", json_integer(b->n));
    json_object_set_new(o, "threads", json_integer(b->threads));
    json_object_set_new(o, "build_s", build);
    json_object_set_new(o, "rewind_us", digits(b->rewind_us, 1e-2));
    json_object_set_new(o, "rewinds", json_integer(b->rewinds));
    json_object_set_new(o, "reevaluated", json_integer(b->reevaluated));
    json_object_set_new(o, "model", cli_json_text((retrace_text){facts.name, strlen(facts.name)}));
    return cli_json_line(o, stdout, "standard output");
}

static int print_text(const bench *b) {
    printf("bare libllama   %7.2f tokens/s   (%d tokens, %d threads, %d pairs a case)\n",
           median(b->bare_rate, b->n_bare), b->n, b->threads, b->n_pairs);
    for (int i = 0; i < N_CASES; i++) {
        double low, high;
        interval(b->ratio[i], b->n_pairs, &low, &high);
        printf("%-14s  %7.2f tokens/s   ratio %.3f  [%.3f, %.3f]", case_names[i],
               median(b->rate[i], b->n_pairs), median(b->ratio[i], b->n_pairs), low, high);
        if (b->rules[i]) printf("   list built in %.0f ms", 1e3 * b->build_s[i]);
        printf("\n");
    }
    printf("a rewind        %7.1f microseconds (mean of %lld, %lld rows evaluated again)\n",
           b->rewind_us, (long long)b->rewinds, (long long)b->reevaluated);
    return cli_flush();
}

/* ==== The whole ==== */

static int usable_cpus(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    return 1;
}

static int given_int(const cli_flags *f, const char *flag, int otherwise) {
    int64_t v = 0;
    const char *s = cli_value(f, flag);
    return s && cli_parse_int(s, &v) ? (int)v : otherwise;
}

static int open_uri(bench *b, const cli_flags *f, const char *uri) {
    char msg[256] = "";
    const char *path = strncmp(uri, "llama:", 6) == 0 ? uri + 6 : uri;
    b->threads = given_int(f, "threads", 0);
    if (b->threads == 0) b->threads = usable_cpus();
    b->gpu_layers = given_int(f, "n-gpu-layers", -1);
    json_t *settings = cli_model_settings(f, uri);
    json_object_set_new(settings, "ctx_size", json_integer(CTX));
    json_object_set_new(settings, "batch_size", json_integer(BATCH));
    json_object_set_new(settings, "threads", json_integer(b->threads));
    int code = cli_model_open(&b->model, uri, settings);
    json_decref(settings);
    if (code) return code;
    if (cli_bare_open(&b->bare, path, CTX, BATCH, b->threads, b->gpu_layers, msg, sizeof msg))
        return cli_fail(CLI_MODEL, "%s", msg);
    return CLI_OK;
}

/* The same file, context, batch and threads for both. */
static int open_both(bench *b, const cli_flags *f) {
    retrace_plugin_info p;
    char *uri;
    if (!cli_bare_built_in())
        return cli_fail(CLI_MODEL, "bench needs libllama, and this program was built without it");
    int code = cli_model_uri(f, &uri);
    if (code) return code;
    if (!cli_model_backend(uri, &p) || strcmp(p.name, "llama") == 0)
        code = open_uri(b, f, uri);
    else
        code = cli_fail(CLI_USAGE, "bench compares with libllama: it needs a GGUF file");
    free(uri);
    return code;
}

static void find_ends(bench *b) {
    retrace_model_info facts;
    retrace_model_facts(b->model, &facts);
    for (retrace_token id = 0; id < facts.vocab; id++) {
        if (!retrace_token_ends(b->model, id)) continue;
        b->ends = cli_realloc(b->ends, (size_t)(b->n_ends + 1) * sizeof *b->ends);
        b->ends[b->n_ends++] = (retrace_bias){id, -INFINITY};
    }
}

/* A warm-up tells how fast the machine is; --quick cuts its runs so that all fit into half a
 * minute. */
static int plan(bench *b, double start, int quick) {
    retrace_error err;
    retrace_text text = {prompt_text, sizeof prompt_text - 1};
    double seconds = 1;
    if (retrace_tokenize(b->model, text, RETRACE_TOKENIZE_BOS, &b->prompt, &b->n_prompt, &err))
        return cli_report(&err, NULL);
    find_ends(b);
    b->n = 16;
    int code = run_bare(b, &seconds);
    if (!code) code = run_retrace(b, 0, &seconds);
    b->n_bare = 0;
    b->most_pairs = quick ? 6 : 24;
    b->n = 128;
    b->until = quick ? start + 30 : INFINITY;
    if (quick) {
        double fit = 24.0 * 16 / seconds / (2 * N_CASES * b->most_pairs);
        b->n = fit < 8 ? 8 : fit > 64 ? 64 : (int)fit;
    }
    return code;
}

/* Rounds of one pair of each case; after the first, as many as there is time for. */
static int measure(bench *b) {
    int code = CLI_OK;
    double spent = 0;
    while (!code && b->n_pairs < b->most_pairs && (spent == 0 || cli_clock() + spent < b->until)) {
        double start = cli_clock();
        for (int which = 0; which < N_CASES && !code; which++)
            code = run_pair(b, which, b->n_pairs);
        spent = cli_clock() - start;
        b->n_pairs++;
    }
    if (!code) code = measure_rewinds(b, b->until < INFINITY ? 50 : 1000);
    cli_progress_end();
    return code;
}

static void bench_free(bench *b) {
    for (int i = 0; i < N_CASES; i++) retrace_rule_free(b->rules[i]);
    retrace_free(b->prompt);
    free(b->ends);
    cli_bare_close(b->bare);
    retrace_model_close(b->model);
    free(b);
}

int cli_bench(const cli_flags *f) {
    bench *b = cli_alloc(sizeof *b);
    double start = cli_clock();
    int code = open_both(b, f);
    if (!code) code = build_rules(b);
    if (!code) code = plan(b, start, cli_on(f, "quick"));
    if (!code) code = measure(b);
    if (!code) code = cli_on(f, "json") ? print_json(b) : print_text(b);
    bench_free(b);
    return code;
}
