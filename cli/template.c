/* template.c - the flag --chat-template, and what is said where a chat template is missing.
 *
 * The library takes a template's name or its text. A person gives a name or a file: what is no name
 * is read as a file, and its text takes the place of the value, so that a trace holds the text and
 * can be replayed without the file. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* The option of this command; NULL: it has none, or no back end has such a setting. */
static cli_option *option_of(const cli_flags *f) {
    for (int i = 0; i < f->n; i++) {
        cli_option *o = &f->v[i];
        if (o->commands & f->command && strcmp(o->flag, "chat-template") == 0) return o;
    }
    return NULL;
}

static int is_name(const char *value) {
    const char *name;
    for (int i = 0; (name = retrace_chat_template_at(i)) != NULL; i++)
        if (strcmp(name, value) == 0) return 1;
    return 0;
}

int cli_template_list(void) {
    const char *name;
    for (int i = 0; (name = retrace_chat_template_at(i)) != NULL; i++) printf("%s\n", name);
    return cli_flush();
}

static int no_template(const char *value, const char *why) {
    return cli_fail(CLI_USAGE, "--chat-template: '%s' is no known name ('list' prints them) and %s",
                    value, why);
}

int cli_template_read(cli_flags *f) {
    cli_option *o = option_of(f);
    cli_buf text = {0};
    if (!o || o->n == 0) return CLI_OK;
    retrace_text *given = &o->given[o->n - 1];
    if (is_name(given->s)) return CLI_OK;
    FILE *there = fopen(given->s, "rb");
    if (!there) return no_template(given->s, "no file that can be read");
    fclose(there);
    int code = cli_read_list(given->s, &text);
    if (!code && text.n == 0) code = no_template(given->s, "an empty file");
    if (!code && memchr(text.s, '\0', text.n)) code = no_template(given->s, "no text file");
    if (code) {
        cli_buf_free(&text);
        return code;
    }
    *given = cli_buf_text(&text);
    f->chat_template = text.s;
    return CLI_OK;
}

/* ==== Messages ==== */

static int with_hint(const retrace_error *err, const char *about) {
    return cli_fail(cli_exit_code(err->code),
                    "%s%s%s; --chat-template NAME|FILE says what to take instead ('list' prints "
                    "the names)",
                    about ? about : "", about ? ": " : "", err->msg);
}

int cli_report_open(const retrace_error *err) {
    static const char setting[] = "chat_template: ";
    int ours = err->code == RETRACE_EMODEL && strncmp(err->msg, setting, sizeof setting - 1) == 0;
    return ours ? with_hint(err, NULL) : cli_report(err, NULL);
}

int cli_report_chat(const retrace_model *m, const retrace_error *err, const char *about) {
    retrace_model_info info;
    retrace_plugin_info p;
    retrace_model_facts(m, &info);
    int takes_one = 0;
    for (int i = 0; retrace_backend_at(i, &p); i++) {
        if (strcmp(p.name, info.backend) != 0) continue;
        for (const retrace_setting_info *s = p.settings; s && s->name; s++)
            takes_one |= strcmp(s->name, "chat_template") == 0;
    }
    return err->code == RETRACE_EMODEL && takes_one ? with_hint(err, about)
                                                    : cli_report(err, about);
}
