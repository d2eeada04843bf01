/* llama_convert.cpp - libllama's quantiser; see llama_convert.h.
 *
 * It writes a stream of its own and speaks only through the log: a line "[  7/ 290] name" before
 * each tensor is how far it is. It is stopped by an exception out of that line, between two tensors
 * and with none of its threads at work. */
#include "llama_convert.h"

#include "llama_log.h"

#include <gguf.h>
#include <llama.h>

#include <cctype>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

/* Rows of tensors that are in memory at once. */
static const size_t BUFFER = (size_t)1 << 28;

static const struct {
    const char *name;
    llama_ftype type;
} types[] = {
    {"f32", LLAMA_FTYPE_ALL_F32},          {"f16", LLAMA_FTYPE_MOSTLY_F16},
    {"bf16", LLAMA_FTYPE_MOSTLY_BF16},     {"q8_0", LLAMA_FTYPE_MOSTLY_Q8_0},
    {"q4_0", LLAMA_FTYPE_MOSTLY_Q4_0},     {"q4_1", LLAMA_FTYPE_MOSTLY_Q4_1},
    {"q5_0", LLAMA_FTYPE_MOSTLY_Q5_0},     {"q5_1", LLAMA_FTYPE_MOSTLY_Q5_1},
    {"q2_k", LLAMA_FTYPE_MOSTLY_Q2_K},     {"q3_k_s", LLAMA_FTYPE_MOSTLY_Q3_K_S},
    {"q3_k_m", LLAMA_FTYPE_MOSTLY_Q3_K_M}, {"q3_k_l", LLAMA_FTYPE_MOSTLY_Q3_K_L},
    {"q4_k_s", LLAMA_FTYPE_MOSTLY_Q4_K_S}, {"q4_k_m", LLAMA_FTYPE_MOSTLY_Q4_K_M},
    {"q5_k_s", LLAMA_FTYPE_MOSTLY_Q5_K_S}, {"q5_k_m", LLAMA_FTYPE_MOSTLY_Q5_K_M},
    {"q6_k", LLAMA_FTYPE_MOSTLY_Q6_K},     {"iq3_s", LLAMA_FTYPE_MOSTLY_IQ3_S},
    {"iq3_m", LLAMA_FTYPE_MOSTLY_IQ3_M},   {"iq4_nl", LLAMA_FTYPE_MOSTLY_IQ4_NL},
    {"iq4_xs", LLAMA_FTYPE_MOSTLY_IQ4_XS}, {"tq1_0", LLAMA_FTYPE_MOSTLY_TQ1_0},
    {"tq2_0", LLAMA_FTYPE_MOSTLY_TQ2_0},
};
enum { N_TYPES = sizeof types / sizeof *types };

/* Not written without knowing which weights matter, which takes a run over a text. */
static const char *const need_matrix[] = {"q2_k_s", "iq1_s", "iq1_m",   "iq2_xxs", "iq2_xs",
                                          "iq2_s",  "iq2_m", "iq3_xxs", "iq3_xs"};

const char *rt_convert_type_at(int i) {
    return i >= 0 && i < N_TYPES ? types[i].name : nullptr;
}

static bool same_word(const char *a, const char *b) {
    while (*a && std::tolower((unsigned char)*a) == *b) a++, b++;
    return *a == '\0' && *b == '\0';
}

int rt_convert_type(const char *name, int *type, retrace_error *err) {
    for (const auto &row : types) {
        if (same_word(name, row.name)) return *type = row.type, RETRACE_OK;
    }
    for (const char *row : need_matrix) {
        if (same_word(name, row))
            return retrace_fail(err, RETRACE_EUSAGE,
                                "type '%s' needs an importance matrix, which is not supported",
                                row);
    }
    return retrace_fail(err, RETRACE_EUSAGE, "there is no type '%.40s' to convert to", name);
}

/* ==== What a file is made of ==== */

struct gguf_closer {
    void operator()(gguf_context *g) const {
        gguf_free(g);
    }
};

int rt_convert_source(const char *path, const char **type, int *quantised, retrace_error *err) {
    return rt_guarded(err, [&]() -> int {
        rt_log_start();
        std::unique_ptr<gguf_context, gguf_closer> g(gguf_init_from_file(path, {true, nullptr}));
        if (!g) {
            return retrace_fail(err, RETRACE_EMODEL, "cannot load '%s': %s", path,
                                rt_log_said("bad model"));
        }
        std::vector<size_t> bytes(GGML_TYPE_COUNT);
        size_t most = 0;
        for (int64_t i = 0; i < gguf_get_n_tensors(g.get()); i++) {
            bytes[(size_t)gguf_get_tensor_type(g.get(), i)] += gguf_get_tensor_size(g.get(), i);
        }
        for (size_t t = 0; t < bytes.size(); t++) {
            if (bytes[t] > bytes[most]) most = t;
        }
        *type = ggml_type_name((ggml_type)most);
        *quantised = ggml_is_quantized((ggml_type)most);
        return RETRACE_OK;
    });
}

/* ==== The work ==== */

namespace {

struct stopped {};

struct watch {
    retrace_progress_fn *progress;
    void *ud;
};

void on_line(void *ud, const char *line) {
    auto *w = (watch *)ud;
    int at = 0, of = 0;
    if (!w->progress || std::sscanf(line, "[%d/%d]", &at, &of) != 2 || at < 1 || at > of) return;
    if (w->progress(w->ud, (double)(at - 1) / of)) throw stopped();
}

/* Takes the watcher away however the work ends. */
struct watching {
    explicit watching(watch *w) {
        rt_log_watch(on_line, w);
    }
    ~watching() {
        rt_log_watch(nullptr, nullptr);
    }
};

int failure(const char *in, const char *out, retrace_error *err) {
    const char *line = rt_log_said("it did not say why");
    if (std::strstr(line, "bad_alloc"))
        return retrace_fail(err, RETRACE_ENOMEM, "out of memory in libllama");
    if (std::strstr(line, "ios")) return retrace_fail(err, RETRACE_EIO, "cannot write '%s'", out);
    return retrace_fail(err, RETRACE_EMODEL, "cannot convert '%s': %s", in, line);
}

} /* namespace */

int rt_convert_run(const char *in, const char *out, int type, int pure, int threads,
                   retrace_progress_fn *progress, void *ud, retrace_error *err) {
    return rt_guarded(err, [&]() -> int {
        watch w = {progress, ud};
        llama_model_quantize_params p = llama_model_quantize_default_params();
        p.nthread = threads;
        p.ftype = (llama_ftype)type;
        p.allow_requantize = true;
        p.pure = pure != 0;
        p.max_buf_size = BUFFER;
        rt_log_start();
        watching guard(&w);
        try {
            if (llama_model_quantize(in, out, &p)) return failure(in, out, err);
        } catch (const stopped &) {
            return retrace_fail(err, RETRACE_ECANCEL, "stopped");
        }
        return RETRACE_OK;
    });
}
