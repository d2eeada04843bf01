/* settings.c - from what a person wrote to the fields of a struct, by a table.
 *
 * One table per plug-in (and one for the run's options) makes the command-line flag, the JSON
 * field, the range check and the documentation. Offsets into the struct are the only clever thing;
 * they are used in this file alone. */
#include "base.h"
#include "settings.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int equal(retrace_text t, const char *s) {
    return t.n == strlen(s) && memcmp(t.s, s, t.n) == 0;
}

/* A short printable form for messages. */
static const char *shown(retrace_text t, char buf[48]) {
    size_t n = t.n < 40 ? t.n : 40;
    n -= n < t.n ? rt_utf8_tail(t.s, n) : 0;
    for (size_t i = 0; i < n; i++) buf[i] = (unsigned char)t.s[i] < ' ' ? '?' : t.s[i];
    memcpy(buf + n, n < t.n ? "..." : "", n < t.n ? 4 : 1);
    return buf;
}

static int bad(const retrace_setting_info *row, retrace_text v, const char *owner,
               const char *wants, retrace_error *err) {
    char buf[48];
    return retrace_fail(err, RETRACE_EUSAGE, "%s%s%s: '%s' is not %s", owner, *owner ? ": " : "",
                        row->name, shown(v, buf), wants);
}

static int parse_bool(retrace_text v, int *out) {
    static const char *const yes[] = {"true", "1", "on", "yes"};
    static const char *const no[] = {"false", "0", "off", "no"};
    for (int i = 0; i < 4; i++) {
        if (equal(v, yes[i])) return *out = 1, 1;
        if (equal(v, no[i])) return *out = 0, 1;
    }
    return 0;
}

/* Digits with an optional sign, nothing else; what 64 bits hold. */
static int parse_int(retrace_text v, int64_t *out) {
    char buf[24];
    if (v.n == 0 || v.n >= sizeof buf) return 0;
    memcpy(buf, v.s, v.n);
    buf[v.n] = '\0';
    size_t digits = strspn(buf + (buf[0] == '-' || buf[0] == '+'), "0123456789");
    if (digits == 0 || digits + (buf[0] == '-' || buf[0] == '+') != v.n) return 0;
    errno = 0;
    *out = strtoll(buf, NULL, 10);
    return errno == 0;
}

/* Decimal or exponent form; strtod alone would also take hexadecimal, "nan" and "inf". */
static int parse_real(retrace_text v, double *out) {
    char buf[64];
    if (v.n == 0 || v.n >= sizeof buf) return 0;
    memcpy(buf, v.s, v.n);
    buf[v.n] = '\0';
    if (strspn(buf, "0123456789+-.eE") != v.n) return 0;
    char *end;
    *out = strtod(buf, &end);
    return end == buf + v.n && isfinite(*out);
}

static int parse_choice(retrace_text v, const char *choices, int *out) {
    int index = 0;
    for (const char *c = choices; c; index++) {
        const char *bar = strchr(c, '|');
        size_t n = bar ? (size_t)(bar - c) : strlen(c);
        if (n == v.n && memcmp(c, v.s, n) == 0) return *out = index, 1;
        c = bar ? bar + 1 : NULL;
    }
    return 0;
}

static int out_of_range(const retrace_setting_info *row, retrace_text v, const char *owner,
                        retrace_error *err) {
    char wants[80];
    snprintf(wants, sizeof wants, "within %g to %g", row->min, row->max);
    return bad(row, v, owner, wants, err);
}

static int set_text(retrace_text *field, retrace_text v, retrace_error *err) {
    char *copy = rt_copy(v.s, v.n);
    if (!copy) return rt_nomem(err);
    retrace_free((void *)(uintptr_t)field->s);
    *field = (retrace_text){copy, v.n};
    return RETRACE_OK;
}

static int add_text(retrace_texts *field, retrace_text v, retrace_error *err) {
    /* Grows at powers of two, so the count alone tells the room. */
    if ((field->n & (field->n - 1)) == 0) {
        if (field->n > INT32_MAX / 4) return rt_nomem(err);
        size_t room = field->n ? (size_t)field->n * 2 : 1;
        retrace_text *grown = retrace_realloc(field->v, room * sizeof *grown);
        if (!grown) return rt_nomem(err);
        field->v = grown;
    }
    field->v[field->n] = (retrace_text){NULL, 0};
    int rc = set_text(&field->v[field->n], v, err);
    if (rc == RETRACE_OK) field->n++;
    return rc;
}

int rt_setting_put(void *self, const retrace_setting_info *row, retrace_text v, const char *owner,
                   retrace_error *err) {
    char *field = (char *)self + row->offset;
    switch (row->type) {
    case RETRACE_BOOL:
        return parse_bool(v, (int *)(void *)field) ? RETRACE_OK
                                                   : bad(row, v, owner, "true or false", err);
    case RETRACE_CHOICE:
        if (parse_choice(v, row->choices, (int *)(void *)field)) return RETRACE_OK;
        return bad(row, v, owner, row->choices, err);
    case RETRACE_INT: {
        int64_t i;
        if (!parse_int(v, &i)) return bad(row, v, owner, "a whole number", err);
        if ((double)i < row->min || (double)i > row->max) return out_of_range(row, v, owner, err);
        memcpy(field, &i, sizeof i);
        return RETRACE_OK;
    }
    case RETRACE_REAL: {
        double x;
        if (!parse_real(v, &x)) return bad(row, v, owner, "a number", err);
        if (x < row->min || x > row->max) return out_of_range(row, v, owner, err);
        memcpy(field, &x, sizeof x);
        return RETRACE_OK;
    }
    case RETRACE_TEXT: return set_text((retrace_text *)(void *)field, v, err);
    case RETRACE_TEXTS:
    case RETRACE_FILE:
    case RETRACE_LIST: return add_text((retrace_texts *)(void *)field, v, err);
    }
    return bad(row, v, owner, "of a known type", err);
}

const retrace_setting_info *rt_setting_find(const retrace_setting_info *table, const char *name) {
    for (; table && table->name; table++) {
        if (strcmp(table->name, name) == 0) return table;
    }
    return NULL;
}

int rt_settings_preset(void *self, const retrace_setting_info *table, retrace_error *err) {
    for (; table && table->name; table++) {
        if (!table->preset) continue;
        retrace_text v = {table->preset, strlen(table->preset)};
        int rc = rt_setting_put(self, table, v, "", err);
        if (rc) return rc;
    }
    return RETRACE_OK;
}

int retrace_settings_fill(void *self, const retrace_setting_info *table,
                          const retrace_setting *settings, int n, const char *owner,
                          retrace_error *err) {
    int rc = rt_settings_preset(self, table, err);
    for (int i = 0; rc == RETRACE_OK && i < n; i++) {
        const retrace_setting_info *row = rt_setting_find(table, settings[i].name);
        if (!row)
            return retrace_fail(err, RETRACE_EUSAGE, "%s has no setting '%s'", owner,
                                settings[i].name);
        rc = rt_setting_put(self, row, settings[i].value, owner, err);
    }
    return rc;
}

void retrace_settings_free(void *self, const retrace_setting_info *table) {
    for (; table && table->name; table++) {
        char *field = (char *)self + table->offset;
        if (table->type == RETRACE_TEXT) {
            retrace_text *t = (retrace_text *)(void *)field;
            retrace_free((void *)(uintptr_t)t->s);
            *t = (retrace_text){NULL, 0};
        } else if (table->type == RETRACE_TEXTS || table->type == RETRACE_FILE ||
                   table->type == RETRACE_LIST) {
            retrace_texts *t = (retrace_texts *)(void *)field;
            for (int i = 0; i < t->n; i++) retrace_free((void *)(uintptr_t)t->v[i].s);
            retrace_free(t->v);
            *t = (retrace_texts){NULL, 0};
        }
    }
}

/* ==== "name:key=value,..." ==== */

/* Everything is cut out of one block: the spec struct, then the settings, then the characters. */
static int count_settings(const char *s) {
    int n = 1;
    for (; *s; s++) n += *s == ',';
    return n;
}

/* Copies one value, plain up to a comma or quoted, to *to; returns where it stopped, NULL for a
 * quote that never ends or is followed by something. */
static const char *take_value(const char *s, char **to) {
    if (*s != '"') {
        while (*s && *s != ',') *(*to)++ = *s++;
        return s;
    }
    for (s++; *s && *s != '"'; s++) {
        if (*s == '\\' && (s[1] == '"' || s[1] == '\\')) s++;
        *(*to)++ = *s;
    }
    if (*s != '"' || (s[1] && s[1] != ',')) return NULL;
    return s + 1;
}

static const char *take_pair(retrace_rule_spec *spec, const char *s, char **to) {
    const char *eq = strpbrk(s, "=,");
    if (!eq || *eq != '=' || eq == s) return NULL;
    retrace_setting *out = &spec->settings[spec->n_settings++];
    out->name = *to;
    memcpy(*to, s, (size_t)(eq - s));
    *to += eq - s;
    *(*to)++ = '\0';
    out->value.s = *to;
    s = take_value(eq + 1, to);
    out->value.n = (size_t)(*to - out->value.s);
    *(*to)++ = '\0';
    return s;
}

int retrace_rule_parse(retrace_rule_spec **out, const char *text, retrace_error *err) {
    size_t len = strlen(text), n_name = strcspn(text, ":");
    int most = count_settings(text);
    if (n_name == 0) return retrace_fail(err, RETRACE_EUSAGE, "rule '%s': a name is missing", text);
    size_t settings = (size_t)most * sizeof(retrace_setting);
    char *block =
        retrace_calloc(1, sizeof(retrace_rule_spec) + settings + len + 2 * (size_t)most + 2);
    if (!block) return rt_nomem(err);
    retrace_rule_spec *spec = (retrace_rule_spec *)(void *)block;
    spec->settings = (retrace_setting *)(void *)(block + sizeof *spec);
    char *to = block + sizeof *spec + settings;
    spec->name = memcpy(to, text, n_name);
    to += n_name + 1;
    const char *s = text[n_name] == ':' ? text + n_name + 1 : "";
    while (s && *s) {
        s = take_pair(spec, s, &to);
        if (s && *s == ',') s++;
    }
    if (!s) {
        retrace_free(block);
        return retrace_fail(err, RETRACE_EUSAGE,
                            "rule '%s': expected key=value, separated by commas", text);
    }
    *out = spec;
    return RETRACE_OK;
}

/* ==== Checks of fields that a program has filled ==== */

/* A field's value as a number; choices count from 0. */
static double value(const void *self, const retrace_setting_info *row) {
    const char *field = (const char *)self + row->offset;
    if (row->type == RETRACE_REAL) return *(const double *)(const void *)field;
    if (row->type == RETRACE_INT) return (double)*(const int64_t *)(const void *)field;
    return *(const int *)(const void *)field;
}

static double most(const retrace_setting_info *row) {
    if (row->type != RETRACE_CHOICE) return row->type == RETRACE_BOOL ? 1 : row->max;
    int n = 0;
    for (const char *c = row->choices; *c; c++) n += *c == '|';
    return n;
}

int rt_settings_check(const void *self, const retrace_setting_info *table, retrace_error *err) {
    for (const retrace_setting_info *row = table; row->name; row++) {
        if (row->type > RETRACE_CHOICE) continue;
        double x = value(self, row);
        if (!(x >= row->min && x <= most(row)))
            return retrace_fail(err, RETRACE_EUSAGE, "%s: %g is not within %g to %g", row->name, x,
                                row->min, most(row));
    }
    return RETRACE_OK;
}
