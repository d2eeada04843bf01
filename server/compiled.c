/* compiled.c - compiled rules that several requests share.
 *
 * A list of 50,000 phrases takes a tenth of a second to compile and 17 MiB to keep, and a client
 * that has one sends it with every request. So the last few rules that took long are remembered. A
 * rule is the same one when its name and all its settings are; a list that was read again is
 * another, so nothing here ever has to be told of changes. A rule cannot change once it is
 * compiled; it is freed when neither this memory nor any request has it any more. */
#include "server.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };
static const double LONG_S = 1e-3; /* what took less is not worth a place */

typedef struct place {
    srv_shared *rule; /* NULL: free */
    cli_buf key;
    uint64_t used;
} place;

struct srv_compiled {
    place v[MOST];
    uint64_t clock;
};

struct srv_compiled *srv_compiled_new(void) {
    return cli_alloc(sizeof(struct srv_compiled));
}

void srv_compiled_free(struct srv_compiled *c) {
    if (!c) return;
    for (int i = 0; i < MOST; i++) {
        srv_shared_drop(c->v[i].rule);
        cli_buf_free(&c->v[i].key);
    }
    free(c);
}

void srv_shared_drop(srv_shared *s) {
    if (!s || atomic_fetch_sub(&s->users, 1) > 1) return;
    retrace_rule_free(s->rule);
    json_decref(s->json);
    free(s);
}

/* ==== The same one ==== */

static void put(cli_buf *key, const char *s, size_t n) {
    cli_put(key, (const char *)&n, sizeof n);
    cli_put(key, s, n);
}

static void write_key(cli_buf *key, const char *name, const cli_settings *l) {
    put(key, name, strlen(name));
    for (int i = 0; i < l->n; i++) {
        put(key, l->v[i].name, strlen(l->v[i].name));
        put(key, l->v[i].value.s, l->v[i].value.n);
    }
}

static place *find(struct srv_compiled *c, const cli_buf *key) {
    for (int i = 0; i < MOST; i++) {
        place *p = &c->v[i];
        if (p->rule && p->key.n == key->n && memcmp(p->key.s, key->s, key->n) == 0) return p;
    }
    return NULL;
}

/* A free place, or that of the rule that was not asked for longest. Takes the key. */
static place *take_place(struct srv_compiled *c, cli_buf *key) {
    place *p = &c->v[0];
    for (int i = 1; i < MOST; i++)
        if (c->v[i].used < p->used) p = &c->v[i];
    srv_shared_drop(p->rule);
    cli_buf_free(&p->key);
    *p = (place){.key = *key};
    *key = (cli_buf){0};
    return p;
}

static srv_shared *hold(place *p, uint64_t now) {
    p->used = now;
    atomic_fetch_add(&p->rule->users, 1);
    return p->rule;
}

/* ==== Asking for one ==== */

static int compile(struct srv_compiled *c, json_t *rule, const char *name, const cli_settings *l,
                   cli_buf *key, srv_shared **out, retrace_error *err) {
    double began = cli_clock();
    srv_shared *s = cli_alloc(sizeof *s);
    int rc = retrace_rule_new(&s->rule, name, l->v, l->n, err);
    if (rc) {
        free(s);
        return rc;
    }
    s->json = json_incref(rule);
    atomic_init(&s->users, 1);
    *out = s;
    if (cli_clock() - began < LONG_S) return RETRACE_OK;
    place *p = take_place(c, key);
    p->rule = s;
    hold(p, c->clock);
    return RETRACE_OK;
}

int srv_compiled_get(struct srv_compiled *c, json_t *rule, srv_shared **out, retrace_error *err) {
    const char *name = json_string_value(json_object_get(rule, "name"));
    cli_settings l = cli_settings_of(rule);
    cli_buf key = {0};
    int rc = RETRACE_OK;
    c->clock++;
    write_key(&key, name, &l);
    place *p = find(c, &key);
    if (p)
        *out = hold(p, c->clock);
    else
        rc = compile(c, rule, name, &l, &key, out, err);
    cli_buf_free(&key);
    cli_settings_free(&l);
    json_decref(rule);
    return rc;
}
