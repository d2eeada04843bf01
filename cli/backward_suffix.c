/* backward_suffix.c - the suffix, and the space that may be missing before it.
 *
 * In most vocabularies a word carries the space before it, so "is the" goes on with a word that has
 * begun and " is the" with a sentence. Who leaves the space out seldom means the former: it is
 * said, and taken as it was typed. */
#include "backward.h"
#include "screen.h"

#include <stdlib.h>
#include <string.h>

/* Letters of scripts that part words with spaces. */
static int is_letter(retrace_text t) {
    uint32_t c;
    cli_utf8(t.s, t.n, &c);
    if (c < 0x80) return (c | 32) >= 'a' && (c | 32) <= 'z';
    return (c >= 0xc0 && c < 0x530 && c != 0xd7 && c != 0xf7) || (c >= 0x1e00 && c < 0x2000);
}

int cli_back_split(const cli_back *k, retrace_text t, retrace_token **ids, int *n,
                   retrace_error *err) {
    int flags = RETRACE_TOKENIZE_INSIDE;
    if (!cli_on(k->f, "no-special")) flags |= RETRACE_TOKENIZE_SPECIAL;
    return retrace_tokenize(k->model, t, flags, ids, n, err);
}

/* With a space before it; 1 when that has tokens, *first is the first of them. */
static int with_space(const cli_back *k, retrace_token *first) {
    cli_buf b = {0};
    retrace_token *ids = NULL;
    int n = 0;
    cli_puts(&b, " ");
    cli_put(&b, k->suffix.s, k->suffix.n);
    int rc = cli_back_split(k, cli_buf_text(&b), &ids, &n, NULL);
    if (rc == RETRACE_OK && n) *first = ids[0];
    retrace_free(ids);
    cli_buf_free(&b);
    return rc == RETRACE_OK && n > 0;
}

/* ' is the ...': a few words of it. */
static void put_spaced(const cli_back *k, cli_buf *b) {
    enum { WORDS = 3, CELLS = 30 };
    size_t n = 0;
    int words = 0;
    for (; n < k->suffix.n; n++)
        if (k->suffix.s[n] == ' ' && ++words == WORDS) break;
    retrace_text t = {k->suffix.s, n};
    cli_puts(b, "' ");
    cli_put_cells(b, t, CELLS);
    cli_puts(b, n < k->suffix.n || cli_columns(t) > CELLS ? " ...'" : "'");
}

static int opens_with_space(const cli_back *k, retrace_token v) {
    retrace_text t = retrace_piece(k->model, v);
    return t.n > 1 && t.s[0] == ' ';
}

static void note_space(const cli_back *k) {
    retrace_token spaced;
    if (!is_letter(cli_buf_text(&k->suffix)) || !with_space(k, &spaced)) return;
    if (spaced == k->ids[0] || !opens_with_space(k, spaced)) return;
    cli_buf b = {0};
    put_spaced(k, &b);
    cli_say("note: the suffix begins inside a word; %s (with a space) is another one", b.s);
    cli_buf_free(&b);
}

static int refuse(const cli_back *k, const retrace_error *err) {
    retrace_token spaced;
    cli_buf b = {0};
    if (k->suffix.s[0] == ' ' || !with_space(k, &spaced)) return cli_report(err, "--suffix");
    put_spaced(k, &b);
    int code = cli_fail(cli_exit_code(err->code), "--suffix: %s; %s (with a space) would do",
                        err->msg, b.s);
    cli_buf_free(&b);
    return code;
}

int cli_back_suffix(cli_back *k) {
    retrace_error err;
    if (cli_back_split(k, cli_buf_text(&k->suffix), &k->ids, &k->n, &err)) return refuse(k, &err);
    if (k->n) note_space(k);
    return CLI_OK;
}
