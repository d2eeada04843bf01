/* chain.c - bigram tables as `retrace bigram` and `retrace backward` meet them: anchors, files,
 * facts.
 *
 * Hashes are written with 16 hexadecimal digits, in JSON too: as numbers many readers would round
 * them. */
#define _POSIX_C_SOURCE 200809L
#include "backward.h"
#include "screen.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ==== Anchors ==== */

int cli_anchor_of(const cli_flags *f, const retrace_model *m, cli_anchor *out) {
    const char *given = cli_value(f, "anchor");
    retrace_error err;
    *out = (cli_anchor){{NULL, -1}, NULL};
    if (!given || strcmp(given, "auto") == 0) return CLI_OK;
    out->anchor.n = 0;
    if (strcmp(given, "none") == 0) return CLI_OK;
    if (!*given) return cli_fail(CLI_USAGE, "--anchor: empty; 'none' means that there is none");
    int flags = cli_on(f, "no-special") ? 0 : RETRACE_TOKENIZE_SPECIAL;
    int rc = retrace_tokenize(m, (retrace_text){given, strlen(given)}, flags, &out->owned,
                              &out->anchor.n, &err);
    out->anchor.tokens = out->owned;
    return rc ? cli_report(&err, "--anchor") : CLI_OK;
}

void cli_anchor_free(cli_anchor *a) {
    retrace_free(a->owned);
    *a = (cli_anchor){0};
}

void cli_put_tokens(cli_buf *b, const retrace_model *m, const retrace_token *v, int n) {
    if (n == 0) cli_puts(b, "none");
    if (m && n) cli_puts(b, "\"");
    for (int i = 0; i < n && m; i++) cli_put_cells(b, retrace_token_name(m, v[i]), INT_MAX);
    if (m && n) cli_puts(b, "\" (");
    for (int i = 0; i < n; i++) cli_printf(b, "%s%d", i ? " " : "", (int)v[i]);
    if (m && n) cli_puts(b, ")");
}

void cli_put_size(cli_buf *b, int64_t bytes) {
    if (bytes >= 1000000)
        cli_printf(b, "%.1f MB", (double)bytes / 1e6);
    else
        cli_printf(b, "%.1f kB", (double)bytes / 1e3);
}

int cli_anchor_check(const cli_flags *f, const retrace_model *m, const retrace_bigram *b) {
    cli_anchor a;
    retrace_bigram_info has;
    retrace_model_info facts;
    retrace_bigram_facts(b, &has);
    retrace_model_facts(m, &facts);
    if (!cli_value(f, "anchor")) return CLI_OK;
    int code = cli_anchor_of(f, m, &a);
    if (code) return code;
    const retrace_token *v = a.anchor.n < 0 ? &facts.start : a.anchor.tokens;
    int n = a.anchor.n < 0 ? facts.start >= 0 : a.anchor.n;
    int same = n == has.n_anchor;
    for (int i = 0; i < n && same; i++) same = v[i] == has.anchor[i];
    cli_anchor_free(&a);
    if (same) return CLI_OK;
    cli_buf t = {0};
    cli_put_tokens(&t, m, has.anchor, has.n_anchor);
    code = cli_fail(CLI_USAGE, "--anchor: the table was made with the anchor %s", t.s);
    cli_buf_free(&t);
    return code;
}

/* ==== Files ==== */

const char *cli_model_file(const char *uri) {
    size_t n = strspn(uri, "abcdefghijklmnopqrstuvwxyz");
    return n > 1 && uri[n] == ':' ? uri + n + 1 : uri;
}

static int ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* OWNER/NAME, as model hubs call their models. */
static int is_hub_name(const char *s) {
    const char *slash = strchr(s, '/');
    if (!slash || slash == s || !slash[1] || strchr(slash + 1, '/') || *s == '.' || *s == '~')
        return 0;
    return !ends_with(s, ".gguf") && !ends_with(s, ".json");
}

int cli_model_there(const char *uri) {
    retrace_plugin_info p;
    const char *file = cli_model_file(uri);
    if (!cli_model_backend(uri, &p) || access(file, F_OK) == 0) return CLI_OK;
    if (is_hub_name(file))
        return cli_fail(CLI_IO,
                        "there is no file '%s'; it reads like a Hugging Face name: give a "
                        "GGUF file",
                        file);
    return cli_fail(CLI_IO, "cannot open the model '%s': %s", file, strerror(errno));
}

void cli_bigram_path(cli_buf *b, const char *dir, const char *uri) {
    const char *file = cli_model_file(uri), *slash = strrchr(file, '/');
    const char *name = slash ? slash + 1 : file, *dot = strrchr(name, '.');
    int n = (int)(dot && dot > name ? (size_t)(dot - name) : strlen(name));
    if (strcmp(dir, ".") != 0)
        cli_printf(b, "%s%s", dir, *dir && dir[strlen(dir) - 1] == '/' ? "" : "/");
    cli_printf(b, "%.*s.bigram", n, name);
}

/* ==== Tables ==== */

int cli_bigram_read(retrace_bigram **out, const char *path) {
    retrace_error err;
    cli_progress("reading %s ...", path);
    int rc = retrace_bigram_open(out, path, &err);
    cli_progress_end();
    if (rc == RETRACE_EMODEL && (ends_with(path, ".json") || ends_with(path, ".gguf")))
        return cli_fail(CLI_MODEL,
                        "'%s' is a model, not a table: 'retrace bigram build -m %s -o "
                        "FILE' makes one of it",
                        path, path);
    return rc ? cli_report(&err, NULL) : CLI_OK;
}

static void put_hash(json_t *o, const char *name, uint64_t hash) {
    char digits[20];
    snprintf(digits, sizeof digits, "%016" PRIx64, hash);
    json_object_set_new(o, name, json_string(digits));
}

static json_t *text_or_null(const char *s) {
    return s ? cli_json_text((retrace_text){s, strlen(s)}) : json_null();
}

static json_t *anchor_text(const retrace_model *m, const retrace_bigram_info *i) {
    cli_buf b = {0};
    if (!m) return json_null();
    for (int k = 0; k < i->n_anchor; k++) {
        retrace_text t = retrace_token_name(m, i->anchor[k]);
        cli_put(&b, t.s, t.n);
    }
    json_t *j = cli_json_text(cli_buf_text(&b));
    cli_buf_free(&b);
    return j;
}

json_t *cli_bigram_json(const retrace_bigram *b, const retrace_model *m) {
    retrace_bigram_info i;
    json_t *o = json_object();
    retrace_bigram_facts(b, &i);
    json_object_set_new(o, "kind", json_string(i.kind));
    json_object_set_new(o, "model", text_or_null(i.model));
    json_object_set_new(o, "weights", text_or_null(i.weights));
    put_hash(o, "model_hash", i.model_hash);
    put_hash(o, "vocab_hash", i.vocab_hash);
    json_object_set_new(o, "vocab", json_integer(i.vocab));
    json_object_set_new(o, "dim", json_integer(i.dim));
    json_object_set_new(o, "anchor", cli_json_ints(i.anchor, i.n_anchor));
    json_object_set_new(o, "anchor_text", anchor_text(m, &i));
    json_object_set_new(o, "start", i.start < 0 ? json_null() : json_integer(i.start));
    json_object_set_new(o, "iterations", json_integer(i.iterations));
    json_object_set_new(o, "residual", cli_json_real(i.residual));
    json_object_set_new(o, "rate", i.rate > 0 ? cli_json_real(i.rate) : json_null());
    json_object_set_new(o, "entropy", cli_json_real(i.entropy));
    json_object_set_new(o, "start_pi", cli_json_real(i.start_pi));
    json_object_set_new(o, "size_bytes", json_integer(i.size_bytes));
    return o;
}
