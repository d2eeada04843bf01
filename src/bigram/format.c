/* format.c - the header of a table file and its checksums; see format.h.
 *
 * A header is taken apart only after its checksum held. Even so nothing in it is believed: a
 * checksum protects from accidents, not from people. */
#include "format.h"

#include <math.h>
#include <string.h>

const unsigned char rt_table_magic[8] = {'R', 'T', 'B', 'I', 'G', 'R', 'A', 'M'};
static const uint32_t order_mark = 0x01020304;

/* Where things are in the header. */
enum {
    AT_MAGIC = 0,
    AT_ORDER = 8,
    AT_VERSION = 12,
    AT_KIND = 16,
    AT_ZERO = 20,
    AT_LENGTH = 24,
    AT_MODEL_HASH = 32,
    AT_VOCAB_HASH = 40,
    AT_VOCAB = 48,
    AT_DIM = 52,
    AT_N_ANCHOR = 56,
    AT_START = 60,
    AT_ITERATIONS = 64,
    AT_N_MODEL = 68,
    AT_N_WEIGHTS = 72,
    AT_ZERO_TOO = 76,
    AT_RESIDUAL = 80,
    AT_RATE = 88,
    AT_ENTROPY = 96,
    AT_START_PI = 104,
    AT_SECTIONS = 112,
    SECTION = 24,
    AT_END = AT_SECTIONS + RT_N_SECTIONS * SECTION, /* zeros from here on */
    AT_SUM = RT_TABLE_HEADER - 8
};

/* ==== Numbers ==== */

void rt_put(unsigned char *at, int bytes, uint64_t x) {
    for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(x >> (8 * i));
}

uint64_t rt_get(const unsigned char *at, int bytes) {
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++) x |= (uint64_t)at[i] << (8 * i);
    return x;
}

void rt_put_double(unsigned char *at, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    rt_put(at, 8, bits);
}

double rt_get_double(const unsigned char *at) {
    uint64_t bits = rt_get(at, 8);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A 32-bit field that must be in low..high; high + 1 when it is not. */
static int get_int(const unsigned char *at, int low, int high, int *bad) {
    int32_t x = (int32_t)(uint32_t)rt_get(at, 4);
    if (x < low || x > high) *bad = 1;
    return x;
}

int rt_check_order(retrace_error *err) {
    unsigned char bytes[4];
    memcpy(bytes, &order_mark, sizeof bytes);
    if (bytes[0] == 4) return RETRACE_OK;
    return retrace_fail(err, RETRACE_EMODEL, "tables need a little-endian machine");
}

/* ==== Checksums ==== */

/* Four lanes, each taking every fourth word. A step is one-to-one in the lane and in the word. */
static inline uint64_t step(uint64_t h, uint64_t word) {
    h = (h ^ word) * 0x9E3779B97F4A7C15u;
    return h << 29 | h >> 35;
}

static uint64_t last_step(uint64_t h, uint64_t x) {
    h = step(h, x);
    h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93u;
    return h ^ (h >> 29);
}

void rt_checksum_begin(rt_checksum *s, uint64_t seed) {
    for (uint64_t i = 0; i < 4; i++) s->lane[i] = last_step(seed + 1, i + 1);
    s->n = 0;
}

void rt_checksum_add(rt_checksum *s, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    uint64_t a = s->lane[0], b = s->lane[1], c = s->lane[2], d = s->lane[3], w[4];
    s->n += n;
    for (; n >= sizeof w; n -= sizeof w, p += sizeof w) {
        memcpy(w, p, sizeof w);
        a = step(a, w[0]);
        b = step(b, w[1]);
        c = step(c, w[2]);
        d = step(d, w[3]);
    }
    memset(w, 0, sizeof w);
    if (n) memcpy(w, p, n);
    s->lane[0] = n ? step(a, w[0]) : a;
    s->lane[1] = n ? step(b, w[1]) : b;
    s->lane[2] = n ? step(c, w[2]) : c;
    s->lane[3] = n ? step(d, w[3]) : d;
}

uint64_t rt_checksum_end(const rt_checksum *s) {
    uint64_t h = s->n;
    for (int i = 0; i < 4; i++) h = last_step(h, s->lane[i]);
    return h;
}

uint64_t rt_checksum_of(uint64_t seed, const void *bytes, size_t n) {
    rt_checksum s;
    rt_checksum_begin(&s, seed);
    rt_checksum_add(&s, bytes, n);
    return rt_checksum_end(&s);
}

/* ==== Layout ==== */

const char *rt_section_name(int section) {
    static const char *const names[] = {"names",       "anchor", "pi",     "states",
                                        "normalisers", "output", "starts", "rows"};
    return names[section];
}

uint64_t rt_padded(uint64_t n) {
    return (n + 63) / 64 * 64;
}

void rt_header_place(rt_header *h) {
    uint64_t vocab = (uint64_t)h->vocab, dim = (uint64_t)h->dim;
    int factored = h->kind == RT_TABLE_FACTORED;
    const uint64_t sizes[RT_N_SECTIONS] = {
        [RT_SECTION_NAMES] = (uint64_t)h->n_model + (uint64_t)h->n_weights,
        [RT_SECTION_ANCHOR] = 4 * (uint64_t)h->n_anchor,
        [RT_SECTION_PI] = 8 * vocab,
        [RT_SECTION_STATES] = factored ? 2 * (vocab + 1) * dim : 0,
        [RT_SECTION_LOG_NORM] = factored ? 8 * (vocab + 1) : 0,
        [RT_SECTION_OUTPUT] = factored ? 2 * vocab * dim : 0,
        [RT_SECTION_STARTS] = factored ? vocab : 0,
        [RT_SECTION_ROWS] = factored ? 0 : 8 * vocab * vocab,
    };
    uint64_t at = RT_TABLE_HEADER;
    for (int i = 0; i < RT_N_SECTIONS; i++) {
        h->section[i].offset = at;
        h->section[i].size = sizes[i];
        at += rt_padded(sizes[i]);
    }
    h->length = at;
}

/* ==== Writing ==== */

void rt_header_pack(const rt_header *h, unsigned char out[RT_TABLE_HEADER]) {
    memset(out, 0, RT_TABLE_HEADER);
    memcpy(out + AT_MAGIC, rt_table_magic, sizeof rt_table_magic);
    rt_put(out + AT_ORDER, 4, order_mark);
    rt_put(out + AT_VERSION, 4, RT_TABLE_VERSION);
    rt_put(out + AT_KIND, 4, (uint64_t)h->kind);
    rt_put(out + AT_LENGTH, 8, h->length);
    rt_put(out + AT_MODEL_HASH, 8, h->model_hash);
    rt_put(out + AT_VOCAB_HASH, 8, h->vocab_hash);
    rt_put(out + AT_VOCAB, 4, (uint64_t)h->vocab);
    rt_put(out + AT_DIM, 4, (uint64_t)h->dim);
    rt_put(out + AT_N_ANCHOR, 4, (uint64_t)h->n_anchor);
    rt_put(out + AT_START, 4, (uint32_t)h->start);
    rt_put(out + AT_ITERATIONS, 4, (uint64_t)h->iterations);
    rt_put(out + AT_N_MODEL, 4, (uint64_t)h->n_model);
    rt_put(out + AT_N_WEIGHTS, 4, (uint64_t)h->n_weights);
    rt_put_double(out + AT_RESIDUAL, h->residual);
    rt_put_double(out + AT_RATE, h->rate);
    rt_put_double(out + AT_ENTROPY, h->entropy);
    rt_put_double(out + AT_START_PI, h->start_pi);
    for (int i = 0; i < RT_N_SECTIONS; i++) {
        unsigned char *at = out + AT_SECTIONS + i * SECTION;
        rt_put(at, 8, h->section[i].offset);
        rt_put(at + 8, 8, h->section[i].size);
        rt_put(at + 16, 8, h->section[i].sum);
    }
    rt_put(out + AT_SUM, 8, rt_checksum_of(RT_N_SECTIONS, out, AT_SUM));
}

/* ==== Reading ==== */

/* The magic with every 2, 4 or 8 bytes turned round. */
static int is_swapped(const unsigned char *in) {
    for (int width = 2; width <= 8; width *= 2) {
        int same = 1;
        for (int i = 0; i < 8; i++) same &= in[i] == rt_table_magic[i ^ (width - 1)];
        if (same) return 1;
    }
    return 0;
}

static int senseless(const char *path, const char *what, retrace_error *err) {
    return retrace_fail(err, RETRACE_EMODEL, "table '%s' makes no sense: %s", path, what);
}

/* What tells tables of this version from everything else. */
static int check_start(const unsigned char *in, uint64_t size, const char *path,
                       retrace_error *err) {
    uint64_t version = rt_get(in + AT_VERSION, 4), mark = rt_get(in + AT_ORDER, 4);
    if (size >= 8 && is_swapped(in))
        return retrace_fail(err, RETRACE_EMODEL, "table '%s' is of the other byte order", path);
    if (size < 8 || memcmp(in, rt_table_magic, sizeof rt_table_magic) != 0)
        return retrace_fail(err, RETRACE_EMODEL, "'%s' is not a table", path);
    if (size < RT_TABLE_HEADER)
        return retrace_fail(err, RETRACE_EMODEL,
                            "table '%s' is truncated: its header takes %d bytes, there are %llu",
                            path, RT_TABLE_HEADER, (unsigned long long)size);
    if (mark == 0x04030201)
        return retrace_fail(err, RETRACE_EMODEL, "table '%s' is of the other byte order", path);
    int intact = rt_get(in + AT_SUM, 8) == rt_checksum_of(RT_N_SECTIONS, in, AT_SUM);
    /* A later version may keep its checksum elsewhere. */
    if (mark == order_mark && version > RT_TABLE_VERSION && version < 1000)
        return retrace_fail(err, RETRACE_EMODEL,
                            "table '%s' was made by a later version (%llu); this one reads %d",
                            path, (unsigned long long)version, RT_TABLE_VERSION);
    if (!intact) return retrace_fail(err, RETRACE_EMODEL, "table '%s' is damaged (header)", path);
    if (mark != order_mark) return senseless(path, "its byte order mark", err);
    if (version != RT_TABLE_VERSION) return senseless(path, "its version", err);
    return RETRACE_OK;
}

static int is_size(double x, double max) {
    return x >= 0 && x <= max; /* false for a NaN */
}

static int check_numbers(const rt_header *h, const char *path, retrace_error *err) {
    if (h->kind != RT_TABLE_FACTORED && h->kind != RT_TABLE_DENSE)
        return senseless(path, "its kind is unknown", err);
    if (h->kind == RT_TABLE_DENSE && h->vocab > RT_TABLE_MAX_DENSE)
        return senseless(path, "too many tokens for all rows", err);
    if (h->kind == RT_TABLE_DENSE ? h->dim != 0 : h->dim < 1)
        return senseless(path, "the length of its states", err);
    if (h->start >= h->vocab) return senseless(path, "its document start is no token", err);
    if (!is_size(h->residual, 2) || !is_size(h->rate, 1e9) || !is_size(h->start_pi, 1 + 1e-9) ||
        !is_size(h->entropy, log((double)h->vocab) + 1e-9))
        return senseless(path, "its residual, rate, entropy or start's share", err);
    return RETRACE_OK;
}

static void get_numbers(const unsigned char *in, rt_header *h, int *bad) {
    h->kind = get_int(in + AT_KIND, 0, 15, bad);
    get_int(in + AT_ZERO, 0, 0, bad);
    get_int(in + AT_ZERO_TOO, 0, 0, bad);
    h->length = rt_get(in + AT_LENGTH, 8);
    h->model_hash = rt_get(in + AT_MODEL_HASH, 8);
    h->vocab_hash = rt_get(in + AT_VOCAB_HASH, 8);
    h->vocab = get_int(in + AT_VOCAB, 1, RT_TABLE_MAX_VOCAB, bad);
    h->dim = get_int(in + AT_DIM, 0, RT_TABLE_MAX_DIM, bad);
    h->n_anchor = get_int(in + AT_N_ANCHOR, 0, RT_TABLE_MAX_ANCHOR, bad);
    h->start = get_int(in + AT_START, -1, RT_TABLE_MAX_VOCAB, bad);
    h->iterations = get_int(in + AT_ITERATIONS, 0, INT32_MAX, bad);
    h->n_model = get_int(in + AT_N_MODEL, 0, RT_TABLE_MAX_NAME, bad);
    h->n_weights = get_int(in + AT_N_WEIGHTS, 0, RT_TABLE_MAX_NAME, bad);
    h->residual = rt_get_double(in + AT_RESIDUAL);
    h->rate = rt_get_double(in + AT_RATE);
    h->entropy = rt_get_double(in + AT_ENTROPY);
    h->start_pi = rt_get_double(in + AT_START_PI);
    for (int i = AT_END; i < AT_SUM; i++) *bad |= in[i] != 0;
}

/* Offsets and sizes must be the ones that follow from the rest. */
static int check_places(const unsigned char *in, rt_header *h) {
    uint64_t length = h->length;
    rt_header_place(h);
    int same = h->length == length;
    for (int i = 0; i < RT_N_SECTIONS; i++) {
        const unsigned char *at = in + AT_SECTIONS + i * SECTION;
        same &= rt_get(at, 8) == h->section[i].offset && rt_get(at + 8, 8) == h->section[i].size;
        h->section[i].sum = rt_get(at + 16, 8);
    }
    return same;
}

int rt_header_unpack(const unsigned char in[RT_TABLE_HEADER], uint64_t size, const char *path,
                     rt_header *h, retrace_error *err) {
    int bad = 0, rc = check_start(in, size, path, err);
    if (rc) return rc;
    get_numbers(in, h, &bad);
    if (bad) return senseless(path, "a number of its header is out of range", err);
    rc = check_numbers(h, path, err);
    if (rc) return rc;
    if (!check_places(in, h)) return senseless(path, "its sizes do not agree", err);
    if (size < h->length)
        return retrace_fail(err, RETRACE_EMODEL,
                            "table '%s' is truncated: it takes %llu bytes, there are %llu", path,
                            (unsigned long long)h->length, (unsigned long long)size);
    if (size > h->length)
        return retrace_fail(err, RETRACE_EMODEL,
                            "table '%s' is damaged: it takes %llu bytes, there are %llu", path,
                            (unsigned long long)h->length, (unsigned long long)size);
    return RETRACE_OK;
}

void rt_table_free(rt_table *t) {
    retrace_free(t->model);
    retrace_free(t->weights);
    retrace_free(t->anchor);
    retrace_free(t->parts.pi);
    retrace_free(t->parts.states);
    retrace_free(t->parts.log_norm);
    retrace_free(t->parts.output);
    retrace_free(t->parts.starts);
    retrace_free(t->rows);
    *t = (rt_table){0};
}
