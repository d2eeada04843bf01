/* llama.c - the back end over libllama: `llama:FILE.gguf`.
 *
 * Its settings, opening a file, and who answers what: questions in slots go to llama_memory.c,
 * passing ones to llama_passing.c, text to llama_text.c, tables of bigrams to llama_factors.c. */
#include "base.h"
#include "llama_cores.h"
#include "llama_expand.h"
#include "llama_factors.h"
#include "llama_gguf.h"
#include "llama_memory.h"
#include "llama_passing.h"
#include "llama_shim.h"
#include "llama_text.h"
#include "models.h"

#include <stdio.h>
#include <string.h>

enum {
    CTX_CAP = 4096,    /* of a model that says it can do more, unless asked for */
    EVERY_STATE = 16,  /* tokens between snapshots of a running state */
    EVERY_WINDOW = 256 /* ... of a sliding window, which can be cut by a few hundred tokens */
};

typedef struct settings {
    int64_t ctx_size, threads, batch_size, n_gpu_layers, parallel, snapshots;
    int swa_full, deterministic, weights;
    retrace_text device, chat_template;
} settings;

static const retrace_setting_info table[] = {
    {"ctx_size", RETRACE_INT, offsetof(settings, ctx_size), "0", 0, 1 << 24, NULL,
     "tokens that fit, prompt included; 0: what the model was trained for, at most 4096"},
    {"threads", RETRACE_INT, offsetof(settings, threads), "0", 0, 512, NULL,
     "CPU threads; 0: one for each physical core that may be used"},
    {"batch_size", RETRACE_INT, offsetof(settings, batch_size), "512", 1, 1 << 16, NULL,
     "most tokens of a prompt that are fed at once"},
    {"n_gpu_layers", RETRACE_INT, offsetof(settings, n_gpu_layers), "-1", -1, 1 << 16, NULL,
     "layers to keep on a GPU where there is one; -1: all, 0: none"},
    {"device", RETRACE_TEXT, offsetof(settings, device), "auto", 0, 0, NULL,
     "auto, cpu, cuda:N or the name of a device"},
    {"parallel", RETRACE_INT, offsetof(settings, parallel), "1", 1, 256, NULL,
     "sequences kept side by side, each with ctx_size tokens"},
    {"swa_full", RETRACE_BOOL, offsetof(settings, swa_full), "false", 0, 0, NULL,
     "keep all tokens of sliding-window layers: exact rewinds of any length, for memory"},
    {"deterministic", RETRACE_BOOL, offsetof(settings, deterministic), "true", 0, 0, NULL,
     "decode each question by itself in fixed batches, so that its answer never depends on others"},
    {"weights", RETRACE_CHOICE, offsetof(settings, weights), "file", 0, 0, "file|f32",
     "file: as the file has them; f32: expanded, for memory, which makes batches of many rows "
     "fast"},
    {"snapshots", RETRACE_INT, offsetof(settings, snapshots), "256", 0, 1 << 20, NULL,
     "MiB for copies of the state of recurrent and sliding-window models, for rewinds"},
    {"chat_template", RETRACE_TEXT, offsetof(settings, chat_template), NULL, 0, 0, NULL,
     "the name of a chat template that libllama knows, or the text of one, in place of the file's"},
    {0},
};

typedef struct model {
    struct retrace_model base;
    rt_llama *l;
    rt_memory *memory;
    rt_passing *passing; /* NULL before the first passing question */
    rt_work *work;       /* NULL before it is needed; so the next */
    rt_factorer *factorer;
    retrace_token_info *vocab;
    char *pieces;
    char *name, *path;
    int n_threads;
} model;

static int want_work(model *m, retrace_error *err) {
    return m->work ? RETRACE_OK : rt_work_new(&m->work, m->n_threads, err);
}

static int eval(retrace_model *base, retrace_query *q, int n, retrace_error *err) {
    model *m = (model *)base;
    int n_passing = 0, rc = RETRACE_OK;
    for (int i = 0; i < n; i++) n_passing += q[i].slot == RETRACE_PASSING;
    if (n_passing < n) rc = rt_memory_eval(m->memory, q, n, err);
    if (n_passing > 0 && rc == RETRACE_OK) rc = want_work(m, err);
    if (n_passing > 0 && rc == RETRACE_OK && !m->passing) {
        m->passing = rt_passing_new(m->l, m->work, m->n_threads);
        if (!m->passing) rc = rt_nomem(err);
    }
    if (n_passing > 0 && rc == RETRACE_OK) rc = rt_passing_eval(m->passing, q, n, err);
    return rc;
}

/* ==== Text ==== */

static int tokenize(const retrace_model *base, retrace_text text, int flags, retrace_token **out,
                    int *n, retrace_error *err) {
    return rt_llama_tokens(base, ((const model *)base)->l, text, flags, out, n, err);
}

static int chat(const retrace_model *base, const retrace_message *messages, int n_messages, int *at,
                retrace_token **out, int *n, retrace_error *err) {
    return rt_llama_chat(base, ((const model *)base)->l, messages, n_messages, at, out, n, err);
}

/* ==== Factors ==== */

static int want_factorer(model *m, retrace_error *err) {
    int rc = m->factorer ? RETRACE_OK : want_work(m, err);
    if (rc == RETRACE_OK && !m->factorer) {
        m->factorer = rt_factorer_new(m->path, m->l, m->work, m->n_threads);
        if (!m->factorer) rc = rt_nomem(err);
    }
    return rc;
}

static int factor_dim(retrace_model *base, int *dim, retrace_error *err) {
    model *m = (model *)base;
    int rc = want_factorer(m, err);
    return rc == RETRACE_OK ? rt_factorer_dim(m->factorer, dim, err) : rc;
}

static int factor_states(retrace_model *base, const retrace_token *anchor, int n_anchor,
                         const retrace_token *tokens, int n, float *states, float *logits,
                         retrace_error *err) {
    model *m = (model *)base;
    int rc = want_factorer(m, err);
    if (rc < 0) return rc;
    return rt_factorer_states(m->factorer, anchor, n_anchor, tokens, n, states, logits, err);
}

static int factor_output(retrace_model *base, float *w, retrace_error *err) {
    model *m = (model *)base;
    int rc = want_factorer(m, err);
    return rc == RETRACE_OK ? rt_factorer_output(m->factorer, w, err) : rc;
}

static int factor_multiply(retrace_model *base, const float *w, const float *states, int n,
                           float *x, retrace_error *err) {
    model *m = (model *)base;
    int rc = want_factorer(m, err);
    return rc == RETRACE_OK ? rt_factorer_multiply(m->factorer, w, states, n, x, err) : rc;
}

static int factor_together(retrace_model *base, int n, void (*fn)(void *ud, int part), void *ud,
                           retrace_error *err) {
    model *m = (model *)base;
    int rc = want_work(m, err);
    return rc == RETRACE_OK ? rt_work_run(m->work, n, fn, ud, err) : rc;
}

static const retrace_factors factors = {
    .dim = factor_dim,
    .states = factor_states,
    .states_batch = RT_STATES_BATCH,
    .output = factor_output,
    .multiply = factor_multiply,
    .together = factor_together,
};

/* ==== Opening ==== */

static void close_model(retrace_model *base) {
    model *m = (model *)base;
    if (!m) return;
    rt_memory_free(m->memory);
    rt_passing_free(m->passing);
    rt_factorer_free(m->factorer);
    rt_work_free(m->work);
    rt_llama_close(m->l);
    retrace_free(m->vocab);
    retrace_free(m->pieces);
    retrace_free(m->name);
    retrace_free(m->path);
    retrace_free(m);
}

static int load_vocab(model *m, int n, retrace_error *err) {
    size_t total = 0, at = 0;
    m->vocab = retrace_calloc((size_t)n, sizeof *m->vocab);
    if (!m->vocab) return rt_nomem(err);
    for (int id = 0; id < n; id++) {
        m->vocab[id].n = rt_llama_piece(m->l, id, NULL, 0);
        m->vocab[id].flags = rt_llama_flags(m->l, id);
        total += (size_t)m->vocab[id].n;
    }
    m->pieces = retrace_alloc(total + 1);
    if (!m->pieces) return rt_nomem(err);
    for (int id = 0; id < n; id++) {
        m->vocab[id].bytes = m->pieces + at;
        rt_llama_piece(m->l, id, m->pieces + at, m->vocab[id].n);
        at += (size_t)m->vocab[id].n;
    }
    m->base.vocab = m->vocab;
    return RETRACE_OK;
}

/* What the file calls the model, if that is a line of text, else the file's own name. */
static int find_name(model *m, const char *path, retrace_error *err) {
    char text[256];
    const char *slash = strrchr(path, '/');
    if (slash) path = slash + 1;
    if (rt_llama_meta(m->l, "general.name", text, sizeof text) > 0) {
        int odd = rt_utf8_check(text, strlen(text)) < strlen(text);
        for (const char *s = text; *s; s++) odd |= (unsigned char)*s < ' ' || *s == 0x7f;
        if (!odd) path = text;
    }
    m->name = rt_copy(path, strlen(path));
    return m->name ? RETRACE_OK : rt_nomem(err);
}

/* libllama rounds a sliding window's cache up to whole blocks of 256 tokens, and keeps all tokens
 * when that reaches the context. */
static int window_forgets(const rt_llama_facts *f, const settings *s) {
    int64_t kept = ((int64_t)f->window + f->n_batch + 255) / 256 * 256;
    return f->window > 0 && !s->swa_full && kept < f->n_ctx;
}

/* What stands before a document. A file tuned for chat may name the end of a turn as its end token,
 * so the name that separates documents in training comes first. */
static retrace_token find_start(const model *m, const rt_llama_facts *f) {
    static const char name[] = "<|endoftext|>";
    if (f->add_bos) return f->bos;
    for (int id = 0; id < f->vocab; id++) {
        const retrace_token_info *v = &m->vocab[id];
        int special = v->flags & (RETRACE_TOKEN_CONTROL | RETRACE_TOKEN_END);
        if (special && v->n == sizeof name - 1 && memcmp(v->bytes, name, sizeof name - 1) == 0)
            return id;
    }
    return f->eos >= 0 ? f->eos : f->bos;
}

static int fill(model *m, const char *path, uint64_t hash, const settings *s, retrace_error *err) {
    rt_llama_facts f;
    rt_llama_facts_of(m->l, &f);
    int cannot_cut = f.recurrent || window_forgets(&f, s);
    rt_memory_params memory = {
        .n_slots = (int)s->parallel,
        .batch_size = (int)s->batch_size,
        .deterministic = s->deterministic,
        .snap_budget = ((size_t)s->snapshots << 20) / (size_t)s->parallel,
    };
    if (cannot_cut && s->snapshots > 0) memory.every = f.recurrent ? EVERY_STATE : EVERY_WINDOW;
    m->base.facts = (retrace_model_info){
        .backend = "llama",
        .rewind = !cannot_cut    ? "exact"
                  : memory.every ? "snapshot"
                                 : "replay",
        .vocab = f.vocab,
        .n_ctx = f.n_ctx,
        .n_params = f.n_params,
        .size_bytes = f.size_bytes,
        .chat_template = rt_llama_template(m->l) != NULL,
        .add_bos = f.add_bos,
        .bos = f.bos,
        .weights = s->weights ? "f32" : "file",
        .hash = hash,
    };
    int rc = find_name(m, path, err);
    m->base.facts.name = m->name;
    if (rc == RETRACE_OK) rc = load_vocab(m, f.vocab, err);
    if (rc == RETRACE_OK) m->base.facts.start = find_start(m, &f);
    return rc == RETRACE_OK ? rt_memory_new(&m->memory, m->l, &memory, err) : rc;
}

static int open_file(model *m, const char *path, const settings *s, retrace_error *err) {
    char *device = rt_copy(s->device.s, s->device.n);
    m->path = rt_copy(path, strlen(path));
    if (!device || !m->path) {
        retrace_free(device);
        return rt_nomem(err);
    }
    m->n_threads = s->threads ? (int)s->threads : rt_cores();
    rt_llama_params p = {
        .path = path,
        .device = device,
        .n_gpu_layers = (int)s->n_gpu_layers,
        .n_ctx = (int)s->ctx_size,
        .n_batch = (int)(s->batch_size > s->parallel ? s->batch_size : s->parallel),
        .n_seq = (int)s->parallel,
        .n_threads = m->n_threads,
        .swa_full = s->swa_full,
    };
    uint64_t hash = 0;
    int rc = rt_gguf_check(path, &hash, err);
    if (rc == RETRACE_OK && s->weights) rc = rt_expand(&p.file, path, err);
    if (rc == RETRACE_OK) rc = rt_llama_open(&m->l, &p, CTX_CAP, err);
    if (p.file) fclose(p.file);
    if (rc == RETRACE_OK && s->chat_template.n)
        rc = rt_llama_set_template(m->l, s->chat_template, err);
    retrace_free(device);
    return rc == RETRACE_OK ? fill(m, path, hash, s, err) : rc;
}

static int open_model(retrace_model **out, const char *where, const void *own, retrace_error *err) {
    model *m = retrace_calloc(1, sizeof *m);
    if (!m) return rt_nomem(err);
    int rc = open_file(m, where, own, err);
    if (rc < 0) {
        close_model(&m->base);
        return rc;
    }
    *out = &m->base;
    return RETRACE_OK;
}

const retrace_backend_type rt_backend_llama = {
    .abi = RETRACE_ABI,
    .scheme = "llama",
    .suffix = ".gguf",
    .help = "a GGUF file, run by libllama on the CPU or a GPU",
    .settings = table,
    .settings_size = sizeof(settings),
    .open = open_model,
    .close = close_model,
    .tokenize = tokenize,
    .chat = chat,
    .eval = eval,
    .factors = &factors,
    .chat_template_at = rt_llama_template_at,
};
