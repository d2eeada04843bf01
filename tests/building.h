/* building.h - what the tests of building tables share: fsync, rename, close and unlink that
 * fail or end the process on demand, and builds of the made-up model. Included once by each test
 * program. */
#ifndef RT_BUILDING_H
#define RT_BUILDING_H

#define _GNU_SOURCE /* syscall */
#include "helper.h"

#include "bigram/table.h"
#include "factors.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ==== The system, on demand ==== */

static struct {
    int count, at, kill; /* calls so far; the one to fail, 0: none; or to end the process */
    int only;            /* 0: all of them; or one kind: fsync, rename, close, unlink */
} fault;

static int faulty(int which) {
    if (fault.only && fault.only != which) return 0;
    if (++fault.count != fault.at) return 0;
    if (fault.kill) raise(SIGKILL);
    errno = EIO;
    return 1;
}

int fsync(int fd) {
    return faulty('f') ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int rename(const char *from, const char *to) {
    return faulty('r') ? -1 : (int)syscall(SYS_renameat2, -100, from, -100, to, 0);
}

int close(int fd) {
    int rc = (int)syscall(SYS_close, fd);
    return faulty('c') ? -1 : rc;
}

int unlink(const char *path) {
    return faulty('u') ? -1 : (int)syscall(SYS_unlinkat, -100, path, 0);
}

static void no_faults(void) {
    memset(&fault, 0, sizeof fault);
}

/* ==== Building ==== */

enum { VOCAB = 300, DIM = 8 };

/* What a build is told and tells. */
typedef struct watcher {
    int calls, stop_at, kill_at; /* 0: never */
    double share;
    int stage, iteration;
    double change;
} watcher;

UNUSED_OK static int watch(void *ud, const retrace_build_progress *p) {
    watcher *w = ud;
    w->calls++;
    if (p->share < w->share || p->share > 1) fail_msg("share %g after %g", p->share, w->share);
    if ((int)p->stage < w->stage) fail_msg("stage %d after %d", (int)p->stage, w->stage);
    w->share = p->share;
    w->stage = (int)p->stage;
    w->iteration = p->iteration;
    w->change = p->change;
    if (w->calls == w->kill_at) raise(SIGKILL);
    return w->calls == w->stop_at;
}

UNUSED_OK static int try_build(made_up *u, const char *path, watcher *w, retrace_error *err) {
    return retrace_bigram_build(path, &u->base, anchor_auto, 0, w ? watch : NULL, w, err);
}

UNUSED_OK static void build(made_up *u, const char *path) {
    retrace_error err = {0};
    if (try_build(u, path, NULL, &err)) fail_msg("%s", err.msg);
    assert_false(is_there(in_folder("t.part")));
    assert_false(is_there(in_folder("t.tmp")));
}

/* The file that an undisturbed build makes. */
UNUSED_OK static bytes clean_build(made_up *u) {
    const char *path = in_folder("t");
    unlink(path);
    build(u, path);
    bytes b = read_bytes(path);
    unlink(path);
    return b;
}

UNUSED_OK static void fails_with(int rc, const retrace_error *err, int code, const char *want) {
    if (rc != code) fail_msg("%d instead of %d: %s", rc, code, err->msg);
    assert_int_equal(err->code, code);
    assert_null(strchr(err->msg, '\n'));
    if (!strstr(err->msg, want)) fail_msg("'%s' does not say '%s'", err->msg, want);
}

/* Stops one call before a build would begin to write. */
UNUSED_OK static void stop_late(made_up *u, const char *path) {
    watcher w = {0};
    retrace_error err = {0};
    if (try_build(u, path, &w, &err)) fail_msg("%s", err.msg);
    unlink(path);
    w = (watcher){.stop_at = w.calls - 2};
    fails_with(try_build(u, path, &w, &err), &err, RETRACE_ECANCEL, "cancelled");
}

/* Runs a build in a process of its own. Returns its end: 0 built, 1 failed, -1 killed. */
UNUSED_OK static int build_apart(made_up *u, const char *path, watcher w, rlim_t limit) {
    fflush(NULL);
    pid_t child = fork();
    int status;
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit room = {limit, limit};
        retrace_error err = {0};
        signal(SIGXFSZ, SIG_IGN);
        if (limit && setrlimit(RLIMIT_FSIZE, &room)) _exit(3);
        int rc = try_build(u, path, &w, &err);
        if (rc && limit && (rc != RETRACE_EIO || !strstr(err.msg, "File too large"))) _exit(4);
        _exit(rc ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return -1;
    }
    assert_in_range(WEXITSTATUS(status), 0, 1);
    return WEXITSTATUS(status);
}

#endif
