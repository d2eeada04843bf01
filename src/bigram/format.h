/* format.h - what a table file consists of.
 *
 * A header of 512 bytes, then sections in a fixed order, each beginning at a multiple of 64. Where
 * they lie follows from a few sizes alone; the header repeats offsets and lengths, and a reader
 * compares. The header has a checksum, and so has each section together with the zeros behind it,
 * so that every byte of the file is covered by one.
 *
 * All numbers are little-endian. Arrays are used as they lie in the file, so a machine of the other
 * byte order is refused instead of served by code that nobody can run. */
#ifndef RT_FORMAT_H
#define RT_FORMAT_H

#include "../backward/factored.h"

enum {
    RT_TABLE_VERSION = 1,
    RT_TABLE_HEADER = 512, /* bytes, its checksum being the last eight */
    RT_TABLE_MAX_VOCAB = 1 << 24,
    RT_TABLE_MAX_DENSE = 4096, /* tokens of a dense table */
    RT_TABLE_MAX_DIM = 1 << 17,
    RT_TABLE_MAX_ANCHOR = 1 << 20,
    RT_TABLE_MAX_NAME = 4096
};

enum { RT_TABLE_DENSE = 1, RT_TABLE_FACTORED = 2 };

/* Which sections a file has is a question of its kind; the others are empty. */
enum {
    RT_SECTION_NAMES,    /* the model's name, then its weights, without an end */
    RT_SECTION_ANCHOR,   /* int32 */
    RT_SECTION_PI,       /* double, vocab */
    RT_SECTION_STATES,   /* half, (vocab + 1) x dim: the last row is the document start's */
    RT_SECTION_LOG_NORM, /* double, vocab + 1 */
    RT_SECTION_OUTPUT,   /* half, vocab x dim */
    RT_SECTION_STARTS,   /* byte, vocab: 1 for tokens whose row is the last one */
    RT_SECTION_ROWS,     /* double, vocab x vocab: ln p */
    RT_N_SECTIONS
};

/* A table in memory. Arrays come from retrace_alloc. */
typedef struct rt_table {
    retrace_bigram_info facts; /* its strings and anchor are those below */
    char *model, *weights;
    retrace_token *anchor;
    rt_factored parts; /* of a dense table only pi */
    double *rows;      /* dense */
} rt_table;

void rt_table_free(rt_table *t);

typedef struct rt_section {
    uint64_t offset, size; /* size without the zeros behind it */
    uint64_t sum;
} rt_section;

/* The header in the form of numbers. */
typedef struct rt_header {
    int kind, vocab, dim, n_anchor, n_model, n_weights;
    int32_t start, iterations;
    uint64_t model_hash, vocab_hash;
    double residual, rate, entropy, start_pi;
    uint64_t length; /* of the file */
    rt_section section[RT_N_SECTIONS];
} rt_header;

/* Sets offsets, sizes and length from kind, vocab, dim and the three lengths, which must be in
 * range. */
void rt_header_place(rt_header *h);
void rt_header_pack(const rt_header *h, unsigned char out[RT_TABLE_HEADER]);
/* Takes apart and checks: `size` bytes of the file are there. EMODEL. */
int rt_header_unpack(const unsigned char in[RT_TABLE_HEADER], uint64_t size, const char *path,
                     rt_header *h, retrace_error *err);
/* The first bytes of every table. */
extern const unsigned char rt_table_magic[8];

/* "states", for messages. */
const char *rt_section_name(int section);
/* Bytes to the next multiple of 64. */
uint64_t rt_padded(uint64_t n);

/* A checksum of 64 bits: any change within one word of 8 bytes changes it for certain, any other by
 * all but 2^-64. Taken in pieces it is the same when all pieces but the last are multiples of 32
 * bytes. */
typedef struct rt_checksum {
    uint64_t lane[4], n;
} rt_checksum;
void rt_checksum_begin(rt_checksum *s, uint64_t seed);
void rt_checksum_add(rt_checksum *s, const void *bytes, size_t n);
uint64_t rt_checksum_end(const rt_checksum *s);
uint64_t rt_checksum_of(uint64_t seed, const void *bytes, size_t n);

/* EMODEL on a machine that is not little-endian. */
int rt_check_order(retrace_error *err);

/* Numbers in a header, whatever the machine. */
void rt_put(unsigned char *at, int bytes, uint64_t x);
uint64_t rt_get(const unsigned char *at, int bytes);
void rt_put_double(unsigned char *at, double x);
double rt_get_double(const unsigned char *at);

#endif
