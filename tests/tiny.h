/* tiny.h - models for tests: the tiny files that tests/tiny_gguf.py writes, and chance that
 * repeats. */
#ifndef TEST_TINY_H
#define TEST_TINY_H

#include "retrace.h"

/* The path of a tiny model ("dense.gguf"), in a buffer that the next call overwrites. NULL: there
 * are none (RETRACE_TINY is not set, or the file is missing). */
const char *tiny_path(const char *file);

/* Opens a model with settings written as "name=value name=value". Fails the test when it cannot. */
retrace_model *tiny_open(const char *path, const char *settings);
/* The same, but hands back what retrace_model_open says. */
int tiny_try(retrace_model **out, const char *path, const char *settings, retrace_error *err);

/* A table model written for the time of a test program, and its path. write and remove are set-up
 * and tear-down of cmocka. tiny_table_json is the model: a, b, c, d and an end, unless set before.
 */
extern const char *tiny_table_json;
int tiny_table_write(void **state);
int tiny_table_remove(void **state);
const char *tiny_table(void);

/* Asks, fails the test when the model does, and sees that all is answered. */
void tiny_ask(retrace_model *m, retrace_query *q, int n);
/* Room for a row of logits, to be freed. */
float *tiny_row(const retrace_model_info *f);

/* A generator with its whole state in *seed. */
uint64_t tiny_random(uint64_t *seed);
/* Uniform in low..high. */
int tiny_between(uint64_t *seed, int low, int high);

/* Squared distance of a from b, over the square of b. */
double tiny_nmse(const float *a, const float *b, int n);

#endif
