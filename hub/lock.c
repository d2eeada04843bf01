/* lock.c - one program at a time fetches a file.
 *
 * The place and the kind of the lock are huggingface_hub's: flock on .locks/REPO/<oid>.lock, so
 * that its programs and this one wait for each other. It may remove the file when it is done, so
 * the lock counts only when the name still leads to what was locked. */
#define _DEFAULT_SOURCE
#include "hub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int still_named(int fd, const char *path) {
    struct stat a, b;
    return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* 1: locked; 0: another has it; -1: errno says why not. */
static int try_lock(const char *path, int *fd) {
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (*fd < 0) return -1;
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0 && still_named(*fd, path)) return 1;
    int number = errno;
    if (still_named(*fd, path) && number != EWOULDBLOCK && number != EINTR) return -1;
    close(*fd);
    *fd = -1;
    return 0;
}

static int no_locks(int number) {
    return number == ENOSYS || number == EOPNOTSUPP || number == ENOLCK || number == EINVAL;
}

static int wait_for(hub_lock *l, const char *path, const char *name) {
    static const struct timespec pause = {0, 200000000};
    int told = 0;
    for (;;) {
        int got = try_lock(path, &l->fd);
        if (got > 0) return CLI_OK;
        if (got < 0 && l->fd >= 0 && no_locks(errno)) {
            close(l->fd);
            l->fd = -1;
            return CLI_OK;
        }
        if (got < 0) return cli_fail(CLI_IO, "cannot lock '%s': %s", path, strerror(errno));
        if (!told++) cli_say("retrace: another program is fetching %s; waiting for it", name);
        if (cli_interrupted()) return cli_fail(CLI_INTERRUPTED, "interrupted");
        nanosleep(&pause, NULL);
    }
}

void hub_lock_name(const hub_where *w, const char *repo, const hub_file *file, const char *ending,
                   cli_buf *b) {
    const char *slash = strchr(repo, '/');
    cli_printf(b, "%s/.locks/models--%.*s--%s/%s.%s", w->cache, (int)(slash - repo), repo,
               slash + 1, file->oid, ending);
}

int hub_lock_take(hub_lock *l, const hub_where *w, const char *repo, const hub_file *file) {
    cli_buf path = {0};
    *l = (hub_lock){.fd = -1};
    hub_lock_name(w, repo, file, "lock", &path);
    int code = hub_store_folders(path.s);
    if (!code) code = wait_for(l, path.s, file->path);
    cli_buf_free(&path);
    return code;
}

void hub_lock_leave(hub_lock *l) {
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
}
