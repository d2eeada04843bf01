/* zsh.c - completion for zsh: what _arguments wants to know of each command. */
#include "pages.h"

#include <string.h>

/* Inside '...' and inside [...] of a specification. */
static void quoted(const char *s) {
    static const char *const as[] = {"'\\''", "\\[", "\\]", "\\:", "\\\\"};
    cli_print_quoted(s, "'[]:\\", as);
}

static void names(const char *(*at)(int i, retrace_plugin_info *info)) {
    retrace_plugin_info info;
    putchar('(');
    for (int i = 0; at(i, &info); i++) printf("%s%s", i ? " " : "", info.name);
    putchar(')');
}

static void value(const cli_option *o) {
    static const char *const blank[] = {" "};
    cli_value_kind kind = cli_kind_of(o);
    if (kind == CLI_SWITCH) return;
    putchar(':');
    quoted(kind == CLI_A_WORD ? o->flag : o->metavar);
    putchar(':');
    switch (kind) {
    case CLI_A_FILE: fputs("_files", stdout); break;
    case CLI_A_FOLDER: fputs("_files -/", stdout); break;
    case CLI_A_RULE: names(cli_pages_rule); break;
    case CLI_A_DRIVER: names(cli_pages_driver); break;
    case CLI_A_WORD:
        putchar('(');
        cli_print_quoted(o->choices, "|", blank);
        putchar(')');
        break;
    default: break;
    }
}

static void spelling(const char *dashes, const char *name, const cli_option *o) {
    printf(" \\\n            '*%s%s%s[", dashes, name,
           cli_kind_of(o) != CLI_SWITCH && dashes[1] ? "=" : "");
    quoted(o->help);
    putchar(']');
    value(o);
    putchar('\'');
}

static void command(const cli_pages *p, const cli_command *c) {
    printf("    '%s')\n        _arguments '*--help[what the flags mean]'", c->name);
    for (int i = 0; i < p->flags.n; i++) {
        const cli_option *o = cli_pages_row(p, i);
        if (!o || !(o->commands & c->bit)) continue;
        spelling("--", o->flag, o);
        if (o->brief) spelling("-", o->brief, o);
    }
    if (c->operand && strcmp(c->operand, "[NAME]") == 0) {
        fputs(" \\\n            '1:NAME:", stdout);
        names(cli_pages_rule);
        putchar('\'');
    } else if (c->operand && strncmp(c->operand, "USER", 4) != 0) {
        fputs(" \\\n            '*:FILE:_files'", stdout);
    }
    puts("\n        ;;");
}

/* 'name:what it is' */
static void described(const char *name, size_t n, const char *help) {
    static const char *const as[] = {"'\\''"};
    printf("        '%.*s%s", (int)n, name, help ? ":" : "");
    if (help) cli_print_quoted(help, "'", as);
    puts("'");
}

/* The commands by their first words; where several begin with one, it stands once. */
static void first_words(const cli_pages *p) {
    for (int i = 0; i < p->n; i++) {
        const char *name = p->commands[i].name;
        size_t n = strcspn(name, " ");
        if (i && name[n] && strncmp(p->commands[i - 1].name, name, n + 1) == 0) continue;
        described(name, n, name[n] ? NULL : p->commands[i].help);
    }
}

/* Behind the first of two words: the second ones. */
static void second_words(const cli_pages *p) {
    for (int i = 0; i < p->n; i++) {
        const char *name = p->commands[i].name, *blank = strchr(name, ' ');
        if (!blank) continue;
        size_t n = (size_t)(blank - name) + 1;
        int begins = i == 0 || strncmp(p->commands[i - 1].name, name, n) != 0;
        int ends = i + 1 == p->n || strncmp(p->commands[i + 1].name, name, n) != 0;
        if (begins) printf("    %.*s)\n        list=(\n", (int)n - 1, name);
        described(blank + 1, strlen(blank + 1), p->commands[i].help);
        if (!ends) continue;
        puts("        )\n        if (( CURRENT == 3 )); then\n"
             "            _describe command list\n            return\n        fi\n"
             "        command+=\" $words[3]\"\n        shift words\n        (( CURRENT-- ))\n"
             "        ;;");
    }
}

void cli_page_zsh(const cli_pages *p) {
    puts("#compdef retrace\n# zsh completion for retrace, made by retrace --help=zsh.\n");
    puts("_retrace() {\n    local command=$words[2]\n    local -a list=(");
    first_words(p);
    puts("    )\n    if (( CURRENT == 2 )); then\n        _describe command list\n"
         "        return\n    fi\n    case $command in");
    second_words(p);
    puts("    esac\n    shift words\n    (( CURRENT-- ))\n    case $command in");
    for (int i = 0; i < p->n; i++) command(p, &p->commands[i]);
    puts("    esac\n}\n\n_retrace \"$@\"");
}
