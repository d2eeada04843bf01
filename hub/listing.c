/* listing.c - what the hub says of a repository: its files, its commits, repositories that a search
 * found.
 *
 * All of it is a stranger's text that becomes names of files, so every field is checked before it
 * is believed, and what is wrong is named. No I/O here: fuzz/ feeds it anything. */
#include "hub.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_MOST = 100000, PATH_MOST = 1024, SEGMENT_MOST = 255, DEPTH_MOST = 64 };

/* Jansson recurses; what nests deeper than any answer of the hub is no answer of the hub. */
static int too_deep(const char *s, size_t n) {
    int depth = 0, quoted = 0;
    for (size_t i = 0; i < n; i++) {
        if (quoted && s[i] == '\\') {
            i++;
        } else if (s[i] == '"') {
            quoted = !quoted;
        } else if (!quoted && (s[i] == '[' || s[i] == '{')) {
            if (++depth > DEPTH_MOST) return 1;
        } else if (!quoted && (s[i] == ']' || s[i] == '}')) {
            depth--;
        }
    }
    return 0;
}

static json_t *parsed(const char *json, size_t n, const char *repo) {
    json_error_t e;
    if (n == 0) return cli_fail(CLI_IO, "%s: the hub's answer is empty", repo), NULL;
    if (too_deep(json, n))
        return cli_fail(CLI_IO, "%s: the hub's answer nests too deep", repo), NULL;
    json_t *j = json_loadb(json, n, 0, &e);
    if (!j) cli_fail(CLI_IO, "%s: the hub's answer is not JSON: line %d: %s", repo, e.line, e.text);
    return j;
}

/* Lower-case hex of exactly n digits. */
static int is_hex(const char *s, size_t n) {
    return strspn(s, "0123456789abcdef") == n && !s[n];
}

int hub_is_commit(const char *s) {
    return is_hex(s, HUB_SHA1);
}

/* ==== Paths ==== */

static int is_segment(const char *s, size_t n) {
    if (n == 0 || n > SEGMENT_MOST) return 0;
    return !(n == 1 && s[0] == '.') && !(n == 2 && s[0] == '.' && s[1] == '.');
}

/* Relative, and nothing in it that leads elsewhere or cannot be shown. */
int hub_is_path(const char *s) {
    size_t n = strlen(s), from = 0;
    if (n == 0 || n > PATH_MOST) return 0;
    for (size_t i = 0; i <= n; i++) {
        if (i == n || s[i] == '/') {
            if (!is_segment(s + from, i - from)) return 0;
            from = i + 1;
        } else if ((unsigned char)s[i] < 32 || s[i] == 127 || s[i] == '\\') {
            return 0;
        }
    }
    return cli_utf8_check((retrace_text){s, n}) == n;
}

/* ==== Files ==== */

/* Text of a member; NULL: it is none, or holds a NUL. */
static const char *text_of(const json_t *o, const char *name) {
    const json_t *v = json_object_get(o, name);
    const char *s = json_string_value(v);
    return s && strlen(s) == json_string_length(v) ? s : NULL;
}

static const char *wrong(hub_file *file, const json_t *entry) {
    const char *path = text_of(entry, "path"), *oid = text_of(entry, "oid");
    const json_t *lfs = json_object_get(entry, "lfs"), *size = json_object_get(entry, "size");
    if (!path || !hub_is_path(path)) return "a path that cannot be one";
    if (lfs && !json_is_object(lfs) && !json_is_null(lfs)) return "an lfs that is no object";
    file->is_sha256 = json_is_object(lfs);
    if (file->is_sha256) {
        oid = text_of(lfs, "oid");
        if (json_object_get(lfs, "size")) size = json_object_get(lfs, "size");
    }
    if (!oid || !is_hex(oid, file->is_sha256 ? HUB_SHA256 : HUB_SHA1)) return "an oid that is none";
    if (!json_is_integer(size) || json_integer_value(size) < 0) return "a size that is none";
    file->size = json_integer_value(size);
    snprintf(file->oid, sizeof file->oid, "%s", oid);
    file->path = cli_copy(path, strlen(path));
    return NULL;
}

hub_file *hub_listing_add(hub_listing *l) {
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->v = cli_realloc(l->v, (size_t)l->cap * sizeof *l->v);
    }
    l->v[l->n] = (hub_file){0};
    return &l->v[l->n++];
}

static int add_entry(hub_listing *l, const json_t *entry, const char *repo) {
    const char *type = text_of(entry, "type");
    if (!type) return cli_fail(CLI_IO, "%s: the hub lists an entry without a type", repo);
    if (strcmp(type, "file") != 0) return CLI_OK;
    if (l->n >= FILES_MOST)
        return cli_fail(CLI_IO, "%s: the hub lists more than %d files", repo, FILES_MOST);
    hub_file file = {0};
    const char *why = wrong(&file, entry), *path = text_of(entry, "path");
    if (why)
        return cli_fail(CLI_IO, "%s: the hub lists %s ('%.200s')", repo, why, path ? path : "");
    *hub_listing_add(l) = file;
    return CLI_OK;
}

int hub_listing_read(hub_listing *l, const char *json, size_t n, const char *repo) {
    json_t *j = parsed(json, n, repo);
    if (!j) return CLI_IO;
    int code = CLI_OK;
    if (!json_is_array(j))
        code = cli_fail(CLI_IO, "%s: the hub's answer is no list of files", repo);
    for (size_t i = 0; !code && i < json_array_size(j); i++)
        code = add_entry(l, json_array_get(j, i), repo);
    json_decref(j);
    return code;
}

void hub_listing_free(hub_listing *l) {
    for (int i = 0; i < l->n; i++) free(l->v[i].path);
    free(l->v);
    *l = (hub_listing){0};
}

/* ==== Commits ==== */

static int same_commit(const json_t *ref, const char *revision, char commit[41], int *bad) {
    const char *name = text_of(ref, "name"), *full = text_of(ref, "ref");
    const char *target = text_of(ref, "targetCommit");
    if (!(name && strcmp(name, revision) == 0) && !(full && strcmp(full, revision) == 0)) return 0;
    *bad = !target || !hub_is_commit(target);
    if (!*bad) snprintf(commit, 41, "%s", target);
    return 1;
}

int hub_commit_read(char commit[41], const char *json, size_t n, const char *revision,
                    const char *repo) {
    static const char *const kinds[] = {"branches", "tags", "pullRequests"};
    json_t *j = parsed(json, n, repo);
    if (!j) return CLI_IO;
    int found = 0, bad = 0;
    for (int k = 0; k < 3 && !found; k++) {
        const json_t *list = json_object_get(j, kinds[k]);
        for (size_t i = 0; i < json_array_size(list) && !found; i++)
            found = same_commit(json_array_get(list, i), revision, commit, &bad);
    }
    json_decref(j);
    if (bad) return cli_fail(CLI_IO, "%s: the hub names no commit for '%s'", repo, revision);
    if (found) return CLI_OK;
    return cli_fail(CLI_IO, "%s has no revision '%s'", repo, revision);
}

/* ==== Searches ==== */

int hub_twins_read(hub_twin **out, int *n, const char *json, size_t size, int most) {
    *out = NULL;
    *n = 0;
    json_t *j = parsed(json, size, "search");
    if (!j) return CLI_IO;
    *out = cli_alloc((size_t)most * sizeof **out);
    for (size_t i = 0; i < json_array_size(j) && *n < most; i++) {
        const json_t *o = json_array_get(j, i);
        const char *repo = text_of(o, "id") ? text_of(o, "id") : text_of(o, "modelId");
        if (!repo || !hub_is_repo(repo)) continue;
        json_int_t downloads = json_integer_value(json_object_get(o, "downloads"));
        (*out)[*n].repo = cli_copy(repo, strlen(repo));
        (*out)[(*n)++].downloads = downloads > 0 ? downloads : 0;
    }
    json_decref(j);
    return CLI_OK;
}

void hub_twins_free(hub_twin *v, int n) {
    for (int i = 0; i < n; i++) free(v[i].repo);
    free(v);
}
