/* simple.c - the library in one page: open a model, ban a phrase, watch it being taken back.
 *
 *     simple MODEL PROMPT [BANNED PHRASE]
 *
 * prints the answer as it settles; what was erased is shown [-like this-]. */
#include "retrace.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 64 };

/* The answer as it is being written. */
typedef struct page {
    const retrace_model *model;
    retrace_token tokens[MOST];
    int n;
} page;

static int show(void *ud, const retrace_event *e) {
    page *p = ud;
    switch (e->kind) {
    case RETRACE_PUSH:
        p->tokens[e->pos] = e->id;
        p->n = e->pos + 1;
        break;
    case RETRACE_ERASE:
        printf("[-");
        for (int i = e->to; i < p->n; i++) {
            retrace_text piece = retrace_piece(p->model, p->tokens[i]);
            printf("%.*s", (int)piece.n, piece.s);
        }
        printf("-]");
        p->n = e->to;
        break;
    case RETRACE_SETTLE: printf("%.*s", (int)e->text.n, e->text.s); break;
    case RETRACE_NOTE: break;
    case RETRACE_END: printf("\n(%s)\n", retrace_finish_name(e->finish)); break;
    }
    return 0;
}

static int answer(retrace_model *model, const char *prompt, retrace_rule *rule,
                  retrace_error *err) {
    retrace_token *tokens = NULL;
    retrace_run *run = NULL;
    retrace_options o;
    page p = {.model = model};
    int n;

    retrace_options_default(&o);
    o.max_tokens = MOST;
    o.seed = 1;
    o.rules = &rule;
    o.n_rules = rule != NULL;

    retrace_text text = {prompt, strlen(prompt)};
    int rc = retrace_tokenize(model, text, RETRACE_TOKENIZE_BOS, &tokens, &n, err);
    if (rc == RETRACE_OK) rc = retrace_run_new(&run, model, &o, tokens, n, err);
    if (rc == RETRACE_OK) rc = retrace_run_finish(run, show, &p, err);
    retrace_run_free(run);
    retrace_free(tokens);
    return rc;
}

int main(int argc, char **argv) {
    retrace_model *model = NULL;
    retrace_rule *rule = NULL;
    retrace_error err;
    int rc = RETRACE_OK;

    if (argc < 3) {
        fprintf(stderr, "usage: simple MODEL PROMPT [BANNED PHRASE]\n");
        return 2;
    }
    if (argc > 3) {
        retrace_setting ban = {"text", {argv[3], strlen(argv[3])}};
        rc = retrace_rule_new(&rule, "phrases", &ban, 1, &err);
    }
    if (rc == RETRACE_OK) rc = retrace_model_open(&model, argv[1], NULL, 0, &err);
    if (rc == RETRACE_OK) rc = answer(model, argv[2], rule, &err);
    if (rc < 0) fprintf(stderr, "simple: %s\n", err.msg);
    retrace_model_close(model);
    retrace_rule_free(rule);
    return rc < 0;
}
