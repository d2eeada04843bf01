/* spell.c - text and tokens as the bytes of JSON.
 *
 * Chunks are written straight into a buffer: a tree of JSON values for every token would cost more
 * than the token. What a model writes may be anything, so everything that could end a line for a
 * reader of event streams is escaped: besides line feeds also U+0085, U+2028 and U+2029, at which
 * some clients split. */
#include "shape.h"

#include <stdlib.h>
#include <string.h>

/* U+0085, U+2028, U+2029 at s: their length in bytes and number. */
static size_t breaks_line(const char *s, size_t n, unsigned *cp) {
    const unsigned char *u = (const unsigned char *)s;
    if (n >= 2 && u[0] == 0xc2 && u[1] == 0x85) return *cp = 0x85, 2;
    if (n >= 3 && u[0] == 0xe2 && u[1] == 0x80 && (u[2] == 0xa8 || u[2] == 0xa9))
        return *cp = 0x2000u | (u[2] & 0x3fu), 3;
    return 0;
}

/* Appends JSON with these characters escaped: they stand in strings only. */
static void put_lines(cli_buf *b, const char *s, size_t n) {
    size_t from = 0, len;
    unsigned cp;
    for (size_t i = 0; i < n; i += len) {
        len = breaks_line(s + i, n - i, &cp);
        if (len) {
            cli_put(b, s + from, i - from);
            cli_printf(b, "\\u%04x", cp);
            from = i + len;
        }
        if (!len) len = 1;
    }
    cli_put(b, s + from, n - from);
}

static void put_escape(cli_buf *b, unsigned char c) {
    if (c == '"' || c == '\\')
        cli_printf(b, "\\%c", c);
    else if (c == '\n')
        cli_puts(b, "\\n");
    else
        cli_printf(b, "\\u%04x", c);
}

void srv_put_string(cli_buf *b, retrace_text t) {
    size_t from = 0;
    cli_puts(b, "\"");
    for (size_t i = 0; i < t.n; i++) {
        unsigned char c = (unsigned char)t.s[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        put_lines(b, t.s + from, i - from);
        put_escape(b, c);
        from = i + 1;
    }
    put_lines(b, t.s + from, t.n - from);
    cli_puts(b, "\"");
}

void srv_put_json(cli_buf *b, const json_t *j, int inside) {
    char *s = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    size_t n = s ? strlen(s) : 0;
    if (inside && n >= 2)
        put_lines(b, s + 1, n - 2);
    else
        put_lines(b, s ? s : "null", s ? n : 4);
    free(s);
}

/* ==== Tokens ==== */

static retrace_text bytes_of(const retrace_model *m, retrace_token id) {
    retrace_text piece = retrace_piece(m, id);
    return piece.n ? piece : retrace_token_name(m, id);
}

json_t *srv_token_text(const retrace_model *m, retrace_token id) {
    retrace_text t = bytes_of(m, id);
    if (cli_utf8_check(t) == t.n) return cli_json_text(t);
    cli_buf b = {0};
    cli_puts(&b, "bytes:");
    for (size_t i = 0; i < t.n; i++) cli_printf(&b, "\\x%02x", (unsigned char)t.s[i]);
    json_t *j = cli_json_text(cli_buf_text(&b));
    cli_buf_free(&b);
    return j;
}

json_t *srv_token_bytes(const retrace_model *m, retrace_token id) {
    return cli_json_octets(bytes_of(m, id));
}

void srv_put_pieces(const retrace_model *m, const retrace_token *ids, int n, cli_buf *b) {
    for (int i = 0; i < n; i++) {
        retrace_text piece = retrace_piece(m, ids[i]);
        cli_put(b, piece.s, piece.n);
    }
}

json_t *srv_with_top(const srv_answer *a, const srv_piece *p, srv_entry_fn *entry) {
    int n = srv_top_count(a, p);
    json_t *o = entry(a->s->model, p->id, p->logp), *top = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(top, entry(a->s->model, p->top[i].id, p->top[i].logp));
    json_object_set_new(o, "top_logprobs", top);
    return o;
}

void srv_prompt_piece(const srv *s, const srv_prompt *prompt, int i, cli_buf *b) {
    retrace_token id = prompt->tokens[i];
    if (i == 0 && s->facts.add_bos && id == s->facts.bos) return;
    retrace_text t = bytes_of(s->model, id);
    cli_put(b, t.s, t.n);
}

int srv_top_count(const srv_answer *a, const srv_piece *p) {
    int most = a->q->shape == SRV_LLAMA ? a->q->n_probs : a->q->logprobs, n = 0;
    while (n < p->n_top && n < most && p->top[n].id >= 0) n++;
    return n;
}
