/* fuzz_flags.c - a command line as a stranger might write it.
 *
 * The first byte chooses the command, the others are its arguments, ended by NULs. Whatever they
 * are: a usage error in words, or values that keep to what the table says of their flags. Each
 * argument is also read as the text of --rule. */
#define _POSIX_C_SOURCE 200809L

#include "said.h"

#include <stdlib.h>

extern char **environ;

enum { MOST = 40 };

static const cli_command commands[] = {
    {"generate", CLI_GENERATE, NULL, "", NULL},
    {"chat", CLI_CHAT, "[MODEL]", "", NULL},
    {"rules", CLI_RULES, "[NAME]", "", NULL},
    {"tokenize", CLI_TOKENIZE, NULL, "", NULL},
    {"info", CLI_INFO, NULL, "", NULL},
    {"score", CLI_SCORE, NULL, "", NULL},
    {"replay", CLI_REPLAY, "FILE.jsonl", "", NULL},
    {"pairs", CLI_PAIRS, "TRACE...", "", NULL},
    {"backward", CLI_BACKWARD, NULL, "", NULL},
    {"bigram build", CLI_BIGRAM_BUILD, NULL, "", NULL},
    {"bigram info", CLI_BIGRAM_INFO, "FILE", "", NULL},
    {"bigram row", CLI_BIGRAM_LOOK, "FILE", "", NULL},
    {"serve", CLI_SERVE, NULL, "", NULL},
    {"pull", CLI_PULL, "USER/REPO[:QUANT]", "", NULL},
    {"models", CLI_MODELS, NULL, "", NULL},
    {"convert", CLI_CONVERT, "IN.gguf OUT.gguf", "", NULL},
    {"bench", CLI_BENCH, NULL, "", NULL},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* A value that was taken is one of its flag. */
static void check_value(const cli_option *o, retrace_text v) {
    int64_t whole;
    double x = 0;
    int yes;
    must(v.s && strlen(v.s) == v.n, "a value that is no text");
    switch (o->type) {
    case RETRACE_BOOL:
        must(cli_parse_bool(v.s, &yes) || (o->counted && cli_parse_int(v.s, &whole)), "no truth");
        break;
    case RETRACE_INT:
        must(cli_parse_int(v.s, &whole), "no whole number");
        /* fall through */
    case RETRACE_REAL:
        must(cli_parse_real(v.s, &x) && x >= o->min && x <= o->max, "a number out of its range");
        break;
    case RETRACE_FILE: must(v.n > 0, "a file without a name"); break;
    case RETRACE_CHOICE: must(strstr(o->choices, v.s) != NULL, "a choice that there is not"); break;
    default: must(cli_utf8_check(v) == v.n, "text that is not UTF-8");
    }
}

static void check_flags(const cli_flags *f) {
    for (int i = 0; i < f->n; i++) {
        const cli_option *o = &f->v[i];
        if (o->n == 0) continue;
        for (int k = 0; k < o->n; k++) check_value(o, o->given[k]);
        must((o->commands & f->command) != 0, "a flag of another command");
        must(cli_option_of(f, o->flag) == o, "another flag of that name");
        must(cli_value(f, o->flag) == o->given[o->n - 1].s, "not the last one");
        if (o->type == RETRACE_BOOL) cli_on(f, o->flag);
        if (o->type == RETRACE_INT || o->type == RETRACE_REAL) cli_real(f, o->flag);
    }
    must(f->n_operands == 0 || f->operand == f->operands[0], "not the first operand");
}

static void read_rule(const char *text) {
    retrace_rule_spec *spec = NULL;
    retrace_error err = {0};
    if (failed(retrace_rule_parse(&spec, text, &err), &err)) return;
    must(spec->name && spec->name[0], "a rule without a name");
    for (int i = 0; i < spec->n_settings; i++)
        must(spec->settings[i].name[0] && spec->settings[i].value.s, "a setting without a name");
    for (int driver = 0; driver < 2; driver++) {
        said_begin();
        int code = cli_spec_check(spec, "--rule", driver);
        said_end(code);
        must(code == CLI_OK || code == CLI_USAGE, "an odd exit code for a rule");
    }
    retrace_free(spec);
}

/* The table of a command. Making it takes longer than all else here, so each is made once and then
 * copied. */
static cli_flags table_of(int command) {
    static cli_flags made[N_COMMANDS];
    if (made[command].n == 0) cli_flags_init(&made[command], commands[command].bit);
    cli_flags f = made[command];
    f.v = cli_alloc((size_t)f.n * sizeof *f.v);
    memcpy(f.v, made[command].v, (size_t)f.n * sizeof *f.v);
    return f;
}

static void read_flags(int argc, char **argv, int command) {
    static FILE *nowhere;
    const cli_command *c = &commands[command];
    cli_flags f = table_of(command);
    if (!nowhere) nowhere = fopen("/dev/null", "w");
    said_begin();
    int code = cli_flags_read(&f, argc, argv, c);
    said_end(code);
    must(code == CLI_OK || code == CLI_USAGE, "an odd exit code");
    if (!code) check_flags(&f);
    if (!code && f.help == 1 && nowhere) cli_help(c, &f, nowhere);
    cli_flags_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > 4096) return 0;
    if (environ[0]) environ[0] = NULL; /* no RETRACE_... of whoever runs this */
    char *text = cli_copy((const char *)data + 1, size - 1), *argv[MOST + 1];
    int argc = 0;
    for (char *at = text; argc < MOST && at < text + size - 1; at += strlen(at) + 1)
        argv[argc++] = at;
    argv[argc] = NULL;
    read_flags(argc, argv, data[0] % N_COMMANDS);
    for (int i = 0; i < argc; i++) read_rule(argv[i]);
    free(text);
    return 0;
}
