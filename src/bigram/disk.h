/* disk.h - files, with every failure told: by name, with the system's reason. All EIO. */
#ifndef RT_DISK_H
#define RT_DISK_H

#include "retrace_ext.h"

/* Opens a plain file for reading; *size is its length. Never waits for a pipe. */
int rt_disk_open(const char *path, int *fd, uint64_t *size, retrace_error *err);

/* Opens a file of ours for reading and writing, making an empty one where there is none, and locks
 * it against other processes (and other builds of this one) until the descriptor is closed. One
 * that is not empty must begin with the 8 bytes of `magic`, or with as many of them as it has. */
int rt_disk_hold(const char *path, const unsigned char magic[8], int *fd, uint64_t *size,
                 retrace_error *err);

int rt_disk_read(int fd, uint64_t at, void *out, size_t n, const char *path, retrace_error *err);
int rt_disk_write(int fd, uint64_t at, const void *bytes, size_t n, const char *path,
                  retrace_error *err);
int rt_disk_size(int fd, uint64_t *size, const char *path, retrace_error *err);
int rt_disk_cut(int fd, uint64_t size, const char *path, retrace_error *err);
/* What was written is on the disk. */
int rt_disk_sync(int fd, const char *path, retrace_error *err);
/* So are the names in the folder of this path. */
int rt_disk_sync_folder(const char *path, retrace_error *err);
int rt_disk_close(int fd, const char *path, retrace_error *err);
int rt_disk_rename(const char *from, const char *to, retrace_error *err);
void rt_disk_remove(const char *path);

/* Refuses a path that is something else than a plain file (a link too), or nothing. */
int rt_disk_check_target(const char *path, retrace_error *err);
/* path and ending, joined (retrace_free); NULL when out of memory. */
char *rt_disk_beside(const char *path, const char *ending);

#endif
