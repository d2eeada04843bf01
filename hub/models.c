/* models.c - `retrace models`: what is there to be opened without a network.
 *
 * The model that setup installed, every GGUF model in the cache, split ones with parts missing, and
 * downloads that wait to be taken up. The cache may have been written by anybody: a folder or a
 * file whose name the hub would not give is passed over. */
#define _POSIX_C_SOURCE 200809L
#include "hub.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct model {
    char *name, *file, *note, *key; /* key: which bytes they are */
    char commit[41];                /* "": none */
    int64_t size;
    int complete, installed;
} model;

typedef struct models {
    const hub_where *where;
    model *v;
    int n;
    int repo, snapshot; /* where what is being read begins */
} models;

static model *add(models *m, const char *name, const char *file) {
    m->v = cli_realloc(m->v, (size_t)(m->n + 1) * sizeof *m->v);
    model *x = &m->v[m->n++];
    *x = (model){.name = cli_copy(name, strlen(name)), .file = cli_copy(file, strlen(file))};
    return x;
}

static void drop(model *x) {
    free(x->name);
    free(x->file);
    free(x->note);
    free(x->key);
}

static int by_name(const void *a, const void *b) {
    const model *x = a, *y = b;
    if (x->installed != y->installed) return y->installed - x->installed;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->file, y->file);
}

/* ==== Names in folders ==== */

typedef struct names {
    char **v;
    int n;
} names;

static int name_order(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* *why: errno's value when there is something that cannot be read. */
static names names_of(const char *folder, int *why) {
    enum { MOST = 100000 };
    names l = {0};
    DIR *d = opendir(folder);
    *why = d || errno == ENOENT ? 0 : errno;
    for (struct dirent *e = d ? readdir(d) : NULL; e && l.n < MOST; e = readdir(d)) {
        l.v = cli_realloc(l.v, (size_t)(l.n + 1) * sizeof *l.v);
        l.v[l.n++] = cli_copy(e->d_name, strlen(e->d_name));
    }
    if (d) closedir(d);
    if (l.n) qsort(l.v, (size_t)l.n, sizeof *l.v, name_order);
    return l;
}

static names names_in(const char *folder) {
    int why;
    names l = names_of(folder, &why);
    if (why && why != ENOTDIR) cli_say("retrace: cannot read '%s': %s", folder, strerror(why));
    return l;
}

static void names_free(names *l) {
    for (int i = 0; i < l->n; i++) free(l->v[i]);
    free(l->v);
}

/* ==== One snapshot ==== */

/* What a name finds in the list, remembered; each look-up goes through the whole list, so in a long
 * one there are not many. */
typedef struct pick {
    char *name;
    int at;
} pick;

typedef struct picks {
    const hub_listing *l;
    pick *v;
    int n, most;
} picks;

static int picked(picks *p, const char *name) {
    int *parts = NULL;
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->v[i].name, name) == 0) return p->v[i].at;
    if (p->n == p->most) return -1;
    int at = hub_pick(p->l, name, NULL, &parts) > 0 ? parts[0] : -1;
    free(parts);
    p->v = cli_realloc(p->v, (size_t)(p->n + 1) * sizeof *p->v);
    p->v[p->n++] = (pick){cli_copy(name, strlen(name)), at};
    return at;
}

static void picks_free(picks *p) {
    for (int i = 0; i < p->n; i++) free(p->v[i].name);
    free(p->v);
}

/* The name by which -hf finds these parts in the list, appended: with the quant when that does,
 * else with the whole name of the file. */
static int name_of(picks *p, const char *repo, int at, cli_buf *b) {
    cli_buf quant = {0};
    const char *path = p->l->v[at].path, *slash = strrchr(path, '/');
    int found = 0;
    for (int i = 0; i < 2 && !found; i++) {
        quant.n = 0;
        if (i)
            hub_stem_of(slash ? slash + 1 : path, &quant);
        else
            hub_quant_of(path, &quant);
        found = quant.n && picked(p, quant.s) == at;
    }
    cli_puts(b, repo);
    if (found) cli_printf(b, ":%s", quant.s);
    cli_buf_free(&quant);
    return found;
}

/* Device and inode of every part: two snapshots often share them. */
static char *key_of(const models *m, const char *repo, const char *commit, const hub_listing *l,
                    const int *parts, int n) {
    cli_buf key = {0};
    for (int i = 0; i < n; i++) {
        struct stat st = {0};
        cli_buf path = {0};
        hub_store_file(m->where, repo, commit, l->v[parts[i]].path, &path);
        if (stat(path.s, &st) == 0)
            cli_printf(&key, "%llu:%llu ", (unsigned long long)st.st_dev,
                       (unsigned long long)st.st_ino);
        cli_buf_free(&path);
    }
    cli_puts(&key, l->v[parts[0]].path);
    return key.s;
}

static int is_known(const models *m, const char *key) {
    for (int i = m->repo; i < m->snapshot; i++)
        if (m->v[i].key && strcmp(m->v[i].key, key) == 0) return 1;
    return 0;
}

static void add_model(models *m, const char *repo, const char *commit, picks *found,
                      const hub_model_parts *p) {
    const hub_listing *l = found->l;
    cli_buf name = {0}, file = {0};
    int first = p->at[0];
    char *key = key_of(m, repo, commit, l, p->at, p->n);
    if (is_known(m, key)) {
        free(key);
        return;
    }
    hub_store_file(m->where, repo, commit, l->v[first].path, &file);
    if (p->n == p->of) {
        if (!name_of(found, repo, first, &name))
            cli_printf(&name, " --hf-file %s", l->v[first].path);
    } else {
        cli_printf(&name, "%s:", repo);
        if (!hub_quant_of(l->v[first].path, &name)) hub_stem_of(l->v[first].path, &name);
    }
    model *x = add(m, name.s, file.s);
    x->key = key;
    x->complete = p->n == p->of;
    snprintf(x->commit, sizeof x->commit, "%s", commit);
    for (int i = 0; i < p->n; i++) x->size += l->v[p->at[i]].size;
    cli_buf note = {0};
    if (!x->complete) cli_printf(&note, "%d of %d parts", p->n, p->of);
    x->note = note.s;
    cli_buf_free(&name);
    cli_buf_free(&file);
}

static void add_snapshot(models *m, const char *repo, const char *commit) {
    enum { MOST_LOOKED_AT = 400000 };
    hub_listing l = {0};
    int n = 0;
    m->snapshot = m->n;
    hub_store_list(m->where, repo, commit, &l);
    hub_model_parts *v = hub_models_of(&l, &n);
    picks found = {.l = &l, .most = MOST_LOOKED_AT / (l.n + 1) + 1};
    for (int i = 0; i < n; i++) add_model(m, repo, commit, &found, &v[i]);
    picks_free(&found);
    hub_models_free(v, n);
    hub_listing_free(&l);
}

/* ==== One repository ==== */

/* What waits to be taken up. Its name on the hub is not known here. */
static void add_waiting(models *m, const char *repo, const char *folder) {
    cli_buf blobs = {0};
    cli_printf(&blobs, "%s/blobs", folder);
    names l = names_in(blobs.s);
    for (int i = 0; i < l.n; i++) {
        struct stat st;
        cli_buf file = {0};
        const char *end = strstr(l.v[i], ".incomplete");
        size_t oid = strspn(l.v[i], "0123456789abcdef");
        cli_printf(&file, "%s/%s", blobs.s, l.v[i]);
        if (end && !end[11] && (oid == HUB_SHA256 || oid == HUB_SHA1) && lstat(file.s, &st) == 0 &&
            S_ISREG(st.st_mode)) {
            model *x = add(m, repo, file.s);
            x->size = st.st_size;
            x->note = cli_copy("waits to be taken up", 20);
        }
        cli_buf_free(&file);
    }
    names_free(&l);
    cli_buf_free(&blobs);
}

/* The snapshot of main first: what others share with it is not listed again. */
static void add_repo(models *m, const char *repo) {
    hub_where w = *m->where;
    char first[41] = "";
    cli_buf folder = {0}, snapshots = {0};
    m->repo = m->n;
    hub_store_repo(&w, repo, &folder);
    cli_printf(&snapshots, "%s/snapshots", folder.s);
    if (hub_store_commit(&w, repo, "main", first)) add_snapshot(m, repo, first);
    names l = names_in(snapshots.s);
    for (int i = 0; i < l.n; i++) {
        if (!hub_is_commit(l.v[i]) || strcmp(l.v[i], first) == 0) continue;
        int before = m->n;
        add_snapshot(m, repo, l.v[i]);
        for (int k = before; k < m->n; k++) {
            cli_buf note = {0};
            cli_printf(&note, "%s%s--hf-revision %s", m->v[k].note ? m->v[k].note : "",
                       m->v[k].note ? ", " : "", l.v[i]);
            free(m->v[k].note);
            m->v[k].note = note.s;
        }
    }
    add_waiting(m, repo, folder.s);
    names_free(&l);
    cli_buf_free(&folder);
    cli_buf_free(&snapshots);
}

/* models--USER--REPO */
static void add_folder(models *m, const char *name) {
    const char *user = name + 8, *gap = strncmp(name, "models--", 8) == 0 ? strstr(user, "--") : 0;
    if (!gap) return;
    cli_buf repo = {0};
    cli_printf(&repo, "%.*s/%s", (int)(gap - user), user, gap + 2);
    if (hub_is_repo(repo.s)) add_repo(m, repo.s);
    cli_buf_free(&repo);
}

static void add_installed(models *m) {
    struct stat st;
    char *path = cli_model_installed();
    if (!path) return;
    const char *slash = strrchr(path, '/');
    model *x = add(m, slash ? slash + 1 : path, path);
    if (stat(path, &st) == 0) x->size = st.st_size;
    x->complete = x->installed = 1;
    x->note = cli_copy("installed by setup", 18);
    free(path);
}

/* ==== Telling ==== */

static json_t *model_json(const model *x) {
    json_t *o = json_object();
    json_object_set_new(o, "name", cli_json_text((retrace_text){x->name, strlen(x->name)}));
    json_object_set_new(o, "size_bytes", json_integer(x->size));
    json_object_set_new(o, "file", cli_json_text((retrace_text){x->file, strlen(x->file)}));
    json_object_set_new(o, "commit", x->commit[0] ? json_string(x->commit) : json_null());
    json_object_set_new(o, "complete", json_boolean(x->complete));
    return o;
}

static int print_json(const models *m) {
    json_t *o = json_object(), *list = json_array();
    for (int i = 0; i < m->n; i++) json_array_append_new(list, model_json(&m->v[i]));
    json_object_set_new(o, "models", list);
    json_object_set_new(o, "cache",
                        cli_json_text((retrace_text){m->where->cache, strlen(m->where->cache)}));
    return cli_json_line(o, stdout, NULL);
}

static void print_model(const model *x) {
    cli_buf size = {0}, text = {0};
    hub_bytes(&size, x->size);
    cli_printf(&text, "%7s  ", size.s);
    cli_escape(&text, (retrace_text){x->name, strlen(x->name)}, 0);
    if (x->note) cli_printf(&text, "  (%s)", x->note);
    cli_puts(&text, "\n");
    if (cli_verbose) {
        cli_puts(&text, "         ");
        cli_escape(&text, (retrace_text){x->file, strlen(x->file)}, 0);
        cli_puts(&text, "\n");
    }
    fwrite(text.s, 1, text.n, stdout);
    cli_buf_free(&size);
    cli_buf_free(&text);
}

static int print_text(const models *m) {
    cli_buf cache = {0};
    cli_escape(&cache, (retrace_text){m->where->cache, strlen(m->where->cache)}, 0);
    for (int i = 0; i < m->n; i++) print_model(&m->v[i]);
    if (m->n == 0) printf("no models yet: 'retrace pull USER/REPO' fetches one\n");
    printf("%sin %s\n", m->n ? "\n" : "", cache.s ? cache.s : "");
    cli_buf_free(&cache);
    return cli_flush();
}

int cli_models(const cli_flags *f) {
    hub_where w;
    models m = {.where = &w};
    int code = hub_where_of(&w, f);
    if (code) return code;
    int why;
    names l = names_of(w.cache, &why);
    if (why) {
        code = cli_fail(CLI_IO, "cannot read '%s': %s", w.cache, strerror(why));
        hub_where_free(&w);
        return code;
    }
    add_installed(&m);
    for (int i = 0; i < l.n; i++) add_folder(&m, l.v[i]);
    names_free(&l);
    if (m.n) qsort(m.v, (size_t)m.n, sizeof *m.v, by_name);
    code = cli_on(f, "json") ? print_json(&m) : print_text(&m);
    for (int i = 0; i < m.n; i++) drop(&m.v[i]);
    free(m.v);
    hub_where_free(&w);
    return code;
}
