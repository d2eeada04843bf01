/* convert.c - a model file in another type: what stands around libllama's quantiser.
 *
 * It writes to a name of its own beside the target. What it has written is read again, header and
 * lengths, because it does not notice every failed write; then it is brought to the disk and takes
 * the target's name. So the target is whole or as it was, and it may even be the source. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include "../base.h"
#include "../bigram/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef RETRACE_HAVE_LLAMA

#include "llama_convert.h"
#include "llama_cores.h"
#include "llama_gguf.h"

enum { MAX_TRIES = 100, PROBE = 1 << 16 };

const char *retrace_convert_type_at(int i) {
    return rt_convert_type_at(i);
}

int retrace_gguf_type(const char *file, const char **type, int *quantised, retrace_error *err) {
    rt_clear(err);
    int rc = rt_gguf_check(file, NULL, err);
    return rc < 0 ? rc : rt_convert_source(file, type, quantised, err);
}

/* ==== The file that grows ==== */

static int cannot_write(const char *path, const char *why, retrace_error *err) {
    return retrace_fail(err, RETRACE_EIO, "cannot write '%s': %s", path, why);
}

/* An empty file of a new name beside `out` (retrace_free). */
static int make_part(const char *out, char **part, retrace_error *err) {
    for (int i = 0; i < MAX_TRIES; i++) {
        char ending[48];
        snprintf(ending, sizeof ending, ".%ld-%d.part", (long)getpid(), i);
        *part = rt_disk_beside(out, ending);
        if (!*part) return rt_nomem(err);
        int fd = open(*part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        int why = errno;
        if (fd >= 0) {
            close(fd);
            return RETRACE_OK;
        }
        retrace_free(*part);
        *part = NULL;
        if (why != EEXIST) return cannot_write(out, strerror(why), err);
    }
    return cannot_write(out, "there are too many files of its name", err);
}

/* The stream that has failed does not say why; writing a little more does. */
static int why_not_written(const char *part, const char *out, retrace_error *err) {
    static const char more[PROBE];
    const char *why = "a write failed";
    int fd = open(part, O_WRONLY | O_APPEND | O_CLOEXEC);
    ssize_t put = fd < 0 ? -1 : write(fd, more, sizeof more);
    if (put < 0) why = strerror(errno);
    if (put >= 0 && put < (ssize_t)sizeof more) {
        put = write(fd, more, sizeof more);
        if (put < 0) why = strerror(errno);
    }
    if (fd >= 0) close(fd);
    return cannot_write(out, why, err);
}

static int sync_part(const char *part, retrace_error *err) {
    int fd;
    uint64_t size;
    int rc = rt_disk_open(part, &fd, &size, err);
    if (rc < 0) return rc;
    rc = rt_disk_sync(fd, part, err);
    int closed = rt_disk_close(fd, part, rc < 0 ? NULL : err);
    return rc < 0 ? rc : closed;
}

int retrace_convert(const char *in, const char *out, const char *type, int pure, int threads,
                    retrace_progress_fn *progress, void *ud, retrace_error *err) {
    int number = 0;
    char *part = NULL;
    rt_clear(err);
    int rc = rt_convert_type(type, &number, err);
    if (rc == RETRACE_OK) rc = rt_gguf_check(in, NULL, err);
    if (rc == RETRACE_OK) rc = rt_disk_check_target(out, err);
    if (rc == RETRACE_OK) rc = make_part(out, &part, err);
    if (rc < 0) return rc;
    if (threads <= 0) threads = rt_cores();
    rc = rt_convert_run(in, part, number, pure, threads, progress, ud, err);
    if (rc == RETRACE_EIO || (rc == RETRACE_OK && rt_gguf_check(part, NULL, NULL) < 0))
        rc = why_not_written(part, out, err);
    if (rc == RETRACE_OK) rc = sync_part(part, err);
    if (rc == RETRACE_OK) rc = rt_disk_rename(part, out, err);
    if (rc < 0) rt_disk_remove(part);
    retrace_free(part);
    if (rc == RETRACE_OK) rc = rt_disk_sync_folder(out, err);
    if (rc == RETRACE_OK && progress) progress(ud, 1);
    return rc;
}

#else

const char *retrace_convert_type_at(int i) {
    (void)i;
    return NULL;
}

static int no_libllama(retrace_error *err) {
    return retrace_fail(err, RETRACE_EUSAGE,
                        "this build has no libllama, whose quantiser converts models");
}

int retrace_gguf_type(const char *file, const char **type, int *quantised, retrace_error *err) {
    (void)file, (void)type, (void)quantised;
    return no_libllama(err);
}

int retrace_convert(const char *in, const char *out, const char *type, int pure, int threads,
                    retrace_progress_fn *progress, void *ud, retrace_error *err) {
    (void)in, (void)out, (void)type, (void)pure, (void)threads, (void)progress, (void)ud;
    return no_libllama(err);
}

#endif
