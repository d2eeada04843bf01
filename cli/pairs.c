/* pairs.c - training pairs from traces: what was rejected, beside what stands there instead.
 *
 * The operations of a trace are applied in order. Every erase is remembered with the tokens that it
 * took back; when the final answer is known, each is compared with what stands from the place gone
 * back to. Both sides begin where they first differ, and what they share belongs to the prompt. A
 * place is known by the number of its node, so a place that the answer has left makes no pair. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Tokens one behind the other, with their text. */
typedef struct tokens {
    int *node;   /* the place behind each */
    size_t *end; /* of its text */
    int n, cap;
    cli_buf text;
} tokens;

typedef struct erased {
    const char *rule, *why;
    int to, node;
    tokens t;
} erased;

typedef struct counts {
    int pairs, elsewhere, back, nothing, brief, twice;
} counts;

typedef struct trace {
    cli_log log;
    tokens path; /* the answer, as far as the operations have come */
    erased *v;
    int n, cap;
    int moved; /* a push came behind the newest erase */
    retrace_text answer;
    cli_buf bytes; /* of it */
    json_t *seen;  /* the pairs written */
} trace;

typedef struct job {
    const cli_flags *f;
    cli_buf out;
    counts c;
} job;

/* ==== Tokens ==== */

static size_t start_of(const tokens *t, int i) {
    return i > 0 ? t->end[i - 1] : 0;
}

static void add_token(tokens *t, int node, retrace_text text) {
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 16;
        t->node = cli_realloc(t->node, (size_t)t->cap * sizeof *t->node);
        t->end = cli_realloc(t->end, (size_t)t->cap * sizeof *t->end);
    }
    cli_put(&t->text, text.s, text.n);
    t->node[t->n] = node;
    t->end[t->n++] = t->text.n;
}

static void add_tokens(tokens *to, const tokens *from, int first) {
    for (int i = first; i < from->n; i++) {
        size_t at = start_of(from, i);
        add_token(to, from->node[i], (retrace_text){from->text.s + at, from->end[i] - at});
    }
}

static void cut_tokens(tokens *t, int n) {
    t->text.n = start_of(t, n);
    t->n = n;
}

static void free_tokens(tokens *t) {
    free(t->node);
    free(t->end);
    cli_buf_free(&t->text);
}

/* ==== Operations ==== */

static const char *string_of(json_t *line, const char *key) {
    const char *s = json_string_value(json_object_get(line, key));
    return s ? s : "";
}

/* A number that may be one of the trace's; -1 else. */
static int int_of(json_t *line, const char *key) {
    json_int_t v = json_integer_value(json_object_get(line, key));
    return v < 0 || v > INT32_MAX ? -1 : (int)v;
}

/* "bytes" where there are such, else "text". */
static void bytes_of(json_t *line, cli_buf *out) {
    json_t *bytes = json_object_get(line, "bytes"), *text = json_object_get(line, "text"), *b;
    size_t i;
    if (!json_is_array(bytes)) {
        cli_put(out, json_string_value(text), json_string_length(text));
        return;
    }
    json_array_foreach(bytes, i, b) cli_put(out, (char[]){(char)json_integer_value(b)}, 1);
}

static int apply_push(trace *t, int i) {
    json_t *line = t->log.line[i];
    cli_buf text = {0};
    if (int_of(line, "pos") != t->path.n)
        return cli_log_broken(&t->log, i + 1, "pos is not the number of tokens before");
    if (int_of(line, "parent") != (t->path.n ? t->path.node[t->path.n - 1] : 0))
        return cli_log_broken(&t->log, i + 1, "parent is not the place before");
    if (!json_is_string(json_object_get(line, "text")))
        return cli_log_broken(&t->log, i + 1, "a push lacks its text");
    bytes_of(line, &text);
    add_token(&t->path, int_of(line, "node"), cli_buf_text(&text));
    cli_buf_free(&text);
    t->moved = 1;
    return CLI_OK;
}

static erased *new_erased(trace *t) {
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 16;
        t->v = cli_realloc(t->v, (size_t)t->cap * sizeof *t->v);
    }
    t->v[t->n] = (erased){0};
    return &t->v[t->n++];
}

/* A person who goes back further goes back over it all. */
static int goes_on(const trace *t, const char *rule) {
    return t->n > 0 && !t->moved && strcmp(rule, "guide") == 0 &&
           strcmp(t->v[t->n - 1].rule, "guide") == 0;
}

static int apply_erase(trace *t, int i) {
    json_t *line = t->log.line[i];
    int to = int_of(line, "to"), node = int_of(line, "node");
    const char *rule = string_of(line, "rule");
    if (to < 0 || to > t->path.n)
        return cli_log_broken(&t->log, i + 1, "to lies behind the newest token");
    if (node != (to ? t->path.node[to - 1] : 0))
        return cli_log_broken(&t->log, i + 1, "node is not the place gone back to");
    tokens before = {0};
    if (goes_on(t, rule)) before = t->v[--t->n].t;
    erased *e = new_erased(t);
    *e = (erased){.rule = rule, .why = string_of(line, "why"), .to = to, .node = node};
    add_tokens(&e->t, &t->path, to);
    add_tokens(&e->t, &before, 0);
    free_tokens(&before);
    cut_tokens(&t->path, to);
    t->moved = 0;
    return CLI_OK;
}

/* The text may end within the last token: a stop text began there. */
static int apply_done(trace *t, int i) {
    bytes_of(t->log.line[i], &t->bytes);
    t->answer = cli_buf_text(&t->bytes);
    if (t->answer.n > t->path.text.n ||
        (t->answer.n && memcmp(t->answer.s, t->path.text.s, t->answer.n) != 0))
        return cli_log_broken(&t->log, i + 1, "text is not that of the tokens");
    while (t->path.n > 0 && start_of(&t->path, t->path.n - 1) >= t->answer.n &&
           t->path.end[t->path.n - 1] > t->answer.n)
        cut_tokens(&t->path, t->path.n - 1);
    return CLI_OK;
}

static int apply(trace *t) {
    int code = CLI_OK;
    if (!json_is_string(json_object_get(t->log.line[0], "prompt")))
        return cli_log_broken(&t->log, 1, "start lacks its prompt");
    for (int i = 1; i < t->log.n && !code; i++) {
        json_t *line = t->log.line[i];
        if (cli_log_is(line, "push")) code = apply_push(t, i);
        if (cli_log_is(line, "erase")) code = apply_erase(t, i);
        if (cli_log_is(line, "done")) code = apply_done(t, i);
    }
    return code;
}

/* ==== Pairs ==== */

/* Whether what this rule took back is wanted. */
static int counts_for(const job *j, const char *rule) {
    static const char *const others[] = {"stop", "stuck", "budget", "cancelled", "error"};
    const cli_option *o = cli_option_of(j->f, "rule");
    for (int i = 0; i < o->n; i++)
        if (strcmp(o->given[i].s, rule) == 0) return 1;
    for (int i = 0; i < 5; i++)
        if (strcmp(others[i], rule) == 0) return 0;
    return o->n == 0;
}

static int is_on_path(const trace *t, const erased *e) {
    return e->to <= t->path.n && (e->to == 0 || t->path.node[e->to - 1] == e->node);
}

/* Tokens that both begin with. */
static int shared(const trace *t, const erased *e) {
    int n = 0;
    while (n < e->t.n && e->to + n < t->path.n && e->t.node[n] == t->path.node[e->to + n]) n++;
    return n;
}

/* Where chosen ends: behind n tokens and a whole character, or with the answer. */
static size_t chosen_end(const job *j, const trace *t, int from, int n) {
    size_t at = start_of(&t->path, from), end = at;
    if (strcmp(cli_value(j->f, "span") ? cli_value(j->f, "span") : "same", "full") == 0)
        return t->answer.n;
    for (int i = from; i < t->path.n; i++) {
        end = t->path.end[i] < t->answer.n ? t->path.end[i] : t->answer.n;
        retrace_text part = {t->answer.s + at, end - at};
        if (i + 1 >= from + n && cli_utf8_whole(part) == part.n) break;
    }
    return end;
}

static json_t *prompt_of(const trace *t, size_t n) {
    json_t *start = t->log.line[0], *given = json_object_get(start, "prompt_text");
    cli_buf b = {0};
    if (!given) given = json_object_get(start, "prompt");
    cli_put(&b, json_string_value(given), json_string_length(given));
    cli_put(&b, t->answer.s, n);
    json_t *text = cli_json_text(cli_buf_text(&b));
    cli_buf_free(&b);
    return text;
}

static void write_pair(job *j, trace *t, json_t *pair) {
    char *line = json_dumps(pair, JSON_COMPACT);
    json_decref(pair);
    if (json_object_get(t->seen, line)) {
        j->c.twice++;
    } else {
        json_object_set_new(t->seen, line, json_true());
        cli_printf(&j->out, "%s\n", line);
        j->c.pairs++;
    }
    free(line);
}

static void make_pair(job *j, trace *t, const erased *e) {
    int n = shared(t, e), from = e->to + n, least = (int)cli_real(j->f, "min-tokens");
    if (!is_on_path(t, e)) {
        j->c.elsewhere++;
    } else if (n == e->t.n) {
        j->c.back++;
    } else if (from >= t->path.n || start_of(&t->path, from) >= t->answer.n ||
               start_of(&e->t, n) == e->t.text.n) {
        j->c.nothing++;
    } else if (e->t.n - n < least || t->path.n - from < least) {
        j->c.brief++;
    } else {
        size_t at = start_of(&t->path, from), old = start_of(&e->t, n);
        size_t end = chosen_end(j, t, from, e->t.n - n);
        json_t *pair = json_object();
        json_object_set_new(pair, "prompt", prompt_of(t, at));
        json_object_set_new(pair, "chosen",
                            cli_json_text((retrace_text){t->answer.s + at, end - at}));
        json_object_set_new(pair, "rejected",
                            cli_json_text((retrace_text){e->t.text.s + old, e->t.text.n - old}));
        json_object_set_new(pair, "rule", json_string(e->rule));
        json_object_set_new(pair, "why", json_string(e->why));
        json_object_set_new(pair, "pos", json_integer(from));
        write_pair(j, t, pair);
    }
}

static int read_trace(job *j, const char *path) {
    trace t = {.seen = json_object()};
    int code = cli_log_read(&t.log, path);
    if (!code) code = apply(&t);
    for (int i = 0; i < t.n && !code; i++)
        if (counts_for(j, t.v[i].rule)) make_pair(j, &t, &t.v[i]);
    for (int i = 0; i < t.n; i++) free_tokens(&t.v[i].t);
    free(t.v);
    free_tokens(&t.path);
    cli_buf_free(&t.bytes);
    json_decref(t.seen);
    cli_log_free(&t.log);
    return code;
}

/* ==== Writing ==== */

static int write_all(const job *j) {
    const char *path = cli_value(j->f, "output");
    if (!path || strcmp(path, "-") == 0) {
        fwrite(j->out.s ? j->out.s : "", 1, j->out.n, stdout);
        return cli_flush();
    }
    FILE *out = fopen(path, "wb");
    int bad = !out || fwrite(j->out.s ? j->out.s : "", 1, j->out.n, out) != j->out.n;
    if (out && fclose(out)) bad = 1;
    return bad ? cli_fail(CLI_IO, "cannot write '%s': %s", path, strerror(errno)) : CLI_OK;
}

static void report(const counts *c) {
    static const char *const names[] = {"on another way", "put back", "with no text on one side",
                                        "too short", "equal to another"};
    const int n[] = {c->elsewhere, c->back, c->nothing, c->brief, c->twice};
    cli_buf b = {0};
    cli_printf(&b, "%d pair%s", c->pairs, c->pairs == 1 ? "" : "s");
    for (int i = 0, any = 0; i < 5; i++)
        if (n[i]) cli_printf(&b, "%s%d %s", any++ ? ", " : "; left out: ", n[i], names[i]);
    cli_say("%s", b.s);
    cli_buf_free(&b);
}

int cli_pairs(const cli_flags *f) {
    job j = {.f = f};
    int code = CLI_OK;
    for (int i = 0; i < f->n_operands && !code; i++) code = read_trace(&j, f->operands[i]);
    if (!code) code = write_all(&j);
    if (!code) report(&j.c);
    cli_buf_free(&j.out);
    return code;
}
