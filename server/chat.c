/* chat.c - `messages` as the tokens of a prompt, by the model's chat template.
 *
 * What a message says is never parsed for control tokens. A last message of the assistant's is the
 * beginning of the answer: the template opens the assistant's turn behind the others, and the
 * tokens of that text follow, so the model goes on from them. The text itself is not in the answer.
 */
#include "read.h"

#include <stdlib.h>
#include <string.h>

typedef struct chat {
    srv *s;
    srv_error *e;
    retrace_message *v;
    cli_buf *texts; /* of each message */
    int n;
    size_t bytes;
    retrace_text begin; /* what the answer goes on from */
    int goes_on;
} chat;

/* ==== One message ==== */

static int add_part(chat *c, json_t *part, int i, size_t k) {
    char param[96];
    snprintf(param, sizeof param, "messages[%d].content[%zu]", i, k);
    if (!json_is_object(part)) return srv_wrong(c->e, param, part, "an object");
    json_t *type = json_object_get(part, "type"), *text = json_object_get(part, "text");
    const char *t = json_is_string(type) ? json_string_value(type) : "";
    if (strcmp(t, "text") != 0)
        return srv_fail(c->e, 400, "unsupported_value", param,
                        "%s: only parts of type text are read; no images, no sound", param);
    if (!json_is_string(text))
        return srv_fail(c->e, 400, "missing_field", param, "%s: no text", param);
    cli_put(&c->texts[i], json_string_value(text), json_string_length(text));
    return 0;
}

/* OpenAI's clients send the null that they were sent. */
static int read_content(chat *c, json_t *message, const char *role, int i) {
    char param[96];
    size_t k;
    json_t *content = json_object_get(message, "content"), *part;
    snprintf(param, sizeof param, "messages[%d].content", i);
    if (json_is_null(content) && strcmp(role, "assistant") == 0) return 0;
    if (!content || json_is_null(content))
        return srv_fail(c->e, 400, "missing_field", param, "%s: it is missing", param);
    if (json_is_string(content)) {
        cli_put(&c->texts[i], json_string_value(content), json_string_length(content));
        return 0;
    }
    if (!json_is_array(content))
        return srv_wrong(c->e, param, content, "a text or a list of parts");
    json_array_foreach(content, k, part) {
        if (add_part(c, part, i, k)) return -1;
    }
    return 0;
}

static const char *role_of(chat *c, json_t *message, int i) {
    static const char *const roles[] = {"system", "user", "assistant"};
    char param[96];
    json_t *role = json_object_get(message, "role");
    snprintf(param, sizeof param, "messages[%d].role", i);
    if (!role || json_is_null(role)) {
        srv_fail(c->e, 400, "missing_field", param, "%s: it is missing", param);
        return NULL;
    }
    const char *name = json_is_string(role) ? json_string_value(role) : "";
    if (strcmp(name, "developer") == 0) return "system";
    for (int k = 0; k < 3; k++)
        if (strcmp(name, roles[k]) == 0) return roles[k];
    if (strcmp(name, "tool") == 0 || strcmp(name, "function") == 0)
        srv_fail(c->e, 400, "unsupported_value", param, "%s: tools are not offered", param);
    else
        srv_wrong(c->e, param, role, "system, developer, user or assistant");
    return NULL;
}

static int read_message(chat *c, json_t *message, int i) {
    char param[96];
    snprintf(param, sizeof param, "messages[%d]", i);
    if (!json_is_object(message)) return srv_wrong(c->e, param, message, "an object");
    const char *role = role_of(c, message, i);
    if (!role) return -1;
    json_t *calls = json_object_get(message, "tool_calls");
    if (calls && !json_is_null(calls) && !srv_is_off(calls))
        return srv_fail(c->e, 400, "unsupported_value", param, "%s: tools are not offered", param);
    if (read_content(c, message, role, i)) return -1;
    c->v[i] = (retrace_message){.role = role, .content = cli_buf_text(&c->texts[i])};
    c->bytes += c->texts[i].n;
    c->n = i + 1;
    return 0;
}

/* ==== All of them ==== */

static int read_all(chat *c, json_t *body) {
    const char *used;
    json_t *list = srv_find(body, srv_fields_chat, "messages", &used), *message;
    size_t i;
    if (!list) return srv_fail(c->e, 400, "missing_field", "messages", "messages: it is missing");
    if (!json_is_array(list)) return srv_wrong(c->e, used, list, "a list of messages");
    size_t n = json_array_size(list);
    if (n == 0) return srv_fail(c->e, 400, "invalid_value", used, "%s: the list is empty", used);
    if (n > SRV_MAX_MESSAGES)
        return srv_fail(c->e, 400, "too_many", used, "%s: more than %d messages", used,
                        SRV_MAX_MESSAGES);
    c->v = cli_alloc(n * sizeof *c->v);
    c->texts = cli_alloc(n * sizeof *c->texts);
    json_array_foreach(list, i, message) {
        if (read_message(c, message, (int)i)) return -1;
    }
    return srv_check_length(c->s, c->bytes, used, c->e);
}

/* Whether the answer goes on from the last message. */
static int read_ending(chat *c, json_t *body) {
    int is_last = strcmp(c->v[c->n - 1].role, "assistant") == 0, go_on = is_last, asks = 1;
    const srv_field *t = srv_fields_chat;
    if (srv_get_bool(body, t, "continue_final_message", &go_on, c->e) ||
        srv_get_bool(body, t, "add_generation_prompt", &asks, c->e))
        return -1;
    if (go_on && !is_last)
        return srv_fail(c->e, 400, "invalid_value", "continue_final_message",
                        "continue_final_message: the last message is not the assistant's");
    if (!asks && !go_on)
        return srv_fail(c->e, 400, "unsupported_value", "add_generation_prompt",
                        "add_generation_prompt: false is only for going on from a last message of "
                        "the assistant's");
    c->goes_on = go_on;
    if (go_on) c->begin = c->v[--c->n].content;
    return 0;
}

static int fail_chat(chat *c, const retrace_error *err) {
    if (err->code != RETRACE_EMODEL) return srv_fail_with(c->e, err, "messages");
    return srv_fail(c->e, 400, "no_chat_template", "messages", "messages: %s", err->msg);
}

/* The text that the answer goes on from, as tokens. */
static int begin_tokens(chat *c, retrace_token **out, int *n) {
    retrace_error err;
    *out = NULL;
    *n = 0;
    if (!c->goes_on || c->begin.n == 0) return 0;
    if (retrace_tokenize(c->s->model, c->begin, RETRACE_TOKENIZE_INSIDE, out, n, &err))
        return srv_fail_with(c->e, &err, "messages");
    return 0;
}

static int make(chat *c, retrace_token **out, int *n) {
    retrace_error err;
    retrace_token *turns, *more;
    int n_turns, n_more;
    if (retrace_chat(c->s->model, c->v, c->n, &turns, &n_turns, &err)) return fail_chat(c, &err);
    int rc = begin_tokens(c, &more, &n_more);
    if (!rc) {
        *n = n_turns + n_more;
        *out = cli_alloc((size_t)*n * sizeof **out);
        if (n_turns) memcpy(*out, turns, (size_t)n_turns * sizeof **out);
        if (n_more) memcpy(*out + n_turns, more, (size_t)n_more * sizeof **out);
    }
    retrace_free(turns);
    retrace_free(more);
    return rc;
}

int srv_chat_tokens(srv *s, json_t *body, retrace_token **out, int *n, srv_error *e) {
    chat c = {.s = s, .e = e};
    const char *used;
    json_t *list = srv_find(body, srv_fields_chat, "messages", &used);
    int n_texts = json_is_array(list) ? (int)json_array_size(list) : 0;
    int rc = read_all(&c, body) || read_ending(&c, body) || make(&c, out, n) ? -1 : 0;
    for (int i = 0; c.texts && i < n_texts; i++) cli_buf_free(&c.texts[i]);
    free(c.texts);
    free(c.v);
    return rc;
}

int srv_read_messages(srv_reading *r) {
    retrace_token *tokens;
    int n;
    if (srv_chat_tokens(r->s, r->body, &tokens, &n, r->e)) return -1;
    int rc = srv_add_prompt(r, tokens, n, "messages");
    free(tokens);
    return rc;
}
