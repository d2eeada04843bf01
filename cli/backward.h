/* backward.h - what the files of `retrace backward` and `retrace bigram` share. */
#ifndef CLI_BACKWARD_H
#define CLI_BACKWARD_H

#include "cli.h"

/* ==== chain.c: bigram tables, their anchors and models ==== */

/* What --anchor says. */
typedef struct cli_anchor {
    retrace_anchor anchor;
    retrace_token *owned; /* NULL, or the tokens of a text */
} cli_anchor;
int cli_anchor_of(const cli_flags *f, const retrace_model *m, cli_anchor *out);
void cli_anchor_free(cli_anchor *a);
/* CLI_USAGE when --anchor was given and is not the table's. */
int cli_anchor_check(const cli_flags *f, const retrace_model *m, const retrace_bigram *b);
int cli_bigram_read(retrace_bigram **out, const char *path);
/* Tokens as a reader of the vocabulary wants them, in quotes, or as ids where m is NULL; for
 * people. */
void cli_put_tokens(cli_buf *b, const retrace_model *m, const retrace_token *v, int n);
void cli_put_size(cli_buf *b, int64_t bytes);
/* DIR/NAME.bigram: what the table of a model is called in a folder. */
void cli_bigram_path(cli_buf *b, const char *dir, const char *uri);
/* CLI_IO when a model is a file and there is no such file. */
int cli_model_there(const char *uri);
/* The path in a URI. */
const char *cli_model_file(const char *uri);
/* Everything about a table, as the fields of an object; m, which may be NULL, spells the anchor. */
json_t *cli_bigram_json(const retrace_bigram *b, const retrace_model *m);

/* ==== backward.c ==== */

typedef struct cli_back {
    const cli_flags *f;
    char *uri; /* of the model */
    retrace_model *model;
    retrace_bigram *chain;
    retrace_backward *b;
    retrace_backward_options options;
    cli_buf suffix; /* as it was given */
    retrace_token *ids;
    int n; /* of the suffix */
    double start, end;
    retrace_error err; /* what ended it, when err.code is not 0 */
} cli_back;

/* ==== backward_text.c: bytes to text, from the right to the left ==== */

/* The bytes before the suffix. */
void cli_back_prefix(const cli_back *k, const retrace_backward_sample *s, cli_buf *out);
/* How many bytes at the left edge of a text may yet become part of a character. */
size_t cli_back_open(retrace_text t);
/* Whether the model would split the whole text into these very tokens. */
int cli_back_canonical(const cli_back *k, const retrace_backward_sample *s);
/* "start", "length", "blocked"; "cancelled" for a sample that is not done. */
const char *cli_back_finish(const retrace_backward_sample *s);

/* ==== backward_suffix.c: spaces that may be missing ==== */

/* Reads the suffix and splits it. */
int cli_back_suffix(cli_back *k);
/* Tokens of a text that something precedes, as --no-special says; *ids is freed with retrace_free.
 * A status of the library. */
int cli_back_split(const cli_back *k, retrace_text t, retrace_token **ids, int *n,
                   retrace_error *err);

/* ==== backward_json.c ==== */

/* The object of --json: samples that are done or have a step. */
json_t *cli_back_json(const cli_back *k);
/* The line of a step under --stream. */
json_t *cli_back_json_step(const cli_back *k, const retrace_backward_event *e);

/* ==== backward_show.c: for people ==== */

typedef struct cli_back_show cli_back_show;
cli_back_show *cli_back_show_new(const cli_back *k);
void cli_back_show_free(cli_back_show *s);
/* Before the first step. */
void cli_back_show_begin(cli_back_show *s);
/* CLI_OK, or what cli_write_failed said. */
int cli_back_show_event(cli_back_show *s, const retrace_backward_event *e);
/* Samples that were broken off. */
int cli_back_show_rest(cli_back_show *s);
/* Questions of a step are being asked, and have been answered. */
void cli_back_show_progress(cli_back_show *s);
void cli_back_show_answers(cli_back_show *s, const retrace_query *q, int n);

/* ==== backward_summary.c ==== */

typedef struct cli_back_count {
    int done, unfinished; /* samples; unfinished: with a step at least */
    int texts;            /* different ones, of those done */
    int improper;
} cli_back_count;
cli_back_count cli_back_counts(const cli_back *k);
/* The summary below all samples. */
void cli_back_show_summary(const cli_back *k);

#endif
