/* part.c - a file that grows, and the hash of what is in it.
 *
 * What comes in small pieces is written in blocks. The thread that receives only writes. A second
 * one reads behind it what has been written, which is still in memory, and hashes it: so the hash
 * is of the file and not of what was meant to be in it, what an earlier try left is hashed in the
 * same way, and on two cores it costs no time. It also has the disk begin to write, so that little
 * is left for the end. */
#define _GNU_SOURCE
#include "hub.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 64 << 10, BLOCK = 512 << 10, FLUSH = 32 << 20 };

struct hub_part {
    int fd;
    char *path;
    const hub_file *file;
    int64_t size; /* written, and what waits for the block to be full */
    char *block;  /* BLOCK bytes */
    size_t waiting;
    int failed; /* errno of the disk */
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t more, less;
    int64_t ready, hashed; /* bytes that may be hashed, that are */
    int epoch, begun;      /* counts how often the file began anew; of the hash */
    int stop, broken;      /* errno of reading back */
    hub_hash *hash;        /* the hashing thread's */
    int64_t flushed;
};

/* ==== The thread that hashes ==== */

static void flush_some(hub_part *p, int64_t to) {
#ifdef __linux__
    if (to - p->flushed < FLUSH) return;
    sync_file_range(p->fd, p->flushed, to - p->flushed, SYNC_FILE_RANGE_WRITE);
    p->flushed = to;
#else
    (void)p;
    (void)to;
#endif
}

/* Hashes up to `to`, less when it ends; how far it came. */
static int64_t hash_some(hub_part *p, int64_t at, int64_t to, unsigned char *room, int *broken) {
    size_t want = to - at < CHUNK ? (size_t)(to - at) : CHUNK;
    ssize_t n = pread(p->fd, room, want, at);
    if (n <= 0) {
        *broken = n < 0 ? errno : EIO;
        return at;
    }
    hub_hash_add(p->hash, room, (size_t)n);
    flush_some(p, at + n);
    return at + n;
}

static void *hashing(void *ud) {
    hub_part *p = ud;
    unsigned char *room = cli_alloc(CHUNK);
    int epoch = -1;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        if (epoch != p->epoch) {
            epoch = p->begun = p->epoch;
            p->hashed = 0;
            p->flushed = 0;
            hub_hash_begin(p->hash);
        }
        if (p->hashed >= p->ready || p->broken) {
            pthread_cond_signal(&p->less);
            pthread_cond_wait(&p->more, &p->lock);
            continue;
        }
        int64_t at = p->hashed, to = p->ready;
        int broken = 0;
        pthread_mutex_unlock(&p->lock);
        at = hash_some(p, at, to, room, &broken);
        pthread_mutex_lock(&p->lock);
        if (epoch != p->epoch) continue;
        p->hashed = at;
        p->broken = broken;
    }
    pthread_mutex_unlock(&p->lock);
    free(room);
    return NULL;
}

static void tell(hub_part *p, int anew) {
    pthread_mutex_lock(&p->lock);
    if (anew) {
        p->epoch++;
        p->broken = 0;
    }
    p->ready = p->size - (int64_t)p->waiting;
    pthread_cond_signal(&p->more);
    pthread_mutex_unlock(&p->lock);
}

/* Writes what waits, and has the other thread know. */
static int write_block(hub_part *p) {
    const char *s = p->block;
    while (p->waiting) {
        ssize_t done = write(p->fd, s, p->waiting);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            p->failed = done < 0 ? errno : ENOSPC;
            p->size -= (int64_t)p->waiting;
            p->waiting = 0;
            return 0;
        }
        s += done;
        p->waiting -= (size_t)done;
    }
    tell(p, 0);
    return 1;
}

/* ==== Opening and closing ==== */

/* Ctrl-C is for the thread that receives. */
static int launch(hub_part *p) {
    sigset_t all, was;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    int failed = pthread_create(&p->thread, NULL, hashing, p);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    return failed;
}

static int cannot(const char *path, const char *what, int number) {
    return cli_fail(CLI_IO, "cannot %s '%s': %s", what, path, strerror(number));
}

int hub_part_open(hub_part **out, const char *path, const hub_file *file) {
    struct stat st;
    *out = NULL;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0) return cannot(path, "write", errno);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1) {
        close(fd);
        return cli_fail(CLI_IO, "'%s' is no file of its own; remove it", path);
    }
    hub_part *p = cli_alloc(sizeof *p);
    p->fd = fd;
    p->path = cli_copy(path, strlen(path));
    p->file = file;
    p->block = cli_alloc(BLOCK);
    p->size = st.st_size;
    p->begun = -1;
    p->hash = hub_hash_new(file);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    pthread_cond_init(&p->less, NULL);
    int failed = launch(p);
    p->stop = failed != 0;
    *out = p;
    if (failed) {
        hub_part_close(p);
        *out = NULL;
        return cannot(path, "hash", failed);
    }
    if (p->size > file->size) return hub_part_anew(p) ? CLI_OK : hub_part_fail(p);
    lseek(fd, 0, SEEK_END);
    tell(p, 0);
    return CLI_OK;
}

void hub_part_close(hub_part *p) {
    if (!p) return;
    if (!p->stop) {
        write_block(p);
        pthread_mutex_lock(&p->lock);
        p->stop = 1;
        pthread_cond_signal(&p->more);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->thread, NULL);
    }
    pthread_cond_destroy(&p->more);
    pthread_cond_destroy(&p->less);
    pthread_mutex_destroy(&p->lock);
    hub_hash_free(p->hash);
    close(p->fd);
    free(p->block);
    free(p->path);
    free(p);
}

/* ==== Growing ==== */

int64_t hub_part_size(const hub_part *p) {
    return p->size;
}

void hub_part_settle(hub_part *p) {
    if (p->waiting && !p->failed) write_block(p);
}

/* The last byte of the file waits for nothing. */
int hub_part_put(hub_part *p, const void *bytes, size_t n) {
    const char *s = bytes;
    if (p->failed) return 0;
    while (n) {
        size_t some = n < BLOCK - p->waiting ? n : BLOCK - p->waiting;
        memcpy(p->block + p->waiting, s, some);
        s += some;
        n -= some;
        p->waiting += some;
        p->size += (int64_t)some;
        if ((p->waiting == BLOCK || p->size == p->file->size) && !write_block(p)) return 0;
    }
    return 1;
}

int hub_part_anew(hub_part *p) {
    p->size -= (int64_t)p->waiting;
    p->waiting = 0;
    if (ftruncate(p->fd, 0) != 0 || lseek(p->fd, 0, SEEK_SET) < 0) {
        p->failed = errno;
        return 0;
    }
    p->size = 0;
    tell(p, 1);
    return 1;
}

int hub_part_fail(const hub_part *p) {
    int full = p->failed == ENOSPC || p->failed == EDQUOT || p->failed == EFBIG;
    cannot(p->path, "write", p->failed);
    if (full) cli_fail(CLI_IO, "what is there stays, and the next try takes it up");
    return CLI_IO;
}

/* ==== The end ==== */

/* The other thread is idle when all is hashed, so the hash is this one's then. */
int hub_part_check(hub_part *p) {
    tell(p, 0);
    pthread_mutex_lock(&p->lock);
    while ((p->begun != p->epoch || p->hashed < p->ready) && !p->broken)
        pthread_cond_wait(&p->less, &p->lock);
    int right = p->broken ? -1 : p->size == p->file->size && hub_hash_right(p->hash);
    pthread_mutex_unlock(&p->lock);
    return right;
}

int hub_part_sync(hub_part *p) {
    if (fsync(p->fd) == 0) return CLI_OK;
    p->failed = errno;
    return hub_part_fail(p);
}
