/* chat.c - a conversation in one page: messages in, answer and new messages out.
 *
 *     chat MODEL [BANNED PHRASE]
 *
 * Every line of standard input is a turn. The library keeps no state: what it returned is what it
 * is given next, with the new message, and the model then evaluates only what is new. */
#include "retrace.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 200 }; /* messages */

static int show(void *ud, const retrace_event *e) {
    (void)ud;
    if (e->kind == RETRACE_SETTLE) {
        printf("%.*s", (int)e->text.n, e->text.s);
        fflush(stdout);
    }
    return 0;
}

/* Asks one question; *so_far becomes the conversation with its answer. */
static int ask(retrace_model *model, const retrace_options *o, retrace_reply **so_far,
               const char *question, retrace_error *err) {
    retrace_message messages[MOST + 1];
    retrace_reply *reply = NULL;
    int n = *so_far ? (*so_far)->n_messages : 0;

    if (n) memcpy(messages, (*so_far)->messages, (size_t)n * sizeof *messages);
    messages[n++] = (retrace_message){.role = "user", .content = {question, strlen(question)}};
    int rc = retrace_answer(&reply, model, o, messages, n, show, NULL, err);
    if (rc < 0) return rc;
    printf("\n(%s; %lld of %lld tokens of the prompt were new", retrace_finish_name(reply->finish),
           (long long)reply->stats.prompt_evaluated, (long long)reply->stats.prompt);
    if (reply->dropped) printf("; the oldest %d messages were left out", reply->dropped);
    printf(")\n");
    retrace_free(*so_far);
    *so_far = reply;
    return RETRACE_OK;
}

static int talk(retrace_model *model, retrace_rule *rule, retrace_error *err) {
    retrace_options o;
    retrace_reply *so_far = NULL;
    char line[4096];
    int rc = RETRACE_OK;

    retrace_options_default(&o);
    o.max_tokens = 64;
    o.seed = 1;
    o.rules = &rule;
    o.n_rules = rule != NULL;
    while (rc == RETRACE_OK && (!so_far || so_far->n_messages < MOST) &&
           fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        rc = ask(model, &o, &so_far, line, err);
    }
    retrace_free(so_far);
    return rc;
}

int main(int argc, char **argv) {
    retrace_model *model = NULL;
    retrace_rule *rule = NULL;
    retrace_error err;

    if (argc < 2) {
        fprintf(stderr, "usage: chat MODEL [BANNED PHRASE]\n");
        return 2;
    }
    int rc = retrace_model_open(&model, argv[1], NULL, 0, &err);
    if (rc == RETRACE_OK && argc > 2) {
        retrace_setting text = {"text", {argv[2], strlen(argv[2])}};
        rc = retrace_rule_new(&rule, "phrases", &text, 1, &err);
    }
    if (rc == RETRACE_OK) rc = talk(model, rule, &err);
    if (rc < 0) fprintf(stderr, "chat: %s\n", err.msg);
    retrace_rule_free(rule);
    retrace_model_close(model);
    return rc < 0;
}
