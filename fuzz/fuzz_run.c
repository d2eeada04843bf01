/* fuzz_run.c - bytes make rules and options and then every choice of a run over a small table.
 *
 * Whatever is chosen: the run ends within its budgets, its events agree with its tree, text and
 * figures (tests/watch.h), and a banned text is not in the answer. */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../tests/watch.h"
#include "must.h"

enum { MAX_RULES = 3 };

static answer a;

/* Any text over these may follow any other, in several spellings; bytes of characters, a control
 * token, two ends, little memory. */
static const char table[] =
    "{\"tokens\": [\"a\", \"b\", \"ab\", \"ba\", \"A\", \" \", {\"bytes\": [195]}, {\"bytes\": "
    "[169]},"
    " \"\\u00e9b\", {\"text\": \"<|c|>\", \"control\": true}, {\"text\": \"</s>\", \"end\": true},"
    " {\"text\": \"<|e|>\", \"end\": true}], \"n_ctx\": 40, \"rows\": ["
    "{\"context\": [], \"next\": {\"0\": 8, \"1\": 7, \"2\": 6, \"3\": 5, \"4\": 4, \"5\": 4, "
    "\"6\": 3,"
    " \"8\": 2, \"9\": 1, \"10\": 0.5}},"
    "{\"context\": [6], \"next\": {\"7\": 9, \"0\": 1, \"11\": 0.2}},"
    "{\"context\": [0, 1], \"next\": {\"0\": 1, \"5\": 0.001, \"10\": 0.0001}}]}";
static const char *const parts[] = {"a", "b", "ab", "A", " ", "\xc3\xa9", "\xc3\x89", "ba"};

typedef struct input {
    const uint8_t *p;
    size_t n;
} input;

static int byte(input *in) {
    if (in->n == 0) return 0;
    in->n--;
    return *in->p++;
}

/* A choice among what has weight, by one byte; none left: the first. */
static int choose(void *ud, const double *p, const retrace_token *ids, int n, uint64_t purpose,
                  int pos, int attempt) {
    input *in = ud;
    (void)purpose, (void)pos;
    must(attempt >= 0 && n > 0, "choose was asked nonsense");
    int live = 0;
    for (int i = 0; i < n; i++) {
        must(p[i] >= 0 && p[i] < 1e300, "a weight that is none");
        must(!ids || i == 0 || ids[i] > ids[i - 1], "ids do not rise");
        live += p[i] > 0;
    }
    if (live == 0) return n;
    int k = byte(in) % live;
    for (int i = 0; i < n; i++)
        if (p[i] > 0 && k-- == 0) return i;
    return n;
}

static void make_text(input *in, char *out, size_t room) {
    size_t at = 0;
    out[0] = 0;
    for (int n = 1 + byte(in) % 4; n > 0; n--) {
        int k = snprintf(out + at, room - at, "%s", parts[byte(in) % 8]);
        at += (size_t)k;
    }
}

/* A rule's settings as the bytes make them. */
typedef struct group {
    char texts[4][32];
    int n, word, exact, nfc, space, weight;
} group;

static const char *const words[] = {"false", "true", "start"};
static const char *const weights[] = {"0", "0", "0.5", "1"};

/* Bytes drawn from a seed, as if they had been in the input. */
static void spread(uint8_t seed, uint8_t *out, int n) {
    uint64_t x = seed + 1u;
    for (int i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        out[i] = (uint8_t)(x >> 56);
    }
}

static void make_group(uint8_t seed, group *g) {
    uint8_t bytes[64];
    input in = {bytes, sizeof bytes};
    spread(seed, bytes, (int)sizeof bytes);
    int bits = byte(&in);
    g->word = bits % 3;
    g->weight = bits / 4 % 4;
    g->exact = bits >> 4 & 1;
    g->nfc = bits >> 5 & 1;
    g->space = bits >> 6 & 1;
    g->n = 1 + byte(&in) % 4;
    for (int i = 0; i < g->n; i++) make_text(&in, g->texts[i], sizeof g->texts[i]);
}

/* Is a phrase of it found by looking for its bytes? */
static int is_plain(const group *g) {
    return g->word == 0 && g->weight < 2 && g->exact && !g->nfc && !g->space;
}

static retrace_setting setting(const char *name, const char *value) {
    return (retrace_setting){name, {value, strlen(value)}};
}

static retrace_rule *make_rule(const group *g) {
    retrace_setting s[12];
    int n = 0;
    for (int i = 0; i < g->n; i++) s[n++] = setting("text", g->texts[i]);
    s[n++] = setting("word", words[g->word]);
    s[n++] = setting("weight", weights[g->weight]);
    s[n++] = setting("case", g->exact ? "exact" : "fold");
    s[n++] = setting("nfc", g->nfc ? "true" : "false");
    s[n++] = setting("space", g->space ? "true" : "false");
    retrace_rule *r = NULL;
    retrace_error err = {0};
    must(retrace_rule_new(&r, "phrases", s, n, &err) == RETRACE_OK, err.msg);
    return r;
}

/* Making a rule takes longer than a run, so there are 256 of them, each made once. */
static struct {
    group g;
    retrace_rule *r;
} known[256];

static int find_rule(int number) {
    if (known[number].r) return number;
    make_group((uint8_t)number, &known[number].g);
    known[number].r = make_rule(&known[number].g);
    return number;
}

static void make_options(input *in, retrace_options *o) {
    retrace_options_default(o);
    int bits = byte(in);
    o->max_tokens = byte(in) % 30;
    o->temp = bits & 1 ? 0 : 1;
    o->top_k = bits & 2 ? 3 : 0;
    o->top_p = bits & 4 ? 0.8 : 1;
    o->min_p = 0;
    o->typical = bits & 8 ? 0.7 : 1;
    o->hold = bits >> 4 & 1;
    o->ignore_eos = bits >> 5 & 1;
    o->on_stuck = (bits >> 6) % 3;
    bits = byte(in);
    o->frequency_penalty = bits & 1 ? 0.5 : 0;
    o->repeat_penalty = bits & 2 ? 1.3 : 1;
    o->stuck_mass = bits & 4 ? 0 : 0.001;
    o->max_rewinds = bits & 8 ? byte(in) : 500;
    o->max_evaluated = bits & 16 ? byte(in) : 1000;
    o->logprobs = (bits >> 5) % 4 - 1;
}

static void check(const retrace_model *m, const retrace_options *o, const int *numbers) {
    must(!broken(m, &a), broken(m, &a));
    must(a.n_tokens <= o->max_tokens, "more tokens than allowed");
    must(a.stats.rewinds <= o->max_rewinds, "more rewinds than allowed");
    must(a.stats.evaluated <= o->max_evaluated, "more evaluated than allowed");
    /* Only a branch that was left and allowed again is evaluated again. */
    must(a.stats.reevaluated == 0 || o->on_stuck == RETRACE_STUCK_ALLOW, "evaluated again");
    must(a.finish != RETRACE_FINISH_ERROR, "finish error");
    for (int i = 0; i < o->n_rules; i++) {
        const group *g = &known[numbers[i]].g;
        for (int k = 0; k < g->n; k++)
            must(!is_plain(g) || a.stats.accepted || !strstr(a.text, g->texts[k]),
                 "a banned text is shown");
    }
}

static retrace_model *open_once(void) {
    static retrace_model *m;
    char path[] = "/tmp/retrace-fuzz-XXXXXX", uri[64];
    retrace_error err = {0};
    if (m) return m;
    int fd = mkstemp(path);
    must(fd >= 0 && write(fd, table, strlen(table)) == (ssize_t)strlen(table), "write");
    close(fd);
    snprintf(uri, sizeof uri, "table:%s", path);
    int rc = retrace_model_open(&m, uri, NULL, 0, &err);
    unlink(path);
    must(rc == RETRACE_OK, err.msg);
    return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    retrace_model *m = open_once();
    retrace_options o;
    int numbers[MAX_RULES];
    retrace_rule *rules[MAX_RULES];
    char stops[2][32];
    retrace_text stop[2];
    retrace_token prompt[] = {2, 6};
    make_options(&in, &o);
    int shape = byte(&in), n_prompt = shape & 1 ? 2 : 0;
    o.n_rules = (shape >> 1) % (MAX_RULES + 1);
    o.n_stops = (shape >> 3) % 3;
    for (int i = 0; i < o.n_rules; i++) {
        numbers[i] = find_rule(byte(&in));
        rules[i] = known[numbers[i]].r;
    }
    for (int i = 0; i < o.n_stops; i++) {
        make_text(&in, stops[i], sizeof stops[i]);
        stop[i] = (retrace_text){stops[i], strlen(stops[i])};
    }
    o.rules = rules;
    o.stops = stop;
    o.choose = choose;
    o.choose_ud = &in;
    retrace_run *run = NULL;
    retrace_error err = {0};
    must(retrace_run_new(&run, m, &o, prompt, n_prompt, &err) == RETRACE_OK, err.msg);
    answer_start(&a);
    must(retrace_run_finish(run, see_event, &a, &err) == RETRACE_OK, err.msg);
    answer_end(&a, run);
    check(m, &o, numbers);
    retrace_run_free(run);
    return 0;
}
