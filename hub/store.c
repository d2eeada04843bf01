/* store.c - the cache: folders, links and refs, in the layout that huggingface_hub and llama.cpp
 * share.
 *
 *     models--USER--REPO/refs/main                    the commit
 *     models--USER--REPO/blobs/<oid>                  the content
 *     models--USER--REPO/snapshots/<commit>/<path>    a relative link to it
 *
 * Names come from listing.c's checks or pass them here. Everything appears by a rename, and is on
 * the disk with its folder before something points to it. */
#define _GNU_SOURCE
#include "hub.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MOST = 16, FILES_MOST = 100000 };

static int cannot(const char *what, const char *path, int number) {
    return cli_fail(CLI_IO, "cannot %s '%s': %s", what, path, strerror(number));
}

void hub_store_repo(const hub_where *w, const char *repo, cli_buf *b) {
    const char *slash = strchr(repo, '/');
    cli_printf(b, "%s/models--%.*s--%s", w->cache, (int)(slash - repo), repo, slash + 1);
}

void hub_store_file(const hub_where *w, const char *repo, const char *commit, const char *path,
                    cli_buf *b) {
    hub_store_repo(w, repo, b);
    cli_printf(b, "/snapshots/%s/%s", commit, path);
}

/* ==== Folders ==== */

int hub_store_sync(const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno;
    int number = fsync(fd) == 0 || errno == EINVAL || errno == EROFS ? 0 : errno;
    close(fd);
    return number;
}

/* The folder that holds a path. */
static char *above(const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    while (n > 0 && path[n - 1] != '/') n--;
    while (n > 1 && path[n - 1] == '/') n--;
    return n ? cli_copy(path, n) : cli_copy(".", 1);
}

static int sync_above(const char *path) {
    char *folder = above(path);
    int number = hub_store_sync(folder);
    if (number) cannot("flush", folder, number);
    free(folder);
    return number ? CLI_IO : CLI_OK;
}

static int make_folder(const char *path) {
    struct stat st;
    if (mkdir(path, 0777) == 0) return sync_above(path);
    int number = errno;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return CLI_OK;
    return cannot("make the folder", path, number == EEXIST ? ENOTDIR : number);
}

int hub_store_folders(const char *path) {
    char *p = cli_copy(path, strlen(path));
    int code = CLI_OK;
    for (char *slash = strchr(p + 1, '/'); slash && !code; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        code = make_folder(p);
        *slash = '/';
    }
    free(p);
    return code;
}

/* ==== Names that appear whole ==== */

/* Moves `made` to its name, and both it and the folder are on the disk. */
static int put_name(const char *made, const char *name) {
    if (rename(made, name) == 0) return sync_above(name);
    int number = errno;
    unlink(made);
    return cannot("write", name, number);
}

static void spare_name(cli_buf *b, const char *name) {
    cli_printf(b, "%s.%ld.tmp", name, (long)getpid());
}

/* A small file with that text. */
static int put_text(const char *name, const char *text) {
    cli_buf made = {0};
    spare_name(&made, name);
    int fd = open(made.s, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    int number = fd < 0 ? errno : cli_write_all(fd, text, strlen(text));
    if (!number && fsync(fd)) number = errno;
    if (fd >= 0) close(fd);
    if (number && fd >= 0) unlink(made.s);
    int code = number ? cannot("write", name, number) : put_name(made.s, name);
    cli_buf_free(&made);
    return code;
}

/* ==== Links ==== */

static int same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Does the name lead to the blob, or is the file itself there, without a blob? */
static int is_in_place(const char *name, const char *blob) {
    struct stat st;
    return same_file(name, blob) ||
           (lstat(blob, &st) != 0 && lstat(name, &st) == 0 && S_ISREG(st.st_mode));
}

static int copy_bytes(int from, int to) {
    static char room[1 << 18];
    for (;;) {
        ssize_t n = read(from, room, sizeof room);
        if (n < 0) return errno;
        if (n == 0) return fsync(to) == 0 ? 0 : errno;
        for (ssize_t at = 0; at < n;) {
            ssize_t done = write(to, room + at, (size_t)(n - at));
            if (done <= 0) return done < 0 ? errno : ENOSPC;
            at += done;
        }
    }
}

static int copy_file(const char *blob, const char *made) {
    int from = open(blob, O_RDONLY | O_CLOEXEC), number = errno;
    if (from < 0) return number;
    int to = open(made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    number = to < 0 ? errno : copy_bytes(from, to);
    close(from);
    if (to >= 0) close(to);
    if (number && to >= 0) unlink(made);
    return number;
}

/* Where there are no links, the file itself goes under snapshots, as huggingface_hub has it; a blob
 * that is a link to somewhere else is copied. */
static int instead_of_link(const char *blob, const char *name, const char *made) {
    struct stat st;
    if (lstat(blob, &st) == 0 && S_ISREG(st.st_mode)) return put_name(blob, name);
    int number = copy_file(blob, made);
    return number ? cannot("write", name, number) : put_name(made, name);
}

int hub_store_link(const hub_where *w, const char *repo, const char *commit, const hub_file *file) {
    cli_buf name = {0}, target = {0}, made = {0}, blob = {0};
    hub_store_repo(w, repo, &blob);
    cli_printf(&blob, "/blobs/%s", file->oid);
    hub_store_file(w, repo, commit, file->path, &name);
    spare_name(&made, name.s);
    cli_puts(&target, "../../");
    for (const char *c = file->path; *c; c++)
        if (*c == '/') cli_puts(&target, "../");
    cli_printf(&target, "blobs/%s", file->oid);
    int code = CLI_OK;
    if (!is_in_place(name.s, blob.s)) {
        code = hub_store_folders(name.s);
        unlink(made.s);
        if (code) {
        } else if (symlink(target.s, made.s) == 0) {
            code = put_name(made.s, name.s);
        } else if (errno == EPERM || errno == ENOSYS || errno == EOPNOTSUPP) {
            code = instead_of_link(blob.s, name.s, made.s);
        } else {
            code = cannot("link", name.s, errno);
        }
    }
    cli_buf_free(&name);
    cli_buf_free(&target);
    cli_buf_free(&made);
    cli_buf_free(&blob);
    return code;
}

/* ==== Refs ==== */

static void ref_name(const hub_where *w, const char *repo, const char *revision, cli_buf *b) {
    hub_store_repo(w, repo, b);
    cli_printf(b, "/refs/%s", revision);
}

int hub_store_commit(const hub_where *w, const char *repo, const char *revision, char commit[41]) {
    if (hub_is_commit(revision)) return snprintf(commit, 41, "%s", revision), 1;
    cli_buf name = {0};
    char text[64] = "";
    ref_name(w, repo, revision, &name);
    int fd = open(name.s, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    cli_buf_free(&name);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r' || text[n - 1] == ' ')) n--;
    if (n != 40) return 0;
    text[n] = '\0';
    if (!hub_is_commit(text)) return 0;
    return snprintf(commit, 41, "%s", text), 1;
}

int hub_store_ref(const hub_where *w, const char *repo, const char *revision, const char *commit) {
    char was[41];
    if (hub_is_commit(revision)) return CLI_OK;
    if (hub_store_commit(w, repo, revision, was) && strcmp(was, commit) == 0) return CLI_OK;
    cli_buf name = {0};
    ref_name(w, repo, revision, &name);
    int code = hub_store_folders(name.s);
    if (!code) code = put_text(name.s, commit);
    cli_buf_free(&name);
    return code;
}

/* ==== What a snapshot has ==== */

/* What a link to a blob says of the file. */
static void read_oid(hub_file *file, const char *link) {
    char to[1024];
    ssize_t n = readlink(link, to, sizeof to - 1);
    if (n <= 0) return;
    to[n] = '\0';
    const char *slash = strrchr(to, '/'), *oid = slash ? slash + 1 : to;
    size_t len = strspn(oid, "0123456789abcdef");
    if (oid[len] || (len != HUB_SHA256 && len != HUB_SHA1)) return;
    memcpy(file->oid, oid, len + 1);
    file->is_sha256 = len == HUB_SHA256;
}

/* Adds the files under folder, whose paths begin with `path`. */
static void walk(hub_listing *l, const char *folder, const char *path, int depth) {
    DIR *d = depth < DEPTH_MOST ? opendir(folder) : NULL;
    if (!d) return;
    for (struct dirent *e = readdir(d); e && l->n < FILES_MOST; e = readdir(d)) {
        struct stat st;
        cli_buf full = {0}, rest = {0};
        cli_printf(&full, "%s/%s", folder, e->d_name);
        cli_printf(&rest, "%s%s%s", path, *path ? "/" : "", e->d_name);
        if (hub_is_path(rest.s) && lstat(full.s, &st) == 0) { /* "." and ".." are no paths */
            if (S_ISDIR(st.st_mode)) {
                walk(l, full.s, rest.s, depth + 1);
            } else if (stat(full.s, &st) == 0 && S_ISREG(st.st_mode)) {
                hub_file *file = hub_listing_add(l);
                file->path = cli_copy(rest.s, rest.n);
                file->size = st.st_size;
                read_oid(file, full.s);
            }
        }
        cli_buf_free(&full);
        cli_buf_free(&rest);
    }
    closedir(d);
}

void hub_store_list(const hub_where *w, const char *repo, const char *commit, hub_listing *l) {
    cli_buf folder = {0};
    hub_store_repo(w, repo, &folder);
    cli_printf(&folder, "/snapshots/%s", commit);
    walk(l, folder.s, "", 0);
    cli_buf_free(&folder);
}

char *hub_store_find(const hub_where *w, const char *repo, const char *quant, const char *file) {
    char commit[41];
    int *parts = NULL;
    cli_buf name = {0};
    hub_listing l = {0};
    if (!hub_store_commit(w, repo, w->revision, commit)) return NULL;
    hub_store_list(w, repo, commit, &l);
    if (hub_pick(&l, quant, file, &parts) > 0)
        hub_store_file(w, repo, commit, l.v[parts[0]].path, &name);
    free(parts);
    hub_listing_free(&l);
    return name.s;
}
