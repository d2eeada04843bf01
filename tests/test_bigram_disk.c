/* test_bigram_disk.c - building tables on a disk that is full, failing, closed to us, or shared
 * with others: one line says so, and nothing half-written is left at the table's path. */
#include "building.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

/* ==== What is in the way ==== */

/* Something that stands at `name` and is not ours stays, and nothing is built. */
static void in_the_way(made_up *u, const char *name, int code, const char *want) {
    const char *path = in_folder("t"), *obstacle = in_folder(name);
    const bytes text = {(unsigned char *)"my diary", 8};
    retrace_error err = {0};
    write_bytes(obstacle, text.s, text.n);
    fails_with(try_build(u, path, NULL, &err), &err, code, want);
    assert_holds(obstacle, text);
    unlink(obstacle);
    assert_int_equal(mkdir(obstacle, 0700), 0);
    fails_with(try_build(u, path, NULL, &err), &err, RETRACE_EIO, obstacle);
    rmdir(obstacle);
    write_bytes(in_folder("mine"), text.s, text.n);
    assert_int_equal(symlink(in_folder("mine"), obstacle), 0);
    fails_with(try_build(u, path, NULL, &err), &err, RETRACE_EIO, obstacle);
    assert_holds(in_folder("mine"), text);
    unlink(obstacle);
    unlink(in_folder("mine"));
    assert_false(is_there(path));
}

static void what_is_not_ours_stays(void **unused) {
    (void)unused;
    const char *path = in_folder("t");
    made_up *u = made_up_new(VOCAB, DIM, 11);
    bytes clean = clean_build(u);
    in_the_way(u, "t.part", RETRACE_EIO, "t.part' is in the way: it is not part of a table");
    in_the_way(u, "t.tmp", RETRACE_EIO, "t.tmp' is in the way: it is not part of a table");
    u->rows = 0;
    build(u, path); /* from the part that was left */
    assert_in_range(u->rows, 0, 20);
    assert_holds(path, clean);
    /* What killed builds left is ours. */
    write_bytes(in_folder("t.tmp"), clean.s, 99);
    write_bytes(in_folder("t.part"), "RTBI", 4);
    build(u, path);
    assert_holds(path, clean);
    free(clean.s);
    unlink(path);
    made_up_free(u);
}

/* ==== Two at once ==== */

static int second_build(void *ud, const retrace_build_progress *p) {
    retrace_error err = {0};
    (void)p;
    int rc = try_build(ud, in_folder("t"), NULL, &err);
    fails_with(rc, &err, RETRACE_EIO, "is being built by another process");
    return 0;
}

static void two_at_once_are_told_apart(void **unused) {
    (void)unused;
    const char *path = in_folder("t");
    made_up *u = made_up_new(VOCAB, DIM, 12), *other = made_up_new(VOCAB, DIM, 13);
    retrace_error err = {0};
    bytes clean = clean_build(u);
    if (retrace_bigram_build(path, &u->base, anchor_auto, 0, second_build, other, &err))
        fail_msg("%s", err.msg);
    assert_holds(path, clean);
    free(clean.s);
    unlink(path);
    made_up_free(u);
    made_up_free(other);
}

/* Several processes at once: the file is whole at the end, whoever made it. */
static void a_crowd_makes_one_file(void **unused) {
    (void)unused;
    const char *path = in_folder("t");
    made_up *u = made_up_new(VOCAB, DIM, 14);
    bytes clean = clean_build(u);
    int built = 0, status;
    fflush(NULL);
    for (int i = 0; i < 8; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            retrace_error err = {0};
            int rc = try_build(u, path, NULL, &err);
            if (rc == RETRACE_OK) _exit(0);
            _exit(rc == RETRACE_EIO && strstr(err.msg, "another process") ? 1 : 2);
        }
    }
    while (wait(&status) > 0) {
        assert_true(WIFEXITED(status));
        assert_in_range(WEXITSTATUS(status), 0, 1);
        built += WEXITSTATUS(status) == 0;
    }
    assert_true(built > 0);
    assert_holds(path, clean);
    assert_false(is_there(in_folder("t.part")));
    free(clean.s);
    unlink(path);
    made_up_free(u);
}

/* ==== The disk ==== */

static void a_full_disk_leaves_a_part(void **unused) {
    (void)unused;
    const char *path = in_folder("t");
    made_up *u = made_up_new(VOCAB, DIM, 15);
    bytes clean = clean_build(u);
    const bytes old = {(unsigned char *)"old", 3};
    int failed = 0;
    for (rlim_t room = 1; room < clean.n + 700; room += 997) {
        write_bytes(path, old.s, old.n);
        int end = build_apart(u, path, (watcher){0}, room);
        failed += end == 1;
        if (end == 1) assert_holds(path, old);
        assert_false(is_there(in_folder("t.tmp")));
        build(u, path);
        assert_holds(path, clean);
    }
    assert_true(failed > 10);
    /* The room comes in steps: each goes on from what the last one left. */
    unlink(path);
    u->rows = 0;
    for (rlim_t room = 600; build_apart(u, path, (watcher){0}, room); room += 3000)
        assert_false(is_there(path));
    assert_holds(path, clean);
    free(clean.s);
    unlink(path);
    made_up_free(u);
}

/* A file system of so many KiB for this process alone; 0: not possible here. */
static int small_disk(const char *at, int kib) {
    char map[32], size[32];
    int uid = (int)getuid();
    if (unshare(CLONE_NEWNS)) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) return 0;
        int n = snprintf(map, sizeof map, "0 %d 1", uid), fd = open("/proc/self/uid_map", O_WRONLY);
        if (fd < 0 || write(fd, map, (size_t)n) != n) return 0;
        close(fd);
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) return 0;
    snprintf(size, sizeof size, "size=%dk", kib);
    return mount("none", at, "tmpfs", 0, size) == 0;
}

/* Builds where there is no room for the part, none for the table beside it, and then enough. */
static int build_on_small_disk(made_up *u, const char *at, bytes clean) {
    static const char *const sizes[] = {"size=16k", "size=56k"};
    char path[700], beside[710];
    retrace_error err = {0};
    snprintf(path, sizeof path, "%s/t", at);
    snprintf(beside, sizeof beside, "%s.tmp", path);
    if (!small_disk(at, 16)) return 77;
    for (int i = 0; i < 2; i++) {
        if (mount("none", at, "tmpfs", MS_REMOUNT, sizes[i])) return 77;
        int rc = try_build(u, path, NULL, &err);
        if (rc != RETRACE_EIO || !strstr(err.msg, "No space left on device")) return 1;
        if (!strstr(err.msg, i == 0 ? ".part'" : ".tmp'")) return 2;
        if (is_there(path) || is_there(beside)) return 3;
    }
    if (mount("none", at, "tmpfs", MS_REMOUNT, "size=1m")) return 77;
    u->rows = u->n_product = 0;
    if (try_build(u, path, NULL, &err)) return 4;
    assert_holds(path, clean);
    return u->rows < 20 && u->n_product < 2 * VOCAB ? 0 : 5;
}

static void a_small_disk_is_full(void **unused) {
    (void)unused;
    const char *at = in_folder("small");
    made_up *u = made_up_new(VOCAB, DIM, 22);
    bytes clean = clean_build(u);
    int status;
    assert_int_equal(mkdir(at, 0700), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(build_on_small_disk(u, at, clean));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    rmdir(at);
    free(clean.s);
    made_up_free(u);
    if (WEXITSTATUS(status) == 77) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Every call of a kind fails once. Returns how often that failed the build. */
static int fail_each(made_up *u, const char *path, int kind, bytes clean) {
    const bytes old = {(unsigned char *)"old", 3};
    int failed = 0, met = 1;
    for (int k = 1; met; k++) {
        retrace_error err = {0};
        write_bytes(path, old.s, old.n);
        fault.only = kind;
        fault.at = k;
        fault.count = 0;
        int rc = try_build(u, path, NULL, &err);
        met = fault.count >= k;
        no_faults();
        if (rc) fails_with(rc, &err, RETRACE_EIO, "cannot write '");
        assert_false(is_there(in_folder("t.tmp")));
        failed += rc != RETRACE_OK;
        bytes there = read_bytes(path); /* the last fsync is that of the folder */
        if (!rc || there.n != old.n) assert_holds(path, clean);
        free(there.s);
        build(u, path);
        assert_holds(path, clean);
    }
    return failed;
}

static void a_failing_disk_is_told(void **unused) {
    (void)unused;
    const char *path = in_folder("t");
    made_up *u = made_up_new(VOCAB, DIM, 16);
    bytes clean = clean_build(u);
    assert_true(fail_each(u, path, 'f', clean) > 6);
    assert_int_equal(fail_each(u, path, 'r', clean), 1);
    assert_int_equal(fail_each(u, path, 'c', clean), 1); /* that of the table */
    assert_int_equal(fail_each(u, path, 'u', clean), 0);
    free(clean.s);
    unlink(path);
    made_up_free(u);
}

static void bad_places_are_refused_at_once(void **unused) {
    (void)unused;
    made_up *u = made_up_new(VOCAB, DIM, 17);
    retrace_error err = {0};
    const char *file = in_folder("file");
    char under[700];
    write_bytes(file, "x", 1);
    snprintf(under, sizeof under, "%s/t", file);
    fails_with(try_build(u, under, NULL, &err), &err, RETRACE_EIO, "Not a directory");
    snprintf(under, sizeof under, "%s/no/t", folder());
    fails_with(try_build(u, under, NULL, &err), &err, RETRACE_EIO, "No such file");
    fails_with(try_build(u, folder(), NULL, &err), &err, RETRACE_EIO, "is a folder");
    fails_with(try_build(u, "/dev/null", NULL, &err), &err, RETRACE_EIO, "is no plain file");
    fails_with(try_build(u, "", NULL, &err), &err, RETRACE_EIO, "needs a name");
    assert_int_equal(u->rows, 0);
    unlink(file);
    made_up_free(u);
}

static void a_folder_of_others_is_refused_at_once(void **unused) {
    (void)unused;
    made_up *u = made_up_new(VOCAB, DIM, 18);
    char inner[700], path[710];
    int status;
    snprintf(inner, sizeof inner, "%s/inner", folder());
    snprintf(path, sizeof path, "%s/t", inner);
    assert_int_equal(mkdir(inner, 0555), 0);
    assert_int_equal(chmod(folder(), 0755), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        retrace_error err = {0};
        if (geteuid() == 0 && setuid(65534)) _exit(3);
        int rc = try_build(u, path, NULL, &err);
        _exit(rc == RETRACE_EIO && u->rows == 0 && strstr(err.msg, "Permission denied") ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    rmdir(inner);
    made_up_free(u);
}

static int clean_up(void **unused) {
    (void)unused;
    return rmdir(folder());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_ours_stays),
        cmocka_unit_test(two_at_once_are_told_apart),
        cmocka_unit_test(a_crowd_makes_one_file),
        cmocka_unit_test(a_full_disk_leaves_a_part),
        cmocka_unit_test(a_small_disk_is_full),
        cmocka_unit_test(a_failing_disk_is_told),
        cmocka_unit_test(bad_places_are_refused_at_once),
        cmocka_unit_test(a_folder_of_others_is_refused_at_once),
    };
    return cmocka_run_group_tests_name("bigram disk", tests, NULL, clean_up);
}
