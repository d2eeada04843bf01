/* llama_log.cpp - what libllama says; see llama_log.h.
 *
 * Set up once a process: the log stays off the terminal from then on. */
#include "llama_log.h"

#include <llama.h>

#include <cstring>
#include <mutex>

static thread_local char first_error[400];
static thread_local rt_log_fn *watcher;
static thread_local void *watcher_ud;

bool rt_log_blank(char c) {
    return (unsigned char)c <= ' ' || c == 0x7f;
}

void rt_log_line(char *out, size_t size, const char *text) {
    size_t n = 0;
    for (; *text && n + 1 < size; text++) {
        if (rt_log_blank(*text) && (n == 0 || out[n - 1] == ' ')) continue;
        out[n++] = rt_log_blank(*text) ? ' ' : *text;
    }
    if (*text) {
        while (n > 0 && ((unsigned char)out[n - 1] & 0xc0) == 0x80) n--;
        if (n > 0 && (unsigned char)out[n - 1] >= 0xc0) n--;
    }
    while (n > 0 && (out[n - 1] == ' ' || out[n - 1] == '.')) n--;
    out[n] = '\0';
}

/* Keeps a line of the log without "function: " and what we say ourselves. */
static void keep_line(const char *text) {
    static const char *const ours[] = {"error loading model: ", "failed to quantize: "};
    const char *colon = std::strstr(text, ": "), *space = std::strchr(text, ' ');
    if (colon && space == colon + 1) text = colon + 2;
    for (const char *begin : ours) {
        if (std::strncmp(text, begin, std::strlen(begin)) == 0) text += std::strlen(begin);
    }
    rt_log_line(first_error, sizeof first_error, text);
}

static void on_log(ggml_log_level level, const char *text, void *) {
    if (level == GGML_LOG_LEVEL_ERROR && first_error[0] == '\0') keep_line(text);
    if (level == GGML_LOG_LEVEL_INFO && watcher) watcher(watcher_ud, text);
}

void rt_log_start() {
    static std::once_flag once;
    std::call_once(once, [] {
        llama_log_set(on_log, nullptr);
        llama_backend_init();
        if (ggml_backend_reg_count() == 0) ggml_backend_load_all();
    });
    rt_log_forget();
}

void rt_log_forget() {
    first_error[0] = '\0';
}

const char *rt_log_said(const char *otherwise) {
    return first_error[0] ? first_error : otherwise;
}

void rt_log_watch(rt_log_fn *fn, void *ud) {
    watcher = fn;
    watcher_ud = ud;
}
