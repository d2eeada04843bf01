/* backward_text.c - what the tokens of a sample spell.
 *
 * A text that grows to the left may begin in the middle of a character: bytes that continue one
 * wait for the byte that opens it. The suffix is shown as it was typed; only what was put before
 * it is spelt from tokens, so control tokens in the suffix stay readable. */
#include "backward.h"

#include <string.h>

void cli_back_prefix(const cli_back *k, const retrace_backward_sample *s, cli_buf *out) {
    for (int i = 0; i + k->n < s->n; i++) {
        retrace_text t = retrace_piece(k->model, s->tokens[i]);
        cli_put(out, t.s, t.n);
    }
}

/* A character has at most three bytes that continue it. */
size_t cli_back_open(retrace_text t) {
    size_t n = 0;
    while (n < 3 && n < t.n && ((unsigned char)t.s[n] & 0xc0) == 0x80) n++;
    return n;
}

int cli_back_canonical(const cli_back *k, const retrace_backward_sample *s) {
    cli_buf whole = {0};
    retrace_token *ids = NULL;
    int n = 0;
    cli_back_prefix(k, s, &whole);
    cli_put(&whole, k->suffix.s, k->suffix.n);
    int rc = cli_back_split(k, cli_buf_text(&whole), &ids, &n, NULL);
    int same = rc == RETRACE_OK && n == s->n;
    for (int i = 0; i < n && same; i++) same = ids[i] == s->tokens[i];
    retrace_free(ids);
    cli_buf_free(&whole);
    return same;
}

const char *cli_back_finish(const retrace_backward_sample *s) {
    if (s->blocked) return "blocked";
    return s->started ? "start" : s->done ? "length" : "cancelled";
}
