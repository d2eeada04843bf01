/* twins.c - a repository without GGUF files: repositories that have the same model as GGUF, by the
 * hub's search, and the commands that convert it. On a terminal a person can take one at once. */
#define _POSIX_C_SOURCE 200809L
#include "hub.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { LISTED = 5, NAMED = 3, ANSWER_MOST = 4 << 20 };

typedef struct found {
    hub_twin *v;
    int n;
} found;

/* One try: what is wanted is to say what can be done, and that can be said without it too. */
static void search(hub_net *n, const char *query, found *x) {
    cli_buf path = {0};
    cli_printf(&path, "/api/models?%s&sort=downloads&direction=-1&limit=%d", query, LISTED);
    hub_question q = {.path = path.s, .max = ANSWER_MOST};
    if (hub_net_ask(n, &q) == HUB_DONE) {
        hub_twins_free(x->v, x->n);
        hub_twins_read(&x->v, &x->n, q.body.s ? q.body.s : "", q.body.n, LISTED);
    }
    cli_buf_free(&q.body);
    free(q.next);
    cli_buf_free(&path);
}

/* What was made of this repository, by what its author says; else what is called like it. */
static void find(hub_net *n, const char *repo, found *x) {
    cli_buf query = {0};
    cli_printf(&query, "filter=gguf&filter=base_model:quantized:%s", repo);
    search(n, query.s, x);
    if (x->n == 0 && !cli_interrupted()) {
        query.n = 0;
        cli_printf(&query, "filter=gguf&search=%s", strchr(repo, '/') + 1);
        search(n, query.s, x);
    }
    cli_buf_free(&query);
}

/* ==== Telling ==== */

static void name_twins(const char *repo, const found *x) {
    cli_buf b = {0};
    for (int i = 0; i < x->n && i < NAMED; i++)
        cli_printf(&b, "%s-hf %s", i ? ", " : "", x->v[i].repo);
    if (x->n)
        cli_fail(CLI_IO, "%s has no GGUF file; these have: %s", repo, b.s);
    else
        cli_fail(CLI_IO, "%s has no GGUF file, and the hub's search knows no twin of it", repo);
    cli_buf_free(&b);
}

/* Names of repositories hold nothing that a shell would take for its own. */
static int tell(const char *repo, const found *x) {
    const char *name = strchr(repo, '/') + 1;
    name_twins(repo, x);
    cli_fail(CLI_IO, "or convert it: git clone https://github.com/ggml-org/llama.cpp && "
                     "pip install -r llama.cpp/requirements.txt");
    return cli_fail(CLI_IO,
                    "hf download %s --local-dir %s && python llama.cpp/convert_hf_to_gguf.py"
                    " %s --outfile %s.gguf --outtype q8_0",
                    repo, name, name, name);
}

/* ==== Asking ==== */

static int can_ask(const found *x) {
    return x->n > 0 && !cli_quiet && isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* 0: none. A line is read byte by byte, so that what follows stays for others. */
static int answer(int most) {
    char line[16] = "", c;
    size_t n = 0;
    int64_t number;
    while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
        if (n + 1 < sizeof line) line[n++] = c;
    if (strcasecmp(line, "y") == 0 || strcasecmp(line, "yes") == 0) return 1;
    if (!cli_parse_int(line, &number) || number < 1 || number > most) return 0;
    return (int)number;
}

static int ask(const char *repo, const found *x) {
    cli_say("%s has no GGUF file; these repositories have:", repo);
    for (int i = 0; i < x->n; i++)
        cli_say("  %d  %s  (%lld downloads)", i + 1, x->v[i].repo, (long long)x->v[i].downloads);
    fprintf(stderr, "take one? [%s%d, or Enter for none] ", x->n > 1 ? "1-" : "", x->n);
    cli_run_ends(); /* Ctrl-C ends the program here */
    int chosen = answer(x->n);
    cli_run_begins();
    return chosen;
}

int hub_twins(hub_net *n, const char *repo, char **chosen) {
    found x = {0};
    int code = CLI_OK, taken = 0;
    find(n, repo, &x);
    if (can_ask(&x) && !cli_interrupted()) taken = ask(repo, &x);
    if (taken)
        *chosen = cli_copy(x.v[taken - 1].repo, strlen(x.v[taken - 1].repo));
    else
        code = cli_interrupted() ? cli_fail(CLI_INTERRUPTED, "interrupted") : tell(repo, &x);
    hub_twins_free(x.v, x.n);
    return code;
}
