/* part.h - the work of a build as it is kept until the table is there: `path`.part.
 *
 * A header that says what is being built, then the states in blocks of fixed places, then two
 * places for the law after a pass, used in turn. Everything has its own checksum, so what a killed
 * process or a full disk left half-written counts as not done. What is written is on the disk
 * before the call returns. */
#ifndef RT_PART_H
#define RT_PART_H

#include "format.h"

typedef struct rt_part {
    int fd; /* -1: not open */
    char *path;
    retrace_error *err;
    uint64_t key;   /* digest of what is being built */
    int vocab, dim; /* 0: nothing is kept (dense) */
    int each;       /* rows of a block: about 256, and whole batches */
    int kept;       /* 1: there is work in it that is worth keeping */
} rt_part;

/* The search for the law after `pass` passes. */
typedef struct rt_part_law {
    int pass;
    double change; /* of that pass */
    double *state; /* all that decides how it goes on */
    size_t n;      /* numbers of it */
} rt_part_law;

/* Opens and locks `path`.part. What is in it is forgotten when it belongs to something else than
 * `facts` and states by `batch` at once, or with restart. EIO also when it is no part of ours. */
int rt_part_open(rt_part *p, const char *path, const retrace_bigram_info *facts, int batch,
                 int restart, retrace_error *err);
/* Closes; with `remove` (or when it holds nothing) takes the file away. */
void rt_part_close(rt_part *p, int remove);

int rt_part_blocks(const rt_part *p);
/* The first row of a block and *n rows in all. */
int rt_part_rows(const rt_part *p, int i, int *n);
/* Block i, dim halves a row: RETRACE_OK, RETRACE_DONE when it is not there, or an error. */
int rt_part_read_block(rt_part *p, int i, uint16_t *rows);
int rt_part_write_block(rt_part *p, int i, const uint16_t *rows);

/* The latest law into law->state, of law->n numbers: RETRACE_OK, RETRACE_DONE when there is none
 * (the state is then of no use), or an error. */
int rt_part_read_law(rt_part *p, rt_part_law *law);
int rt_part_write_law(rt_part *p, const rt_part_law *law);

#endif
