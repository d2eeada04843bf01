/* convert.c - `retrace convert IN.gguf OUT.gguf --type TYPE`: a model in another type.
 *
 * The library does the work; here are the flags, the bar, and what is said about it. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { BAR = 30 };

static int list_types(void) {
    const char *name;
    for (int i = 0; (name = retrace_convert_type_at(i)) != NULL; i++) printf("%s\n", name);
    return cli_flush();
}

/* What is there stays, unless that is what the person wants. */
static int check_output(const cli_flags *f, const char *out) {
    struct stat st;
    if (cli_on(f, "force")) return CLI_OK;
    if (lstat(out, &st) == 0)
        return cli_fail(CLI_USAGE, "'%s' is there already; --force replaces it", out);
    if (errno == ENOENT) return CLI_OK;
    return cli_fail(CLI_IO, "cannot write '%s': %s", out, strerror(errno));
}

static int each(void *ud, double done) {
    int *shown = ud, now = (int)(done * 100);
    if (now != *shown) {
        char bar[BAR + 1];
        for (int i = 0; i < BAR; i++) bar[i] = i < now * BAR / 100 ? '#' : '.';
        bar[BAR] = '\0';
        cli_progress("converting [%s] %d%%", bar, now);
        *shown = now;
    }
    return cli_interrupted();
}

/* Rounding loses, and converting does not bring it back. */
static int look_at_input(const char *in) {
    retrace_error err;
    const char *type;
    int quantised;
    if (retrace_gguf_type(in, &type, &quantised, &err)) return cli_report(&err, NULL);
    if (quantised)
        cli_say("retrace: note: '%s' is %s already: what was rounded away there does not come back",
                in, type);
    return CLI_OK;
}

static int report(const cli_flags *f, const char *type, double seconds) {
    struct stat st = {0};
    const char *in = f->operands[0], *out = f->operands[1];
    if (stat(out, &st)) return cli_fail(CLI_IO, "cannot read '%s': %s", out, strerror(errno));
    if (!cli_on(f, "json")) {
        cli_say("%s: %s, %.1f MiB, %.1f s", out, type, (double)st.st_size / (1 << 20), seconds);
        return CLI_OK;
    }
    json_t *j = json_object();
    json_object_set_new(j, "input", cli_json_text((retrace_text){in, strlen(in)}));
    json_object_set_new(j, "output", cli_json_text((retrace_text){out, strlen(out)}));
    json_object_set_new(j, "type", cli_json_text((retrace_text){type, strlen(type)}));
    json_object_set_new(j, "size_bytes", json_integer((json_int_t)st.st_size));
    json_object_set_new(j, "seconds", json_real(cli_rounded(seconds, 0.001)));
    return cli_json_line(j, stdout, "standard output");
}

static int convert(const cli_flags *f, const char *type) {
    retrace_error err;
    int shown = -1, code = look_at_input(f->operands[0]);
    if (!code) code = check_output(f, f->operands[1]);
    if (code) return code;
    double begun = cli_clock();
    cli_run_begins();
    int rc = retrace_convert(f->operands[0], f->operands[1], type, cli_on(f, "pure"),
                             (int)cli_real(f, "threads"), each, &shown, &err);
    cli_run_ends();
    cli_progress_end();
    if (rc == RETRACE_ECANCEL) return CLI_INTERRUPTED;
    return rc ? cli_report(&err, NULL) : report(f, type, cli_clock() - begun);
}

int cli_convert(const cli_flags *f) {
    const char *type = cli_value(f, "type");
    if (!retrace_convert_type_at(0))
        return cli_fail(CLI_USAGE, "this build has no libllama, whose quantiser converts models");
    if (cli_lists(f, "type")) return list_types();
    if (!type) return cli_fail(CLI_USAGE, "--type is missing ('list' prints the types)");
    return convert(f, type);
}
