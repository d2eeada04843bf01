/* llama_shim.cpp - opening, decoding and memory by libllama; see llama_shim.h for what it promises.
 *
 * Each function that calls libllama is a try block: std::bad_alloc becomes RETRACE_ENOMEM, anything
 * else RETRACE_EMODEL. Conditions that libllama asserts on are asserted here first where only our
 * own code can break them, and are errors where a person can.
 */
#include "llama_shim.h"

#include "llama_log.h"

#include <llama.h>

#include <cassert>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

/* libllama keeps tens of bytes for each cell of its cache before it asks whether the cache fits. */
static const int64_t MAX_CELLS = (int64_t)1 << 24;
static const size_t LOGITS_BYTES = (size_t)1 << 26; /* most memory for the logits of one batch */

struct rt_llama {
    llama_model *model;
    llama_context *ctx;
    const llama_vocab *vocab;
    llama_memory_t mem;
    llama_batch batch;
    char *form; /* a chat template in place of the file's */
    int n_batch, n_logits, n_wanted, n_seq, n_ctx, n_vocab;
    bool shared;  /* the model is another's */
    bool decoded; /* the rows of the last batch can be read */
};

/* ==== Devices ==== */

static bool is_gpu(ggml_backend_dev_t dev) {
    auto type = ggml_backend_dev_type(dev);
    return type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU;
}

static bool same_name(const char *a, const char *b) {
    while (*a && std::tolower((unsigned char)*a) == std::tolower((unsigned char)*b)) a++, b++;
    return *a == '\0' && *b == '\0';
}

static std::string device_list() {
    std::string list = "auto, cpu";
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        if (!is_gpu(dev)) continue;
        list += std::string(", ") + ggml_backend_dev_name(dev) + " (" +
                ggml_backend_dev_description(dev) + ")";
    }
    return list;
}

/* Fills `out` with the devices to use, ended with NULL; leaves it empty for libllama's own choice.
 */
static int pick_devices(const rt_llama_params *p, std::vector<ggml_backend_dev_t> &out,
                        retrace_error *err) {
    size_t n_gpus = 0;
    std::string want = p->device;
    if (want.size() > 5 && same_name(want.substr(0, 5).c_str(), "cuda:")) want.erase(4, 1);
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        if (!is_gpu(dev)) continue;
        n_gpus++;
        if (same_name(want.c_str(), ggml_backend_dev_name(dev))) out.push_back(dev);
    }
    bool cpu = same_name(want.c_str(), "cpu"), any = same_name(want.c_str(), "auto");
    if (out.empty() && !cpu && !any) {
        return retrace_fail(err, RETRACE_EUSAGE, "unknown device '%s'; there are: %s", p->device,
                            device_list().c_str());
    }
    if (p->n_gpu_layers > 0 && (cpu || n_gpus == 0)) {
        return retrace_fail(err, RETRACE_EUSAGE, "n_gpu_layers is %d, but %s", p->n_gpu_layers,
                            cpu ? "the device is the CPU" : "there is no GPU device");
    }
    if (!any) out.push_back(nullptr);
    return RETRACE_OK;
}

/* ==== Opening ==== */

static int load_model(rt_llama *l, const rt_llama_params *p, retrace_error *err) {
    std::vector<ggml_backend_dev_t> devices;
    int rc = pick_devices(p, devices, err);
    if (rc < 0) return rc;
    llama_model_params mp = llama_model_default_params();
    mp.n_gpu_layers = p->n_gpu_layers;
    if (!devices.empty()) mp.devices = devices.data();
    l->model = p->file ? llama_model_load_from_file_ptr(p->file, mp)
                       : llama_model_load_from_file(p->path, mp);
    if (!l->model) {
        return retrace_fail(err, RETRACE_EMODEL, "cannot load '%s': %s", p->path,
                            rt_log_said("bad model"));
    }
    return RETRACE_OK;
}

/* Refuses models that do not continue a text token by token. */
static int check_model(rt_llama *l, const rt_llama_params *p, retrace_error *err) {
    const char *why = nullptr;
    l->vocab = llama_model_get_vocab(l->model);
    if (llama_model_has_encoder(l->model) || !llama_model_has_decoder(l->model)) {
        why = "an encoder-decoder model";
    } else if (llama_model_is_diffusion(l->model)) {
        why = "a diffusion model";
    } else if (llama_vocab_type(l->vocab) == LLAMA_VOCAB_TYPE_NONE ||
               llama_vocab_n_tokens(l->vocab) <= 0) {
        return retrace_fail(err, RETRACE_EMODEL, "'%s' has no vocabulary", p->path);
    }
    if (!why) return RETRACE_OK;
    return retrace_fail(err, RETRACE_EMODEL, "'%s' is %s, which cannot continue a text", p->path,
                        why);
}

static uint32_t padded(int64_t n) {
    return (uint32_t)((n + 255) / 256 * 256);
}

/* Rows of logits that LOGITS_BYTES hold, but one for each sequence at least. libllama reserves
 * them. */
static int logits_rows(const rt_llama *l, const rt_llama_params *p) {
    size_t rows = LOGITS_BYTES / sizeof(float) / (size_t)l->n_vocab;
    if (rows > (size_t)p->n_batch) return p->n_batch;
    return rows > (size_t)p->n_seq ? (int)rows : p->n_seq;
}

static std::string name_of(const rt_llama_params *p) {
    return p->path ? "'" + std::string(p->path) + "'" : "room for short questions";
}

static int make_context(rt_llama *l, const rt_llama_params *p, int n_ctx, retrace_error *err) {
    if ((int64_t)padded(n_ctx) * p->n_seq > MAX_CELLS) {
        return retrace_fail(err, RETRACE_EUSAGE, "ctx_size %d times parallel %d is too large",
                            n_ctx, p->n_seq);
    }
    llama_context_params cp = llama_context_default_params();
    cp.n_ctx = p->one_cache ? padded(n_ctx) : padded(n_ctx) * (uint32_t)p->n_seq;
    cp.n_batch = cp.n_ubatch = (uint32_t)p->n_batch;
    cp.n_seq_max = (uint32_t)p->n_seq;
    cp.n_outputs_max = (uint32_t)l->n_logits;
    cp.n_threads = cp.n_threads_batch = p->n_threads;
    cp.swa_full = p->swa_full != 0;
    cp.kv_unified = p->one_cache != 0;
    cp.embeddings = p->embeddings != 0;
    if (p->embeddings) cp.pooling_type = LLAMA_POOLING_TYPE_NONE;
    cp.no_perf = true;
    l->ctx = llama_init_from_model(l->model, cp);
    if (!l->ctx) {
        const char *line = rt_log_said("no context");
        int code = std::strstr(line, "alloc") ? RETRACE_ENOMEM : RETRACE_EMODEL;
        return retrace_fail(err, code, "cannot set up %s: %s", name_of(p).c_str(), line);
    }
    l->mem = llama_get_memory(l->ctx);
    if (!l->mem || !llama_get_causal_attn(l->ctx)) {
        return retrace_fail(err, RETRACE_EMODEL,
                            "'%s' is an embedding model, which cannot continue a text", p->path);
    }
    return RETRACE_OK;
}

/* A context and a batch of its size. */
static int make_memory(rt_llama *l, const rt_llama_params *p, int n_ctx, retrace_error *err) {
    l->n_ctx = n_ctx;
    l->n_seq = p->n_seq;
    l->n_vocab = llama_vocab_n_tokens(l->vocab);
    l->n_logits = logits_rows(l, p);
    int rc = make_context(l, p, n_ctx, err);
    if (rc < 0) return rc;
    l->n_batch = (int)llama_n_batch(l->ctx);
    l->batch = llama_batch_init(l->n_batch, 0, 1);
    return RETRACE_OK;
}

static int open_all(rt_llama *l, const rt_llama_params *p, int n_ctx_cap, retrace_error *err) {
    int rc = load_model(l, p, err);
    if (rc == RETRACE_OK) rc = check_model(l, p, err);
    if (rc < 0) return rc;
    int n_ctx = p->n_ctx;
    if (n_ctx == 0) n_ctx = llama_model_n_ctx_train(l->model);
    if (p->n_ctx == 0 && (n_ctx <= 0 || n_ctx > n_ctx_cap)) n_ctx = n_ctx_cap;
    return make_memory(l, p, n_ctx, err);
}

int rt_llama_open(rt_llama **out, const rt_llama_params *p, int n_ctx_cap, retrace_error *err) {
    auto *l = (rt_llama *)retrace_calloc(1, sizeof(rt_llama));
    if (!l) return retrace_fail(err, RETRACE_ENOMEM, "out of memory");
    int rc = rt_guarded(err, [&] {
        rt_log_start();
        return open_all(l, p, n_ctx_cap, err);
    });
    if (rc < 0) {
        rt_llama_close(l);
        return rc;
    }
    *out = l;
    return RETRACE_OK;
}

int rt_llama_share(rt_llama **out, const rt_llama *parent, const rt_llama_params *p,
                   retrace_error *err) {
    auto *l = (rt_llama *)retrace_calloc(1, sizeof(rt_llama));
    if (!l) return retrace_fail(err, RETRACE_ENOMEM, "out of memory");
    l->shared = true;
    l->model = parent->model;
    l->vocab = parent->vocab;
    int rc = rt_guarded(err, [&] {
        rt_log_forget();
        return make_memory(l, p, p->n_ctx, err);
    });
    if (rc < 0) {
        rt_llama_close(l);
        return rc;
    }
    *out = l;
    return RETRACE_OK;
}

void rt_llama_close(rt_llama *l) {
    if (!l) return;
    rt_guarded(nullptr, [&] {
        if (l->batch.token) llama_batch_free(l->batch);
        if (l->ctx) llama_free(l->ctx);
        if (l->model && !l->shared) llama_model_free(l->model);
        return RETRACE_OK;
    });
    retrace_free(l->form);
    retrace_free(l);
}

/* Keys and values in 16 bits, for all layers as for the first. */
static int64_t cell_bytes(const llama_model *m) {
    int heads = llama_model_n_head(m);
    int64_t width = heads > 0 ? llama_model_n_embd(m) / heads : 0;
    return 2 * 2 * width * llama_model_n_head_kv(m) * llama_model_n_layer(m);
}

void rt_llama_facts_of(const rt_llama *l, rt_llama_facts *out) {
    *out = rt_llama_facts();
    out->bos = out->eos = -1;
    rt_guarded(nullptr, [&] {
        out->vocab = l->n_vocab;
        out->n_ctx = l->n_ctx;
        out->n_embd = llama_model_n_embd_out(l->model);
        out->n_batch = l->n_batch;
        out->n_logits = l->n_logits;
        out->n_params = (int64_t)llama_model_n_params(l->model);
        out->size_bytes = (int64_t)llama_model_size(l->model);
        out->recurrent = llama_model_is_recurrent(l->model) || llama_model_is_hybrid(l->model);
        out->cell_bytes = cell_bytes(l->model);
        out->window = llama_model_n_swa(l->model);
        /* Where a file names no BOS, libllama makes one up: some ordinary token. */
        llama_token bos = llama_vocab_bos(l->vocab);
        if (bos >= 0 && bos < l->n_vocab && llama_vocab_is_control(l->vocab, bos)) out->bos = bos;
        llama_token eos = llama_vocab_eos(l->vocab);
        if (eos >= 0 && eos < l->n_vocab && llama_vocab_is_control(l->vocab, eos)) out->eos = eos;
        out->add_bos = out->bos >= 0 && llama_vocab_get_add_bos(l->vocab);
        return RETRACE_OK;
    });
}

int rt_llama_meta(const rt_llama *l, const char *key, char *buf, size_t size) {
    return rt_guarded(nullptr,
                      [&] { return (int)llama_model_meta_val_str(l->model, key, buf, size); });
}

/* ==== Chat templates ==== */

const char *rt_llama_template_at(int i) {
    const char *name = nullptr;
    rt_guarded(nullptr, [&] {
        int n = llama_chat_builtin_templates(nullptr, 0);
        if (i < 0 || i >= n) return RETRACE_OK;
        std::vector<const char *> names((size_t)n);
        llama_chat_builtin_templates(names.data(), names.size());
        name = names[(size_t)i];
        return RETRACE_OK;
    });
    return name;
}

static bool is_name(const std::string &form) {
    const char *name;
    for (int i = 0; (name = rt_llama_template_at(i)); i++) {
        if (form == name) return true;
    }
    return false;
}

/* A word that is no name is no template either, though libllama takes "mistral-v99" for one. */
static bool is_known(const std::string &form) {
    if (is_name(form)) return true;
    if (form.find("{{") == std::string::npos && form.find("{%") == std::string::npos) return false;
    llama_chat_message message = {"user", "a"};
    return llama_chat_apply_template(form.c_str(), &message, 1, true, nullptr, 0) >= 0;
}

static bool holds(const char *text, const char *part) {
    return std::strstr(text, part) != nullptr;
}

/* What libllama is told. By its marks it takes the later of Mistral's templates with
 * [SYSTEM_PROMPT] for the earlier one, which has blanks behind its marks. */
static const char *form_of(const char *text) {
    bool marks = holds(text, "[INST]") && holds(text, "[SYSTEM_PROMPT]");
    bool others =
        holds(text, "[SYSTEM_PROMPT] ") || holds(text, "[INST] ") || holds(text, "<|im_start|>");
    return marks && !others ? "mistral-v7-tekken" : text;
}

/* Names the first line of a template that says something. */
static int unknown_form(const char *form, const char *setting, retrace_error *err) {
    char line[160];
    while (*form && rt_log_blank(*form)) form++;
    rt_log_line(line, sizeof line, std::string(form, std::strcspn(form, "\r\n")).c_str());
    return retrace_fail(err, RETRACE_EMODEL, "%sthe chat template '%s' is not known to libllama",
                        setting, line);
}

int rt_llama_set_template(rt_llama *l, retrace_text form, retrace_error *err) {
    return rt_guarded(err, [&]() -> int {
        std::string text(form.s, form.n);
        if (text.find('\0') != std::string::npos || !is_known(text)) {
            return unknown_form(text.c_str(), "chat_template: ", err);
        }
        retrace_free(l->form);
        l->form = (char *)retrace_alloc(text.size() + 1);
        if (!l->form) return retrace_fail(err, RETRACE_ENOMEM, "out of memory");
        std::memcpy(l->form, text.c_str(), text.size() + 1);
        return RETRACE_OK;
    });
}

const char *rt_llama_template(const rt_llama *l) {
    const char *text = l->form;
    rt_guarded(nullptr, [&] {
        if (!text) text = llama_model_chat_template(l->model, nullptr);
        return RETRACE_OK;
    });
    return text;
}

/* ==== Vocabulary ==== */

int rt_llama_piece(const rt_llama *l, retrace_token id, char *buf, int n) {
    assert(id >= 0 && id < l->n_vocab);
    int len = rt_guarded(nullptr, [&] {
        int got = llama_token_to_piece(l->vocab, id, buf, n, 0, true);
        return got < 0 ? -got : got;
    });
    return len < 0 ? 0 : len;
}

int rt_llama_flags(const rt_llama *l, retrace_token id) {
    assert(id >= 0 && id < l->n_vocab);
    int flags = rt_guarded(nullptr, [&] {
        int attr = (int)llama_vocab_get_attr(l->vocab, id), f = 0;
        if (llama_vocab_is_eog(l->vocab, id)) f |= RETRACE_TOKEN_END;
        if (llama_vocab_is_control(l->vocab, id)) f |= RETRACE_TOKEN_CONTROL;
        /* libllama shows neither kind in a text. */
        if (attr & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN))
            f |= RETRACE_TOKEN_CONTROL;
        if (attr & LLAMA_TOKEN_ATTR_UNUSED) f |= RETRACE_TOKEN_UNUSED;
        return f;
    });
    return flags < 0 ? RETRACE_TOKEN_UNUSED : flags;
}

int rt_llama_tokenize(const rt_llama *l, retrace_text text, int parse_special, retrace_token **out,
                      int *n, retrace_error *err) {
    if (text.n > INT32_MAX / 8) {
        return retrace_fail(err, RETRACE_EUSAGE, "a text of %zu bytes is too long", text.n);
    }
    size_t room = text.n + 8;
    auto *ids = (retrace_token *)retrace_alloc(room * sizeof(retrace_token));
    if (!ids) return retrace_fail(err, RETRACE_ENOMEM, "out of memory");
    const char *s = text.n ? text.s : "";
    auto call = [&] {
        return (int)llama_tokenize(l->vocab, s, (int32_t)text.n, ids, (int32_t)room, false,
                                   parse_special != 0);
    };
    int got = 0;
    int rc = rt_guarded(err, [&] {
        got = call();
        return RETRACE_OK;
    });
    if (rc == RETRACE_OK && got < 0 && got > INT32_MIN) {
        room = (size_t)-got;
        auto *more = (retrace_token *)retrace_realloc(ids, room * sizeof(retrace_token));
        if (more) ids = more;
        rc = !more ? retrace_fail(err, RETRACE_ENOMEM, "out of memory") : rt_guarded(err, [&] {
            got = call();
            return RETRACE_OK;
        });
    }
    if (rc == RETRACE_OK && got < 0) {
        rc = retrace_fail(err, RETRACE_EMODEL, "the text could not be tokenised");
    }
    if (rc < 0) {
        retrace_free(ids);
        return rc;
    }
    *out = ids;
    *n = got;
    return RETRACE_OK;
}

int rt_llama_render(const rt_llama *l, const char *const *roles, const char *const *contents, int n,
                    char **out, size_t *len, retrace_error *err) {
    return rt_guarded(err, [&]() -> int {
        const char *text = rt_llama_template(l);
        if (!text) return retrace_fail(err, RETRACE_EMODEL, "the model has no chat template");
        if (!is_known(text)) return unknown_form(text, "", err);
        const char *form = form_of(text);
        std::vector<llama_chat_message> chat;
        for (int i = 0; i < n; i++) chat.push_back({roles[i], contents[i]});
        int need = llama_chat_apply_template(form, chat.data(), chat.size(), true, nullptr, 0);
        if (need < 0) return unknown_form(text, "", err);
        auto *buf = (char *)retrace_alloc((size_t)need + 1);
        if (!buf) return retrace_fail(err, RETRACE_ENOMEM, "out of memory");
        llama_chat_apply_template(form, chat.data(), chat.size(), true, buf, need + 1);
        buf[need] = '\0';
        *out = buf;
        *len = (size_t)need;
        return RETRACE_OK;
    });
}

/* ==== Decoding ==== */

int rt_llama_put(rt_llama *l, retrace_token id, int pos, int seq, int want) {
    if (l->decoded) {
        l->batch.n_tokens = 0;
        l->n_wanted = 0;
        l->decoded = false;
    }
    int row = l->batch.n_tokens;
    assert(row < l->n_batch && id >= 0 && id < l->n_vocab);
    assert(seq >= 0 && seq < l->n_seq && pos >= 0 && pos < l->n_ctx);
    assert(!want || l->n_wanted < l->n_logits);
    l->batch.token[row] = id;
    l->batch.pos[row] = pos;
    l->batch.n_seq_id[row] = 1;
    l->batch.seq_id[row][0] = seq;
    l->batch.logits[row] = want != 0;
    l->n_wanted += want != 0;
    l->batch.n_tokens++;
    return row;
}

static const char *failure_of(int code) {
    switch (code) {
    case 1: return "no room for the batch in the model's memory";
    case 2: return "stopped";
    case -1: return "the batch is not valid";
    default: return "the computation failed";
    }
}

int rt_llama_decode(rt_llama *l, retrace_error *err) {
    assert(!l->decoded && l->batch.n_tokens > 0);
    rt_log_forget();
    int rc = rt_guarded(err, [&] {
        int code = llama_decode(l->ctx, l->batch);
        if (code == 0) llama_synchronize(l->ctx);
        if (code == 0) return (int)RETRACE_OK;
        return retrace_fail(err, RETRACE_EMODEL, "the model cannot be evaluated: %s",
                            rt_log_said(failure_of(code)));
    });
    l->decoded = true;
    return rc;
}

const float *rt_llama_row(rt_llama *l, int row) {
    if (!l->decoded || row < 0 || row >= l->batch.n_tokens || !l->batch.logits[row]) return nullptr;
    const float *logits = nullptr;
    rt_guarded(nullptr, [&] {
        logits = llama_get_logits_ith(l->ctx, row);
        return RETRACE_OK;
    });
    return logits;
}

void rt_llama_set_embeddings(rt_llama *l, int on) {
    rt_guarded(nullptr, [&] {
        llama_set_embeddings(l->ctx, on != 0);
        return RETRACE_OK;
    });
}

const float *rt_llama_state(rt_llama *l, int row) {
    if (!l->decoded || row < 0 || row >= l->batch.n_tokens || !l->batch.logits[row]) return nullptr;
    const float *state = nullptr;
    rt_guarded(nullptr, [&] {
        state = llama_get_embeddings_ith(l->ctx, row);
        return RETRACE_OK;
    });
    return state;
}

/* ==== Memory ==== */

int rt_llama_cut(rt_llama *l, int seq, int pos) {
    assert(seq >= 0 && seq < l->n_seq && pos >= 0);
    int done = rt_guarded(nullptr, [&] { return (int)llama_memory_seq_rm(l->mem, seq, pos, -1); });
    return done == 1;
}

int rt_llama_copy(rt_llama *l, int from, int to) {
    assert(from >= 0 && from < l->n_seq && to >= 0 && to < l->n_seq && from != to);
    int rc = rt_guarded(nullptr, [&] {
        llama_memory_seq_rm(l->mem, to, 0, -1);
        llama_memory_seq_cp(l->mem, from, to, -1, -1);
        return RETRACE_OK;
    });
    return rc == RETRACE_OK;
}

void rt_llama_span(const rt_llama *l, int seq, int *first, int *last) {
    *first = *last = -1;
    rt_guarded(nullptr, [&] {
        *first = llama_memory_seq_pos_min(l->mem, seq);
        *last = llama_memory_seq_pos_max(l->mem, seq);
        return RETRACE_OK;
    });
}

void rt_llama_empty(rt_llama *l) {
    rt_guarded(nullptr, [&] {
        llama_memory_clear(l->mem, false);
        return RETRACE_OK;
    });
}

void rt_llama_clear(rt_llama *l) {
    rt_guarded(nullptr, [&] {
        llama_synchronize(l->ctx);
        llama_memory_clear(l->mem, true);
        return RETRACE_OK;
    });
}

static const llama_state_seq_flags PARTIAL = LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY;

size_t rt_llama_state_size(rt_llama *l, int seq) {
    size_t size = 0;
    rt_guarded(nullptr, [&] {
        size = llama_state_seq_get_size_ext(l->ctx, seq, PARTIAL);
        return RETRACE_OK;
    });
    return size;
}

int rt_llama_state_save(rt_llama *l, int seq, void *data, size_t size) {
    size_t got = 0;
    rt_guarded(nullptr, [&] {
        got = llama_state_seq_get_data_ext(l->ctx, (uint8_t *)data, size, seq, PARTIAL);
        return RETRACE_OK;
    });
    return got == size;
}

int rt_llama_state_load(rt_llama *l, int seq, const void *data, size_t size) {
    size_t got = 0;
    rt_guarded(nullptr, [&] {
        got = llama_state_seq_set_data_ext(l->ctx, (const uint8_t *)data, size, seq, PARTIAL);
        return RETRACE_OK;
    });
    return got == size;
}

/* ==== Types of tensors ==== */

int rt_llama_type(uint32_t type, uint64_t *elements, uint64_t *bytes) {
    if (type >= GGML_TYPE_COUNT) return 0;
    int64_t block = ggml_blck_size((ggml_type)type);
    size_t size = ggml_type_size((ggml_type)type);
    if (block <= 0 || size == 0) return 0;
    *elements = (uint64_t)block;
    *bytes = size;
    return 1;
}
