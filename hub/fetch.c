/* fetch.c - one file of a repository into blobs/<oid>: whole and checked, or not at all.
 *
 * It grows as <oid>.incomplete under a lock. A try that broke is taken up where it stopped, with
 * If-Range: the ETag of the answer before, kept beside the file, else the oid, which the hub itself
 * uses as one. The hash of the whole decides: when it is wrong, once more from the first byte. */
#define _DEFAULT_SOURCE
#include "hub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const int64_t worth_new_tries = 1 << 20; /* bytes that a try brought */

typedef struct fetch {
    hub_net *net;
    const hub_where *where;
    const char *repo, *commit;
    const hub_file *file;
    cli_buf blobs, blob, incomplete, etag_file, path; /* path: of the request */
    hub_part *part;
    hub_bar bar;
    double settled; /* when what waits was last written */
    char etag[160];
} fetch;

/* ==== Names ==== */

static void put_escaped(cli_buf *b, const char *path) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-._~/";
    for (const char *c = path; *c; c++) {
        if (strchr(plain, *c))
            cli_put(b, c, 1);
        else
            cli_printf(b, "%%%02X", (unsigned)(unsigned char)*c);
    }
}

static void name_all(fetch *x) {
    hub_store_repo(x->where, x->repo, &x->blobs);
    cli_puts(&x->blobs, "/blobs");
    cli_printf(&x->blob, "%s/%s", x->blobs.s, x->file->oid);
    cli_printf(&x->incomplete, "%s.incomplete", x->blob.s);
    hub_lock_name(x->where, x->repo, x->file, "etag", &x->etag_file);
    cli_printf(&x->path, "/%s/resolve/%s/", x->repo, x->commit);
    put_escaped(&x->path, x->file->path);
}

static void free_all(fetch *x) {
    cli_buf_free(&x->blobs);
    cli_buf_free(&x->blob);
    cli_buf_free(&x->incomplete);
    cli_buf_free(&x->etag_file);
    cli_buf_free(&x->path);
}

/* ==== The ETag beside a part ==== */

/* A strong one: quoted, and nothing in it that would end a header. */
static int is_strong(const char *s) {
    size_t n = strlen(s);
    if (n < 2 || s[0] != '"' || s[n - 1] != '"') return 0;
    for (size_t i = 1; i + 1 < n; i++)
        if (s[i] < '!' || s[i] > '~' || s[i] == '"') return 0;
    return 1;
}

static void read_etag(fetch *x) {
    int fd = open(x->etag_file.s, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, x->etag, sizeof x->etag - 1);
    if (fd >= 0) close(fd);
    x->etag[n > 0 ? n : 0] = '\0';
    if (!is_strong(x->etag)) snprintf(x->etag, sizeof x->etag, "\"%s\"", x->file->oid);
}

/* Without it the next try begins anew, so a failure here is none. */
static void keep_etag(fetch *x, const char *etag) {
    if (!is_strong(etag) || strcmp(etag, x->etag) == 0) return;
    snprintf(x->etag, sizeof x->etag, "%s", etag);
    int fd = open(x->etag_file.s, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return;
    ssize_t n = write(fd, etag, strlen(etag));
    if (close(fd) != 0 || n != (ssize_t)strlen(etag)) unlink(x->etag_file.s);
}

/* ==== One try ==== */

static int on_begin(void *ud, int64_t from) {
    fetch *x = ud;
    if (from == hub_part_size(x->part)) return 1;
    x->bar.from = 0;
    return hub_part_anew(x->part);
}

static int on_take(void *ud, const void *bytes, size_t n) {
    fetch *x = ud;
    int ok = hub_part_put(x->part, bytes, n);
    hub_bar_at(&x->bar, hub_part_size(x->part));
    return ok;
}

static void on_tick(void *ud) {
    fetch *x = ud;
    double now = cli_clock();
    if (now - x->settled >= 0.25) { /* ticks come as often as bytes */
        x->settled = now;
        hub_part_settle(x->part);
    }
    hub_bar_at(&x->bar, hub_part_size(x->part));
}

static int told(fetch *x, const hub_transfer *t, hub_verdict v) {
    if (cli_interrupted())
        return cli_fail(CLI_INTERRUPTED, "interrupted; what is there of %s stays", x->file->path);
    if (v == HUB_STOPPED) return hub_part_fail(x->part);
    if (v == HUB_REFUSED) return hub_refused(x->where, x->repo, t->status, "file");
    return cli_fail(CLI_IO, "%s: %s: %s", x->repo, x->file->path, t->why);
}

/* All bytes that are missing, by as many tries as it takes. A try that brought much is followed by
 * as many as the first one was. */
static int receive(fetch *x) {
    for (int tries = 1; hub_part_size(x->part) < x->file->size; tries++) {
        hub_transfer t = {.path = x->path.s,
                          .from = hub_part_size(x->part),
                          .size = x->file->size,
                          .etag = x->etag,
                          .begin = on_begin,
                          .take = on_take,
                          .tick = on_tick,
                          .ud = x};
        hub_verdict v = hub_net_fetch(x->net, &t);
        int64_t brought = hub_part_size(x->part) - t.from;
        if (cli_verbose)
            cli_say("hub: GET %s from byte %lld: status %d", t.path, (long long)t.from, t.status);
        if (t.new_etag[0]) keep_etag(x, t.new_etag);
        if (v == HUB_DONE) continue;
        if (v == HUB_ANEW && !hub_part_anew(x->part)) return hub_part_fail(x->part);
        if (brought >= worth_new_tries) tries = 1;
        if ((v != HUB_AGAIN && v != HUB_ANEW) || !hub_wait(tries, t.retry_after, t.why))
            return told(x, &t, v);
    }
    return CLI_OK;
}

/* ==== The whole ==== */

/* Says beforehand what the disk will not hold. */
static int check_room(const fetch *x) {
    struct statvfs v;
    int64_t need = x->file->size - hub_part_size(x->part);
    if (need <= 0 || statvfs(x->blobs.s, &v) != 0) return CLI_OK;
    double room = (double)v.f_bavail * (double)v.f_frsize;
    if (room >= (double)need) return CLI_OK;
    cli_buf a = {0}, b = {0};
    hub_bytes(&a, need);
    hub_bytes(&b, (int64_t)room);
    cli_fail(CLI_IO, "%s: %s are still to come, and '%s' has room for %s", x->file->path, a.s,
             x->blobs.s, b.s);
    cli_buf_free(&a);
    cli_buf_free(&b);
    return CLI_IO;
}

static int drop_part(fetch *x) {
    unlink(x->etag_file.s);
    unlink(x->incomplete.s);
    return cli_fail(CLI_IO, "%s: the bytes of %s are not those that the hub's list states", x->repo,
                    x->file->path);
}

/* Until the hash is right; twice at most, the second time from the first byte. */
static int receive_right(fetch *x) {
    for (int i = 0; i < 2; i++) {
        int code = receive(x);
        if (code) return code;
        int right = hub_part_check(x->part);
        if (right > 0) return CLI_OK;
        if (right < 0) return cli_fail(CLI_IO, "cannot read '%s' back", x->incomplete.s);
        if (i) break;
        cli_say("retrace: %s has another hash than the hub states; fetching it anew",
                x->file->path);
        if (!hub_part_anew(x->part)) return hub_part_fail(x->part);
        x->bar.from = 0;
    }
    return drop_part(x);
}

static int name_it(fetch *x) {
    int code = hub_part_sync(x->part);
    if (code) return code;
    int number = rename(x->incomplete.s, x->blob.s) == 0 ? 0 : errno;
    if (!number) number = hub_store_sync(x->blobs.s);
    if (number) return cli_fail(CLI_IO, "cannot write '%s': %s", x->blob.s, strerror(number));
    unlink(x->etag_file.s);
    return CLI_OK;
}

static int grow(fetch *x) {
    int code = hub_part_open(&x->part, x->incomplete.s, x->file);
    if (code) return code;
    read_etag(x);
    hub_bar_begin(&x->bar, "fetched", x->file->path, hub_part_size(x->part), x->file->size);
    code = check_room(x);
    if (!code) code = receive_right(x);
    if (!code) code = name_it(x);
    if (!code) hub_bar_end(&x->bar);
    cli_progress_end();
    hub_part_close(x->part);
    return code;
}

/* ==== What is there already ==== */

/* A file of the right size; a shared blob is a link to one. */
static int is_there(const char *path, const hub_file *file) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == file->size;
}

static int is_moved(const char *path, const hub_file *file) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == file->size;
}

/* The blob, or the file itself under snapshots where there are no links. */
static int here(const fetch *x, cli_buf *path) {
    path->n = 0;
    cli_puts(path, x->blob.s);
    if (is_there(path->s, x->file)) return 1;
    path->n = 0;
    hub_store_file(x->where, x->repo, x->commit, x->file->path, path);
    return is_moved(path->s, x->file);
}

static ino_t inode(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* Under the lock: another program may have fetched it meanwhile; `wrong` is what was found damaged.
 */
static int fetch_locked(fetch *x, const hub_lock *lock, ino_t wrong, int *had) {
    cli_buf path = {0};
    *had = here(x, &path) && inode(path.s) != wrong;
    cli_buf_free(&path);
    if (*had) return CLI_OK;
    if (lock->fd < 0) { /* no lock: a name that nobody else has */
        x->incomplete.n = 0;
        cli_printf(&x->incomplete, "%s.%ld.incomplete", x->blob.s, (long)getpid());
    }
    return grow(x);
}

static int make_blobs(fetch *x) {
    cli_buf folder = {0};
    cli_printf(&folder, "%s/", x->blobs.s);
    int code = hub_store_folders(folder.s);
    cli_buf_free(&folder);
    return code;
}

int hub_fetch(hub_net *n, const hub_where *w, const char *repo, const char *commit,
              const hub_file *file, int verify, int *had) {
    fetch x = {.net = n, .where = w, .repo = repo, .commit = commit, .file = file};
    hub_lock lock;
    ino_t wrong = 0;
    cli_buf path = {0};
    name_all(&x);
    int code = CLI_OK;
    *had = here(&x, &path);
    if (*had && verify) {
        code = hub_verify(path.s, file, had);
        if (!*had) wrong = inode(path.s);
        if (!code && !*had) cli_say("retrace: '%s' is damaged; fetching it anew", path.s);
    }
    if (!code && !*had) code = make_blobs(&x);
    if (!code && !*had) code = hub_lock_take(&lock, w, repo, file);
    if (!code && !*had) {
        code = fetch_locked(&x, &lock, wrong, had);
        hub_lock_leave(&lock);
    }
    cli_buf_free(&path);
    free_all(&x);
    return code;
}
