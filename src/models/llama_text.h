/* llama_text.h - text and chat messages to tokens, for models of libllama. */
#ifndef RT_LLAMA_TEXT_H
#define RT_LLAMA_TEXT_H

#include "llama_shim.h"

/* As the back end's tokenize and chat; the facts and the vocabulary of m are filled. */
int rt_llama_tokens(const retrace_model *m, const rt_llama *l, retrace_text text, int flags,
                    retrace_token **out, int *n, retrace_error *err);
int rt_llama_chat(const retrace_model *m, const rt_llama *l, const retrace_message *messages,
                  int n_messages, int *at, retrace_token **out, int *n, retrace_error *err);

#endif
