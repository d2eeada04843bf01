/* prompt.c - `prompt`: texts, token ids, or both, as the tokens of prompts.
 *
 * A text begins with the model's BOS where it wants one, never twice, and text that spells a
 * control token becomes it: as `generate` does. Ids stand as they are, because who counts tokens
 * (an evaluation, say) must get back as many as were sent. */
#include "read.h"

#include <stdlib.h>
#include <string.h>

/* ==== Length ==== */

static size_t longest_piece(const srv *s) {
    size_t most = 1;
    for (retrace_token id = 0; id < s->facts.vocab; id++) {
        size_t piece = retrace_piece(s->model, id).n, name = retrace_token_name(s->model, id).n;
        if (piece > most) most = piece;
        if (name > most) most = name;
    }
    return most;
}

/* So that no time goes into tokenising what cannot fit. */
int srv_check_length(const srv *s, size_t bytes, const char *param, srv_error *e) {
    size_t room = (size_t)s->facts.n_ctx;
    if (bytes <= room) return 0;
    size_t least = bytes / longest_piece(s);
    if (least <= room) return 0;
    return srv_fail(e, 400, "context_length_exceeded", param,
                    "%s: a text of %zu bytes has at least %zu tokens, and the model's context "
                    "holds %d",
                    param, bytes, least, s->facts.n_ctx);
}

/* A run needs room for a token; a prompt that is only scored does not. */
static int check_fits(srv_reading *r, int n, const char *param) {
    int only_scored = r->q->echo && r->q->options.max_tokens == 0;
    int most = r->s->facts.n_ctx - (only_scored ? 0 : 1);
    if (n > most)
        return srv_fail(r->e, 400, "context_length_exceeded", param,
                        "%s: the prompt has %d tokens, and the model's context holds %d, the "
                        "answer included",
                        param, n, r->s->facts.n_ctx);
    if (n > 0 || strcmp(r->s->facts.backend, "table") == 0) return 0;
    return srv_fail(r->e, 400, "invalid_value", param,
                    "%s: it is empty, and the model has no BOS to begin with", param);
}

int srv_add_prompt(srv_reading *r, const retrace_token *tokens, int n, const char *param) {
    srv_request *q = r->q;
    if (check_fits(r, n, param)) return -1;
    if (q->n_prompts == SRV_MAX_PROMPTS)
        return srv_fail(r->e, 400, "too_many", param, "%s: more than %d prompts", param,
                        SRV_MAX_PROMPTS);
    q->prompts = cli_realloc(q->prompts, (size_t)(q->n_prompts + 1) * sizeof *q->prompts);
    srv_prompt *p = &q->prompts[q->n_prompts++];
    p->n = n;
    p->tokens = cli_alloc(((size_t)n + 1) * sizeof *p->tokens);
    if (n > 0) memcpy(p->tokens, tokens, (size_t)n * sizeof *tokens);
    return 0;
}

/* ==== One prompt ==== */

/* Tokens as they are put together. */
typedef struct tokens {
    retrace_token *v;
    size_t n, cap;
} tokens;

static void push(tokens *t, const retrace_token *v, size_t n) {
    if (t->n + n > t->cap) {
        t->cap = (t->n + n) * 2;
        t->v = cli_realloc(t->v, t->cap * sizeof *t->v);
    }
    if (n) memcpy(t->v + t->n, v, n * sizeof *v);
    t->n += n;
}

static int push_text(srv_reading *r, tokens *to, retrace_text text, int first, const char *param) {
    retrace_token *ids;
    retrace_error err;
    int n, where = first ? RETRACE_TOKENIZE_BOS : RETRACE_TOKENIZE_INSIDE;
    if (srv_check_length(r->s, text.n, param, r->e)) return -1;
    if (retrace_tokenize(r->s->model, text, where | RETRACE_TOKENIZE_SPECIAL, &ids, &n, &err))
        return srv_fail_with(r->e, &err, param);
    push(to, ids, (size_t)n);
    retrace_free(ids);
    return 0;
}

static int push_id(srv_reading *r, tokens *to, json_t *v, const char *param) {
    if (srv_check_token(r->s, v, param, r->e)) return -1;
    retrace_token id = (retrace_token)json_integer_value(v);
    push(to, &id, 1);
    return 0;
}

/* A list of ids; where it may be mixed, of texts too. */
static int push_list(srv_reading *r, tokens *to, json_t *list, int mixed, const char *param) {
    json_t *item;
    size_t i;
    json_array_foreach(list, i, item) {
        char at[96];
        snprintf(at, sizeof at, "%.72s[%zu]", param, i);
        int rc = mixed && json_is_string(item) ? push_text(r, to, srv_text_of(item), i == 0, at)
                                               : push_id(r, to, item, at);
        if (rc) return -1;
        if (to->n > (size_t)r->s->facts.n_ctx) return check_fits(r, (int)to->n, param);
    }
    return 0;
}

static int add_one(srv_reading *r, json_t *v, int mixed, const char *param) {
    tokens t = {0};
    int rc;
    if (json_is_string(v))
        rc = push_text(r, &t, srv_text_of(v), 1, param);
    else if (json_is_array(v))
        rc = push_list(r, &t, v, mixed, param);
    else
        rc = srv_wrong(r->e, param, v,
                       mixed ? "a text or a list of texts and token ids"
                             : "a text or a list of token ids");
    if (!rc) rc = srv_add_prompt(r, t.v, (int)t.n, param);
    free(t.v);
    return rc;
}

/* ==== All of them ==== */

/* Whether a list is one prompt. Of ids alone it begins with one; where texts may stand among them,
 * an id anywhere says so, as llama-server has it. */
static int is_one(json_t *list, int mixed) {
    json_t *item;
    size_t i;
    if (!mixed) return json_is_integer(json_array_get(list, 0));
    json_array_foreach(list, i, item) if (json_is_number(item)) return 1;
    return 0;
}

static int read_list(srv_reading *r, json_t *list, int mixed, const char *used) {
    json_t *item;
    size_t i;
    if (json_array_size(list) == 0)
        return srv_fail(r->e, 400, "invalid_value", used, "%s: the list is empty", used);
    if (is_one(list, mixed)) return add_one(r, list, mixed, used);
    json_array_foreach(list, i, item) {
        char param[96];
        snprintf(param, sizeof param, "%s[%zu]", used, i);
        if (add_one(r, item, mixed, param)) return -1;
    }
    return 0;
}

int srv_read_prompts(srv_reading *r, int mixed) {
    const char *used;
    json_t *v =
        srv_find(r->body, mixed ? srv_fields_llama : srv_fields_completions, "prompt", &used);
    if (!v) return srv_fail(r->e, 400, "missing_field", "prompt", "prompt: it is missing");
    if (json_is_array(v)) return read_list(r, v, mixed, used);
    return add_one(r, v, mixed, used);
}
