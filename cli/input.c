/* input.c - what comes in: the prompt, and files that flags name.
 *
 * A prompt comes from exactly one place: -p, -f, or standard input when neither is given. As in
 * llama-cli, one line break at the end of a file or of standard input does not belong to the
 * prompt. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const size_t prompt_max = (size_t)64 << 20;
static const size_t list_max = (size_t)256 << 20;

static int slurp(FILE *in, const char *name, size_t max, cli_buf *out) {
    char part[1 << 16];
    size_t n;
    do { /* a short count is the end, or an error; reading on would ask a terminal again */
        n = fread(part, 1, sizeof part, in);
        cli_put(out, part, n);
        if (out->n > max) return cli_fail(CLI_USAGE, "%s is larger than %zu MiB", name, max >> 20);
    } while (n == sizeof part);
    if (ferror(in)) return cli_fail(CLI_IO, "cannot read %s: %s", name, strerror(errno));
    return CLI_OK;
}

int cli_read_file(const char *path, size_t max, cli_buf *out) {
    if (strcmp(path, "-") == 0) return slurp(stdin, "standard input", max, out);
    FILE *in = fopen(path, "rb");
    if (!in) return cli_fail(CLI_IO, "cannot open '%s': %s", path, strerror(errno));
    cli_buf name = {0};
    cli_printf(&name, "'%s'", path);
    int code = slurp(in, name.s, max, out);
    cli_buf_free(&name);
    fclose(in);
    return code;
}

static void drop_line_break(cli_buf *b) {
    if (b->n == 0 || b->s[b->n - 1] != '\n') return;
    b->n--;
    if (b->n && b->s[b->n - 1] == '\r') b->n--;
}

static int take(const char *text, const char *file, cli_buf *out) {
    if (text) {
        cli_puts(out, text);
        return CLI_OK;
    }
    int code = cli_read_file(file ? file : "-", prompt_max, out);
    drop_line_break(out);
    return code;
}

/* The flag that takes a text itself. */
static const char *text_flag(const cli_flags *f) {
    return f->command & CLI_BACKWARD ? "suffix" : "prompt";
}

/* -p or -f of the command line wins over either variable of the environment. */
static int pick(const cli_flags *f, const char **text, const char **file) {
    const cli_option *p = cli_option_of(f, text_flag(f)), *q = cli_option_of(f, "file");
    int use_p = p->n > 0, use_q = q->n > 0;
    if (use_p && use_q && p->from_env != q->from_env) {
        use_p = !p->from_env;
        use_q = !q->from_env;
    }
    if (use_p && use_q) return cli_fail(CLI_USAGE, "--%s and --file exclude each other", p->flag);
    *text = use_p ? cli_value(f, p->flag) : NULL;
    *file = use_q ? cli_value(f, "file") : NULL;
    return CLI_OK;
}

static int no_text(const cli_flags *f) {
    return cli_fail(CLI_USAGE, "no text: give %s TEXT, -f FILE, or write it to standard input",
                    f->command & CLI_BACKWARD ? "--suffix" : "-p");
}

int cli_read_prompt(const cli_flags *f, cli_buf *out) {
    const char *text = NULL, *file = NULL;
    int code = pick(f, &text, &file);
    if (code) return code;
    if (!text && !file && isatty(STDIN_FILENO)) return no_text(f);
    code = take(text, file, out);
    if (code) return code;
    if (!text && !file && out->n == 0 && f->command & CLI_BACKWARD) return no_text(f);
    size_t at = cli_utf8_check(cli_buf_text(out));
    if (at == out->n) return CLI_OK;
    return cli_fail(CLI_USAGE, "%s%s%s: not valid UTF-8 at byte %zu",
                    text   ? "--"
                    : file ? "--file "
                           : "standard input",
                    text ? text_flag(f) : "", file ? file : "", at);
}

int cli_read_list(const char *path, cli_buf *out) {
    int code = cli_read_file(path, list_max, out);
    if (code) return code;
    size_t at = cli_utf8_check(cli_buf_text(out)), line = 1;
    if (at == out->n) return CLI_OK;
    for (size_t i = 0; i < at; i++) line += out->s[i] == '\n';
    return cli_fail(CLI_USAGE, "%s:%zu: not valid UTF-8", path, line);
}
