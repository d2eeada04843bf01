/* models.h - the back ends that may be built in; the table in model.c gives their order. */
#ifndef RT_MODELS_H
#define RT_MODELS_H

#include "retrace_ext.h"

extern const retrace_backend_type rt_backend_llama;
extern const retrace_backend_type rt_backend_table;

#endif
