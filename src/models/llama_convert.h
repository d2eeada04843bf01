/* llama_convert.h - libllama's quantiser, from one file to another. */
#ifndef RT_LLAMA_CONVERT_H
#define RT_LLAMA_CONVERT_H

#include "retrace_ext.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As retrace_convert_type_at. */
const char *rt_convert_type_at(int i);
/* The quantiser's number for a type's name, in capitals or not. EUSAGE: there is none, or it needs
 * an importance matrix. */
int rt_convert_type(const char *name, int *type, retrace_error *err);
/* As retrace_gguf_type, of a file that rt_gguf_check has passed. */
int rt_convert_source(const char *path, const char **type, int *quantised, retrace_error *err);
/* Writes `out`, whose end may be missing even on RETRACE_OK: the quantiser does not notice every
 * failed write. EIO: it has noticed one. */
int rt_convert_run(const char *in, const char *out, int type, int pure, int threads,
                   retrace_progress_fn *progress, void *ud, retrace_error *err);

#ifdef __cplusplus
}
#endif
#endif
