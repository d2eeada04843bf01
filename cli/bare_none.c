/* bare_none.c - stands in for bare_llama.cpp where the program is built without libllama. */
#include "bare.h"

#include <stdio.h>

static int none(char *msg, size_t size) {
    snprintf(msg, size, "libllama is not built in");
    return -1;
}

int cli_bare_built_in(void) {
    return 0;
}

int cli_bare_open(cli_bare **out, const char *path, int n_ctx, int n_batch, int n_threads,
                  int n_gpu_layers, char *msg, size_t size) {
    (void)out, (void)path, (void)n_ctx, (void)n_batch, (void)n_threads, (void)n_gpu_layers;
    return none(msg, size);
}

int cli_bare_run(cli_bare *b, const int32_t *prompt, int n_prompt, int n, uint32_t seed,
                 double (*clock)(void), double *seconds, char *msg, size_t size) {
    (void)b, (void)prompt, (void)n_prompt, (void)n, (void)seed, (void)clock, (void)seconds;
    return none(msg, size);
}

void cli_bare_close(cli_bare *b) {
    (void)b;
}
