/* text.c - /tokenize, /detokenize and /apply-template.
 *
 * Two servers' clients ask here in different words; what comes back holds the fields of both. */
#include "read.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a text: what a long context can hold of usual text; for counting, somewhat more is fine.
 */
enum { LEAST_TEXT = 1 << 18, BYTES_A_TOKEN = 16, MAX_SPELT = 1 << 23 };

static size_t most_text(const srv *s) {
    size_t most = (size_t)s->facts.n_ctx * BYTES_A_TOKEN;
    return most > LEAST_TEXT ? most : LEAST_TEXT;
}

/* Answers with what `make` makes of the body. */
static void answer_with(srv *s, srv_call *c, json_t *(*make)(srv *, json_t *, srv_error *)) {
    srv_error e = {0};
    json_t *body = srv_json_read(&c->body, &e);
    json_t *answer = body ? make(s, body, &e) : NULL;
    json_decref(body);
    if (answer)
        srv_reply_json(c->reply, 200, answer);
    else
        srv_reply_error(c->reply, &e);
    srv_call_done(c);
}

/* ==== /tokenize ==== */

typedef struct wish {
    int bos, special, pieces, texts;
} wish;

static int read_wish(json_t *body, wish *w, srv_error *e) {
    const srv_field *t = srv_fields_tokenize;
    const char *used = "";
    srv_find(body, t, "content", &used);
    *w = (wish){.bos = strcmp(used, "prompt") == 0, .special = 1};
    if (srv_get_bool(body, t, "add_special", &w->bos, e) ||
        srv_get_bool(body, t, "parse_special", &w->special, e) ||
        srv_get_bool(body, t, "with_pieces", &w->pieces, e))
        return -1;
    return srv_get_bool(body, t, "return_token_strs", &w->texts, e);
}

static int tokens_of(srv *s, json_t *body, const wish *w, retrace_token **ids, int *n,
                     srv_error *e) {
    retrace_error err;
    const char *used;
    json_t *content = srv_find(body, srv_fields_tokenize, "content", &used);
    if (!content && srv_get(body, srv_fields_tokenize, "messages"))
        return srv_chat_tokens(s, body, ids, n, e);
    if (!content)
        return srv_fail(e, 400, "missing_field", "content",
                        "content: it is missing, and so are prompt "
                        "and messages");
    if (!json_is_string(content)) return srv_wrong(e, used, content, "a text");
    retrace_text t = srv_text_of(content);
    if (t.n > most_text(s))
        return srv_fail(e, 400, "too_long", used, "%s: more than %zu bytes", used, most_text(s));
    int how = (w->bos ? RETRACE_TOKENIZE_BOS : 0) | (w->special ? RETRACE_TOKENIZE_SPECIAL : 0);
    retrace_token *made;
    if (retrace_tokenize(s->model, t, how, &made, n, &err)) return srv_fail_with(e, &err, used);
    *ids = cli_alloc((size_t)*n * sizeof *made);
    if (*n) memcpy(*ids, made, (size_t)*n * sizeof *made);
    retrace_free(made);
    return 0;
}

/* A text, or its bytes where they are not whole characters. */
static json_t *piece_json(retrace_text t) {
    return cli_utf8_check(t) == t.n ? cli_json_text(t) : cli_json_octets(t);
}

static json_t *pieces_json(const srv *s, const retrace_token *ids, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        json_t *o = json_pack("{s:i}", "id", (int)ids[i]);
        json_object_set_new(o, "piece", piece_json(retrace_token_name(s->model, ids[i])));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *texts_json(const srv *s, const retrace_token *ids, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, cli_json_text(retrace_token_name(s->model, ids[i])));
    return list;
}

static json_t *tokenize(srv *s, json_t *body, srv_error *e) {
    retrace_token *ids;
    wish w;
    int n;
    if (read_wish(body, &w, e) || tokens_of(s, body, &w, &ids, &n, e)) return NULL;
    json_t *o = json_object();
    json_object_set_new(o, "tokens", w.pieces ? pieces_json(s, ids, n) : cli_json_ints(ids, n));
    json_object_set_new(o, "count", json_integer(n));
    json_object_set_new(o, "max_model_len", json_integer(s->facts.n_ctx));
    if (w.texts) json_object_set_new(o, "token_strs", texts_json(s, ids, n));
    free(ids);
    return o;
}

void srv_prepare_tokenize(srv *s, srv_call *c) {
    answer_with(s, c, tokenize);
}

/* ==== /detokenize ==== */

/* Control tokens are spelt out, so that what comes back can be tokenised again. */
static void put_names(const srv *s, const retrace_token *ids, int n, cli_buf *to) {
    for (int i = 0; i < n; i++) {
        retrace_text t = retrace_token_name(s->model, ids[i]);
        cli_put(to, t.s, t.n);
    }
}

static int put_list(srv *s, json_t *list, const char *used, cli_buf *to, srv_error *e) {
    json_t *item;
    size_t i;
    json_array_foreach(list, i, item) {
        char param[96];
        snprintf(param, sizeof param, "%s[%zu]", used, i);
        if (srv_check_token(s, item, param, e)) return -1;
        retrace_token id = (retrace_token)json_integer_value(item);
        put_names(s, &id, 1, to);
        if (to->n > MAX_SPELT)
            return srv_fail(e, 400, "too_long", used, "%s: a text of more than %d bytes", used,
                            MAX_SPELT);
    }
    return 0;
}

static json_t *detokenize(srv *s, json_t *body, srv_error *e) {
    const char *used;
    cli_buf text = {0};
    json_t *list = srv_find(body, srv_fields_detokenize, "tokens", &used), *o = NULL;
    if (!list)
        srv_fail(e, 400, "missing_field", "tokens", "tokens: it is missing");
    else if (!json_is_array(list))
        srv_wrong(e, used, list, "a list of token ids");
    else if (put_list(s, list, used, &text, e) == 0) {
        o = json_object();
        json_object_set_new(o, "content", cli_json_text(cli_buf_text(&text)));
        json_object_set(o, "prompt", json_object_get(o, "content"));
    }
    cli_buf_free(&text);
    return o;
}

void srv_prepare_detokenize(srv *s, srv_call *c) {
    answer_with(s, c, detokenize);
}

/* ==== /apply-template ==== */

static json_t *template_of(srv *s, json_t *body, srv_error *e) {
    retrace_token *ids;
    int n;
    cli_buf text = {0};
    if (srv_chat_tokens(s, body, &ids, &n, e)) return NULL;
    put_names(s, ids, n, &text);
    json_t *o = json_object();
    json_object_set_new(o, "prompt", cli_json_text(cli_buf_text(&text)));
    free(ids);
    cli_buf_free(&text);
    return o;
}

void srv_prepare_template(srv *s, srv_call *c) {
    answer_with(s, c, template_of);
}
