/* said.h - conversations for tests: messages, prompts, one more turn. Included once by each test
 * program. */
#ifndef RT_SAID_H
#define RT_SAID_H

#include "helper.h"

UNUSED_OK static retrace_message says(const char *role, const char *content) {
    return (retrace_message){.role = role, .content = text_of(content)};
}

UNUSED_OK static retrace_message answered(const char *content, const retrace_token *tokens, int n) {
    return (retrace_message){
        .role = "assistant", .content = text_of(content), .tokens = tokens, .n_tokens = n};
}

UNUSED_OK static retrace_token *prompt_of(const retrace_model *m, const retrace_message *messages,
                                          int n, int *n_tokens) {
    retrace_token *v = NULL;
    retrace_error err = {0};
    if (retrace_chat(m, messages, n, &v, n_tokens, &err)) fail_msg("%s", err.msg);
    return v;
}

/* Asks one more question behind what was said so far. Frees that. */
UNUSED_OK static retrace_reply *next_turn(retrace_model *m, const retrace_options *o,
                                          retrace_reply *so_far, const char *question) {
    retrace_message list[64];
    retrace_reply *out = NULL;
    retrace_error err = {0};
    int n = so_far ? so_far->n_messages : 0;
    assert_true(n < 63);
    for (int i = 0; i < n; i++) list[i] = so_far->messages[i];
    list[n] = says("user", question);
    if (retrace_answer(&out, m, o, list, n + 1, NULL, NULL, &err)) fail_msg("%s", err.msg);
    retrace_free(so_far);
    assert_int_equal(out->n_messages, n + 2);
    assert_string_equal(out->messages[n + 1].role, "assistant");
    assert_memory_equal(out->messages[n].content.s, question, strlen(question) + 1);
    return out;
}

UNUSED_OK static const retrace_message *last_of(const retrace_reply *r) {
    return &r->messages[r->n_messages - 1];
}

/* What the next turn must be given: what is new, and the last token where length cut the answer,
 * because it was never fed. */
UNUSED_OK static int64_t owed(const retrace_reply *before, const retrace_reply *now) {
    int cut = before->finish == RETRACE_FINISH_LENGTH;
    return now->stats.prompt - (before->stats.prompt + last_of(before)->n_tokens) + cut;
}

/* As the answer between two questions: refused, and why. */
UNUSED_OK static void refuses(const retrace_model *m, retrace_message second, const char *why) {
    retrace_message list[] = {says("user", "ab"), second, says("user", "ab")};
    retrace_error err = {0};
    retrace_token *v = NULL;
    int n;
    assert_int_equal(retrace_chat(m, list, 3, &v, &n, &err), RETRACE_EUSAGE);
    if (!strstr(err.msg, "message 2") || !strstr(err.msg, why))
        fail_msg("'%s' does not say '%s'", err.msg, why);
}

/* a spells "a". */
UNUSED_OK static void refuse_all(const retrace_model *m, retrace_token a, retrace_token control,
                                 retrace_token end) {
    retrace_model_info facts;
    retrace_model_facts(m, &facts);
    const retrace_token v[] = {a, a}, far[] = {a, facts.vocab}, low[] = {-1};
    const retrace_token controls[] = {a, control}, ends[] = {end};
    refuses(m, answered("a", v, 2), "do not spell");
    refuses(m, answered("aaa", v, 2), "do not spell");
    refuses(m, answered("ab", v, 2), "do not spell");
    refuses(m, answered("a", v, 0), "do not spell");
    refuses(m, answered("a", v, -1), "do not spell");
    refuses(m, answered("aa", far, 2), "outside the vocabulary");
    refuses(m, answered("aa", low, 1), "outside the vocabulary");
    refuses(m, answered("a", controls, 2), "is a control token");
    refuses(m, answered("", ends, 1), "is a control token");
    retrace_message user = answered("aa", v, 2);
    user.role = "user";
    refuses(m, user, "only a message of the assistant");
}

#endif
