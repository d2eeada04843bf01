/* pull.c - from a name to a file: -hf and `retrace pull`.
 *
 * -hf takes what the cache has and asks the hub only when that is nothing; `pull` always asks, and
 * hashes what is there. Only when all files are whole does refs/<revision> name the commit, so what
 * it leads to is complete. */
#define _POSIX_C_SOURCE 200809L
#include "hub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct pull {
    const hub_where *where;
    hub_net *net;
    const char *repo, *quant, *file;
    char commit[41];
    hub_listing listing;
    int *parts, n_parts, *had;
    int verify;
} pull;

static void free_pull(pull *p) {
    hub_listing_free(&p->listing);
    free(p->parts);
    free(p->had);
    p->parts = p->had = NULL;
    p->n_parts = 0;
}

/* ==== Questions ==== */

static int on_refs(void *ud, const char *body, size_t n) {
    pull *p = ud;
    return hub_commit_read(p->commit, body, n, p->where->revision, p->repo);
}

static int on_files(void *ud, const char *body, size_t n) {
    pull *p = ud;
    return hub_listing_read(&p->listing, body, n, p->repo);
}

static int find_commit(pull *p) {
    if (hub_is_commit(p->where->revision))
        return snprintf(p->commit, sizeof p->commit, "%s", p->where->revision), CLI_OK;
    cli_buf path = {0};
    cli_printf(&path, "/api/models/%s/refs", p->repo);
    int code = hub_ask(p->net, p->where, p->repo, path.s, "repository", on_refs, p);
    cli_buf_free(&path);
    return code;
}

static int list_files(pull *p) {
    cli_buf path = {0}, what = {0};
    cli_printf(&path, "/api/models/%s/tree/%s?recursive=true", p->repo, p->commit);
    cli_printf(&what, "repository or revision '%s'", p->where->revision);
    int code = hub_ask(p->net, p->where, p->repo, path.s, what.s, on_files, p);
    cli_buf_free(&path);
    cli_buf_free(&what);
    return code;
}

static int not_there(const pull *p) {
    cli_buf list = {0}, lacking = {0};
    hub_pick_list(&p->listing, &list);
    if (p->file)
        cli_fail(CLI_IO, "%s has no file '%s'", p->repo, p->file);
    else if (p->quant)
        cli_fail(CLI_IO, "%s has no GGUF file '%s'", p->repo, p->quant);
    else
        cli_fail(CLI_IO, "%s has no whole GGUF model", p->repo);
    if (hub_pick_lacking(&p->listing, &lacking))
        cli_fail(CLI_IO, "of a split model '%s' is missing", lacking.s);
    if (list.n) cli_fail(CLI_IO, "there are: %s", list.s);
    cli_buf_free(&list);
    cli_buf_free(&lacking);
    return CLI_IO;
}

/* ==== Files ==== */

static int fetch_all(pull *p) {
    int code = CLI_OK;
    p->had = cli_alloc((size_t)p->n_parts * sizeof *p->had);
    for (int i = 0; i < p->n_parts && !code; i++) {
        const hub_file *file = &p->listing.v[p->parts[i]];
        code = hub_fetch(p->net, p->where, p->repo, p->commit, file, p->verify, &p->had[i]);
        if (!code) code = hub_store_link(p->where, p->repo, p->commit, file);
        if (!code && cli_interrupted()) code = cli_fail(CLI_INTERRUPTED, "interrupted");
    }
    if (!code) code = hub_store_ref(p->where, p->repo, p->where->revision, p->commit);
    return code;
}

/* The first file of the model. */
static char *first_file(const pull *p) {
    cli_buf b = {0};
    hub_store_file(p->where, p->repo, p->commit, p->listing.v[p->parts[0]].path, &b);
    return b.s;
}

/* Everything of one repository. *twin: one that a person would rather have. */
static int from_repo(pull *p, char **twin) {
    int code = find_commit(p);
    if (!code) code = list_files(p);
    if (code) return code;
    p->n_parts = hub_pick(&p->listing, p->quant, p->file, &p->parts);
    if (p->n_parts > 0) return fetch_all(p);
    if (p->n_parts < 0) return not_there(p);
    return hub_twins(p->net, p->repo, twin);
}

/* The same, of the twin if need be. *repo is freed when another one takes its place. */
static int pull_files(pull *p, char **repo) {
    int code = hub_net_open(&p->net, p->where);
    while (!code) {
        char *twin = NULL;
        p->repo = *repo;
        code = from_repo(p, &twin);
        if (code || !twin) break;
        free_pull(p);
        free(*repo);
        *repo = twin;
    }
    hub_net_close(p->net);
    p->net = NULL;
    return code;
}

/* ==== -hf ==== */

static int not_cached(const hub_where *w, const hub_name *n, const char *file) {
    cli_buf folder = {0};
    hub_store_repo(w, n->repo, &folder);
    int why = access(folder.s, R_OK | X_OK) ? errno : ENOENT;
    if (why != ENOENT) cli_fail(CLI_IO, "cannot read '%s': %s", folder.s, strerror(why));
    cli_buf_free(&folder);
    if (why != ENOENT) return CLI_IO;
    return cli_fail(CLI_IO, "%s%s%s%s%s: not in the cache '%s', and offline", n->repo,
                    n->quant ? ":" : "", n->quant ? n->quant : "", file ? " " : "",
                    file ? file : "", w->cache);
}

/* What the cache has of it, as if it had been fetched. */
static int from_cache(pull *p, const hub_name *n) {
    p->repo = n->repo;
    if (hub_store_commit(p->where, n->repo, p->where->revision, p->commit))
        hub_store_list(p->where, n->repo, p->commit, &p->listing);
    p->n_parts = hub_pick(&p->listing, p->quant, p->file, &p->parts);
    if (p->n_parts <= 0) return not_cached(p->where, n, p->file);
    p->had = cli_alloc((size_t)p->n_parts * sizeof *p->had);
    for (int i = 0; i < p->n_parts; i++) p->had[i] = 1;
    return CLI_OK;
}

static int find_or_pull(const hub_where *w, hub_name *n, const char *file, char **path) {
    pull p = {.where = w, .quant = n->quant, .file = file};
    *path = hub_store_find(w, n->repo, n->quant, file);
    if (*path) return CLI_OK;
    if (w->offline) return not_cached(w, n, file);
    cli_run_begins();
    int code = pull_files(&p, &n->repo);
    cli_run_ends();
    if (!code) *path = first_file(&p);
    free_pull(&p);
    return code;
}

int hub_model(const cli_flags *f, const char *name, char **path) {
    hub_where w;
    hub_name n;
    *path = NULL;
    int code = hub_name_parse(&n, name, "--hf-repo");
    if (code) return code;
    code = hub_where_of(&w, f);
    if (!code) {
        code = find_or_pull(&w, &n, cli_value(f, "hf-file"), path);
        hub_where_free(&w);
    }
    hub_name_free(&n);
    return code;
}

/* ==== retrace pull ==== */

static json_t *file_json(const pull *p, int i) {
    const hub_file *file = &p->listing.v[p->parts[i]];
    cli_buf where = {0};
    char sum[129] = "";
    hub_store_file(p->where, p->repo, p->commit, file->path, &where);
    if (file->is_sha256)
        snprintf(sum, sizeof sum, "%s", file->oid);
    else /* a small one */
        hub_sha256(where.s, sum);
    json_t *o = json_pack("{s:s, s:I, s:s, s:o, s:b}", "path", file->path, "size",
                          (json_int_t)file->size, "sha256", sum, "file",
                          cli_json_text(cli_buf_text(&where)), "downloaded", !p->had[i]);
    cli_buf_free(&where);
    return o;
}

static int print_json(const pull *p) {
    json_t *files = json_array();
    for (int i = 0; i < p->n_parts; i++) json_array_append_new(files, file_json(p, i));
    char *model = first_file(p);
    json_t *o = json_pack("{s:s, s:s, s:s, s:o, s:o}", "repo", p->repo, "revision",
                          p->where->revision, "commit", p->commit, "files", files, "model",
                          cli_json_text((retrace_text){model, strlen(model)}));
    free(model);
    return cli_json_line(o, stdout, NULL);
}

static int print_path(const pull *p) {
    char *model = first_file(p);
    printf("%s\n", model);
    free(model);
    return cli_flush();
}

int cli_pull(const cli_flags *f) {
    hub_where w;
    hub_name n;
    int code = hub_name_parse(&n, f->operand, "pull");
    if (code) return code;
    code = hub_where_of(&w, f);
    if (code) return hub_name_free(&n), code;
    pull p = {.where = &w, .quant = n.quant, .file = cli_value(f, "hf-file"), .verify = 1};
    cli_run_begins();
    code = w.offline ? from_cache(&p, &n) : pull_files(&p, &n.repo);
    cli_run_ends();
    if (!code) code = cli_on(f, "json") ? print_json(&p) : print_path(&p);
    free_pull(&p);
    hub_where_free(&w);
    hub_name_free(&n);
    return code;
}
