/* llama_gguf.h - a look at a model file before libllama sees it. */
#ifndef RT_LLAMA_GGUF_H
#define RT_LLAMA_GGUF_H

#include "retrace_ext.h"

/* Reads the header of a GGUF file and checks that everything it announces lies within the file:
 * counts, lengths, types, shapes, and the end of the tensors' data. EIO: the file is missing,
 * unreadable or no plain file; EMODEL: not GGUF, broken, truncated, or without vocabulary or
 * weights. One line each. *hash, when not NULL, becomes a hash of the header, the file's size and
 * samples of every tensor's data: quick for any size, and another file's is another. */
int rt_gguf_check(const char *path, uint64_t *hash, retrace_error *err);

#endif
