/* log.c - the access log: one JSON line a request.
 *
 * No prompts, no answers, no keys. Somebody who sends a million requests that cost nothing must not
 * fill the disk: their lines come out of a bucket that fills slowly, and those that found it empty
 * are counted in the next one that does not ("unlogged"). So are those that would have to wait: who
 * reads the log and sleeps must not stop the sockets' thread. */
#define _POSIX_C_SOURCE 200809L
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A burst of BUCKET bytes, then FILL a second. What the model answered is limited by its pace and
 * does not count. */
enum { BUCKET = 256 * 1024, FILL = 1024 };

struct srv_log {
    int fd;
    pthread_mutex_t lock;
    double left, at;
    int64_t unlogged;
};

int srv_log_open(struct srv_log **out, const char *path) {
    *out = NULL;
    if (!path) return CLI_OK;
    int own = strcmp(path, "-") == 0;
    int fd = own ? STDERR_FILENO : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0) return cli_fail(CLI_IO, "--access-log: %s: %s", path, strerror(errno));
    struct srv_log *l = cli_alloc(sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    l->fd = fd;
    l->left = BUCKET;
    l->at = cli_clock();
    *out = l;
    return CLI_OK;
}

/* Under the lock: may n bytes about a request that cost nothing be written? */
static int allowed(struct srv_log *l, size_t n) {
    double now = cli_clock();
    l->left += (now - l->at) * FILL;
    l->at = now;
    if (l->left > BUCKET) l->left = BUCKET;
    if (l->left < (double)n) return 0;
    l->left -= (double)n;
    return 1;
}

static json_t *cut_text(const char *s, size_t most) {
    size_t n = strlen(s);
    return cli_json_text((retrace_text){s, n < most ? n : most});
}

static json_t *line_json(const srv_line *x) {
    struct timespec now;
    struct tm utc;
    char text[64], key[8] = "";
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + n, sizeof text - n, ".%03dZ", (int)(now.tv_nsec / 1000000));
    static const unsigned char none[SRV_DIGEST];
    if (memcmp(x->key, none, sizeof none) != 0)
        snprintf(key, sizeof key, "%02x%02x", x->key[SRV_DIGEST - 2], x->key[SRV_DIGEST - 1]);
    json_t *j = json_object();
    json_object_set_new(j, "time", json_string(text));
    json_object_set_new(j, "request", json_string(x->request));
    json_object_set_new(j, "remote", json_string(x->remote));
    json_object_set_new(j, "method", cut_text(x->method, 16));
    json_object_set_new(j, "path", cut_text(x->path, 96));
    json_object_set_new(j, "status", x->status ? json_integer(x->status) : json_null());
    json_object_set_new(j, "ms", json_real((double)(int64_t)(x->seconds * 1e4) / 10));
    json_object_set_new(j, "bytes", json_integer((json_int_t)x->bytes));
    json_object_set_new(j, "key", *key ? json_string(key) : json_null());
    return j;
}

/* A pipe that is not full takes a line (which is shorter than PIPE_BUF) without waiting. */
static int takes_a_line(int fd) {
    struct pollfd p = {fd, POLLOUT, 0};
    return poll(&p, 1, 0) > 0;
}

static void write_all(int fd, const char *s, size_t n) {
    while (n > 0) {
        ssize_t done = write(fd, s, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return; /* a full disk stops the log, not the server */
        s += done;
        n -= (size_t)done;
    }
}

void srv_log_call(struct srv_log *l, const srv_line *x) {
    if (!l) return;
    json_t *j = line_json(x);
    pthread_mutex_lock(&l->lock);
    if (l->unlogged) json_object_set_new(j, "unlogged", json_integer(l->unlogged));
    char *s = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(9));
    size_t n = s ? strlen(s) : 0;
    int worked = x->status == 200 && strcmp(x->method, "POST") == 0;
    if (n && takes_a_line(l->fd) && (worked || allowed(l, n))) {
        s[n] = '\n';
        write_all(l->fd, s, n + 1);
        l->unlogged = 0;
    } else {
        l->unlogged++;
    }
    pthread_mutex_unlock(&l->lock);
    free(s);
    json_decref(j);
}

void srv_log_close(struct srv_log *l) {
    if (!l) return;
    if (l->fd != STDERR_FILENO) close(l->fd);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
