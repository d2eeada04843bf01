/* model.h - what other files use of model.c beside the public headers. */
#ifndef RT_MODEL_H
#define RT_MODEL_H

#include "dist.h"

/* EUSAGE, naming `what` and the byte, unless t is valid UTF-8. */
int rt_check_text(retrace_text t, const char *what, retrace_error *err);

/* As retrace_chat; at, when not NULL: of each message with tokens, where in *out they begin. */
int rt_chat(const retrace_model *m, const retrace_message *messages, int n_messages, int *at,
            retrace_token **out, int *n, retrace_error *err);

#endif
