/* log.c - reading what trace.c wrote.
 *
 * Each line must be an operation with all that it is made of, numbered without a gap, from `start`
 * to `done`; what cannot be is named by file and line. Whether the operations fit each other is for
 * those who apply them. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

int cli_log_broken(const cli_log *l, int line, const char *what) {
    return cli_fail(CLI_USAGE, "%s:%d: %s", l->path, line, what);
}

static const char *op_of(json_t *line) {
    const char *op = json_string_value(json_object_get(line, "op"));
    return op ? op : "";
}

int cli_log_is(json_t *line, const char *op) {
    return strcmp(op_of(line), op) == 0;
}

static int has_ints(json_t *line, const char *const *names) {
    for (; *names; names++)
        if (!json_is_integer(json_object_get(line, *names))) return 0;
    return 1;
}

/* The kinds of a person's answer and what each of them says. */
static const struct answer {
    const char *kind, *key;
    json_type type;
} answers[] = {
    [RETRACE_CHOOSE_DRAW] = {"draw", "pos", JSON_INTEGER},
    [RETRACE_CHOOSE_TOKEN] = {"token", "id", JSON_INTEGER},
    [RETRACE_CHOOSE_TEXT] = {"text", "text", JSON_STRING},
    [RETRACE_CHOOSE_BACK] = {"back", "to", JSON_INTEGER},
};

int cli_log_kind(json_t *line) {
    const char *kind = json_string_value(json_object_get(line, "kind"));
    for (int i = 0; kind && i < 4; i++)
        if (strcmp(kind, answers[i].kind) == 0) return i;
    return -1;
}

static const char *wrong_with_choice(json_t *line) {
    static const char *const place[] = {"pos", "node", NULL};
    int kind = cli_log_kind(line);
    if (!has_ints(line, place)) return "a choice lacks a number";
    if (kind < 0) return "a choice of no known kind";
    json_t *value = json_object_get(line, answers[kind].key);
    return value && json_typeof(value) == answers[kind].type ? NULL
                                                             : "a choice lacks what it chose";
}

static const char *wrong_with(json_t *line) {
    static const char *const push[] = {"node", "parent", "pos", "id", NULL};
    static const char *const erase[] = {"to", "node", NULL}, *const settle[] = {"to", NULL};
    static const char *const start[] = {"seed", NULL};
    if (cli_log_is(line, "push")) return has_ints(line, push) ? NULL : "a push lacks a number";
    if (cli_log_is(line, "erase")) return has_ints(line, erase) ? NULL : "an erase lacks a number";
    if (cli_log_is(line, "settle"))
        return has_ints(line, settle) ? NULL : "a settle lacks a number";
    if (cli_log_is(line, "note")) return NULL;
    if (cli_log_is(line, "choice")) return wrong_with_choice(line);
    if (cli_log_is(line, "done")) {
        if (!json_is_string(json_object_get(line, "finish"))) return "done lacks its finish";
        return json_is_string(json_object_get(line, "text")) ? NULL : "done lacks its text";
    }
    if (!cli_log_is(line, "start")) return "not an operation";
    if (!json_is_object(json_object_get(line, "settings"))) return "start lacks its settings";
    return has_ints(line, start) ? NULL : "start lacks its seed";
}

static int check_line(const cli_log *l, int i) {
    json_t *line = l->line[i];
    if (!json_is_object(line)) return cli_log_broken(l, i + 1, "not a JSON object");
    json_t *seq = json_object_get(line, "seq");
    if (!json_is_integer(seq) || json_integer_value(seq) != i)
        return cli_log_broken(l, i + 1, "seq does not follow the line before");
    const char *wrong = wrong_with(line);
    if (wrong) return cli_log_broken(l, i + 1, wrong);
    if ((i == 0) != cli_log_is(line, "start"))
        return cli_log_broken(l, i + 1, i ? "a second start" : "the first operation is not start");
    if (cli_log_is(line, "done") && i + 1 < l->n)
        return cli_log_broken(l, i + 2, "something follows done");
    return CLI_OK;
}

static int parse_lines(cli_log *l, const cli_buf *file) {
    const char *s = file->s, *end = s + file->n;
    while (s < end) {
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        size_t n = (size_t)((stop ? stop : end) - s);
        json_error_t at;
        json_t *j = json_loadb(s, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &at);
        if (!j) return cli_log_broken(l, l->n + 1, at.text);
        l->line = cli_realloc(l->line, (size_t)(l->n + 1) * sizeof(*l->line));
        l->line[l->n++] = j;
        s += n + 1;
    }
    return CLI_OK;
}

int cli_log_read(cli_log *l, const char *path) {
    cli_buf file = {0};
    *l = (cli_log){.path = path};
    int code = cli_read_file(l->path, (size_t)1 << 30, &file);
    if (!code && file.n == 0) code = cli_log_broken(l, 1, "the trace is empty");
    if (!code) code = parse_lines(l, &file);
    cli_buf_free(&file);
    for (int i = 0; i < l->n && !code; i++) code = check_line(l, i);
    if (!code && !cli_log_is(l->line[l->n - 1], "done"))
        code = cli_log_broken(l, l->n, "the trace ends without done: it was cut short");
    return code;
}

void cli_log_free(cli_log *l) {
    for (int i = 0; i < l->n; i++) json_decref(l->line[i]);
    free(l->line);
    *l = (cli_log){0};
}
