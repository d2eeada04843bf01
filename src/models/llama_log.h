/* llama_log.h - what libllama says and throws, for the C++ files that call it.
 *
 * The log is a callback of the whole process. Lines of the level "error" are kept per thread: the
 * first since the last call began says most (those after it only add that something failed). What
 * is thrown becomes an error: std::bad_alloc RETRACE_ENOMEM, anything else RETRACE_EMODEL. */
#ifndef RT_LLAMA_LOG_H
#define RT_LLAMA_LOG_H

#include "retrace_ext.h"

#include <exception>
#include <new>

/* Sets libllama up, once a process, and forgets what was kept. */
void rt_log_start();
void rt_log_forget();
/* The line that was kept, else that one. */
const char *rt_log_said(const char *otherwise);

/* Sees every line of the level "info" of this thread until it is taken away (NULL). It may throw.
 */
typedef void rt_log_fn(void *ud, const char *line);
void rt_log_watch(rt_log_fn *fn, void *ud);

bool rt_log_blank(char c);
/* Copies text as one line: no control bytes, no blanks doubled or at the end, no character cut in
 * two. */
void rt_log_line(char *out, size_t size, const char *text);

/* Runs f, which returns a status, and turns what it throws into one. */
template <typename F> static int rt_guarded(retrace_error *err, F f) {
    try {
        return f();
    } catch (const std::bad_alloc &) {
        return retrace_fail(err, RETRACE_ENOMEM, "out of memory in libllama");
    } catch (const std::exception &e) {
        char line[400];
        rt_log_line(line, sizeof line, e.what());
        return retrace_fail(err, RETRACE_EMODEL, "libllama: %s", line);
    } catch (...) {
        return retrace_fail(err, RETRACE_EMODEL, "libllama failed");
    }
}

#endif
