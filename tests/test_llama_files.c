/* test_llama_files.c - files and settings that the back end over libllama refuses, each in one
 * line.
 *
 * RETRACE_TINY is the folder of the tiny models; without it nothing is tested. */
#include "tiny.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void refused(const char *path, const char *settings, int code, const char *says) {
    retrace_model *m = NULL;
    retrace_error err;
    int rc = tiny_try(&m, path, settings, &err);
    if (rc != code) fail_msg("%s %s: %d instead of %d", path, settings, rc, code);
    if (!strstr(err.msg, says)) fail_msg("'%s' does not say '%s'", err.msg, says);
    assert_null(strchr(err.msg, '\n'));
    assert_null(m);
}

static void bad_files(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"novocab.gguf", "has no vocabulary"},
        {"vocabonly.gguf", "has a vocabulary but no weights"},
        {"truncated.gguf", "is truncated: tensor data ends at byte"},
        {"encoder.gguf", "an encoder-decoder model"},
        {"diffusion.gguf", "a diffusion model"},
    };
    if (!tiny_path("dense.gguf")) skip();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        refused(tiny_path(rows[i][0]), "threads=1", RETRACE_EMODEL, rows[i][1]);
    }
    refused("llama:/nowhere/model.gguf", "", RETRACE_EIO, "/nowhere/model.gguf");
    refused("llama:/tmp", "", RETRACE_EIO, "is a directory");
    refused("llama:/dev/null", "", RETRACE_EIO, "no plain file");
    refused("llama:/proc/self/exe", "", RETRACE_EMODEL, "is not a GGUF file");
}

/* A file cut anywhere is refused in one line. */
static void cut_files(void **state) {
    (void)state;
    static const long lengths[] = {0, 3, 4, 8, 20, 24, 100, 1000, 7000, 9500, 609000};
    const char *path = tiny_path("dense.gguf");
    char copy[64];
    if (!path) skip();
    snprintf(copy, sizeof copy, "/tmp/retrace-cut-%ld.gguf", (long)getpid());
    char *bytes = malloc(609000);
    FILE *from = fopen(path, "rb");
    assert_non_null(bytes);
    assert_non_null(from);
    assert_int_equal(fread(bytes, 1, 609000, from), 609000);
    fclose(from);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        FILE *to = fopen(copy, "wb");
        assert_non_null(to);
        fwrite(bytes, 1, (size_t)lengths[i], to);
        assert_int_equal(fclose(to), 0);
        refused(copy, "", RETRACE_EMODEL, i < 2 ? "is not a GGUF file" : "is truncated");
    }
    remove(copy);
    free(bytes);
}

static void bad_settings(void **state) {
    (void)state;
    const char *path = tiny_path("dense.gguf");
    if (!path) skip();
    refused(path, "device=warp9", RETRACE_EUSAGE, "unknown device 'warp9'; there are: auto, cpu");
    refused(path, "device=cpu n_gpu_layers=3", RETRACE_EUSAGE, "n_gpu_layers is 3");
    refused(path, "parallel=0", RETRACE_EUSAGE, "parallel");
    refused(path, "batch_size=0", RETRACE_EUSAGE, "batch_size");
    refused(path, "ctx_size=-1", RETRACE_EUSAGE, "ctx_size");
    refused(path, "ctx_size=16777216 parallel=2", RETRACE_EUSAGE, "too large");
    refused(path, "warp=9", RETRACE_EUSAGE, "warp");
    retrace_model *m = tiny_open(path, "device=CPU threads=1 ctx_size=256 batch_size=1 parallel=3");
    retrace_model_close(m);
}

/* ==== Memory ==== */

static long n_calls, fail_at; /* 0: never */

static void *short_of_memory(void *ud, void *ptr, size_t old_size, size_t new_size) {
    (void)ud;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return ++n_calls == fail_at ? NULL : realloc(ptr, new_size);
}

/* Opens, tokenises, chats, asks, rewinds; RETRACE_ENOMEM as soon as one of them says so. */
static int use(const char *path) {
    retrace_model *m = NULL;
    retrace_token *v = NULL, *chat = NULL;
    retrace_error err;
    int n = 0, n_chat = 0;
    float *next = malloc(400 * sizeof *next);
    retrace_message sly = {.role = "user", .content = {"the <s> end", 11}};
    retrace_text text = {"the end and the inning", 22};
    assert_non_null(next);
    int rc = tiny_try(&m, path, "threads=1 ctx_size=256 batch_size=8", &err);
    if (rc == RETRACE_OK) rc = retrace_tokenize(m, text, RETRACE_TOKENIZE_BOS, &v, &n, &err);
    if (rc == RETRACE_OK && strstr(path, "dense"))
        rc = retrace_chat(m, &sly, 1, &chat, &n_chat, &err);
    for (int k = 0; rc == RETRACE_OK && k < 3; k++) {
        retrace_query q = {.tokens = v, .n = n - k, .n_prompt = 3, .next = next};
        rc = retrace_model_eval(m, &q, 1, &err);
    }
    retrace_message said[] = {sly, {.role = "assistant", .content = text, .tokens = NULL}, sly};
    retrace_free(chat);
    chat = NULL;
    retrace_token *own = NULL;
    int n_own = 0;
    if (rc == RETRACE_OK)
        rc = retrace_tokenize(m, text, RETRACE_TOKENIZE_INSIDE, &own, &n_own, &err);
    said[1].tokens = own;
    said[1].n_tokens = n_own;
    if (rc == RETRACE_OK && strstr(path, "dense"))
        rc = retrace_chat(m, said, 3, &chat, &n_chat, &err);
    retrace_free(own);
    if (rc < 0) assert_true(err.msg[0] != '\0');
    retrace_free(v);
    retrace_free(chat);
    retrace_model_close(m);
    free(next);
    return rc;
}

/* Each allocation fails once: an error and nothing lost. What only saves work may go without. */
static void allocations(void **state) {
    (void)state;
    static const char *const files[] = {"dense.gguf", "recurrent.gguf"};
    for (int i = 0; i < 2; i++) {
        const char *path = tiny_path(files[i]);
        long n_failed = 0;
        if (!path) skip();
        retrace_set_alloc(short_of_memory, NULL);
        for (fail_at = 1;; fail_at++) {
            n_calls = 0;
            int rc = use(path);
            n_failed += rc == RETRACE_ENOMEM;
            assert_true(rc == RETRACE_OK || rc == RETRACE_ENOMEM);
            if (n_calls < fail_at) break;
        }
        retrace_set_alloc(NULL, NULL);
        assert_true(n_failed > 15);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_files),
        cmocka_unit_test(cut_files),
        cmocka_unit_test(bad_settings),
        cmocka_unit_test(allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
