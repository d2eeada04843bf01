/* disk.c - the few things that a table does with files; see disk.h.
 *
 * A lock belongs to an open file, not to a name: after it is got, the name is looked at again, for
 * another process may have finished in between and removed the file. */
#define _DEFAULT_SOURCE
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include "disk.h"

#include "../base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TRIES = 100, MAX_CALL = 1 << 30 };

static int failed(const char *what, const char *path, retrace_error *err) {
    return retrace_fail(err, RETRACE_EIO, "cannot %s '%s': %s", what, path, strerror(errno));
}

static int not_plain(const struct stat *st, const char *path, retrace_error *err) {
    return retrace_fail(err, RETRACE_EIO, "'%s' is %s", path,
                        S_ISDIR(st->st_mode) ? "a folder" : "no plain file");
}

/* ==== Opening ==== */

int rt_disk_open(const char *path, int *fd, uint64_t *size, retrace_error *err) {
    struct stat st;
    int f = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (f < 0) return failed("open", path, err);
    int rc = fstat(f, &st) ? failed("read", path, err) : RETRACE_OK;
    if (rc == RETRACE_OK && !S_ISREG(st.st_mode)) rc = not_plain(&st, path, err);
    if (rc) {
        close(f);
        return rc;
    }
    *fd = f;
    *size = (uint64_t)st.st_size;
    return RETRACE_OK;
}

/* RETRACE_DONE: the file of that name is another one by now. */
static int lock(int fd, const char *path, struct stat *st, retrace_error *err) {
    struct stat named;
    if (fstat(fd, st)) return failed("read", path, err);
    if (!S_ISREG(st->st_mode)) return not_plain(st, path, err);
    while (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno == EWOULDBLOCK)
            return retrace_fail(err, RETRACE_EIO, "'%s' is being built by another process", path);
        if (errno != EINTR) return failed("lock", path, err);
    }
    if (stat(path, &named) || named.st_ino != st->st_ino || named.st_dev != st->st_dev)
        return RETRACE_DONE;
    return fstat(fd, st) ? failed("read", path, err) : RETRACE_OK;
}

static int check_magic(int fd, const char *path, const unsigned char *magic, uint64_t size,
                       retrace_error *err) {
    unsigned char start[8] = {0};
    size_t n = size < sizeof start ? (size_t)size : sizeof start;
    int rc = rt_disk_read(fd, 0, start, n, path, err);
    if (rc) return rc;
    if (memcmp(start, magic, n) == 0) return RETRACE_OK;
    return retrace_fail(err, RETRACE_EIO, "'%s' is in the way: it is not part of a table", path);
}

int rt_disk_hold(const char *path, const unsigned char magic[8], int *fd, uint64_t *size,
                 retrace_error *err) {
    int rc = RETRACE_DONE;
    for (int i = 0; rc == RETRACE_DONE && i < MAX_TRIES; i++) {
        struct stat st;
        int f = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
        if (f < 0) return failed("write", path, err);
        rc = lock(f, path, &st, err);
        if (rc == RETRACE_OK) rc = check_magic(f, path, magic, (uint64_t)st.st_size, err);
        if (rc == RETRACE_OK) {
            *fd = f;
            *size = (uint64_t)st.st_size;
        } else {
            close(f);
        }
    }
    if (rc == RETRACE_DONE)
        return retrace_fail(err, RETRACE_EIO, "'%s' is being built by another process", path);
    return rc;
}

/* ==== Reading and writing ==== */

int rt_disk_read(int fd, uint64_t at, void *out, size_t n, const char *path, retrace_error *err) {
    char *to = out;
    while (n > 0) {
        ssize_t got = pread(fd, to, n < MAX_CALL ? n : MAX_CALL, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failed("read", path, err);
        if (got == 0)
            return retrace_fail(err, RETRACE_EIO, "cannot read '%s': it became shorter", path);
        to += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return RETRACE_OK;
}

int rt_disk_write(int fd, uint64_t at, const void *bytes, size_t n, const char *path,
                  retrace_error *err) {
    const char *from = bytes;
    while (n > 0) {
        ssize_t put = pwrite(fd, from, n < MAX_CALL ? n : MAX_CALL, (off_t)at);
        if (put < 0 && errno == EINTR) continue;
        if (put == 0) errno = ENOSPC;
        if (put <= 0) return failed("write", path, err);
        from += put;
        at += (uint64_t)put;
        n -= (size_t)put;
    }
    return RETRACE_OK;
}

int rt_disk_size(int fd, uint64_t *size, const char *path, retrace_error *err) {
    struct stat st;
    if (fstat(fd, &st)) return failed("read", path, err);
    *size = (uint64_t)st.st_size;
    return RETRACE_OK;
}

int rt_disk_cut(int fd, uint64_t size, const char *path, retrace_error *err) {
    return ftruncate(fd, (off_t)size) ? failed("write", path, err) : RETRACE_OK;
}

/* ==== Lasting ==== */

int rt_disk_sync(int fd, const char *path, retrace_error *err) {
    while (fsync(fd)) {
        if (errno != EINTR) return failed("write", path, err);
    }
    return RETRACE_OK;
}

int rt_disk_sync_folder(const char *path, retrace_error *err) {
    const char *slash = strrchr(path, '/');
    size_t n = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
    char *folder = n ? rt_copy(path, n) : rt_copy(".", 1);
    if (!folder) return rt_nomem(err);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = RETRACE_OK;
    if (fd < 0) rc = failed("open", folder, err);
    /* Some file systems keep no account of folders that could be written out. */
    if (rc == RETRACE_OK && fsync(fd) && errno != EINVAL && errno != ENOTSUP)
        rc = failed("write", folder, err);
    if (fd >= 0) close(fd);
    retrace_free(folder);
    return rc;
}

int rt_disk_close(int fd, const char *path, retrace_error *err) {
    return close(fd) && errno != EINTR ? failed("write", path, err) : RETRACE_OK;
}

int rt_disk_rename(const char *from, const char *to, retrace_error *err) {
    return rename(from, to) ? failed("write", to, err) : RETRACE_OK;
}

void rt_disk_remove(const char *path) {
    unlink(path);
}

/* ==== Names ==== */

/* A link would be replaced itself, and /dev/stdout is one. */
int rt_disk_check_target(const char *path, retrace_error *err) {
    struct stat st;
    if (!*path) return retrace_fail(err, RETRACE_EIO, "a file needs a name");
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
        return retrace_fail(err, RETRACE_EIO, "'%s' is a link; name the file that it leads to",
                            path);
    if (stat(path, &st) == 0) return S_ISREG(st.st_mode) ? RETRACE_OK : not_plain(&st, path, err);
    return errno == ENOENT ? RETRACE_OK : failed("write", path, err);
}

char *rt_disk_beside(const char *path, const char *ending) {
    size_t n = strlen(path), m = strlen(ending);
    char *out = retrace_alloc(n + m + 1);
    if (!out) return NULL;
    memcpy(out, path, n);
    memcpy(out + n, ending, m + 1);
    return out;
}
