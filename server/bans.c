/* bans.c - every field that forbids something: phrases, patterns, tokens, lists.
 *
 * The names are those of several other servers, so that their clients' settings work. All phrases
 * of a request, with those of its lists, are one rule; so one automaton finds them, and the hit
 * that begins first wins whichever field it came from.
 *
 * A control token has no text, so no phrase can forbid it. A phrase that is exactly the name of one
 * is meant to: that token is never drawn. Not so for end tokens; ignore_eos is for those. */
#include "read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where an element of a rule came from. */
typedef struct origin {
    const char *field;
    int i; /* -1: the field itself */
} origin;

/* Elements of one rule. */
typedef struct pile {
    json_t *texts;
    origin *from;
    size_t cap;
} pile;

typedef struct bans {
    srv_reading *r;
    int on;
    pile phrases, lists, patterns[2];
    int looked; /* for control tokens that do not end an answer */
    retrace_token *controls;
    size_t n_controls;
} bans;

static void name_of(origin o, char param[96]) {
    if (o.i < 0)
        snprintf(param, 96, "%s", o.field);
    else
        snprintf(param, 96, "%s[%d]", o.field, o.i);
}

static void put(pile *p, json_t *text, origin from) {
    size_t n = json_array_size(p->texts);
    if (n == p->cap) {
        p->cap = p->cap * 2 + 16;
        p->from = cli_realloc(p->from, p->cap * sizeof *p->from);
    }
    p->from[n] = from;
    json_array_append_new(p->texts, text);
}

/* ==== Phrases ==== */

/* Looks the control tokens up, once a request: they have a name and no text. */
static void find_controls(bans *b) {
    const srv *s = b->r->s;
    b->looked = 1;
    for (retrace_token id = 0; id < s->facts.vocab; id++) {
        if (retrace_piece(s->model, id).n > 0 || retrace_token_name(s->model, id).n == 0) continue;
        if (retrace_token_ends(s->model, id)) continue;
        if (b->n_controls % 64 == 0)
            b->controls = cli_realloc(b->controls, (b->n_controls + 64) * sizeof *b->controls);
        b->controls[b->n_controls++] = id;
    }
}

/* Bans the control token that a phrase spells. */
static void ban_control(bans *b, retrace_text t) {
    if (!b->looked) find_controls(b);
    for (size_t i = 0; i < b->n_controls; i++) {
        retrace_text name = retrace_token_name(b->r->s->model, b->controls[i]);
        if (name.n == t.n && memcmp(name.s, t.s, t.n) == 0)
            srv_bias_add(b->r, b->controls[i], -INFINITY);
    }
}

static int add_phrase(bans *b, json_t *v, origin from) {
    char param[96];
    name_of(from, param);
    if (!json_is_string(v)) return srv_wrong(b->r->e, param, v, "a text");
    retrace_text t = srv_text_of(v);
    if (t.n == 0) return 0;
    if (srv_count_phrase(b->r, t, param)) return -1;
    if (!b->on) return 0;
    put(&b->phrases, json_incref(v), from);
    ban_control(b, t);
    return 0;
}

/* ==== Tokens ==== */

static int add_token(bans *b, json_t *id, origin from) {
    char param[96];
    name_of(from, param);
    if (srv_check_token(b->r->s, id, param, b->r->e)) return -1;
    if (b->on) srv_bias_add(b->r, (retrace_token)json_integer_value(id), -INFINITY);
    return 0;
}

/* One of the ids in "1,2,3". */
static int add_number(bans *b, retrace_text t, origin from) {
    char text[24], param[96];
    int64_t id;
    int ok = t.n < sizeof text;
    if (ok) {
        memcpy(text, t.s, t.n);
        text[t.n] = '\0';
        ok = strlen(text) == t.n && cli_parse_int(text, &id);
    }
    name_of(from, param);
    if (!ok) {
        json_t *whole = json_stringn(t.s, t.n);
        srv_wrong(b->r->e, param, whole, "a token id");
        json_decref(whole);
        return -1;
    }
    json_t *j = json_integer(id);
    int rc = add_token(b, j, from);
    json_decref(j);
    return rc;
}

static int too_many(bans *b, const char *field, int most) {
    return srv_fail(b->r->e, 400, "too_many", field, "%s: more than %d entries", field, most);
}

static int add_numbers(bans *b, retrace_text t, const char *field) {
    int n = 0;
    for (size_t i = 0; i < t.n;) {
        size_t end = i;
        while (end < t.n && t.s[end] != ',') end++;
        retrace_text part = {t.s + i, end - i};
        while (part.n && strchr(" \t\r\n", part.s[0]))
            part = (retrace_text){part.s + 1, part.n - 1};
        while (part.n && strchr(" \t\r\n", part.s[part.n - 1])) part.n--;
        if (part.n && n == SRV_MAX_TOKEN_BANS) return too_many(b, field, SRV_MAX_TOKEN_BANS);
        if (part.n && add_number(b, part, (origin){field, -1})) return -1;
        n += part.n > 0;
        i = end + 1;
    }
    return 0;
}

/* ==== Patterns and lists ==== */

static int add_pattern(bans *b, json_t *v, origin from, int fold) {
    char param[96];
    name_of(from, param);
    if (!json_is_string(v)) return srv_wrong(b->r->e, param, v, "a text");
    if (json_string_length(v) == 0) return 0;
    if (srv_count_pattern(b->r, srv_text_of(v), param)) return -1;
    if (b->on) put(&b->patterns[fold], json_incref(v), from);
    return 0;
}

static int add_exact(bans *b, json_t *v, origin from) {
    return add_pattern(b, v, from, 0);
}

static int add_folded(bans *b, json_t *v, origin from) {
    return add_pattern(b, v, from, 1);
}

static int add_list(bans *b, json_t *v, origin from) {
    char param[96];
    name_of(from, param);
    if (!json_is_string(v)) return srv_wrong(b->r->e, param, v, "a text");
    if (json_string_length(v) == 0) return 0;
    json_t *text = srv_list_named(b->r, json_string_value(v), param);
    if (!text) return -1;
    if (b->on) put(&b->lists, json_incref(text), from);
    json_decref(text);
    return 0;
}

/* An element by its type: the same field holds phrases in one server and ids in another. */
static int add_by_type(bans *b, json_t *v, origin from) {
    if (json_is_string(v)) return add_phrase(b, v, from);
    return add_token(b, v, from);
}

/* ==== The fields ==== */

typedef int add_fn(bans *b, json_t *v, origin from);

static const struct part {
    const char *field;
    add_fn *add;
    int numbers; /* a text is "1,2,3" */
} parts[] = {
    {"banned_strings", add_phrase, 0}, {"bad_words", add_phrase, 0},
    {"banned_tokens", add_by_type, 1}, {"custom_token_bans", add_token, 1},
    {"banned_regex", add_exact, 0},    {"banned_regex_case_insensitive", add_folded, 0},
    {"ban_lists", add_list, 0},
};

static int read_part(bans *b, const struct part *p) {
    const char *used;
    json_t *v = srv_find(b->r->body, srv_fields_rules, p->field, &used), *item;
    size_t i;
    if (!v || srv_is_off(v)) return 0;
    if (json_is_string(v) && p->numbers) return add_numbers(b, srv_text_of(v), used);
    if (json_is_string(v)) return p->add(b, v, (origin){used, -1});
    if (!json_is_array(v)) return srv_wrong(b->r->e, used, v, "a text or a list");
    int most = srv_field_of(srv_fields_rules, p->field)->most;
    if (json_array_size(v) > (size_t)most) return too_many(b, used, most);
    json_array_foreach(v, i, item) {
        if (p->add(b, item, (origin){used, (int)i})) return -1;
    }
    return 0;
}

/* ==== The rules ==== */

/* The library counts texts of a rule from 1, "phrases: text 3 ..."; the client knows its fields. */
static int blame(bans *b, const pile *p, const char *opening, const retrace_error *err) {
    size_t n = strlen(opening);
    char param[96] = "", *end;
    const char *rest = err->msg;
    if (strncmp(err->msg, opening, n) == 0) {
        long k = strtol(err->msg + n, &end, 10);
        if (k >= 1 && (size_t)k <= json_array_size(p->texts)) {
            name_of(p->from[k - 1], param);
            rest = end + strspn(end, ":, ");
        }
    }
    if (!*param && json_array_size(p->texts)) name_of((origin){p->from[0].field, -1}, param);
    return srv_fail(b->r->e, err->code == RETRACE_EUSAGE ? 400 : 500, "invalid_value", param,
                    "%s: %s", param, rest);
}

static int make_phrases(bans *b) {
    retrace_error err;
    if (json_array_size(b->phrases.texts) + json_array_size(b->lists.texts) == 0) return 0;
    json_t *rule = json_pack("{s:s}", "name", "phrases");
    if (json_array_size(b->phrases.texts)) json_object_set(rule, "text", b->phrases.texts);
    if (json_array_size(b->lists.texts)) json_object_set(rule, "list", b->lists.texts);
    if (srv_rule_add(b->r, rule, &err) == RETRACE_OK) return 0;
    int in_list = strncmp(err.msg, "phrases: list ", 14) == 0;
    return blame(b, in_list ? &b->lists : &b->phrases,
                 in_list ? "phrases: list " : "phrases: text ", &err);
}

static int make_patterns(bans *b, int fold) {
    retrace_error err;
    const pile *p = &b->patterns[fold];
    if (json_array_size(p->texts) == 0) return 0;
    json_t *rule = json_pack("{s:s, s:s, s:O}", "name", "regex", "case", fold ? "fold" : "exact",
                             "pattern", p->texts);
    if (srv_rule_add(b->r, rule, &err) == RETRACE_OK) return 0;
    return blame(b, p, "regex: pattern ", &err);
}

static int read_all(bans *b) {
    if (srv_get_bool(b->r->body, srv_fields_rules, "bans_enabled", &b->on, b->r->e)) return -1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (read_part(b, &parts[i])) return -1;
    if (make_phrases(b) || make_patterns(b, 0)) return -1;
    return make_patterns(b, 1);
}

int srv_read_bans(srv_reading *r) {
    bans b = {.r = r, .on = 1};
    pile *all[] = {&b.phrases, &b.lists, &b.patterns[0], &b.patterns[1]};
    for (int i = 0; i < 4; i++) all[i]->texts = json_array();
    int rc = read_all(&b);
    for (int i = 0; i < 4; i++) {
        json_decref(all[i]->texts);
        free(all[i]->from);
    }
    free(b.controls);
    return rc;
}
