/* bare.c - libllama with nothing in between; see bare.h. */
#include "bare.h"

#include <stdlib.h>
#include <string.h>

#ifdef RETRACE_HAVE_LLAMA
#include <llama.h>

struct bare {
    struct llama_model *model;
    struct llama_context *ctx;
    int n_batch, n_vocab;
};

static void quiet(enum ggml_log_level level, const char *text, void *ud) {
    (void)level;
    (void)text;
    (void)ud;
}

bare *bare_open(const char *path, int n_ctx, int n_batch, int n_threads, int n_gpu_layers) {
    bare *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    llama_log_set(quiet, NULL);
    llama_backend_init();
    struct llama_model_params mp = llama_model_default_params();
    mp.n_gpu_layers = n_gpu_layers;
    b->model = llama_model_load_from_file(path, mp);
    struct llama_context_params cp = llama_context_default_params();
    cp.n_ctx = (uint32_t)n_ctx;
    cp.n_batch = cp.n_ubatch = (uint32_t)n_batch;
    cp.n_threads = cp.n_threads_batch = n_threads;
    cp.swa_full = false;
    if (b->model) b->ctx = llama_init_from_model(b->model, cp);
    if (!b->ctx) {
        bare_close(b);
        return NULL;
    }
    b->n_batch = n_batch;
    b->n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(b->model));
    return b;
}

void bare_close(bare *b) {
    if (!b) return;
    if (b->ctx) llama_free(b->ctx);
    if (b->model) llama_model_free(b->model);
    free(b);
}

int bare_eval(bare *b, const retrace_token *tokens, int n, int n_prompt, float *next) {
    retrace_token *copy = malloc((size_t)n * sizeof *copy);
    if (!copy) return 0;
    memcpy(copy, tokens, (size_t)n * sizeof *copy);
    llama_memory_clear(llama_get_memory(b->ctx), true);
    int at = 0, ok = 1;
    while (ok && at < n) {
        int part = n_prompt - at < b->n_batch ? n_prompt - at : b->n_batch;
        if (at >= n_prompt) part = 1;
        ok = llama_decode(b->ctx, llama_batch_get_one(copy + at, part)) == 0;
        at += part;
    }
    const float *logits = ok ? llama_get_logits_ith(b->ctx, -1) : NULL;
    if (logits) memcpy(next, logits, (size_t)b->n_vocab * sizeof *next);
    free(copy);
    return logits != NULL;
}

#else

bare *bare_open(const char *path, int n_ctx, int n_batch, int n_threads, int n_gpu_layers) {
    (void)path;
    (void)n_ctx;
    (void)n_batch;
    (void)n_threads;
    (void)n_gpu_layers;
    return NULL;
}

void bare_close(bare *b) {
    (void)b;
}

int bare_eval(bare *b, const retrace_token *tokens, int n, int n_prompt, float *next) {
    (void)b;
    (void)tokens;
    (void)n;
    (void)n_prompt;
    (void)next;
    return 0;
}

#endif
