/* json.c - bodies as JSON, read so that no body can hurt.
 *
 * jansson reads a value by recursion, so the depth is checked before it is let in: one pass over
 * the bytes counts brackets and commas outside strings. jansson then refuses what is not UTF-8,
 * lone surrogates, duplicate keys, numbers out of range and anything behind the value.
 *
 * A NUL inside a text is kept: a text has a length everywhere here. Keys cannot hold one.
 *
 * "-0" is a trap: jansson makes it the integer 0. It is rewritten to "-0.0" first, so that it is a
 * number where numbers may stand and an error where a whole number is asked for. */
#include "read.h"

#include <stdlib.h>
#include <string.h>

typedef struct scan {
    int64_t values; /* at most so many */
    int depth;
    int zeros; /* of "-0" as a whole number */
    size_t at; /* where it stopped */
    const char *why;
} scan;

/* The byte behind the string that opens at s[i]. */
static size_t skip_string(const char *s, size_t n, size_t i) {
    for (i++; i < n && s[i] != '"'; i++)
        if (s[i] == '\\') i++;
    return i < n ? i + 1 : n;
}

static int is_minus_zero(const char *s, size_t n, size_t i) {
    if (s[i] != '-' || i + 1 >= n || s[i + 1] != '0') return 0;
    return i + 2 >= n || !strchr(".eE0123456789", s[i + 2]) || s[i + 2] == '\0';
}

static int opens(scan *sc) {
    sc->values++;
    if (++sc->depth > SRV_MAX_DEPTH) sc->why = "more than 64 levels";
    return sc->why != NULL;
}

/* 0, or -1 with the reason and the place. */
static int look(const char *s, size_t n, scan *sc) {
    *sc = (scan){.values = 1};
    for (size_t i = 0; i < n;) {
        sc->at = i;
        char c = s[i];
        if (c == '"') {
            i = skip_string(s, n, i);
            continue;
        }
        if ((c == '[' || c == '{') && opens(sc)) return -1;
        if (c == ']' || c == '}') sc->depth--;
        if (c == ',' && ++sc->values > SRV_MAX_VALUES) {
            sc->why = "more than 1000000 values";
            return -1;
        }
        sc->zeros += is_minus_zero(s, n, i);
        i++;
    }
    return 0;
}

/* A copy with "-0.0" for "-0"; strings stay as they are. */
static void mend_zeros(const char *s, size_t n, cli_buf *out) {
    for (size_t i = 0; i < n;) {
        size_t end = s[i] == '"' ? skip_string(s, n, i) : i + 1;
        if (s[i] != '"' && is_minus_zero(s, n, i)) {
            cli_puts(out, "-0.0");
            end = i + 2;
        } else {
            cli_put(out, s + i, end - i);
        }
        i = end;
    }
}

static void place(const char *s, size_t at, int *line, int *column) {
    *line = *column = 1;
    for (size_t i = 0; i < at; i++) {
        ++*column;
        if (s[i] == '\n') ++*line, *column = 1;
    }
}

static json_t *refuse(const char *about, const char *param, int line, int column, const char *why,
                      srv_error *e) {
    cli_buf clean = {0};
    cli_escape(&clean, (retrace_text){why, strlen(why)}, 0);
    srv_fail(e, 400, "invalid_json", param, "%s is not valid JSON: line %d, column %d: %s", about,
             line, column, clean.s ? clean.s : "");
    cli_buf_free(&clean);
    return NULL;
}

static json_t *load(const char *s, size_t n, const char *about, const char *param, srv_error *e) {
    json_error_t at;
    json_t *j = json_loadb(s, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &at);
    if (j) return j;
    return refuse(about, param, at.line, at.column, at.text, e);
}

json_t *srv_json_text(retrace_text text, const char *about, const char *param, srv_error *e) {
    scan sc;
    int line, column;
    if (look(text.s, text.n, &sc)) {
        place(text.s, sc.at, &line, &column);
        return refuse(about, param, line, column, sc.why, e);
    }
    if (!sc.zeros) return load(text.s, text.n, about, param, e);
    cli_buf mended = {0};
    mend_zeros(text.s, text.n, &mended);
    json_t *j = load(mended.s, mended.n, about, param, e);
    cli_buf_free(&mended);
    return j;
}

json_t *srv_json_read(const cli_buf *body, srv_error *e) {
    retrace_text text = cli_buf_text(body);
    if (text.n == 0) {
        srv_fail(e, 400, "invalid_json", NULL, "the body is empty; a JSON object is needed");
        return NULL;
    }
    json_t *j = srv_json_text(text, "the body", NULL, e);
    if (!j || json_is_object(j)) return j;
    json_decref(j);
    srv_fail(e, 400, "invalid_json", NULL, "the body is not a JSON object");
    return NULL;
}
