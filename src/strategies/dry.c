/* dry.c - the rule `dry`: what would go on repeating becomes less probable ("don't repeat
 * yourself", as published by its inventor in oobabooga's text-generation-webui, pull request 5677).
 *
 * Law: a token that would extend a repetition loses multiplier * base^(n - allowed_length) of its
 * logit, n being the length in tokens of the longest end of prompt and answer that also stands
 * earlier and was followed by that token there; n below allowed_length costs nothing. No
 * repetition reaches over a token whose text contains a breaker, and no breaker is penalised. It
 * goes back over nothing and remembers nothing. The defaults are the published ones, the breakers
 * too. */
#include "strategies.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef struct dry {
    double multiplier, base;
    int64_t allowed_length, last;
    retrace_texts breaker;
    int prompt;
} dry;

/* Probability 0 at any temperature in use; a longer repetition need not cost more. */
static const double most_penalty = 1e6;

static const retrace_text published[] = {{"\n", 1}, {":", 1}, {"\"", 1}, {"*", 1}};

/* ==== What has been said ==== */

/* Tokens seen from the newest: 0 is the newest. */
static retrace_token back(const retrace_view *v, int i) {
    return i < v->n ? v->tokens[v->n - 1 - i] : v->prompt[v->n_prompt - 1 - (i - v->n)];
}

static int seen(const dry *self, const retrace_view *v) {
    int64_t n = v->n + (self->prompt ? v->n_prompt : 0);
    return (int)(self->last > 0 && n > self->last ? self->last : n);
}

static int contains(const retrace_token_info *t, retrace_text what) {
    for (size_t i = 0; i + what.n <= (size_t)t->n; i++) {
        if (memcmp(t->bytes + i, what.s, what.n) == 0) return 1;
    }
    return 0;
}

static int breaks(const dry *self, const retrace_view *v, retrace_token id) {
    int given = self->breaker.n > 0;
    const retrace_text *texts = given ? self->breaker.v : published;
    int n = given ? self->breaker.n : (int)(sizeof published / sizeof *published);
    for (int i = 0; i < n; i++) {
        if (contains(&v->model->vocab[id], texts[i])) return 1;
    }
    return 0;
}

/* ==== Repetitions ==== */

/* length[i]: how many tokens before and with back(i) are the newest ones over again, at most
 * `most`. All of them in one pass: what the furthest repetition found so far covers, from `start`
 * back to `end`, is the beginning over again, whose lengths are known. */
static void measure(const retrace_view *v, int *length, int n, int most) {
    int start = 0, end = 0;
    for (int i = 1; i < n; i++) {
        int k = i < end ? length[i - start] : 0;
        if (k > 0 && i + k > end) k = end - i;
        while (i + k < n && k < most && back(v, k) == back(v, i + k)) k++;
        if (i + k > end) {
            start = i;
            end = i + k;
        }
        length[i] = k;
    }
}

/* The longest repetition after which the token of place i came; those behind it are used up. */
static int longest(const retrace_view *v, int *length, int n, int i) {
    int most = 0;
    for (int k = i; k < n; k++) {
        if (length[k] == 0 || back(v, k - 1) != back(v, i - 1)) continue;
        if (length[k] > most) most = length[k];
        length[k] = 0;
    }
    return most;
}

static int penalise(const dry *self, const retrace_view *v, int *length, int n, retrace_shape *s,
                    retrace_error *err) {
    int rc = RETRACE_OK;
    for (int i = 1; i < n && rc == RETRACE_OK; i++) {
        if (length[i] < self->allowed_length) continue;
        retrace_token id = back(v, i - 1);
        int most = longest(v, length, n, i);
        double cost = self->multiplier * pow(self->base, (double)(most - self->allowed_length));
        if (!breaks(self, v, id)) rc = retrace_shape_add(s, id, -fmin(cost, most_penalty), err);
    }
    return rc;
}

static int shape(const void *memory, const retrace_view *v, const void *mark, retrace_shape *s,
                 retrace_error *err) {
    const dry *self = memory;
    (void)mark;
    int n = seen(self, v), most = 0;
    while (most < n && !breaks(self, v, back(v, most))) most++;
    if (most < self->allowed_length || n < 2 || self->multiplier == 0) return RETRACE_OK;
    int *length = retrace_calloc((size_t)n, sizeof *length);
    if (!length) return retrace_fail(err, RETRACE_ENOMEM, "out of memory");
    measure(v, length, n, most);
    int rc = penalise(self, v, length, n, s, err);
    retrace_free(length);
    return rc;
}

/* ==== The table ==== */

static const retrace_setting_info settings[] = {
    {"multiplier", RETRACE_REAL, offsetof(dry, multiplier), "0.8", 0, 1000, NULL,
     "what a repetition of allowed_length costs; 0: nothing"},
    {"base", RETRACE_REAL, offsetof(dry, base), "1.75", 1, 100, NULL,
     "how many times more each further token costs"},
    {"allowed_length", RETRACE_INT, offsetof(dry, allowed_length), "2", 1, 1000000, NULL,
     "the shortest repetition, in tokens, whose extension costs something"},
    {"last", RETRACE_INT, offsetof(dry, last), "0", 0, 1000000000, NULL,
     "looks at the newest so many tokens; 0: at all"},
    {"breaker", RETRACE_TEXTS, offsetof(dry, breaker), NULL, 1, 256, NULL,
     "a text that ends repetitions, within one token; given ones replace newline : \" *"},
    {"prompt", RETRACE_BOOL, offsetof(dry, prompt), "true", 0, 0, NULL,
     "repetitions of the prompt count too"},
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_dry = {
    .abi = RETRACE_ABI,
    .name = "dry",
    .help = "tokens that would extend a repetition lose probability with its length",
    .settings = settings,
    .size = sizeof(dry),
    .shape = shape,
};
