/* bias.c - logit_bias, in all the forms that clients send.
 *
 *     {"17": 5, " word": -3}   [[17, 5], [" word", false]]   [{"id": 17, "bias": 5}]
 *
 * A text stands for each of the tokens that spell it. False, and -100 or less, ban. Tokens that are
 * named twice get the sum; a ban stays a ban. */
#include "read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void srv_bias_add(srv_reading *r, retrace_token id, double x) {
    if (r->n_bias == r->cap_bias) {
        r->cap_bias = r->cap_bias * 2 + 16;
        r->bias = cli_realloc(r->bias, (size_t)r->cap_bias * sizeof *r->bias);
    }
    r->bias[r->n_bias++] = (retrace_bias){id, x};
}

int srv_check_token(const srv *s, json_t *id, const char *param, srv_error *e) {
    if (!json_is_integer(id)) return srv_wrong(e, param, id, "a token id");
    json_int_t v = json_integer_value(id);
    if (v >= 0 && v < s->facts.vocab) return 0;
    return srv_fail(e, 400, "out_of_range", param,
                    "%s: token %lld is outside the vocabulary of %d tokens", param, (long long)v,
                    s->facts.vocab);
}

/* ==== One entry ==== */

static int value_of(srv_reading *r, json_t *v, const char *param, double *x) {
    if (json_is_false(v)) return *x = -INFINITY, 0;
    if (!json_is_number(v)) return srv_wrong(r->e, param, v, "a number or false");
    *x = json_number_value(v);
    if (*x > 100)
        return srv_fail(r->e, 400, "out_of_range", param, "%s: %.15g is more than 100", param, *x);
    if (*x <= -100) *x = -INFINITY;
    return 0;
}

static int add_text(srv_reading *r, retrace_text t, double x, const char *param) {
    retrace_token *ids;
    retrace_error err;
    int n;
    if (t.n > SRV_MAX_STOP)
        return srv_fail(r->e, 400, "too_long", param, "%s: a text of more than %d bytes", param,
                        SRV_MAX_STOP);
    if (retrace_tokenize(r->s->model, t, 0, &ids, &n, &err))
        return srv_fail_with(r->e, &err, param);
    for (int i = 0; i < n; i++) srv_bias_add(r, ids[i], x);
    retrace_free(ids);
    return 0;
}

static int add_id(srv_reading *r, json_t *id, double x, const char *param) {
    if (srv_check_token(r->s, id, param, r->e)) return -1;
    srv_bias_add(r, (retrace_token)json_integer_value(id), x);
    return 0;
}

static int add_either(srv_reading *r, json_t *what, json_t *value, const char *param) {
    double x = 0;
    if (!what) return srv_fail(r->e, 400, "missing_field", param, "%s: no token", param);
    if (!value) return srv_fail(r->e, 400, "missing_field", param, "%s: no bias", param);
    if (value_of(r, value, param, &x)) return -1;
    if (json_is_string(what)) return add_text(r, srv_text_of(what), x, param);
    return add_id(r, what, x, param);
}

/* ==== The forms ==== */

static int read_object(srv_reading *r, json_t *object, const char *used) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        char param[96];
        int64_t id;
        retrace_text t = {key, strlen(key)};
        size_t shown = cli_utf8_whole((retrace_text){key, t.n > 48 ? 48 : t.n});
        snprintf(param, sizeof param, "%s.%.*s", used, (int)shown, key);
        int is_id = cli_parse_int(key, &id);
        json_t *what = is_id ? json_integer(id) : json_stringn(key, t.n);
        int rc = add_either(r, what, value, param);
        json_decref(what);
        if (rc) return -1;
    }
    return 0;
}

static int read_list(srv_reading *r, json_t *list, const char *used) {
    json_t *item;
    size_t i;
    json_array_foreach(list, i, item) {
        char param[96];
        snprintf(param, sizeof param, "%s[%zu]", used, i);
        int is_pair = json_is_array(item) && json_array_size(item) == 2;
        if (!is_pair && !json_is_object(item))
            return srv_wrong(r->e, param, item, "a pair of a token and its bias");
        json_t *what = is_pair ? json_array_get(item, 0) : json_object_get(item, "id");
        if (!is_pair && !what) what = json_object_get(item, "token");
        json_t *value = is_pair ? json_array_get(item, 1) : json_object_get(item, "bias");
        if (add_either(r, what, value, param)) return -1;
    }
    return 0;
}

int srv_read_bias(srv_reading *r) {
    const char *used;
    json_t *v = srv_find(r->body, srv_fields_common, "logit_bias", &used);
    if (!v || srv_is_off(v)) return 0;
    size_t n = json_is_object(v) ? json_object_size(v) : json_array_size(v);
    if (n > SRV_MAX_BIAS)
        return srv_fail(r->e, 400, "too_many", used, "%s: more than %d entries", used,
                        SRV_MAX_BIAS);
    if (json_is_object(v)) return read_object(r, v, used);
    if (json_is_array(v)) return read_list(r, v, used);
    return srv_wrong(r->e, used, v, "an object or a list of pairs");
}

/* ==== Joining ==== */

static int by_id(const void *a, const void *b) {
    const retrace_bias *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

void srv_join_bias(srv_reading *r) {
    int n = 0;
    if (r->n_bias > 0) qsort(r->bias, (size_t)r->n_bias, sizeof *r->bias, by_id);
    for (int i = 0; i < r->n_bias; i++) {
        if (n > 0 && r->bias[n - 1].id == r->bias[i].id)
            r->bias[n - 1].bias += r->bias[i].bias;
        else
            r->bias[n++] = r->bias[i];
    }
    r->q->bias = r->bias;
    r->q->options.bias = r->bias;
    r->q->options.n_bias = n;
    r->bias = NULL;
}
