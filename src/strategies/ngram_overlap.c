/* ngram_overlap.c - the operator `ngram-overlap`: no sequence of tokens a second time.
 *
 * Fires when the last ngram_size tokens, compared by id, have stood together before among the kept
 * tokens; the two may overlap. It keeps no memory: the kept tokens themselves are searched, so an
 * erased n-gram is forgotten and no other. That reads 4 bytes for each token of the text, far less
 * than the model does. Of several tries the one with the fewest earlier copies is the best. */
#include "operator.h"
#include "strategies.h"

typedef struct ngram {
    rt_operator common;
    int64_t ngram_size;
} ngram;

/* Token i of the generated ones; those of the prompt have negative numbers. */
static inline retrace_token token_at(const retrace_view *v, int i) {
    return i < 0 ? v->prompt[v->n_prompt + i] : v->tokens[i];
}

/* Do the n tokens that end with token `at` equal the newest n? The last one does. */
static int copy_at(const retrace_view *v, int at, int n) {
    for (int k = 1; k < n; k++) {
        if (token_at(v, at - k) != token_at(v, v->n - 1 - k)) return 0;
    }
    return 1;
}

/* How often the newest n tokens stood before, from token `first` on. */
static int count_copies(const retrace_view *v, int first, int n) {
    retrace_token newest = v->tokens[v->n - 1];
    int copies = 0;
    for (int i = first + n - 1; i < 0; i++) {
        if (v->prompt[v->n_prompt + i] == newest) copies += copy_at(v, i, n);
    }
    for (int i = first + n - 1 > 0 ? first + n - 1 : 0; i < v->n - 1; i++) {
        if (v->tokens[i] == newest) copies += copy_at(v, i, n);
    }
    return copies;
}

static int judge(const void *memory, const retrace_view *v, void *mark, retrace_proposal *p,
                 retrace_error *err) {
    const ngram *self = memory;
    (void)mark, (void)err;
    if (!rt_operator_due(&self->common, v)) return RETRACE_OK;
    int first = self->common.prompt ? -v->n_prompt : 0, n = (int)self->ngram_size;
    if (v->n - first <= n) return RETRACE_OK;
    int copies = count_copies(v, first, n);
    if (copies == 0) return RETRACE_OK;
    return rt_operator_object(&self->common, v, self->common.backtrack_count, -copies, p,
                              "earlier copies of an n-gram:", copies, 0);
}

static const retrace_setting_info settings[] = {
    {"ngram_size", RETRACE_INT, offsetof(ngram, ngram_size), "4", 2, 1000000, NULL,
     "tokens that must not stand together twice"},
    RT_OPERATOR_ROWS(ngram, "1"),
    {NULL, RETRACE_BOOL, 0, NULL, 0, 0, NULL, NULL},
};

const retrace_rule_type rt_rule_ngram_overlap = {
    .abi = RETRACE_ABI,
    .name = "ngram-overlap",
    .help = "goes back over a token that completes a sequence seen before",
    .settings = settings,
    .size = sizeof(ngram),
    .judge = judge,
    .horizon = rt_operator_horizon,
};
