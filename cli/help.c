/* help.c - what --help prints, from the table of flags and nothing else.
 *
 * `retrace COMMAND --help=markdown` prints the same rows as tables; docs/cli.md is made of them. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static const char *const sections[] = {"Model", "Conversion", "Address", "Access",   "Limits",
                                       "Table", "Prompt",     "Suffix",  "Sampling", "Candidates",
                                       "Rules", "Rewinding",  "Output"};
enum { WITH_FIGURES = CLI_BACKWARD | CLI_BIGRAM_BUILD | CLI_BIGRAM_INFO | CLI_BIGRAM_LOOK };
enum { N_SECTIONS = sizeof sections / sizeof *sections, LEFT = 34, RIGHT = 46 };

const char *cli_help_section(int i) {
    return i < N_SECTIONS ? sections[i] : NULL;
}

static int shown(const cli_option *o, const cli_flags *f, const char *section) {
    return (o->commands & f->command) && o->help && strcmp(o->section, section) == 0;
}

/* "-n, --max-tokens N" */
static void spell(cli_buf *b, const cli_option *o, int with_brief) {
    if (with_brief && o->brief) cli_printf(b, "-%s, ", o->brief);
    cli_printf(b, "--%s", o->flag);
    if (o->metavar) cli_printf(b, " %s", o->metavar);
}

static int has_range(const cli_option *o) {
    return (o->type == RETRACE_INT || o->type == RETRACE_REAL) && o->min < o->max;
}

static void bound(cli_buf *b, double x) {
    if (x >= 1e6 || x <= -1e6)
        cli_puts(b, x > 0 ? "up" : "any");
    else
        cli_printf(b, "%g", x);
}

/* "0 to 5", "1 up", or nothing where any number will do. */
static void range(cli_buf *b, const cli_option *o) {
    if (!has_range(o) || (o->min <= -1e6 && o->max >= 1e6)) return;
    bound(b, o->min);
    if (o->max < 1e6)
        cli_puts(b, " to ");
    else
        cli_puts(b, " ");
    bound(b, o->max);
}

void cli_help_remark(cli_buf *b, const cli_option *o) {
    cli_buf r = {0};
    range(&r, o);
    int preset = o->preset && *o->preset && strcmp(o->preset, "false") != 0;
    if (preset || r.n) cli_puts(b, " (");
    if (preset) cli_printf(b, "default %s", o->preset);
    if (r.n) cli_printf(b, "%s%s", preset ? "; " : "", r.s);
    if (preset && o->type == RETRACE_BOOL) cli_printf(b, "; --%s=false", o->flag);
    if (preset || r.n) cli_puts(b, ")");
    cli_buf_free(&r);
}

/* Writes text in lines of RIGHT characters, each but the first behind LEFT blanks. */
static void wrap(FILE *to, const char *s) {
    size_t column = 0;
    while (*s) {
        size_t n = strcspn(s, " ");
        if (column && column + 1 + n > RIGHT) {
            fprintf(to, "\n%*s", LEFT, "");
            column = 0;
        }
        fprintf(to, "%s%.*s", column ? " " : "", (int)n, s);
        column += n + (column > 0);
        s += n + strspn(s + n, " ");
    }
    putc('\n', to);
}

static void row(const cli_option *o, FILE *to) {
    cli_buf left = {0}, right = {0};
    spell(&left, o, 1);
    cli_puts(&right, o->help);
    cli_help_remark(&right, o);
    if (left.n + 3 <= LEFT)
        fprintf(to, "  %-*s", LEFT - 2, left.s);
    else
        fprintf(to, "  %s\n%*s", left.s, LEFT, "");
    wrap(to, right.s);
    cli_buf_free(&left);
    cli_buf_free(&right);
}

void cli_help(const cli_command *c, const cli_flags *f, FILE *to) {
    fprintf(to, "usage: retrace %s%s%s [flags]\n\n%s\n", c->name, c->operand ? " " : "",
            c->operand ? c->operand : "", c->help);
    for (int s = 0; s < N_SECTIONS; s++) {
        int any = 0;
        for (int i = 0; i < f->n; i++) {
            if (!shown(&f->v[i], f, sections[s])) continue;
            if (!any++) fprintf(to, "\n%s\n", sections[s]);
            row(&f->v[i], to);
        }
    }
    fputs("\nEvery flag has an environment twin: --top-k is RETRACE_TOP_K. The flag wins.\n", to);
    if (f->command & WITH_FIGURES) fputs("docs/backward.md says what the figures mean.\n", to);
    if (f->command & CLI_SERVE)
        fputs("Flags of sampling and rewinding are for requests that say nothing themselves.\n"
              "docs/http.md has what a request may say, and how to connect curl, Python and\n"
              "SillyTavern.\n",
              to);
}

/* ==== Markdown ==== */

static void cell(const char *s) {
    for (; *s; s++) printf(*s == '|' ? "\\|" : "%c", *s);
}

static void markdown_row(const cli_option *o) {
    cli_buf b = {0}, r = {0};
    printf("| `");
    spell(&b, o, 0);
    cell(b.s);
    printf("`");
    if (o->brief) printf(" `-%s`", o->brief);
    if (o->other) printf(" `--%s`", o->other);
    printf(" | ");
    if (o->preset && *o->preset) printf("`%s`", o->preset);
    range(&r, o);
    printf(" | %s | ", r.n ? r.s : "");
    cell(o->help);
    printf(" |\n");
    cli_buf_free(&b);
    cli_buf_free(&r);
}

void cli_help_markdown(const cli_command *c, const cli_flags *f) {
    printf("## retrace %s%s%s\n\n%s\n", c->name, c->operand ? " " : "",
           c->operand ? c->operand : "", c->help);
    for (int s = 0; s < N_SECTIONS; s++) {
        int any = 0;
        for (int i = 0; i < f->n; i++) {
            if (!shown(&f->v[i], f, sections[s])) continue;
            if (!any++)
                printf("\n%s:\n\n| flag | default | range | |\n| --- | --- | --- | --- |\n",
                       sections[s]);
            markdown_row(&f->v[i]);
        }
    }
}
