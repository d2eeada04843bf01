/* write.c - a table to its file: all of it under another name, then renamed.
 *
 * The new file begins with its magic before anything else is written, so that what a killed process
 * leaves there is known to be ours and may be written over. */
#include "table.h"

#include "disk.h"

#include <string.h>

typedef struct writer {
    int fd;
    const char *path;
    retrace_error *err;
} writer;

static void describe(const rt_table *t, rt_header *h) {
    const retrace_bigram_info *f = &t->facts;
    *h = (rt_header){
        .kind = t->rows ? RT_TABLE_DENSE : RT_TABLE_FACTORED,
        .vocab = f->vocab,
        .dim = t->rows ? 0 : f->dim,
        .n_anchor = f->n_anchor,
        .n_model = (int)strlen(t->model),
        .n_weights = (int)strlen(t->weights),
        .start = f->start,
        .iterations = f->iterations,
        .model_hash = f->model_hash,
        .vocab_hash = f->vocab_hash,
        .residual = f->residual,
        .rate = f->rate,
        .entropy = f->entropy,
        .start_pi = f->start_pi,
    };
    rt_header_place(h);
}

/* One section with the zeros behind it, and its checksum. */
static int put_section(const writer *w, rt_header *h, int section, const void *bytes) {
    rt_section *s = &h->section[section];
    uint64_t whole = s->size / 64 * 64;
    unsigned char last[64] = {0};
    rt_checksum sum;
    rt_checksum_begin(&sum, (uint64_t)section);
    if (whole) rt_checksum_add(&sum, bytes, (size_t)whole);
    int rc = rt_disk_write(w->fd, s->offset, bytes, (size_t)whole, w->path, w->err);
    if (s->size > whole) {
        memcpy(last, (const char *)bytes + whole, (size_t)(s->size - whole));
        rt_checksum_add(&sum, last, sizeof last);
        if (rc == RETRACE_OK)
            rc = rt_disk_write(w->fd, s->offset + whole, last, sizeof last, w->path, w->err);
    }
    s->sum = rt_checksum_end(&sum);
    return rc;
}

static int put_all(const writer *w, const rt_table *t) {
    rt_header h;
    unsigned char head[RT_TABLE_HEADER];
    char names[2 * RT_TABLE_MAX_NAME];
    describe(t, &h);
    memcpy(names, t->model, (size_t)h.n_model);
    memcpy(names + h.n_model, t->weights, (size_t)h.n_weights);
    const void *const bytes[RT_N_SECTIONS] = {
        [RT_SECTION_NAMES] = names,
        [RT_SECTION_ANCHOR] = t->anchor,
        [RT_SECTION_PI] = t->parts.pi,
        [RT_SECTION_STATES] = t->parts.states,
        [RT_SECTION_LOG_NORM] = t->parts.log_norm,
        [RT_SECTION_OUTPUT] = t->parts.output,
        [RT_SECTION_STARTS] = t->parts.starts,
        [RT_SECTION_ROWS] = t->rows,
    };
    int rc = rt_disk_cut(w->fd, 0, w->path, w->err);
    if (rc == RETRACE_OK)
        rc = rt_disk_write(w->fd, 0, rt_table_magic, sizeof rt_table_magic, w->path, w->err);
    for (int i = 0; rc == RETRACE_OK && i < RT_N_SECTIONS; i++)
        rc = put_section(w, &h, i, bytes[i]);
    if (rc) return rc;
    rt_header_pack(&h, head);
    rc = rt_disk_write(w->fd, 0, head, sizeof head, w->path, w->err);
    return rc ? rc : rt_disk_sync(w->fd, w->path, w->err);
}

int rt_table_write(const rt_table *t, const char *path, retrace_error *err) {
    char *beside = rt_disk_beside(path, ".tmp");
    if (!beside) return retrace_fail(err, RETRACE_ENOMEM, "out of memory");
    writer w = {-1, beside, err};
    uint64_t size;
    int rc = rt_disk_hold(beside, rt_table_magic, &w.fd, &size, err);
    int ours = rc == RETRACE_OK;
    if (rc == RETRACE_OK) rc = put_all(&w, t);
    if (ours) {
        int closed = rt_disk_close(w.fd, beside, rc ? NULL : err);
        if (rc == RETRACE_OK) rc = closed;
    }
    if (rc == RETRACE_OK) rc = rt_disk_rename(beside, path, err);
    if (rc && ours) rt_disk_remove(beside);
    if (rc == RETRACE_OK) rc = rt_disk_sync_folder(path, err);
    retrace_free(beside);
    return rc;
}
