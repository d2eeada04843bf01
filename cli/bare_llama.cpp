/* bare_llama.cpp - the shortest loop over libllama that generates text: decode, sample, decode.
 *
 * The sampler chain is what llama-cli builds with its defaults (penalties off): logit bias against
 * end tokens, top-k 40, top-p 0.95, min-p 0.05, temperature 0.8, a seeded draw. Everything is
 * called through libllama's own functions, as a program that knows nothing of retrace would. */
#include "bare.h"

#include <llama.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

struct cli_bare {
    llama_model *model;
    llama_context *ctx;
    std::vector<llama_logit_bias> ends;
};

static int failed(char *msg, size_t size, const char *what) {
    std::snprintf(msg, size, "%s", what);
    return -1;
}

static void find_ends(cli_bare *b) {
    const llama_vocab *vocab = llama_model_get_vocab(b->model);
    for (llama_token id = 0; id < llama_vocab_n_tokens(vocab); id++)
        if (llama_vocab_is_eog(vocab, id)) b->ends.push_back({id, -INFINITY});
}

static int open_all(cli_bare *b, const char *path, int n_ctx, int n_batch, int n_threads,
                    int n_gpu_layers, char *msg, size_t size) {
    llama_model_params mp = llama_model_default_params();
    mp.n_gpu_layers = n_gpu_layers;
    b->model = llama_model_load_from_file(path, mp);
    if (!b->model) return failed(msg, size, "libllama cannot load the model");
    llama_context_params cp = llama_context_default_params();
    cp.n_ctx = (uint32_t)n_ctx;
    cp.n_batch = cp.n_ubatch = (uint32_t)n_batch;
    cp.n_threads = cp.n_threads_batch = n_threads;
    cp.no_perf = true;
    b->ctx = llama_init_from_model(b->model, cp);
    if (!b->ctx) return failed(msg, size, "libllama cannot make a context");
    find_ends(b);
    return 0;
}

static llama_sampler *make_chain(const cli_bare *b, uint32_t seed) {
    const llama_vocab *vocab = llama_model_get_vocab(b->model);
    llama_sampler *chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    llama_sampler_chain_add(chain,
                            llama_sampler_init_logit_bias(llama_vocab_n_tokens(vocab),
                                                          (int32_t)b->ends.size(), b->ends.data()));
    llama_sampler_chain_add(chain, llama_sampler_init_top_k(40));
    llama_sampler_chain_add(chain, llama_sampler_init_top_p(0.95f, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_min_p(0.05f, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_temp(0.8f));
    llama_sampler_chain_add(chain, llama_sampler_init_dist(seed));
    return chain;
}

static int generate(cli_bare *b, llama_sampler *chain, std::vector<llama_token> &prompt, int n,
                    double (*clock)(void), double *seconds) {
    llama_memory_clear(llama_get_memory(b->ctx), true);
    if (llama_decode(b->ctx, llama_batch_get_one(prompt.data(), (int32_t)prompt.size()))) return -1;
    llama_synchronize(b->ctx);
    double start = clock();
    for (int i = 0; i < n; i++) {
        llama_token id = llama_sampler_sample(chain, b->ctx, -1);
        if (i + 1 < n && llama_decode(b->ctx, llama_batch_get_one(&id, 1))) return -1;
    }
    *seconds = clock() - start;
    return 0;
}

template <typename F> static int guarded(char *msg, size_t size, F f) {
    try {
        return f();
    } catch (const std::exception &e) {
        return failed(msg, size, e.what());
    } catch (...) {
        return failed(msg, size, "libllama failed");
    }
}

int cli_bare_built_in(void) {
    return 1;
}

int cli_bare_open(cli_bare **out, const char *path, int n_ctx, int n_batch, int n_threads,
                  int n_gpu_layers, char *msg, size_t size) {
    *out = nullptr;
    return guarded(msg, size, [&] {
        *out = new cli_bare();
        return open_all(*out, path, n_ctx, n_batch, n_threads, n_gpu_layers, msg, size);
    });
}

int cli_bare_run(cli_bare *b, const int32_t *prompt, int n_prompt, int n, uint32_t seed,
                 double (*clock)(void), double *seconds, char *msg, size_t size) {
    return guarded(msg, size, [&] {
        std::vector<llama_token> ids(prompt, prompt + n_prompt);
        llama_sampler *chain = make_chain(b, seed);
        int bad = generate(b, chain, ids, n, clock, seconds);
        llama_sampler_free(chain);
        return bad ? failed(msg, size, "libllama cannot decode") : 0;
    });
}

void cli_bare_close(cli_bare *b) {
    if (!b) return;
    if (b->ctx) llama_free(b->ctx);
    if (b->model) llama_model_free(b->model);
    delete b;
}
