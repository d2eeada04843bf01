/* main.c - the commands, and which one is meant. */
#define _POSIX_C_SOURCE 200809L
#include "bare.h"
#include "cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cli_command commands[] = {
    {"generate", CLI_GENERATE, NULL, "Continue a text, or answer with --chat.", cli_generate},
    {"chat", CLI_CHAT, "[MODEL]", "Talk with a model in the terminal.", cli_chat},
    {"rules", CLI_RULES, "[NAME]", "List rules and drivers with their settings.", cli_rules},
    {"tokenize", CLI_TOKENIZE, NULL, "Show a text as the model's tokens.", cli_tokenize},
    {"info", CLI_INFO, NULL, "Show what the model is.", cli_info},
    {"score", CLI_SCORE, NULL, "Show how probable the model finds a text.", cli_score},
    {"replay", CLI_REPLAY, "FILE.jsonl", "Run a recorded trace again and compare.", cli_replay},
    {"pairs", CLI_PAIRS, "TRACE...", "Make training pairs of recorded traces.", cli_pairs},
    {"backward", CLI_BACKWARD, NULL, "Write what comes before a given ending.", cli_backward},
    {"bigram build", CLI_BIGRAM_BUILD, NULL, "Make the table of a model that backward needs.",
     cli_bigram_build},
    {"bigram info", CLI_BIGRAM_INFO, "FILE", "Show what a table is, and its likeliest tokens.",
     cli_bigram_info},
    {"bigram row", CLI_BIGRAM_LOOK, "FILE", "Show what follows a token, by a table.",
     cli_bigram_row},
    {"bigram column", CLI_BIGRAM_LOOK, "FILE", "Show what precedes a token, by a table.",
     cli_bigram_column},
    {"serve", CLI_SERVE, NULL, "Serve the model over HTTP, in OpenAI's form.", cli_serve},
    {"pull", CLI_PULL, "USER/REPO[:QUANT]", "Fetch a model of the hub.", cli_pull},
    {"models", CLI_MODELS, NULL, "List the models that are here.", cli_models},
    {"convert", CLI_CONVERT, "IN.gguf OUT.gguf", "Write a model in another type.", cli_convert},
    {"bench", CLI_BENCH, NULL, "Measure retrace against a bare libllama loop.", cli_bench},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* ==== Missing streams ==== */

/* A file that is opened later must not take the place of a stream that was closed. What is put
 * there refuses what the stream is used for, but messages go nowhere. */
static int fill_streams(void) {
    static const int how[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", how[fd]) != fd) return 0;
    return 1;
}

/* ==== Commands ==== */

static void usage(FILE *to) {
    fputs("usage: retrace COMMAND [flags]\n\n", to);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-14s %s\n", commands[i].name, commands[i].help);
    fputs("\nretrace COMMAND --help shows the flags of a command; --version the version.\n", to);
}

/* The command that the words name, and how many of them do so. */
static const cli_command *find(int n, char **words, int *used) {
    for (int i = 0; i < N_COMMANDS; i++) {
        const char *name = commands[i].name;
        size_t first = strcspn(name, " ");
        if (strlen(words[0]) != first || memcmp(name, words[0], first) != 0) continue;
        *used = name[first] ? 2 : 1;
        if (!name[first] || (n > 1 && strcmp(name + first + 1, words[1]) == 0)) return &commands[i];
    }
    return NULL;
}

static int belongs(const cli_command *c, const char *first) {
    size_t n = strlen(first);
    return strncmp(c->name, first, n) == 0 && c->name[n] == ' ';
}

/* The first word of several commands: *all becomes their second words. */
static int family(const char *word, cli_buf *all) {
    for (int i = 0; i < N_COMMANDS; i++)
        if (belongs(&commands[i], word))
            cli_printf(all, "%s%s", all->n ? ", " : "", commands[i].name + strlen(word) + 1);
    return all->n > 0;
}

static int help_family(const char *first) {
    printf("usage: retrace %s COMMAND [flags]\n\n", first);
    for (int i = 0; i < N_COMMANDS; i++)
        if (belongs(&commands[i], first))
            printf("  %-14s %s\n", commands[i].name, commands[i].help);
    printf("\nretrace %s COMMAND --help shows the flags of a command.\n", first);
    return cli_flush();
}

static const char *nearest_second(const char *first, const char *second) {
    const char *names[N_COMMANDS];
    int n = 0;
    for (int i = 0; i < N_COMMANDS; i++)
        if (belongs(&commands[i], first)) names[n++] = commands[i].name + strlen(first) + 1;
    return cli_nearest(second, names, n);
}

static int unknown_second(const char *first, const char *second, const char *all) {
    if (!second) return cli_fail(CLI_USAGE, "%s: one of %s is missing", first, all);
    if (strcmp(second, "--help") == 0 || strcmp(second, "-h") == 0) return help_family(first);
    const char *near = nearest_second(first, second);
    if (near)
        return cli_fail(CLI_USAGE, "%s: '%s' is none of %s (did you mean '%s'?)", first, second,
                        all, near);
    return cli_fail(CLI_USAGE, "%s: '%s' is none of %s", first, second, all);
}

static int unknown(const char *name, const char *next) {
    const char *names[N_COMMANDS];
    cli_buf all = {0};
    if (family(name, &all)) {
        int code = unknown_second(name, next, all.s);
        cli_buf_free(&all);
        return code;
    }
    for (int i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
    const char *near = cli_nearest(name, names, N_COMMANDS);
    const char *what = name[0] == '-' ? "flag" : "command";
    if (near) return cli_fail(CLI_USAGE, "unknown %s '%s' (did you mean '%s'?)", what, name, near);
    return cli_fail(CLI_USAGE, "unknown %s '%s'; see 'retrace --help'", what, name);
}

static int show_help(const cli_command *c, const cli_flags *f) {
    if (f->help == 1)
        cli_help(c, f, stdout);
    else
        cli_help_markdown(c, f);
    return cli_flush();
}

static int with_template(const cli_command *c, cli_flags *f) {
    int code = cli_template_read(f);
    return code ? code : c->run(f);
}

static int run(const cli_command *c, int argc, char **argv) {
    cli_flags f;
    cli_flags_init(&f, c->bit);
    int code = cli_flags_read(&f, argc, argv, c);
    if (!code && f.help) {
        code = show_help(c, &f);
    } else if (!code) {
        cli_quiet = cli_on(&f, "quiet");
        cli_verbose = cli_quiet ? 0 : cli_on(&f, "verbose");
        code = cli_lists(&f, "chat-template") ? cli_template_list() : with_template(c, &f);
    }
    cli_flags_free(&f);
    return code;
}

/* libllama's OpenMP threads wait for each other spinning, by default so long that beside other work
 * on the same cores they come to a standstill; a thousand turns cost an idle machine nothing. The
 * library reads this when it is loaded, which is before main: so set it and start again. Whoever
 * has set either variable has decided for himself. */
static void calm_threads(char **argv) {
    if (!cli_bare_built_in() || getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
    if (setenv("GOMP_SPINCOUNT", "1000", 1) == 0) execv("/proc/self/exe", argv);
}

int main(int argc, char **argv) {
    calm_threads(argv);
    if (!fill_streams()) return CLI_IO;
    signal(SIGPIPE, SIG_IGN); /* a failed write is noticed where it happens, see cli_write_failed */
    signal(SIGXFSZ, SIG_IGN); /* the same for a file that may not grow */
    cli_catch_interrupts();
    json_set_alloc_funcs(cli_alloc, free);
    if (argc < 2) return usage(stderr), CLI_USAGE;
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0)
        return printf("retrace %s\n", retrace_version()), cli_flush();
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) return usage(stdout), cli_flush();
    if (strncmp(name, "--help=", 7) == 0) return cli_page(name + 7, commands, N_COMMANDS);
    int used = 1;
    const cli_command *c = find(argc - 1, argv + 1, &used);
    return c ? run(c, argc - 1 - used, argv + 1 + used) : unknown(name, argv[2]);
}
