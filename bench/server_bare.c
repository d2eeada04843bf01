/* server_bare.c - what the server is compared with: libllama called directly, in the shortest loop
 * that continues several texts at once.
 *
 * All sequences are in one context and every step is one llama_decode with a token of each. Each
 * has the sampler chain that llama-cli builds with its defaults (penalties off), and end tokens are
 * excluded, as in `retrace bench`. Nothing of retrace is called.
 * The model is opened once; the first line printed tells of it. Then each line of standard input is
 * one run, answered by one JSON object:
 *     run N SEED TAB PROMPT TAB PROMPT ...    N tokens after each prompt, a text
 * "prompt" is how many tokens the prompts have; "seconds" counts from before they are fed,
 * "steady_s" from their last logits.
 * Usage: server_bare MODEL.gguf THREADS CTX SEQUENCES */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#ifndef RETRACE_HAVE_LLAMA
int main(void) {
    fputs("server_bare: built without libllama\n", stderr);
    return 1;
}
#else
#include <llama.h>
#include <math.h>
#include <string.h>
#include <time.h>

enum { BATCH = 512, MOST_SEQS = 64 };

typedef struct bare {
    struct llama_model *model;
    const struct llama_vocab *vocab;
    struct llama_context *ctx;
    struct llama_batch batch;
    llama_logit_bias *ends;
    int n_ends, n_seqs;
    struct llama_sampler *chains[MOST_SEQS];
    int rows[MOST_SEQS]; /* of the batch, with a sequence's newest logits */
    int lengths[MOST_SEQS];
} bare;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what) {
    fprintf(stderr, "server_bare: %s\n", what);
    exit(1);
}

static void quiet(enum ggml_log_level level, const char *text, void *ud) {
    (void)ud;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static void find_ends(bare *b) {
    int vocab = llama_vocab_n_tokens(b->vocab);
    b->ends = calloc((size_t)vocab, sizeof *b->ends);
    if (!b->ends) die("out of memory");
    for (llama_token id = 0; id < vocab; id++)
        if (llama_vocab_is_eog(b->vocab, id))
            b->ends[b->n_ends++] = (llama_logit_bias){id, -INFINITY};
}

static void open_all(bare *b, const char *path, int threads, int n_ctx) {
    llama_log_set(quiet, NULL);
    b->model = llama_model_load_from_file(path, llama_model_default_params());
    if (!b->model) die("the model cannot be loaded");
    struct llama_context_params cp = llama_context_default_params();
    cp.n_ctx = (uint32_t)(n_ctx * b->n_seqs);
    cp.n_seq_max = (uint32_t)b->n_seqs;
    cp.n_batch = cp.n_ubatch = BATCH;
    cp.n_threads = cp.n_threads_batch = threads;
    cp.no_perf = true;
    b->ctx = llama_init_from_model(b->model, cp);
    if (!b->ctx) die("no context");
    b->vocab = llama_model_get_vocab(b->model);
    b->batch = llama_batch_init(BATCH, 0, 1);
    find_ends(b);
}

static struct llama_sampler *make_chain(const bare *b, uint32_t seed) {
    struct llama_sampler *chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    int vocab = llama_vocab_n_tokens(b->vocab);
    llama_sampler_chain_add(chain, llama_sampler_init_logit_bias(vocab, b->n_ends, b->ends));
    llama_sampler_chain_add(chain, llama_sampler_init_top_k(40));
    llama_sampler_chain_add(chain, llama_sampler_init_top_p(0.95f, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_min_p(0.05f, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_temp(0.8f));
    llama_sampler_chain_add(chain, llama_sampler_init_dist(seed));
    return chain;
}

static void put(bare *b, llama_token id, int seq, int logits) {
    int i = b->batch.n_tokens++;
    if (i >= BATCH) die("the prompts are too long");
    b->batch.token[i] = id;
    b->batch.pos[i] = b->lengths[seq]++;
    b->batch.n_seq_id[i] = 1;
    b->batch.seq_id[i][0] = seq;
    b->batch.logits[i] = (int8_t)logits;
    b->rows[seq] = i;
}

static void decode(bare *b) {
    if (llama_decode(b->ctx, b->batch)) die("libllama cannot decode");
    b->batch.n_tokens = 0;
}

static void put_prompt(bare *b, const char *text, int seq) {
    llama_token ids[BATCH];
    int n = llama_tokenize(b->vocab, text, (int32_t)strlen(text), ids, BATCH, true, true);
    if (n <= 0) die("a prompt is empty or too long");
    b->lengths[seq] = 0;
    for (int i = 0; i < n; i++) put(b, ids[i], seq, i + 1 == n);
}

/* Puts all prompts, each after a TAB, into one batch. */
static void put_prompts(bare *b, char *list) {
    char *rest = NULL, *text = strtok_r(list, "\t\n", &rest);
    for (int seq = 0; seq < b->n_seqs; seq++) {
        if (!text) die("too few prompts");
        put_prompt(b, text, seq);
        text = strtok_r(NULL, "\t\n", &rest);
    }
}

static void run(bare *b, int n, uint32_t seed, char *list) {
    llama_memory_clear(llama_get_memory(b->ctx), true);
    for (int seq = 0; seq < b->n_seqs; seq++) b->chains[seq] = make_chain(b, seed + (uint32_t)seq);
    put_prompts(b, list);
    int n_prompt = b->batch.n_tokens;
    double start = now();
    decode(b);
    llama_synchronize(b->ctx);
    double steady = now();
    for (int i = 0; i < n; i++) {
        llama_token ids[MOST_SEQS];
        for (int seq = 0; seq < b->n_seqs; seq++)
            ids[seq] = llama_sampler_sample(b->chains[seq], b->ctx, b->rows[seq]);
        if (i + 1 == n) break;
        for (int seq = 0; seq < b->n_seqs; seq++) put(b, ids[seq], seq, 1);
        decode(b);
    }
    double end = now();
    printf("{\"prompt\": %d, \"tokens\": %d, \"seconds\": %.6f, \"steady_s\": %.6f}\n", n_prompt,
           n * b->n_seqs, end - start, end - steady);
    for (int seq = 0; seq < b->n_seqs; seq++) llama_sampler_free(b->chains[seq]);
}

static void facts(const bare *b) {
    printf("{\"ends\": [");
    for (int i = 0; i < b->n_ends; i++) printf("%s%d", i ? ", " : "", b->ends[i].token);
    printf("]}\n");
}

int main(int argc, char **argv) {
    bare b = {0};
    char *line = NULL, *rest;
    size_t size = 0;
    if (argc != 5) die("usage: server_bare MODEL.gguf THREADS CTX SEQUENCES");
    b.n_seqs = (int)strtol(argv[4], NULL, 10);
    if (b.n_seqs < 1 || b.n_seqs > MOST_SEQS) die("1 to 64 sequences");
    open_all(&b, argv[1], (int)strtol(argv[2], NULL, 10), (int)strtol(argv[3], NULL, 10));
    setvbuf(stdout, NULL, _IOLBF, 0);
    facts(&b);
    while (getline(&line, &size, stdin) > 0) {
        if (strncmp(line, "run ", 4) != 0) die("a line is no run");
        int n = (int)strtol(line + 4, &rest, 10);
        uint32_t seed = (uint32_t)strtoul(rest, &rest, 10);
        run(&b, n, seed, rest);
    }
    free(line);
    free(b.ends);
    llama_batch_free(b.batch);
    llama_free(b.ctx);
    llama_model_free(b.model);
    return 0;
}
#endif
