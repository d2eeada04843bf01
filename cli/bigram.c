/* bigram.c - retrace bigram info, row, column: what a table holds.
 *
 * A table has no vocabulary: texts come from the model, which must have the tokenizer of the table.
 * Without one, ids are shown. `build` is in bigram_build.c. */
#include "backward.h"
#include "screen.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct look {
    const cli_flags *f;
    retrace_bigram *chain;
    retrace_bigram_info facts;
    retrace_model *model; /* or NULL */
    int column;
    retrace_token token; /* -1: none was asked for */
    double *logp;        /* row or column of it */
} look;

typedef struct entry {
    retrace_token id;
    double p, weight; /* weight: what the list is sorted by */
} entry;

/* ==== The model, where there is one ==== */

static int open_named(look *l, const char *uri) {
    json_t *settings = cli_model_settings(l->f, uri);
    cli_model_prefer(settings, uri, "ctx_size", "64"); /* only its vocabulary is of interest */
    int code = cli_model_open(&l->model, uri, settings);
    json_decref(settings);
    return code;
}

/* One that was not asked for by name is used if it fits; whatever is wrong with it is no matter. */
static int fits_or_forget(look *l, int asked) {
    retrace_error err;
    if (retrace_bigram_fits(l->chain, l->model, 1, &err) == RETRACE_OK) return CLI_OK;
    if (asked) return cli_report(&err, "--model");
    retrace_model_close(l->model);
    l->model = NULL;
    return CLI_OK;
}

static int open_model(look *l) {
    const cli_option *o = cli_option_of(l->f, "model");
    int asked = o->n > 0 && !o->from_env, code = CLI_OK;
    char *uri = NULL;
    if (o->n > 0) {
        code = open_named(l, cli_value(l->f, "model"));
    } else {
        uri = cli_model_installed();
        if (uri) code = open_named(l, uri);
        free(uri);
    }
    if (!code && l->model) code = fits_or_forget(l, asked);
    return code;
}

/* ==== --token ==== */

static int spelt(retrace_text t, const char *s) {
    return t.n == strlen(s) && memcmp(t.s, s, t.n) == 0;
}

static int token_of_text(look *l, const char *given) {
    if (!l->model) return cli_fail(CLI_USAGE, "--token: a text needs the model of the table (-m)");
    for (int i = 0; i < l->facts.vocab; i++) {
        if (spelt(retrace_piece(l->model, i), given) ||
            spelt(retrace_token_name(l->model, i), given))
            return l->token = i, CLI_OK;
    }
    return cli_fail(CLI_USAGE, "--token: '%s' is no token of this model (see 'retrace tokenize')",
                    given);
}

static int find_token(look *l) {
    const char *given = cli_value(l->f, "token");
    int64_t id;
    if (!*given) return cli_fail(CLI_USAGE, "--token: empty");
    if (!cli_parse_int(given, &id)) return token_of_text(l, given);
    if (id < 0 || id >= l->facts.vocab)
        return cli_fail(CLI_USAGE, "--token: %s is outside the vocabulary of %d", given,
                        l->facts.vocab);
    l->token = (retrace_token)id;
    return CLI_OK;
}

/* ==== Entries ==== */

static int by_weight(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Of a row: what follows, falling. Of a column: what precedes, by pi(v) P(token | v). Of the whole
 * table: by pi. What is impossible is left out. */
static entry *sorted(const look *l, int *n) {
    const double *pi = retrace_bigram_pi(l->chain);
    int all = l->facts.vocab;
    entry *v = cli_alloc((size_t)all * sizeof *v);
    for (int i = 0; i < all; i++) {
        double p = l->logp ? exp(l->logp[i]) : 0;
        v[i] = (entry){i, p, !l->logp ? pi[i] : l->column ? pi[i] * p : p};
    }
    qsort(v, (size_t)all, sizeof *v, by_weight);
    int most = (int)fmin(all, cli_real(l->f, "top"));
    for (*n = 0; *n < most && v[*n].weight > 0;) ++*n;
    return v;
}

/* How probable a token is after itself. */
static int repeats(const look *l, entry *v, int n) {
    retrace_error err;
    double *row = cli_alloc((size_t)l->facts.vocab * sizeof *row);
    int rc = RETRACE_OK;
    for (int i = 0; i < n && !rc; i++) {
        rc = retrace_bigram_row(l->chain, v[i].id, row, &err);
        if (!rc) v[i].p = exp(row[v[i].id]);
    }
    free(row);
    return rc ? cli_report(&err, NULL) : CLI_OK;
}

/* ==== JSON ==== */

static void put_text(const look *l, json_t *o, retrace_token id) {
    if (l->model)
        cli_json_bytes(o, retrace_token_name(l->model, id), 0);
    else
        json_object_set_new(o, "text", json_null());
}

static int print_json(const look *l, const entry *v, int n) {
    const double *pi = retrace_bigram_pi(l->chain);
    json_t *o = cli_bigram_json(l->chain, l->model), *list = json_array();
    if (l->token >= 0) {
        json_t *t = json_pack("{s:i}", "id", (int)l->token);
        put_text(l, t, l->token);
        json_object_set_new(t, "pi", cli_json_real(pi[l->token]));
        json_object_set_new(o, "token", t);
    }
    for (int i = 0; i < n; i++) {
        json_t *e = json_pack("{s:i}", "id", (int)v[i].id);
        put_text(l, e, v[i].id);
        json_object_set_new(e, "p", cli_json_real(v[i].p));
        json_object_set_new(e, "pi", cli_json_real(pi[v[i].id]));
        if (l->column) json_object_set_new(e, "reverse", cli_json_real(v[i].weight / pi[l->token]));
        json_array_append_new(list, e);
    }
    json_object_set_new(o, "entries", list);
    return cli_json_line(o, stdout, "standard output");
}

/* ==== Text ==== */

/* A share in eleven columns; small ones as powers of ten. */
static void share(double p) {
    if (p > 0 && p < 0.0001)
        printf(" %11.2e", p);
    else
        printf(" %9.3f %%", 100 * p);
}

static void print_token(const look *l, retrace_token id) {
    cli_buf b = {0};
    if (l->model) cli_put_cells(&b, retrace_token_name(l->model, id), INT_MAX);
    if (l->model) printf("  \"%s\"", b.s ? b.s : "");
    printf("\n");
    cli_buf_free(&b);
}

static void print_entries(const look *l, const entry *v, int n) {
    const double *pi = retrace_bigram_pi(l->chain);
    const char *text = l->model ? "  text" : "";
    if (n == 0) return;
    if (l->token < 0)
        printf("pi: how often a token occurs; repeats: how probable it is after itself\n\n"
               "     id          pi   repeats%s\n",
               text);
    else if (l->column)
        printf("     id    precedes     follows          pi%s\n", text);
    else
        printf("     id     follows          pi%s\n", text);
    for (int i = 0; i < n; i++) {
        printf("%7d", (int)v[i].id);
        if (l->column) share(v[i].weight / pi[l->token]);
        if (l->token >= 0) share(v[i].p);
        share(pi[v[i].id]);
        if (l->token < 0) share(v[i].p);
        print_token(l, v[i].id);
    }
}

static void print_hashes(const retrace_bigram_info *i) {
    printf("hashes         model %016" PRIx64 ", vocabulary %016" PRIx64 "\n", i->model_hash,
           i->vocab_hash);
}

static void print_law(const retrace_bigram_info *i) {
    if (i->iterations)
        printf("law            %d products with the whole chain\n", i->iterations);
    else
        printf("law            solved directly\n");
    printf("residual       %.2g: how far one more step of the chain would move it\n", i->residual);
    if (i->rate > 0)
        printf("rate           %.2f: what a plain step leaves of such a distance\n", i->rate);
    printf("entropy        %.3f nats of at most %.3f: how evenly the tokens occur\n", i->entropy,
           log(i->vocab));
    if (i->start_pi > 0)
        printf("document       %.*f tokens: the mean length of one, as the model believes\n",
               i->start_pi > 0.01, 1 / i->start_pi);
    else
        printf("document       never begins, as the model believes\n");
}

static void print_facts(const look *l) {
    const retrace_bigram_info *i = &l->facts;
    cli_buf b = {0};
    if (i->dim)
        printf("kind           %s, %d numbers a token\n", i->kind, i->dim);
    else
        printf("kind           %s\n", i->kind);
    if (i->model) cli_escape(&b, (retrace_text){i->model, strlen(i->model)}, 0);
    printf("model          %s\n", b.s ? b.s : "unnamed");
    if (i->weights) printf("weights        %s\n", i->weights);
    printf("vocabulary     %d tokens\n", i->vocab);
    b.n = 0;
    cli_put_tokens(&b, l->model, i->anchor, i->n_anchor);
    printf("anchor         %s\n", b.s);
    print_law(i);
    b.n = 0;
    cli_put_size(&b, i->size_bytes);
    if (i->size_bytes) printf("size           %s\n", b.s);
    print_hashes(i);
    cli_buf_free(&b);
}

static void print_asked(const look *l) {
    cli_buf b = {0};
    cli_put_tokens(&b, l->model, &l->token, 1);
    printf("what %s %s\n\n", l->column ? "precedes" : "follows", b.s);
    cli_buf_free(&b);
}

static int print_text(const look *l, const entry *v, int n) {
    if (l->token >= 0) {
        print_asked(l);
    } else {
        print_facts(l);
        if (n) printf("\n");
    }
    print_entries(l, v, n);
    return cli_flush();
}

/* ==== Commands ==== */

static int read_line(look *l) {
    retrace_error err;
    l->logp = cli_alloc((size_t)l->facts.vocab * sizeof *l->logp);
    int rc = l->column ? retrace_bigram_column(l->chain, l->token, l->logp, &err)
                       : retrace_bigram_row(l->chain, l->token, l->logp, &err);
    return rc ? cli_report(&err, NULL) : CLI_OK;
}

static int look_up(look *l, int with_token) {
    int n = 0, code = open_model(l);
    if (!code && with_token) code = find_token(l);
    if (!code && with_token) code = read_line(l);
    entry *v = code ? NULL : sorted(l, &n);
    if (!code && !with_token) code = repeats(l, v, n);
    if (!code) code = cli_on(l->f, "json") ? print_json(l, v, n) : print_text(l, v, n);
    if (!code && !l->model && !cli_on(l->f, "json"))
        cli_say("texts are left out: they need the model of this table (-m)");
    free(v);
    return code;
}

static int run(const cli_flags *f, int with_token, int column) {
    look l = {.f = f, .column = column, .token = -1};
    if (with_token && !cli_value(f, "token")) return cli_fail(CLI_USAGE, "--token is missing");
    int code = cli_bigram_read(&l.chain, f->operand);
    if (!code) {
        retrace_bigram_facts(l.chain, &l.facts);
        code = look_up(&l, with_token);
    }
    free(l.logp);
    retrace_model_close(l.model);
    retrace_bigram_close(l.chain);
    return code;
}

int cli_bigram_info(const cli_flags *f) {
    return run(f, 0, 0);
}

int cli_bigram_row(const cli_flags *f) {
    return run(f, 1, 0);
}

int cli_bigram_column(const cli_flags *f) {
    return run(f, 1, 1);
}
