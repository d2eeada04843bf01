/* pages.c - `retrace --help=man`, `=bash`, `=zsh`, `=fish`: what an installation puts beside the
 * program, made from the commands and the table of flags and nothing else. */
#include "pages.h"

#include <string.h>

cli_value_kind cli_kind_of(const cli_option *o) {
    const char *metavar = o->metavar ? o->metavar : "";
    if (o->type == RETRACE_BOOL) return CLI_SWITCH;
    if (o->type == RETRACE_CHOICE) return CLI_A_WORD;
    if (strcmp(o->flag, "rule") == 0) return CLI_A_RULE;
    if (strcmp(o->flag, "driver") == 0) return CLI_A_DRIVER;
    if (strcmp(metavar, "DIR") == 0) return CLI_A_FOLDER;
    if (o->type == RETRACE_FILE) return CLI_A_FILE;
    return o->type == RETRACE_TEXTS && strcmp(metavar, "FILE") == 0 ? CLI_A_FILE : CLI_A_TEXT;
}

const cli_option *cli_pages_row(const cli_pages *p, int i) {
    const cli_option *o = &p->flags.v[i];
    return o->help && o->commands ? o : NULL;
}

int cli_pages_alone(const cli_pages *p, const cli_option *o) {
    for (int i = 0; i < p->flags.n; i++) {
        const cli_option *other = cli_pages_row(p, i);
        if (other && other != o && strcmp(other->flag, o->flag) == 0) return 0;
    }
    return 1;
}

const char *cli_pages_rule(int i, retrace_plugin_info *info) {
    return retrace_rule_at(i, info) ? info->name : NULL;
}

const char *cli_pages_driver(int i, retrace_plugin_info *info) {
    return retrace_driver_at(i, info) ? info->name : NULL;
}

void cli_print_quoted(const char *s, const char *of, const char *const *as) {
    for (; *s; s++) {
        const char *at = strchr(of, *s);
        if (at)
            fputs(as[at - of], stdout);
        else
            putchar(*s);
    }
}

int cli_page(const char *kind, const cli_command *commands, int n) {
    static const struct {
        const char *kind;
        void (*print)(const cli_pages *p);
    } pages[] = {
        {"man", cli_page_man},
        {"bash", cli_page_bash},
        {"zsh", cli_page_zsh},
        {"fish", cli_page_fish},
    };
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (strcmp(kind, pages[i].kind) != 0) continue;
        cli_pages p = {.commands = commands, .n = n};
        cli_flags_init(&p.flags, 0);
        pages[i].print(&p);
        cli_flags_free(&p.flags);
        return cli_flush();
    }
    return cli_fail(CLI_USAGE, "--help: '%s' is none of man, bash, zsh, fish", kind);
}
