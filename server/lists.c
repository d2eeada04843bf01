/* lists.c - ban lists by name, for the field ban_lists.
 *
 * They are those of --ban-list NAME=FILE and every NAME.txt in the folder of lists. Each was
 * compiled once before it is offered, so a request never meets a broken one. Read again on SIGHUP;
 * what is broken then stays as it was. */
#define _POSIX_C_SOURCE 200809L
#include "server.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    char *name, *path;
    json_t *text; /* a string; what requests get, and keep for as long as they like */
} entry;

typedef struct table {
    entry *v;
    int n;
} table;

struct srv_lists {
    const cli_flags *flags;
    pthread_mutex_t lock; /* of `now`; only one thread reloads */
    table now;
};

static void table_free(table *t) {
    for (int i = 0; i < t->n; i++) {
        free(t->v[i].name);
        free(t->v[i].path);
        json_decref(t->v[i].text);
    }
    free(t->v);
    *t = (table){0};
}

static entry *find(const table *t, const char *name) {
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->v[i].name, name) == 0) return &t->v[i];
    return NULL;
}

static entry *add(table *t, const char *name, size_t n, const char *path) {
    t->v = cli_realloc(t->v, (size_t)(t->n + 1) * sizeof *t->v);
    t->v[t->n] = (entry){cli_copy(name, n), cli_copy(path, strlen(path)), NULL};
    return &t->v[t->n++];
}

/* Reads the file and compiles it once. The message names the list. */
static int load(entry *e) {
    retrace_rule *rule = NULL;
    retrace_error err;
    cli_buf text = {0};
    int code = cli_read_list(e->path, &text);
    retrace_setting s = {"list", cli_buf_text(&text)};
    if (!code && retrace_rule_new(&rule, "phrases", &s, 1, &err)) {
        cli_buf about = {0};
        cli_printf(&about, "ban list %s (%s)", e->name, e->path);
        code = cli_report(&err, about.s);
        cli_buf_free(&about);
    }
    if (!code) e->text = cli_json_text(cli_buf_text(&text));
    retrace_rule_free(rule);
    cli_buf_free(&text);
    return code;
}

/* ==== Where they are ==== */

static void list_given(const cli_flags *f, table *t) {
    const cli_option *o = cli_option_of(f, "ban-list");
    for (int i = o->n - 1; i >= 0; i--) {
        const char *s = o->given[i].s, *eq = strchr(s, '=');
        char *name = cli_copy(s, (size_t)(eq - s));
        if (!find(t, name)) add(t, name, strlen(name), eq + 1);
        free(name);
    }
}

static void list_folder(table *t) {
    cli_buf folder = {0}, path = {0};
    cli_lists_folder(&folder);
    DIR *d = folder.n ? opendir(folder.s) : NULL;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        size_t n = strlen(e->d_name);
        if (n < 5 || strcmp(e->d_name + n - 4, ".txt") != 0) continue;
        if (!cli_list_is_name(e->d_name, n - 4)) continue;
        path.n = 0;
        cli_printf(&path, "%s/%s", folder.s, e->d_name);
        char *name = cli_copy(e->d_name, n - 4);
        if (!find(t, name)) add(t, name, n - 4, path.s);
        free(name);
    }
    if (d) closedir(d);
    cli_buf_free(&folder);
    cli_buf_free(&path);
}

/* ==== Reading them ==== */

/* The i-th entry goes away. */
static void leave_out(table *t, int i) {
    table gone = {cli_alloc(sizeof(entry)), 1};
    gone.v[0] = t->v[i];
    table_free(&gone);
    t->n--;
    memmove(t->v + i, t->v + i + 1, (size_t)(t->n - i) * sizeof *t->v);
}

static int load_all(table *t, int n_given, const table *was) {
    for (int i = 0; i < t->n;) {
        int code = load(&t->v[i]);
        const entry *old = code && was ? find(was, t->v[i].name) : NULL;
        if (code && !was && i < n_given) return code;
        if (old) {
            cli_fail(code, "ban list %s stays as it was", old->name);
            t->v[i].text = json_incref(old->text);
        }
        if (code && !old) {
            cli_fail(code, "ban list %s is left out", t->v[i].name);
            if (i < n_given) n_given--;
            leave_out(t, i);
        } else {
            i++;
        }
    }
    return CLI_OK;
}

static int read_table(const cli_flags *f, table *t, const table *was) {
    list_given(f, t);
    int n_given = t->n;
    list_folder(t);
    return load_all(t, n_given, was);
}

int srv_lists_new(struct srv_lists **out, const srv_config *c) {
    int code = cli_lists_check(c->flags);
    if (code) return code;
    struct srv_lists *l = cli_alloc(sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    l->flags = c->flags;
    code = read_table(c->flags, &l->now, NULL);
    if (code)
        srv_lists_free(l);
    else
        *out = l;
    return code;
}

/* Only this function changes `now`, in one thread, so it may read it without the lock. */
void srv_lists_reload(struct srv_lists *l) {
    table fresh = {0};
    read_table(l->flags, &fresh, &l->now);
    pthread_mutex_lock(&l->lock);
    table was = l->now;
    l->now = fresh;
    pthread_mutex_unlock(&l->lock);
    cli_say("retrace: ban lists read again: %d", fresh.n);
    table_free(&was);
}

json_t *srv_list_text(struct srv_lists *l, const char *name) {
    pthread_mutex_lock(&l->lock);
    const entry *e = find(&l->now, name);
    json_t *text = e ? json_incref(e->text) : NULL;
    pthread_mutex_unlock(&l->lock);
    return text;
}

json_t *srv_lists_names(struct srv_lists *l) {
    json_t *names = json_array();
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < l->now.n; i++) json_array_append_new(names, json_string(l->now.v[i].name));
    pthread_mutex_unlock(&l->lock);
    return names;
}

void srv_lists_free(struct srv_lists *l) {
    if (!l) return;
    table_free(&l->now);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
