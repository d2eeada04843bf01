/* field.c - fields of a request by their tables.
 *
 * One row says what a field may hold, so that the check, docs/http.md and the OpenAPI document
 * agree. null counts as absent. A wrong value is an error that names the field as the client wrote
 * it; nothing is clamped, and a whole number must be written as one (1e9 and 5.0 are not). */
#include "read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const srv_field *srv_field_of(const srv_field *table, const char *name) {
    while (table->name && strcmp(table->name, name) != 0) table++;
    return table;
}

/* The value under the key s[0..n), and the body's own copy of the key. */
static json_t *value_at(json_t *body, const char *s, size_t n, const char **used) {
    char key[64];
    if (n >= sizeof key) return NULL;
    memcpy(key, s, n);
    key[n] = '\0';
    void *at = json_object_iter_at(body, key);
    if (!at || json_is_null(json_object_iter_value(at))) return NULL;
    *used = json_object_iter_key(at);
    return json_object_iter_value(at);
}

json_t *srv_find(json_t *body, const srv_field *table, const char *name, const char **used) {
    const srv_field *row = srv_field_of(table, name);
    json_t *value = value_at(body, name, strlen(name), used);
    const char *other = row->name ? row->aliases : NULL;
    while (!value && other) {
        size_t n = strcspn(other, "|");
        value = value_at(body, other, n, used);
        other = other[n] ? other + n + 1 : NULL;
    }
    return value;
}

json_t *srv_get(json_t *body, const srv_field *table, const char *name) {
    const char *used;
    return srv_find(body, table, name, &used);
}

retrace_text srv_text_of(const json_t *string) {
    return (retrace_text){json_string_value(string), json_string_length(string)};
}

int srv_is_off(const json_t *value) {
    return (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

const char *srv_shown(json_t *value, char out[64]) {
    cli_buf b = {0};
    if (json_is_array(value)) {
        cli_puts(&b, "a list");
    } else if (json_is_object(value)) {
        cli_puts(&b, "an object");
    } else if (json_is_string(value)) {
        retrace_text t = srv_text_of(value);
        size_t most = t.n > 30 ? 30 : t.n;
        most = cli_utf8_whole((retrace_text){t.s, most});
        cli_puts(&b, "'");
        cli_escape(&b, (retrace_text){t.s, most}, 0);
        cli_puts(&b, most < t.n ? "...'" : "'");
    } else {
        char *s = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        cli_puts(&b, s ? s : "?");
        free(s);
    }
    size_t n = b.n < 63 ? b.n : 63;
    n = cli_utf8_whole((retrace_text){b.s, n});
    memcpy(out, b.s, n);
    out[n] = '\0';
    cli_buf_free(&b);
    return out;
}

int srv_wrong(srv_error *e, const char *param, json_t *value, const char *wants) {
    char shown[64];
    return srv_fail(e, 400, "invalid_type", param, "%s: %s is not %s", param,
                    srv_shown(value, shown), wants);
}

/* ==== Values ==== */

int srv_get_bool(json_t *body, const srv_field *table, const char *name, int *out, srv_error *e) {
    const char *used;
    json_t *v = srv_find(body, table, name, &used);
    if (!v) return 0;
    if (!json_is_boolean(v)) return srv_wrong(e, used, v, "true or false");
    *out = json_is_true(v);
    return 0;
}

static int in_range(const srv_field *row, double x) {
    return row->min == row->max || (x >= row->min && x <= row->max);
}

static int out_of_range(const srv_field *row, const char *used, json_t *v, srv_error *e) {
    char shown[64];
    return srv_fail(e, 400, "out_of_range", used, "%s: %s is not within %.15g to %.15g", used,
                    srv_shown(v, shown), row->min, row->max);
}

int srv_get_int(json_t *body, const srv_field *table, const char *name, int64_t *out,
                srv_error *e) {
    const char *used;
    json_t *v = srv_find(body, table, name, &used);
    if (!v) return 0;
    if (!json_is_integer(v)) return srv_wrong(e, used, v, "a whole number");
    const srv_field *row = srv_field_of(table, name);
    if (!in_range(row, (double)json_integer_value(v))) return out_of_range(row, used, v, e);
    *out = json_integer_value(v);
    return 0;
}

int srv_get_real(json_t *body, const srv_field *table, const char *name, double *out,
                 srv_error *e) {
    const char *used;
    json_t *v = srv_find(body, table, name, &used);
    if (!v) return 0;
    if (!json_is_number(v)) return srv_wrong(e, used, v, "a number");
    const srv_field *row = srv_field_of(table, name);
    double x = json_number_value(v);
    if (!isfinite(x) || !in_range(row, x)) return out_of_range(row, used, v, e);
    *out = x;
    return 0;
}

/* A text without NUL, for names; texts for the model are read with their length. */
int srv_get_text(json_t *body, const srv_field *table, const char *name, const char **out,
                 srv_error *e) {
    const char *used;
    json_t *v = srv_find(body, table, name, &used);
    if (!v) return 0;
    if (!json_is_string(v)) return srv_wrong(e, used, v, "a text");
    retrace_text t = srv_text_of(v);
    const srv_field *row = srv_field_of(table, name);
    if (row->max > row->min && (double)t.n > row->max)
        return srv_fail(e, 400, "too_long", used, "%s: more than %.0f bytes", used, row->max);
    if (strlen(t.s) != t.n)
        return srv_fail(e, 400, "invalid_value", used, "%s: a NUL character", used);
    *out = t.s;
    return 0;
}
