/* read.c - a table from its file.
 *
 * All of it is read into memory instead of mapped: a file that somebody cuts short while it is
 * mapped ends the process (SIGBUS), and one that is changed changes the numbers under the reader.
 * Nothing is allocated before the file's length agrees with what its header asks for, so the
 * largest allocation is no larger than the file. */
#include "table.h"

#include "../backward/dense.h"
#include "../base.h"
#include "disk.h"

#include <math.h>
#include <string.h>

enum { PIECE = 1 << 18 };

typedef struct reader {
    int fd;
    const char *path;
    retrace_error *err;
    rt_header h;
} reader;

static int senseless(const reader *r, const char *what) {
    return retrace_fail(r->err, RETRACE_EMODEL, "table '%s' makes no sense: %s", r->path, what);
}

/* ==== Sections ==== */

/* Reads n bytes and adds them up piece by piece, while each is still in the processor's cache. */
static int take_bytes(const reader *r, int section, unsigned char *bytes, uint64_t n) {
    rt_checksum sum;
    int rc = RETRACE_OK;
    rt_checksum_begin(&sum, (uint64_t)section);
    for (uint64_t at = 0; rc == RETRACE_OK && at < n; at += PIECE) {
        size_t size = n - at < PIECE ? (size_t)(n - at) : PIECE;
        rc = rt_disk_read(r->fd, r->h.section[section].offset + at, bytes + at, size, r->path,
                          r->err);
        if (rc == RETRACE_OK) rt_checksum_add(&sum, bytes + at, size);
    }
    if (rc == RETRACE_OK && rt_checksum_end(&sum) != r->h.section[section].sum)
        rc = retrace_fail(r->err, RETRACE_EMODEL, "table '%s' is damaged (%s)", r->path,
                          rt_section_name(section));
    return rc;
}

/* A section in memory of its own, with the zeros behind it; NULL for an empty one. */
static int take_section(const reader *r, int section, void **out) {
    const rt_section *s = &r->h.section[section];
    uint64_t n = rt_padded(s->size);
    *out = NULL;
    if (n == 0) return take_bytes(r, section, NULL, 0);
    if (n > SIZE_MAX / 2) return rt_nomem(r->err);
    unsigned char *bytes = retrace_alloc((size_t)n);
    if (!bytes) return rt_nomem(r->err);
    int rc = take_bytes(r, section, bytes, n);
    for (uint64_t i = s->size; rc == RETRACE_OK && i < n; i++)
        if (bytes[i]) rc = senseless(r, "something behind a section");
    if (rc)
        retrace_free(bytes);
    else
        *out = bytes;
    return rc;
}

static int take_names(const reader *r, rt_table *t) {
    void *names;
    int rc = take_section(r, RT_SECTION_NAMES, &names);
    if (rc) return rc;
    const char *s = names ? names : "";
    size_t n = (size_t)r->h.n_model, m = (size_t)r->h.n_weights;
    if ((n + m && memchr(s, 0, n + m)) || rt_utf8_check(s, n) != n ||
        rt_utf8_check(s + n, m) != m) {
        rc = senseless(r, "its names are no text");
    } else {
        t->model = rt_copy(s, n);
        t->weights = rt_copy(s + n, m);
        if (!t->model || !t->weights) rc = rt_nomem(r->err);
    }
    retrace_free(names);
    return rc;
}

static int take_all(const reader *r, rt_table *t) {
    void *section[RT_N_SECTIONS] = {0};
    int rc = take_names(r, t);
    for (int i = RT_SECTION_ANCHOR; rc == RETRACE_OK && i < RT_N_SECTIONS; i++)
        rc = take_section(r, i, &section[i]);
    t->anchor = section[RT_SECTION_ANCHOR];
    t->parts = (rt_factored){.states = section[RT_SECTION_STATES],
                             .output = section[RT_SECTION_OUTPUT],
                             .log_norm = section[RT_SECTION_LOG_NORM],
                             .pi = section[RT_SECTION_PI],
                             .starts = section[RT_SECTION_STARTS]};
    t->rows = section[RT_SECTION_ROWS];
    return rc;
}

/* ==== Values ==== */

/* pi is a law, and its entropy is what the header says. */
static int check_pi(const reader *r, const rt_table *t) {
    double sum = 0, entropy = 0;
    for (int i = 0; i < r->h.vocab; i++) {
        double p = t->parts.pi[i];
        if (!(p >= 0 && p <= 1 + 1e-9)) return senseless(r, "its prior is no law");
        sum += p;
        if (p > 0) entropy -= p * log(p);
    }
    if (fabs(sum - 1) > 1e-9) return senseless(r, "its prior is no law");
    if (fabs(entropy - r->h.entropy) > 1e-6) return senseless(r, "the entropy of its prior");
    return RETRACE_OK;
}

/* 1 when one of n halves is infinite or no number. Sections end with zeros, so four are looked at
 * at once: adding one to an exponent of all ones carries into the sign's place. */
static int any_bad_half(const uint16_t *x, uint64_t n) {
    uint64_t bad = 0, word;
    for (uint64_t i = 0; i < n; i += 4) {
        memcpy(&word, x + i, sizeof word);
        bad |= (word & 0x7C007C007C007C00u) + 0x0400040004000400u;
    }
    return (bad & 0x8000800080008000u) != 0;
}

static int check_factors(const reader *r, const rt_table *t) {
    const rt_section *section = r->h.section;
    if (any_bad_half(t->parts.states, section[RT_SECTION_STATES].size / 2))
        return senseless(r, "a state is not finite");
    if (any_bad_half(t->parts.output, section[RT_SECTION_OUTPUT].size / 2))
        return senseless(r, "its output matrix is not finite");
    for (uint64_t i = 0; i < section[RT_SECTION_LOG_NORM].size / 8; i++)
        if (!isfinite(t->parts.log_norm[i])) return senseless(r, "a normaliser is not finite");
    for (int i = 0; i < r->h.vocab; i++)
        if (t->parts.starts[i] > 1) return senseless(r, "what shares the document start's row");
    return RETRACE_OK;
}

static int check_rows(const reader *r, const rt_table *t) {
    size_t vocab = (size_t)r->h.vocab;
    for (size_t v = 0; v < vocab; v++) {
        double sum = 0;
        for (size_t w = 0; w < vocab; w++) sum += exp(t->rows[v * vocab + w]);
        if (!(fabs(sum - 1) <= 1e-6)) return senseless(r, "a row is no law");
    }
    return RETRACE_OK;
}

static int check_values(const reader *r, const rt_table *t) {
    for (int i = 0; i < r->h.n_anchor; i++)
        if (t->anchor[i] < 0 || t->anchor[i] >= r->h.vocab)
            return senseless(r, "its anchor is outside the vocabulary");
    int rc = check_pi(r, t);
    if (rc) return rc;
    return t->rows ? check_rows(r, t) : check_factors(r, t);
}

/* ==== The file ==== */

static void set_facts(const rt_header *h, rt_table *t) {
    t->facts = (retrace_bigram_info){
        .kind = h->kind == RT_TABLE_DENSE ? "dense" : "factored",
        .model = t->model,
        .weights = t->weights,
        .model_hash = h->model_hash,
        .vocab_hash = h->vocab_hash,
        .vocab = h->vocab,
        .dim = h->dim,
        .anchor = t->anchor,
        .n_anchor = h->n_anchor,
        .start = h->start,
        .iterations = h->iterations,
        .residual = h->residual,
        .rate = h->rate,
        .entropy = h->entropy,
        .start_pi = h->start_pi,
        .size_bytes = (int64_t)h->length,
    };
}

static int read_header(reader *r, uint64_t size) {
    unsigned char head[RT_TABLE_HEADER] = {0};
    size_t n = size < sizeof head ? (size_t)size : sizeof head;
    int rc = rt_disk_read(r->fd, 0, head, n, r->path, r->err);
    return rc ? rc : rt_header_unpack(head, size, r->path, &r->h, r->err);
}

int rt_table_read(rt_table *t, const char *path, retrace_error *err) {
    reader r = {.fd = -1, .path = path, .err = err};
    uint64_t size;
    *t = (rt_table){0};
    int rc = rt_check_order(err);
    if (rc == RETRACE_OK) rc = rt_disk_open(path, &r.fd, &size, err);
    if (rc) return rc;
    rc = read_header(&r, size);
    if (rc == RETRACE_OK) rc = take_all(&r, t);
    if (rc == RETRACE_OK) rc = check_values(&r, t);
    if (rc == RETRACE_OK) set_facts(&r.h, t);
    rt_disk_close(r.fd, path, NULL);
    if (rc) rt_table_free(t);
    return rc;
}

/* ==== The chain ==== */

int retrace_bigram_open(retrace_bigram **out, const char *path, retrace_error *err) {
    rt_table t;
    rt_clear(err);
    int rc = rt_table_read(&t, path, err);
    if (rc) return rc;
    if (t.rows)
        rc = rt_dense_new(out, &t.facts, t.rows, t.parts.pi, err);
    else
        rc = rt_factored_new(out, &t.facts, t.parts, err);
    if (rc == RETRACE_OK) { /* the arrays are the chain's, strings and anchor were copied */
        t.rows = NULL;
        t.parts = (rt_factored){0};
    }
    rt_table_free(&t);
    return rc;
}
