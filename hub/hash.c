/* hash.c - the hash that the hub states of a file: SHA-256 of its bytes, or git's SHA-1 of it as a
 * blob, which has the size in front. */
#define _POSIX_C_SOURCE 200809L
#include "hub.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hub_hash {
    EVP_MD_CTX *md;
    const hub_file *file;
    int ok;
};

void hub_hash_begin(hub_hash *h) {
    cli_buf head = {0};
    h->ok = h->md && EVP_DigestInit_ex(h->md, h->file->is_sha256 ? EVP_sha256() : EVP_sha1(), NULL);
    if (!h->file->is_sha256) {
        cli_printf(&head, "blob %lld", (long long)h->file->size);
        hub_hash_add(h, head.s, head.n + 1);
        cli_buf_free(&head);
    }
}

hub_hash *hub_hash_new(const hub_file *file) {
    hub_hash *h = cli_alloc(sizeof *h);
    *h = (hub_hash){EVP_MD_CTX_new(), file, 0};
    hub_hash_begin(h);
    return h;
}

void hub_hash_add(hub_hash *h, const void *bytes, size_t n) {
    if (h->ok) h->ok = EVP_DigestUpdate(h->md, bytes, n);
}

void hub_hash_hex(hub_hash *h, char hex[129]) {
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    hex[0] = '\0';
    if (!h->ok || !EVP_DigestFinal_ex(h->md, sum, &n)) return;
    for (unsigned i = 0; i < n; i++) snprintf(hex + 2 * (size_t)i, 3, "%02x", (unsigned)sum[i]);
}

int hub_hash_right(hub_hash *h) {
    char hex[129];
    hub_hash_hex(h, hex);
    return strcmp(hex, h->file->oid) == 0;
}

void hub_hash_free(hub_hash *h) {
    if (!h) return;
    EVP_MD_CTX_free(h->md);
    free(h);
}

/* ==== Of a file that is there ==== */

static int hash_all(hub_hash *h, int fd, const char *path, hub_bar *bar) {
    enum { CHUNK = 256 << 10 };
    unsigned char *room = cli_alloc(CHUNK);
    int64_t at = 0;
    ssize_t n;
    int code = CLI_OK;
    while (!code && (n = read(fd, room, CHUNK)) != 0) {
        if (n < 0) code = cli_fail(CLI_IO, "cannot read '%s': %s", path, strerror(errno));
        if (cli_interrupted()) code = cli_fail(CLI_INTERRUPTED, "interrupted");
        if (code) break;
        hub_hash_add(h, room, (size_t)n);
        at += n;
        if (bar) hub_bar_at(bar, at);
    }
    free(room);
    return code;
}

int hub_verify(const char *path, const hub_file *file, int *right) {
    hub_bar bar;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *right = 0;
    if (fd < 0) return cli_fail(CLI_IO, "cannot read '%s': %s", path, strerror(errno));
    hub_hash *h = hub_hash_new(file);
    hub_bar_begin(&bar, "checked", file->path, 0, file->size);
    bar.tenth = 10; /* it is soon done: a bar, but no lines */
    int code = hash_all(h, fd, path, &bar);
    if (!code) *right = hub_hash_right(h);
    if (*right)
        hub_bar_end(&bar);
    else
        cli_progress_end();
    hub_hash_free(h);
    close(fd);
    return code;
}

int hub_sha256(const char *path, char hex[129]) {
    hub_file any = {.is_sha256 = 1};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return cli_fail(CLI_IO, "cannot read '%s': %s", path, strerror(errno));
    hub_hash *h = hub_hash_new(&any);
    int code = hash_all(h, fd, path, NULL);
    if (!code) hub_hash_hex(h, hex);
    hub_hash_free(h);
    close(fd);
    return code;
}
