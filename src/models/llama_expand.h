/* llama_expand.h - a model file with all of its matrices in 32-bit floats, in memory. */
#ifndef RT_LLAMA_EXPAND_H
#define RT_LLAMA_EXPAND_H

#include "retrace_ext.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the expansion of a file that rt_gguf_check has passed: *out is a file without a name, read
 * from its beginning and closed by the caller; NULL when the file's matrices are F32 already. The
 * numbers are exactly what the file's stand for; vectors (norms, biases) stay as they are. EMODEL:
 * a model in several files, or a type that cannot be expanded. ENOMEM: more than the machine has.
 */
int rt_expand(FILE **out, const char *path, retrace_error *err);

/* One tensor of a file as floats, row by row, `n` of them. EMODEL: there is none of that name and
 * size. */
int rt_tensor(const char *path, const char *name, float *out, size_t n, retrace_error *err);
/* 1 when the file has a tensor of that name, with the shape (columns, rows) it has. */
int rt_tensor_shape(const char *path, const char *name, int64_t *columns, int64_t *rows);

#ifdef __cplusplus
}
#endif
#endif
