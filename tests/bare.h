/* bare.h - libllama with nothing in between: the yardstick for tests. It starts from an empty
 * memory every time, so it shares no code and no state with what it measures. */
#ifndef TEST_BARE_H
#define TEST_BARE_H

#include "retrace.h"

typedef struct bare bare;

/* NULL: built without libllama, or the file cannot be opened. */
bare *bare_open(const char *path, int n_ctx, int n_batch, int n_threads, int n_gpu_layers);
void bare_close(bare *b);

/* Feeds `n_prompt` tokens in batches of n_batch and the others one by one, in a context that holds
 * nothing else; `next` receives the logits after the last. 1 on success. */
int bare_eval(bare *b, const retrace_token *tokens, int n, int n_prompt, float *next);

#endif
