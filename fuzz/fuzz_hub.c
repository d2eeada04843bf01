/* fuzz_hub.c - what the hub says, as a stranger might say it.
 *
 * The first byte chooses what was asked: a listing (the rest of the first line is QUANT or, behind
 * `=`, the file that is meant), the refs, a search; or it is a person who names a model. Whatever
 * it is: an error in words, or names that lead nowhere else, hashes that are hashes, sizes that are
 * sizes, and of files only such as the listing has. */
#define _POSIX_C_SOURCE 200809L

#include "../hub/hub.h"
#include "said.h"

#include <stdlib.h>

static int is_hex(const char *s, size_t n) {
    return strspn(s, "0123456789abcdef") == n && strlen(s) == n;
}

static void check_path(const char *path) {
    must(path[0] && path[0] != '/' && path[strlen(path) - 1] != '/', "a path that is not relative");
    for (const char *at = path; *at; at += strcspn(at, "/"), at += *at == '/') {
        size_t n = strcspn(at, "/");
        must(n > 0, "a path with an empty part");
        must(!(n == 1 && at[0] == '.'), "a path with .");
        must(!(n == 2 && at[0] == '.' && at[1] == '.'), "a path with ..");
        for (size_t i = 0; i < n; i++)
            must((unsigned char)at[i] >= 32 && at[i] != 127 && at[i] != '\\', "an odd path");
    }
    must(cli_utf8_check((retrace_text){path, strlen(path)}) == strlen(path), "not UTF-8");
}

static void check_listing(const hub_listing *l) {
    for (int i = 0; i < l->n; i++) {
        const hub_file *f = &l->v[i];
        check_path(f->path);
        must(f->size >= 0, "a negative size");
        must(is_hex(f->oid, f->is_sha256 ? HUB_SHA256 : HUB_SHA1), "a hash that is none");
    }
}

static void check_pick(const hub_listing *l, const char *quant, const char *file) {
    int *v = NULL, n = hub_pick(l, quant, file, &v);
    must(n >= -1 && n <= l->n, "more files than there are");
    for (int i = 0; i < n; i++) {
        must(v[i] >= 0 && v[i] < l->n, "a file that there is not");
        for (int k = 0; k < i; k++) must(v[i] != v[k], "a file twice");
    }
    if (file && n > 0) must(strcmp(l->v[v[0]].path, file) == 0 || n > 1, "another file");
    free(v);
    cli_buf b = {0};
    hub_pick_list(l, &b);
    cli_buf_free(&b);
}

static void listing(retrace_text t) {
    size_t end = 0;
    while (end < t.n && t.s[end] != '\n') end++;
    char *ask = cli_copy(t.s, end);
    size_t from = end + (end < t.n);
    hub_listing l = {0};
    said_begin();
    int code = hub_listing_read(&l, t.s + from, t.n - from, "acme/tiny");
    said_end(code);
    must(code == CLI_OK || code == CLI_IO, "an odd exit code");
    check_listing(&l);
    if (!code) {
        check_pick(&l, NULL, NULL);
        check_pick(&l, NULL, ask[0] == '=' ? ask + 1 : NULL);
        check_pick(&l, ask[0] && ask[0] != '=' ? ask : NULL, NULL);
        said_begin();
        said_end(hub_listing_read(&l, t.s + from, t.n - from, "acme/tiny"));
        check_listing(&l);
    }
    hub_listing_free(&l);
    free(ask);
}

static void refs(retrace_text t) {
    char commit[41] = "";
    said_begin();
    int code = hub_commit_read(commit, t.s, t.n, "main", "acme/tiny");
    said_end(code);
    must(code == CLI_OK || code == CLI_IO, "an odd exit code");
    if (!code) must(is_hex(commit, 40), "a commit that is none");
}

static void search(retrace_text t) {
    hub_twin *v = NULL;
    int n = 0;
    said_begin();
    int code = hub_twins_read(&v, &n, t.s, t.n, 5);
    said_end(code);
    must(n >= 0 && n <= 5, "more than were asked for");
    for (int i = 0; i < n; i++) {
        check_path(v[i].repo);
        must(strchr(v[i].repo, '/') == strrchr(v[i].repo, '/') && strchr(v[i].repo, '/'),
             "a repository that is none");
    }
    hub_twins_free(v, n);
}

static void name(retrace_text t) {
    char *text = cli_copy(t.s, t.n);
    hub_name n = {0};
    said_begin();
    int code = hub_name_parse(&n, text, "--hf-repo");
    said_end(code);
    must(code == CLI_OK || code == CLI_USAGE, "an odd exit code for a name");
    if (!code) must(strchr(n.repo, '/') && !strstr(n.repo, ".."), "a name that leads out");
    must(hub_is_name(text) == 0 || code == CLI_OK, "a name that is one and is none");
    hub_name_free(&n);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const asked[])(retrace_text) = {listing, refs, search, name};
    if (size < 1) return 0;
    asked[data[0] % 4]((retrace_text){(const char *)data + 1, size - 1});
    return 0;
}
