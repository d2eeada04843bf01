/* llama_shim.h - libllama behind C functions that return errors.
 *
 * libllama throws through its C interface and aborts on what it takes for a programmer's error. The
 * one C++ file behind this header catches the first and checks beforehand for the second, so that a
 * model file, a text or a setting never takes the program down. It also keeps libllama's log off
 * the terminal: the line that says what went wrong ends up in the retrace_error.
 *
 * A *row* is one token of a batch that has been decoded; a *sequence* is one history in the model's
 * memory, numbered from 0. */
#ifndef RT_LLAMA_SHIM_H
#define RT_LLAMA_SHIM_H

#include "retrace_ext.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rt_llama rt_llama;

typedef struct rt_llama_params {
    const char *path;
    FILE *file;         /* the model to read in place of path's; NULL: path's */
    const char *device; /* "auto", "cpu", "cuda:N" or a device's name */
    int n_gpu_layers;   /* -1: all */
    int n_ctx;          /* per sequence */
    int n_batch;        /* most tokens in a batch */
    int n_seq;
    int n_threads;
    int one_cache;  /* 1: the sequences share n_ctx cells, so that copies take none */
    int embeddings; /* 1: hidden states can be read */
    int swa_full;   /* 1: a sliding window's cache holds the whole context */
} rt_llama_params;

typedef struct rt_llama_facts {
    int vocab;
    int n_embd; /* numbers in a hidden state */
    int n_ctx;  /* per sequence */
    int n_batch;
    int n_logits; /* most rows of a batch whose logits can be asked for; at least n_seq */
    int64_t n_params;
    int64_t size_bytes;
    int add_bos;
    retrace_token bos, eos; /* -1: none */
    int recurrent;          /* 1: some layers keep a running state instead of a cache */
    int64_t cell_bytes;     /* about what one token takes in the cache */
    int window; /* tokens a sliding window looks back and then forgets; 0: nothing is forgotten */
} rt_llama_facts;

/* Loads a file that rt_gguf_check has passed. n_ctx 0: the model's own, but at most `n_ctx_cap`. */
int rt_llama_open(rt_llama **out, const rt_llama_params *params, int n_ctx_cap, retrace_error *err);
/* Another memory for the model of `parent`, which must live longer: n_ctx, n_batch, n_seq,
 * n_threads, one_cache and embeddings of params count. */
int rt_llama_share(rt_llama **out, const rt_llama *parent, const rt_llama_params *params,
                   retrace_error *err);
void rt_llama_close(rt_llama *l);
void rt_llama_facts_of(const rt_llama *l, rt_llama_facts *out);
/* The value of a key of the file as text, ended with NUL, in buf; its full length, or -1. */
int rt_llama_meta(const rt_llama *l, const char *key, char *buf, size_t size);
/* The chat template: the one that was set, else that of the file, or NULL. Lives as long as l. */
const char *rt_llama_template(const rt_llama *l);
/* Takes a template's name or text in place of the file's. EMODEL: libllama does not know it. */
int rt_llama_set_template(rt_llama *l, retrace_text form, retrace_error *err);
/* The i-th name that libllama knows, or NULL. Static. */
const char *rt_llama_template_at(int i);

/* ==== Vocabulary ==== */

/* The bytes of a token, control tokens spelt out: writes at most n of them and returns how many
 * there are. */
int rt_llama_piece(const rt_llama *l, retrace_token id, char *buf, int n);
/* RETRACE_TOKEN_* flags. */
int rt_llama_flags(const rt_llama *l, retrace_token id);
/* Tokens of a text, nothing added in front or behind; *out is freed with retrace_free. */
int rt_llama_tokenize(const rt_llama *l, retrace_text text, int parse_special, retrace_token **out,
                      int *n, retrace_error *err);
/* Messages by the model's template, with the beginning of the assistant's turn behind them.
 * Contents hold no NUL. *out is freed with retrace_free. EMODEL: libllama does not know the
 * template. */
int rt_llama_render(const rt_llama *l, const char *const *roles, const char *const *contents, int n,
                    char **out, size_t *len, retrace_error *err);

/* ==== Decoding ==== */

/* Adds a row to the batch and returns its number. At most n_batch of them, at most n_logits wanted.
 */
int rt_llama_put(rt_llama *l, retrace_token id, int pos, int seq, int want);
/* Feeds the batch and empties it. On an error the memory may hold part of it. */
int rt_llama_decode(rt_llama *l, retrace_error *err);
/* The logits after a row of the last batch that was wanted; NULL when there are none. */
const float *rt_llama_row(rt_llama *l, int row);

/* The hidden state after the last norm, of the same rows, where embeddings is set. Some models then
 * have no logits. */
void rt_llama_set_embeddings(rt_llama *l, int on);
const float *rt_llama_state(rt_llama *l, int row);

/* ==== Memory ==== */

/* Removes positions from `pos` on: 1, or 0 when the model cannot and nothing is changed. pos 0
 * always works. */
int rt_llama_cut(rt_llama *l, int seq, int pos);
/* Makes a sequence hold what another one holds: 1, or 0 when the model cannot. */
int rt_llama_copy(rt_llama *l, int from, int to);
/* The first and last position held; -1, -1 when empty. */
void rt_llama_span(const rt_llama *l, int seq, int *first, int *last);
/* Forgets everything. */
void rt_llama_empty(rt_llama *l);
/* Forgets everything and wipes the buffers, so that nothing bad (NaN) is left behind. */
void rt_llama_clear(rt_llama *l);
/* The part of a sequence's state that cannot be cut: its size, a copy (1 on success), and back. */
size_t rt_llama_state_size(rt_llama *l, int seq);
int rt_llama_state_save(rt_llama *l, int seq, void *data, size_t size);
int rt_llama_state_load(rt_llama *l, int seq, const void *data, size_t size);

/* ==== Types of tensors ==== */

/* Elements in a block of a tensor type and its bytes; 0 for a type that libllama does not know. */
int rt_llama_type(uint32_t type, uint64_t *elements, uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
