/* man.c - the manual page, retrace(1), in mdoc: what a person types is in the table of flags, what
 * it means at large is said here. */
#include "pages.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 76 };

static void lines(const char *const *v) {
    for (; *v; v++) puts(*v);
}

/* ==== Text as mdoc ==== */

/* Returns how long it has become at most. */
static size_t escaped(const char *s, size_t n) {
    static const char of[] = "\\-'`^~\"";
    static const char *const as[] = {"\\e", "\\-", "\\(aq", "\\(ga", "\\(ha", "\\(ti", "\\(dq"};
    char *word = cli_copy(s, n);
    if (*word == '.' || *word == '\'') fputs("\\&", stdout);
    cli_print_quoted(word, of, as);
    for (const char *c = word; *c; c++) n += strchr(of, *c) ? 3 : 0;
    free(word);
    return n;
}

/* In lines that are not too long; a sentence begins a line. */
static void text(const char *s) {
    size_t column = 0;
    while (*s) {
        size_t n = strcspn(s, " ");
        if (column && column + 1 + n + 6 > WIDTH) {
            putchar('\n');
            column = 0;
        }
        if (column) putchar(' ');
        column += escaped(s, n) + 1;
        int ends = n > 1 && strchr(".?!", s[n - 1]) != NULL;
        s += n + strspn(s + n, " ");
        if (ends && *s) {
            putchar('\n');
            column = 0;
        }
    }
    putchar('\n');
}

/* An argument of a macro. */
static void argument(const char *s) {
    putchar('"');
    escaped(s, strlen(s));
    putchar('"');
}

/* ==== Flags ==== */

static void name_item(const cli_option *o) {
    fputs(".It", stdout);
    if (o->brief) printf(" Fl %s ,", o->brief);
    fputs(" Fl Fl ", stdout);
    escaped(o->flag, strlen(o->flag));
    if (o->metavar) {
        fputs(" Ar ", stdout);
        argument(o->metavar);
    }
    putchar('\n');
}

/* Names of the commands of a set, appended; how many there are. */
static int names_of(const cli_pages *p, unsigned set, cli_buf *b) {
    int n = 0;
    for (int i = 0; i < p->n; i++)
        if (p->commands[i].bit & set) cli_printf(b, "%s%s", n++ ? ", " : "", p->commands[i].name);
    return n;
}

/* The commands that open a model. */
static unsigned with_model(const cli_pages *p) {
    unsigned set = 0;
    for (int i = 0; i < p->flags.n; i++) {
        const cli_option *o = cli_pages_row(p, i);
        if (o && strcmp(o->flag, "model") == 0) set |= o->commands;
    }
    return set;
}

/* "Of generate, chat.", or what is shorter: "Of all with --model but chat." - nothing where every
 * command has it. */
static void of_commands(const cli_pages *p, const cli_option *o) {
    unsigned all = 0, model = with_model(p);
    cli_buf plain = {0}, brief = {0}, but = {0}, more = {0};
    for (int i = 0; i < p->n; i++) all |= p->commands[i].bit;
    names_of(p, o->commands, &plain);
    cli_puts(&brief, "all with --model");
    if (names_of(p, model & ~o->commands, &but)) cli_printf(&brief, " but %s", but.s);
    if (names_of(p, o->commands & ~model, &more)) cli_printf(&brief, ", and %s", more.s);
    cli_buf of = {0};
    cli_printf(&of, "Of %s.", brief.n < plain.n ? brief.s : plain.s);
    if (all & ~o->commands) text(of.s);
    cli_buf *const all_of_them[] = {&plain, &brief, &but, &more, &of};
    for (int i = 0; i < 5; i++) cli_buf_free(all_of_them[i]);
}

static void flag(const cli_pages *p, const cli_option *o) {
    cli_buf b = {0};
    name_item(o);
    cli_puts(&b, o->help);
    cli_help_remark(&b, o);
    cli_puts(&b, ".");
    text(b.s);
    if (o->other) {
        fputs("Also ", stdout);
        escaped("--", 2);
        escaped(o->other, strlen(o->other));
        puts(".");
    }
    of_commands(p, o);
    cli_buf_free(&b);
}

static void section(const cli_pages *p, const char *name) {
    printf(".Ss %s\n.Bl -tag -width Ds\n", name);
    for (int i = 0; i < p->flags.n; i++) {
        const cli_option *o = cli_pages_row(p, i);
        if (o && strcmp(o->section, name) == 0) flag(p, o);
    }
    puts(".El");
}

static int section_has_rows(const cli_pages *p, const char *name) {
    for (int i = 0; i < p->flags.n; i++) {
        const cli_option *o = cli_pages_row(p, i);
        if (o && strcmp(o->section, name) == 0) return 1;
    }
    return 0;
}

/* ==== Commands and rules ==== */

static void command_list(const cli_pages *p) {
    puts(".Bl -tag -width Ds");
    for (int i = 0; i < p->n; i++) {
        const cli_command *c = &p->commands[i];
        printf(".It Cm %s", c->name);
        if (c->operand) {
            fputs(" Ar ", stdout);
            argument(c->operand);
        }
        putchar('\n');
        text(c->help);
    }
    puts(".El");
}

static void plugins(const char *(*at)(int i, retrace_plugin_info *info)) {
    retrace_plugin_info info;
    puts(".Bl -tag -width Ds");
    for (int i = 0; at(i, &info); i++) {
        fputs(".It Cm ", stdout);
        argument(info.name);
        putchar('\n');
        cli_buf b = {0};
        cli_printf(&b, "%s.", info.help);
        text(b.s);
        cli_buf_free(&b);
    }
    puts(".El");
}

/* ==== The page ==== */

static const char *const head[] = {
    ".Dt RETRACE 1",
    ".Os",
    ".Sh NAME",
    ".Nm retrace",
    ".Nd language models that take tokens back",
    ".Sh SYNOPSIS",
    ".Nm",
    ".Ar command",
    ".Op Ar flags",
    ".Nm",
    ".Ar command",
    ".Fl Fl help",
    ".Nm",
    ".Fl Fl version",
    ".Sh DESCRIPTION",
    ".Nm",
    "runs language models (GGUF files) and watches what they write: it erases what",
    "rules object to and chooses again.",
    "It can also write backwards, sampling what comes before a given ending.",
    ".Pp",
    "Standard output carries the result and nothing else; messages, statistics and",
    "progress go to standard error.",
    "A flag takes its value as",
    ".Fl Fl flag Ar value",
    "or",
    ".Fl Fl flag Ns = Ns Ar value ;",
    "a switch is turned off by",
    ".Fl Fl flag Ns =false .",
    "Where a flag that is not repeatable comes twice, the last one counts.",
    ".Sh COMMANDS",
    NULL};

static const char *const foot[] = {
    ".Sh ENVIRONMENT",
    "Every flag has a twin in the environment:",
    ".Fl Fl top\\-k",
    "is",
    ".Ev RETRACE_TOP_K .",
    "The flag wins, and an empty variable counts as not set.",
    ".Bl -tag -width Ds",
    ".It Ev RETRACE_LISTS",
    "The folder of ban lists, instead of the one below.",
    ".It Ev HF_TOKEN , HF_HOME , HF_ENDPOINT , HF_HUB_CACHE , HF_HUB_OFFLINE",
    "As the programs of the Hugging Face hub have them.",
    ".It Ev XDG_CACHE_HOME , XDG_CONFIG_HOME , XDG_STATE_HOME",
    "Where the folders below are.",
    ".It Ev NO_COLOR",
    "Nothing is coloured or struck out.",
    ".El",
    ".Sh FILES",
    ".Bl -tag -width Ds",
    ".It Pa ~/.cache/retrace/models",
    "The model that is used when none is named.",
    ".It Pa ~/.cache/huggingface/hub",
    "Models of the hub.",
    ".It Pa ~/.config/retrace/lists",
    "Ban lists: NAME.txt is the list NAME.",
    ".It Pa ~/.local/state/retrace/history",
    "What was typed in",
    ".Cm chat .",
    ".El",
    ".Sh EXIT STATUS",
    ".Bl -tag -width Ds",
    ".It 0",
    "Done.",
    ".It 1",
    "No valid result: the run was stuck or out of its budget, a replay differs,",
    "nothing can precede a suffix.",
    ".It 2",
    "Bad input; the message names the flag.",
    ".It 3",
    "The model or a table is broken or refused.",
    ".It 4",
    "A file that cannot be read or written, memory, the network.",
    ".It 130",
    "Interrupted.",
    ".El",
    ".Sh EXAMPLES",
    "A story without some phrases, each rewind told:",
    ".Bd -literal -offset indent",
    "retrace generate --chat -p \"A story about Lily.\" \\e",
    "    --ban \"once upon a time\" --ban-file cliches.txt -v",
    ".Ed",
    ".Pp",
    "A conversation with a model of the hub:",
    ".Dl retrace chat USER/REPO:Q4_K_M --operator repetition",
    ".Pp",
    "What ends in these words:",
    ".Bd -literal -offset indent",
    "retrace bigram build -m model.gguf -o model.bigram",
    "retrace backward -m model.gguf --table model.bigram \\e",
    "    --suffix \" is the capital of France\"",
    ".Ed",
    ".Pp",
    "The same over HTTP:",
    ".Dl retrace serve -m model.gguf --port 7077",
    ".Sh SEE ALSO",
    ".Xr libretrace 3",
    NULL};

void cli_page_man(const cli_pages *p) {
    const char *name;
    puts(".\\\" Made by retrace --help=man.\n.Dd December 1, 2026");
    lines(head);
    command_list(p);
    puts(".Sh FLAGS");
    for (int i = 0; (name = cli_help_section(i)) != NULL; i++)
        if (section_has_rows(p, name)) section(p, name);
    puts(".Sh RULES\nFor\n.Fl Fl rule ;\n.Cm \"retrace rules\"\nlists their settings.");
    plugins(cli_pages_rule);
    puts("Drivers, for\n.Fl Fl driver :");
    plugins(cli_pages_driver);
    lines(foot);
}
