/* pages.h - what the pages made for an installation share: the manual page and the completions. */
#ifndef CLI_PAGES_H
#define CLI_PAGES_H

#include "cli.h"

typedef struct cli_pages {
    const cli_command *commands;
    int n;
    cli_flags flags; /* of all commands */
} cli_pages;

/* What stands behind a flag. */
typedef enum cli_value_kind {
    CLI_SWITCH, /* nothing, or =true and =false */
    CLI_A_TEXT,
    CLI_A_FILE,
    CLI_A_FOLDER,
    CLI_A_WORD, /* one of `choices` */
    CLI_A_RULE,
    CLI_A_DRIVER
} cli_value_kind;
cli_value_kind cli_kind_of(const cli_option *o);

/* Row i if it is shown in the help, else NULL. */
const cli_option *cli_pages_row(const cli_pages *p, int i);
/* Whether no other row that is shown has this one's name. */
int cli_pages_alone(const cli_pages *p, const cli_option *o);
/* Row i of rules (drivers) in the catalogue: its name; NULL: there are no more. */
const char *cli_pages_rule(int i, retrace_plugin_info *info);
const char *cli_pages_driver(int i, retrace_plugin_info *info);

/* Prints s; each character that is in `of` stands as the string of the same place in `as`. */
void cli_print_quoted(const char *s, const char *of, const char *const *as);

void cli_page_man(const cli_pages *p);
void cli_page_bash(const cli_pages *p);
void cli_page_zsh(const cli_pages *p);
void cli_page_fish(const cli_pages *p);

#endif
