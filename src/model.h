/* model.h - what other files use of model.c beside the public headers. */
#ifndef RT_MODEL_H
#define RT_MODEL_H

#include "dist.h"

/* EUSAGE, naming `what` and the byte, unless t is valid UTF-8. */
int rt_check_text(retrace_text t, const char *what, retrace_error *err);

#endif
