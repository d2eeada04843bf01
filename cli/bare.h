/* bare.h - what `bench` compares with: libllama called directly, in the shortest loop that
 * generates text.
 *
 * It shares nothing with libretrace but the model file. bare_llama.cpp is the loop; bare_none.c
 * stands in for it in a program built without libllama. */
#ifndef CLI_BARE_H
#define CLI_BARE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cli_bare cli_bare;

int cli_bare_built_in(void); /* 0 in bare_none.c */
/* 0, or -1 with a message. */
int cli_bare_open(cli_bare **out, const char *path, int n_ctx, int n_batch, int n_threads,
                  int n_gpu_layers, char *msg, size_t size);
/* Feeds the prompt, then draws n tokens, end tokens excluded, with llama-cli's default sampling.
 * *seconds: from the prompt's last logits to the last token drawn. */
int cli_bare_run(cli_bare *b, const int32_t *prompt, int n_prompt, int n, uint32_t seed,
                 double (*clock)(void), double *seconds, char *msg, size_t size);
void cli_bare_close(cli_bare *b); /* accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
