/* part.c - the work of a build on disk; see part.h.
 *
 * A part is gone on from only when its header is, byte for byte, the one that this build would
 * write. The checksums of blocks and laws begin with a digest of that header, so that nothing left
 * by another build can pass for this one's. */
#include "part.h"

#include "../base.h"
#include "disk.h"

#include <string.h>

static const unsigned char magic[8] = {'R', 'T', 'B', 'I', 'P', 'A', 'R', 'T'};

enum { PART_VERSION = 1, HEAD = 512, LAW_HEAD = 32, ROWS = 256 };

/* ==== Places ==== */

int rt_part_blocks(const rt_part *p) {
    return (p->vocab + p->each - 1) / p->each;
}

int rt_part_rows(const rt_part *p, int i, int *n) {
    int left = p->vocab - i * p->each;
    *n = left < p->each ? left : p->each;
    return i * p->each;
}

static size_t block_size(const rt_part *p, int i) {
    int n;
    rt_part_rows(p, i, &n);
    return (size_t)n * (size_t)p->dim * sizeof(uint16_t);
}

static uint64_t block_at(const rt_part *p, int i) {
    return HEAD + (uint64_t)i * ((uint64_t)p->each * (uint64_t)p->dim * sizeof(uint16_t) + 8);
}

static uint64_t law_at(const rt_part *p, int pass, size_t n) {
    uint64_t size = LAW_HEAD + (uint64_t)n * sizeof(double) + 8;
    return block_at(p, rt_part_blocks(p)) + (uint64_t)(pass & 1) * size;
}

/* ==== The header ==== */

static void describe(const retrace_bigram_info *f, int batch, unsigned char head[HEAD]) {
    const uint64_t fields[] = {
        PART_VERSION,
        RT_TABLE_VERSION,
        f->model_hash,
        f->vocab_hash,
        (uint64_t)f->vocab,
        (uint64_t)f->dim,
        (uint64_t)(int64_t)f->start,
        (uint64_t)batch,
        (uint64_t)f->n_anchor,
        rt_checksum_of(1, f->anchor, (size_t)f->n_anchor * sizeof *f->anchor),
        rt_checksum_of(2, f->model, strlen(f->model)),
        rt_checksum_of(3, f->weights, strlen(f->weights)),
    };
    memset(head, 0, HEAD);
    memcpy(head, magic, sizeof magic);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        rt_put(head + 8 + 8 * i, 8, fields[i]);
    rt_put(head + HEAD - 8, 8, rt_checksum_of(0, head, HEAD - 8));
}

/* 1: it is the part of this very build. */
static int is_ours(rt_part *p, uint64_t size, const unsigned char *head, int *ours) {
    unsigned char there[HEAD];
    *ours = 0;
    if (size < HEAD) return RETRACE_OK;
    int rc = rt_disk_read(p->fd, 0, there, HEAD, p->path, p->err);
    if (rc == RETRACE_OK) *ours = memcmp(there, head, HEAD) == 0;
    return rc;
}

static int begin(rt_part *p, const unsigned char *head) {
    int rc = rt_disk_cut(p->fd, 0, p->path, p->err);
    if (rc == RETRACE_OK) rc = rt_disk_write(p->fd, 0, head, HEAD, p->path, p->err);
    if (rc == RETRACE_OK) rc = rt_disk_sync(p->fd, p->path, p->err);
    return rc ? rc : rt_disk_sync_folder(p->path, p->err);
}

int rt_part_open(rt_part *p, const char *path, const retrace_bigram_info *facts, int batch,
                 int restart, retrace_error *err) {
    unsigned char head[HEAD];
    uint64_t size = 0;
    int ours = 0;
    *p = (rt_part){.fd = -1, .err = err, .vocab = facts->vocab, .dim = facts->dim};
    p->each = batch > 0 && batch < ROWS ? ROWS / batch * batch : ROWS;
    describe(facts, batch, head);
    p->key = rt_get(head + HEAD - 8, 8);
    p->path = rt_disk_beside(path, ".part");
    if (!p->path) return rt_nomem(err);
    int rc = rt_disk_hold(p->path, magic, &p->fd, &size, err);
    if (rc == RETRACE_OK) rc = is_ours(p, size, head, &ours);
    p->kept = ours && !restart && size > HEAD;
    if (rc == RETRACE_OK && (!ours || restart)) rc = begin(p, head);
    if (rc) rt_part_close(p, 0);
    return rc;
}

void rt_part_close(rt_part *p, int remove) {
    if (p->fd >= 0) {
        /* Removed while it is locked: whoever waits for the lock sees that the name is gone. */
        if (remove) rt_disk_remove(p->path);
        rt_disk_close(p->fd, p->path, NULL);
    }
    retrace_free(p->path);
    *p = (rt_part){.fd = -1};
}

/* ==== States ==== */

static uint64_t sum_block(const rt_part *p, int i, const uint16_t *rows) {
    return rt_checksum_of(p->key + (uint64_t)i, rows, block_size(p, i));
}

/* Reads what may not be there. */
static int try_read(rt_part *p, uint64_t at, void *out, size_t n) {
    uint64_t size;
    int rc = rt_disk_size(p->fd, &size, p->path, p->err);
    if (rc) return rc;
    if (at > size || n > size - at) return RETRACE_DONE;
    return rt_disk_read(p->fd, at, out, n, p->path, p->err);
}

int rt_part_read_block(rt_part *p, int i, uint16_t *rows) {
    unsigned char sum[8];
    int rc = try_read(p, block_at(p, i), rows, block_size(p, i));
    if (rc == RETRACE_OK) rc = try_read(p, block_at(p, i) + block_size(p, i), sum, sizeof sum);
    if (rc) return rc;
    if (rt_get(sum, 8) != sum_block(p, i, rows)) return RETRACE_DONE;
    return RETRACE_OK;
}

int rt_part_write_block(rt_part *p, int i, const uint16_t *rows) {
    unsigned char sum[8];
    uint64_t at = block_at(p, i);
    size_t n = block_size(p, i);
    rt_put(sum, 8, sum_block(p, i, rows));
    int rc = rt_disk_write(p->fd, at, rows, n, p->path, p->err);
    if (rc == RETRACE_OK) rc = rt_disk_write(p->fd, at + n, sum, sizeof sum, p->path, p->err);
    if (rc == RETRACE_OK) rc = rt_disk_sync(p->fd, p->path, p->err);
    if (rc == RETRACE_OK) p->kept = 1;
    return rc;
}

/* ==== The law ==== */

static uint64_t sum_law(const rt_part *p, const unsigned char *head, const rt_part_law *law) {
    rt_checksum s;
    rt_checksum_begin(&s, ~p->key);
    rt_checksum_add(&s, head, LAW_HEAD);
    rt_checksum_add(&s, law->state, law->n * sizeof *law->state);
    return rt_checksum_end(&s);
}

static int read_slot(rt_part *p, int slot, rt_part_law *law) {
    unsigned char head[LAW_HEAD], sum[8];
    uint64_t at = law_at(p, slot, law->n);
    size_t n = law->n * sizeof *law->state;
    int rc = try_read(p, at, head, sizeof head);
    if (rc == RETRACE_OK) rc = try_read(p, at + LAW_HEAD, law->state, n);
    if (rc == RETRACE_OK) rc = try_read(p, at + LAW_HEAD + n, sum, sizeof sum);
    if (rc) return rc;
    if (rt_get(sum, 8) != sum_law(p, head, law)) return RETRACE_DONE;
    law->pass = (int)rt_get(head, 4);
    law->change = rt_get_double(head + 8);
    return RETRACE_OK;
}

int rt_part_read_law(rt_part *p, rt_part_law *law) {
    rt_part_law even = *law, odd = *law; /* of one memory, so the one that is wanted comes last */
    int rc_even = read_slot(p, 0, &even), rc = rc_even < 0 ? rc_even : read_slot(p, 1, &odd);
    if (rc < 0) return rc;
    if (rc_even == RETRACE_OK && (rc == RETRACE_DONE || even.pass > odd.pass)) {
        rc = read_slot(p, 0, &even);
        odd = even;
    }
    *law = odd;
    return rc;
}

int rt_part_write_law(rt_part *p, const rt_part_law *law) {
    unsigned char head[LAW_HEAD] = {0}, sum[8];
    uint64_t at = law_at(p, law->pass, law->n);
    size_t n = law->n * sizeof *law->state;
    rt_put(head, 4, (uint64_t)law->pass);
    rt_put_double(head + 8, law->change);
    rt_put(sum, 8, sum_law(p, head, law));
    int rc = rt_disk_write(p->fd, at, head, sizeof head, p->path, p->err);
    if (rc == RETRACE_OK) rc = rt_disk_write(p->fd, at + LAW_HEAD, law->state, n, p->path, p->err);
    if (rc == RETRACE_OK)
        rc = rt_disk_write(p->fd, at + LAW_HEAD + n, sum, sizeof sum, p->path, p->err);
    return rc ? rc : rt_disk_sync(p->fd, p->path, p->err);
}
