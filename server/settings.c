/* settings.c - the options of a run: sampling, lengths, stop texts, the seed.
 *
 * Each field that is a row of the library's table is set by its name there, so the library has the
 * last word on ranges. What the request says nothing about comes from the server's preset. */
#include "read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
    const char *field, *option;
    const srv_field *table;
} rows[] = {
    {"max_tokens", "max_tokens", srv_fields_common},
    {"temperature", "temp", srv_fields_common},
    {"top_k", "top_k", srv_fields_common},
    {"top_p", "top_p", srv_fields_common},
    {"min_p", "min_p", srv_fields_common},
    {"typical_p", "typical", srv_fields_common},
    {"repeat_penalty", "repeat_penalty", srv_fields_common},
    {"repeat_last_n", "repeat_last_n", srv_fields_common},
    {"presence_penalty", "presence_penalty", srv_fields_common},
    {"frequency_penalty", "frequency_penalty", srv_fields_common},
    {"ignore_eos", "ignore_eos", srv_fields_common},
    {"hold", "hold", srv_fields_rules},
    {"resample", "resample", srv_fields_rules},
    {"on_stuck", "on_stuck", srv_fields_rules},
    {"stuck_mass", "stuck_mass", srv_fields_rules},
    {"max_rewinds", "max_rewinds", srv_fields_rules},
    {"max_evaluated", "max_evaluated", srv_fields_rules},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static const retrace_setting_info *info_of(const char *option) {
    const retrace_setting_info *s = retrace_options_infos();
    while (s->name && strcmp(s->name, option) != 0) s++;
    return s;
}

static int put(srv_reading *r, const char *option, const char *value, const char *used) {
    retrace_error err;
    retrace_setting s = {option, {value, strlen(value)}};
    if (retrace_options_set(&r->q->options, s, &err) == RETRACE_OK) return 0;
    return srv_fail(r->e, 400, "invalid_value", used, "%s: %s", used, err.msg);
}

/* ==== One row ==== */

static int put_int(srv_reading *r, const struct row *row, const char *used) {
    int64_t i = 0;
    if (srv_get_int(r->body, row->table, row->field, &i, r->e)) return -1;
    if (i < 0 && strcmp(row->field, "top_k") == 0) i = 0;
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)i);
    return put(r, row->option, text, used);
}

static int put_real(srv_reading *r, const struct row *row, const char *used) {
    double x = 0;
    if (srv_get_real(r->body, row->table, row->field, &x, r->e)) return -1;
    if (x == 0 && strcmp(row->field, "repeat_penalty") == 0) x = 1;
    char text[40];
    snprintf(text, sizeof text, "%.17g", x + 0.0); /* -0 becomes 0 */
    return put(r, row->option, text, used);
}

static int put_bool(srv_reading *r, const struct row *row, const char *used) {
    int yes = 0;
    if (srv_get_bool(r->body, row->table, row->field, &yes, r->e)) return -1;
    return put(r, row->option, yes ? "true" : "false", used);
}

static int put_choice(srv_reading *r, const struct row *row, const char *used) {
    const char *text = "";
    if (srv_get_text(r->body, row->table, row->field, &text, r->e)) return -1;
    return *text ? put(r, row->option, text, used) : 0;
}

static int put_row(srv_reading *r, const struct row *row) {
    const char *used;
    if (!srv_find(r->body, row->table, row->field, &used)) return 0;
    switch (info_of(row->option)->type) {
    case RETRACE_INT: return put_int(r, row, used);
    case RETRACE_REAL: return put_real(r, row, used);
    case RETRACE_BOOL: return put_bool(r, row, used);
    default: return put_choice(r, row, used);
    }
}

/* ==== Stop texts ==== */

static int add_stop(srv_reading *r, json_t *stops, json_t *v, const char *param) {
    if (!json_is_string(v)) return srv_wrong(r->e, param, v, "a text");
    if (json_string_length(v) == 0) return 0;
    if (json_string_length(v) > SRV_MAX_STOP)
        return srv_fail(r->e, 400, "too_long", param, "%s: more than %d bytes", param,
                        SRV_MAX_STOP);
    if (json_array_size(stops) == SRV_MAX_STOPS)
        return srv_fail(r->e, 400, "too_many", param, "%s: more than %d stop texts", param,
                        SRV_MAX_STOPS);
    json_array_append(stops, v);
    return 0;
}

static json_t *settings_of(const srv_request *q) {
    return json_object_get(q->start, "settings");
}

/* The texts live in q->start. */
static void keep_stops(srv_request *q, json_t *stops) {
    json_t *v;
    size_t i;
    q->stops = cli_alloc((json_array_size(stops) + 1) * sizeof *q->stops);
    json_array_foreach(stops, i, v) q->stops[i] = srv_text_of(v);
    q->options.stops = q->stops;
    q->options.n_stops = (int)json_array_size(stops);
}

static int read_stops(srv_reading *r) {
    const char *used;
    json_t *v = srv_find(r->body, srv_fields_common, "stop", &used), *item;
    json_t *stops = json_array();
    json_object_set_new(settings_of(r->q), "stop", stops);
    size_t i;
    char param[96];
    if (v && !json_is_array(v) && add_stop(r, stops, v, used)) return -1;
    json_array_foreach(v, i, item) {
        snprintf(param, sizeof param, "%s[%zu]", used, i);
        if (add_stop(r, stops, item, param)) return -1;
    }
    keep_stops(r->q, stops);
    return 0;
}

/* ==== The rest ==== */

static int read_seed(srv_reading *r) {
    int64_t seed = r->q->options.seed; /* the server's own, if it has one */
    if (srv_get_int(r->body, srv_fields_common, "seed", &seed, r->e)) return -1;
    r->q->options.seed = seed < 0 ? (int64_t)cli_random_seed() : seed;
    return 0;
}

static int read_driver(srv_reading *r) {
    const char *driver = "sample", *used = "driver";
    if (srv_get_text(r->body, srv_fields_rules, "driver", &driver, r->e)) return -1;
    if (strncmp(driver, "guide", 5) == 0 && (driver[5] == '\0' || driver[5] == ':'))
        return srv_fail(r->e, 400, "unsupported_value", used,
                        "driver: guide asks a person at each place, which one answer cannot; "
                        "POST /v1/rewind steers an answer over HTTP");
    if (*driver && strcmp(driver, "sample") != 0)
        return srv_fail(r->e, 400, "invalid_value", used,
                        "driver: there is only 'sample' over HTTP");
    r->q->driver = cli_copy("sample", 6);
    r->q->options.driver = r->q->driver;
    return 0;
}

int srv_was_given(const srv *s, const char *flag) {
    return s->config.flags && cli_option_of(s->config.flags, flag)->n > 0;
}

/* What is kept to the end can be chosen again for longer; what is shown as it comes cannot wait.
 * An exact answer is never known to stay before its end. */
static int settle_hold(srv_reading *r) {
    retrace_options *o = &r->q->options;
    json_t *given = srv_get(r->body, srv_fields_rules, "hold");
    int preset = srv_was_given(r->s, "hold");
    r->q->hold_given = preset || (given && !srv_is_off(given));
    if (!r->q->hold_given) o->hold = r->q->stream ? RETRACE_HOLD_MINIMAL : RETRACE_HOLD_ALL;
    if (o->resample != RETRACE_RESAMPLE_EXACT) return 0;
    o->hold = RETRACE_HOLD_ALL;
    if (o->on_stuck != RETRACE_STUCK_FAIL)
        return srv_fail(r->e, 400, "invalid_value", "on_stuck",
                        "on_stuck: only fail goes with resample exact");
    return 0;
}

int srv_read_settings(srv_reading *r) {
    for (int i = 0; i < N_ROWS; i++)
        if (put_row(r, &rows[i])) return -1;
    if (read_seed(r) || read_stops(r) || read_driver(r)) return -1;
    return settle_hold(r);
}

/* ==== The start line of a trace ==== */

static json_t *value_of(const retrace_options *o, const retrace_setting_info *s) {
    const char *at = (const char *)o + s->offset;
    int64_t i;
    double x;
    int k;
    if (s->type == RETRACE_INT) return memcpy(&i, at, sizeof i), json_integer(i);
    if (s->type == RETRACE_REAL) return memcpy(&x, at, sizeof x), json_real(x);
    memcpy(&k, at, sizeof k);
    if (s->type == RETRACE_BOOL) return json_boolean(k);
    const char *c = s->choices;
    for (; k > 0; k--) c += strcspn(c, "|") + 1;
    return json_stringn(c, strcspn(c, "|"));
}

static json_t *bias_json(const srv_request *q) {
    json_t *o = json_object();
    for (int i = 0; i < q->options.n_bias; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", (int)q->bias[i].id);
        double x = q->bias[i].bias;
        json_object_set_new(o, key, isinf(x) ? json_string("-inf") : json_real(x));
    }
    return o;
}

void srv_write_start(srv_reading *r) {
    srv_request *q = r->q;
    json_t *s = settings_of(q);
    for (const retrace_setting_info *row = retrace_options_infos(); row->name; row++)
        if (strcmp(row->name, "seed") != 0)
            json_object_set_new(s, row->name, value_of(&q->options, row));
    json_object_set_new(q->start, "seed", json_integer(q->options.seed));
    json_object_set_new(s, "chat", json_false());
    json_object_set_new(s, "driver", json_string(q->driver));
    json_object_set_new(s, "logit_bias", bias_json(q));
}
