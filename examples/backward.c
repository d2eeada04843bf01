/* backward.c - the library in one page, the other way round: texts that end in a given suffix.
 *
 *     backward MODEL TABLE SUFFIX [SAMPLES]
 *
 * TABLE is a file of `retrace bigram build`, or - for a small table model, whose chain is made in
 * memory. Prints each text with its weight, and what the model knows about the token before the
 * suffix. */
#include "retrace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A token that ends or starts a document has no text. */
static void print_piece(const retrace_model *m, retrace_token id) {
    retrace_text piece = id == RETRACE_START ? (retrace_text){"(start)", 7} : retrace_piece(m, id);
    printf("%.*s", (int)piece.n, piece.s);
}

static void print_step(const retrace_model *m, const retrace_backward_step *step) {
    printf("before the suffix, by %d candidates (Z %.3g, standard error %.1f %%):\n",
           step->evaluated, exp(step->log_z), 100 * step->se);
    for (int i = 0; i < step->n_top && i < 5; i++) {
        printf("  %5.1f %%  ", 100 * exp(step->top[i].log_posterior));
        print_piece(m, step->top[i].id);
        printf("\n");
    }
}

static void print_samples(const retrace_model *m, const retrace_backward *b) {
    retrace_backward_sample s;
    for (int i = 0; retrace_backward_at(b, i, &s); i++) {
        if (i == 0 && s.n_steps > 0) print_step(m, &s.steps[0]);
        printf("[%d] %s", i + 1, s.started ? "" : "...");
        for (int k = 0; k < s.n; k++) print_piece(m, s.tokens[k]);
        printf("   (log f %.2f, log weight %.2f)\n", s.log_f, s.log_w);
    }
    retrace_backward_stats stats;
    retrace_backward_totals(b, &stats);
    printf("worth %.1f independent samples\n", stats.ess);
}

static int sample(retrace_model *m, const retrace_bigram *chain, const char *suffix, int n_samples,
                  retrace_error *err) {
    retrace_backward *b = NULL;
    retrace_token *tokens = NULL;
    retrace_backward_options o;
    int n;

    retrace_backward_default(&o);
    o.num_samples = n_samples;
    o.max_tokens = 5;
    o.seed = 1;

    int rc = retrace_tokenize(m, (retrace_text){suffix, strlen(suffix)}, 0, &tokens, &n, err);
    if (rc == RETRACE_OK) rc = retrace_backward_new(&b, m, chain, &o, tokens, n, err);
    if (rc == RETRACE_OK) rc = retrace_backward_finish(b, NULL, NULL, err);
    if (rc == RETRACE_OK) print_samples(m, b);
    retrace_backward_free(b);
    retrace_free(tokens);
    return rc;
}

int main(int argc, char **argv) {
    retrace_model *model = NULL;
    retrace_bigram *chain = NULL;
    retrace_setting f32 = {"weights", {"f32", 3}}; /* what tables are made from, see docs */
    retrace_error err;

    if (argc < 4) {
        fprintf(stderr, "usage: backward MODEL TABLE SUFFIX [SAMPLES]\n");
        return 2;
    }
    int in_memory = strcmp(argv[2], "-") == 0;
    int rc = retrace_model_open(&model, argv[1], &f32, !in_memory, &err);
    if (rc == RETRACE_OK && in_memory)
        rc = retrace_bigram_of(&chain, model, (retrace_anchor){NULL, -1}, &err);
    else if (rc == RETRACE_OK)
        rc = retrace_bigram_open(&chain, argv[2], &err);
    if (rc == RETRACE_OK)
        rc = sample(model, chain, argv[3], argc > 4 ? (int)strtol(argv[4], NULL, 10) : 3, &err);
    if (rc < 0) fprintf(stderr, "backward: %s\n", err.msg);
    retrace_bigram_close(chain);
    retrace_model_close(model);
    return rc < 0;
}
