/* tiny.c - models for tests; see tiny.h. */
#include "tiny.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_SETTINGS = 12, MAX_TEXT = 256 };

const char *tiny_path(const char *file) {
    static char path[1024];
    const char *folder = getenv("RETRACE_TINY");
    if (!folder || !*folder) return NULL;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fclose(f);
    return path;
}

int tiny_try(retrace_model **out, const char *path, const char *settings, retrace_error *err) {
    char text[MAX_TEXT];
    retrace_setting list[MAX_SETTINGS];
    int n = 0;
    snprintf(text, sizeof text, "%s", settings);
    for (char *at = text; *at && n < MAX_SETTINGS;) {
        char *end = at + strcspn(at, " ");
        char *value = strchr(at, '=');
        assert_non_null(value);
        *value++ = '\0';
        list[n++] = (retrace_setting){at, {value, (size_t)(end - value)}};
        at = *end ? end + 1 : end;
    }
    return retrace_model_open(out, path, list, n, err);
}

retrace_model *tiny_open(const char *path, const char *settings) {
    retrace_model *m = NULL;
    retrace_error err;
    if (tiny_try(&m, path, settings, &err) < 0) fail_msg("%s", err.msg);
    return m;
}

const char *tiny_table_json =
    "{\"tokens\": [\"a\", \"b\", \"c\", \"d\", {\"text\": \"</s>\", \"end\": true}],"
    " \"rows\": [{\"context\": [], \"next\": {\"a\": 4, \"b\": 2, \"c\": 1, \"d\": 1, \"</s>\": "
    "1}},"
    " {\"context\": [\"a\"], \"next\": {\"a\": 1, \"b\": 5, \"c\": 2, \"d\": 2, \"</s>\": 3}},"
    " {\"context\": [\"b\", \"a\"], \"next\": {\"a\": 3, \"b\": 1, \"c\": 1, \"d\": 7, \"</s>\": "
    "1}}]}";

const char *tiny_table(void) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/retrace-table-%ld.json", (long)getpid());
    return path;
}

int tiny_table_write(void **state) {
    (void)state;
    FILE *f = fopen(tiny_table(), "w");
    if (!f) return -1;
    fputs(tiny_table_json, f);
    return fclose(f);
}

int tiny_table_remove(void **state) {
    (void)state;
    return remove(tiny_table());
}

void tiny_ask(retrace_model *m, retrace_query *q, int n) {
    retrace_error err;
    if (retrace_model_eval(m, q, n, &err) < 0) fail_msg("%s", err.msg);
    for (int i = 0; i < n; i++) assert_int_equal(q[i].answered, 1);
}

float *tiny_row(const retrace_model_info *f) {
    float *row = malloc((size_t)f->vocab * sizeof *row);
    assert_non_null(row);
    return row;
}

uint64_t tiny_random(uint64_t *seed) {
    uint64_t x = *seed += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

int tiny_between(uint64_t *seed, int low, int high) {
    return low + (int)(tiny_random(seed) % (uint64_t)(high - low + 1));
}

double tiny_nmse(const float *a, const float *b, int n) {
    double error = 0, power = 0;
    for (int i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        error += d * d;
        power += (double)b[i] * (double)b[i];
    }
    return error / power;
}
