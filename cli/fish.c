/* fish.c - completion for fish: a line for each flag of each command. */
#include "pages.h"

#include <string.h>

static void quoted(const char *s) {
    static const char *const as[] = {"\\'", "\\\\"};
    putchar('\'');
    cli_print_quoted(s, "'\\", as);
    putchar('\'');
}

/* "bigram build" is two words, both of which must have been seen. */
static void condition(const char *command) {
    const char *blank = strchr(command, ' ');
    if (blank)
        printf(" -n '__fish_seen_subcommand_from %.*s; and __fish_seen_subcommand_from %s'",
               (int)(blank - command), command, blank + 1);
    else
        printf(" -n '__fish_seen_subcommand_from %s'", command);
}

static void arguments(const char *const *v, int n) {
    fputs(" -xa '", stdout);
    for (int i = 0; i < n; i++) printf("%s%s", i ? " " : "", v[i]);
    putchar('\'');
}

static void names(const char *(*at)(int i, retrace_plugin_info *info)) {
    retrace_plugin_info info;
    const char *v[256];
    int n = 0;
    while (n < 256 && at(n, &info)) v[n++] = info.name;
    arguments(v, n);
}

static void value(const cli_option *o) {
    static const char *const blank[] = {" "};
    switch (cli_kind_of(o)) {
    case CLI_SWITCH: break;
    case CLI_A_TEXT: fputs(" -x", stdout); break;
    case CLI_A_FILE: fputs(" -rF", stdout); break;
    case CLI_A_FOLDER: fputs(" -xa '(__fish_complete_directories)'", stdout); break;
    case CLI_A_RULE: names(cli_pages_rule); break;
    case CLI_A_DRIVER: names(cli_pages_driver); break;
    case CLI_A_WORD:
        fputs(" -xa '", stdout);
        cli_print_quoted(o->choices, "|", blank);
        putchar('\'');
        break;
    }
}

static void flag(const cli_command *c, const cli_option *o) {
    fputs("complete -c retrace", stdout);
    condition(c->name);
    if (o->brief) printf(" -%c %s", o->brief[1] ? 'o' : 's', o->brief);
    printf(" -l %s -d ", o->flag);
    quoted(o->help);
    value(o);
    putchar('\n');
}

/* The first word of a command; where several begin with it, once. */
static void command(const cli_pages *p, int i) {
    const char *name = p->commands[i].name, *blank = strchr(name, ' ');
    size_t n = blank ? (size_t)(blank - name) : strlen(name);
    if (blank) {
        printf("complete -c retrace -n '__fish_seen_subcommand_from %.*s' -fa %s -d ", (int)n, name,
               blank + 1);
        quoted(p->commands[i].help);
        putchar('\n');
    }
    if (i && strncmp(p->commands[i - 1].name, name, n + (blank != NULL)) == 0) return;
    printf("complete -c retrace -n __fish_use_subcommand -fa %.*s", (int)n, name);
    if (!blank) fputs(" -d ", stdout), quoted(p->commands[i].help);
    putchar('\n');
}

void cli_page_fish(const cli_pages *p) {
    puts("# fish completion for retrace, made by retrace --help=fish.");
    for (int i = 0; i < p->n; i++) command(p, i);
    for (int i = 0; i < p->n; i++) {
        const cli_command *c = &p->commands[i];
        if (!c->operand || strncmp(c->operand, "USER", 4) == 0) {
            fputs("complete -c retrace -f", stdout);
            condition(c->name);
            putchar('\n');
        }
        for (int k = 0; k < p->flags.n; k++) {
            const cli_option *o = cli_pages_row(p, k);
            if (o && (o->commands & c->bit)) flag(c, o);
        }
    }
}
