/* llama_cores.h - how many threads a computation should use. */
#ifndef RT_LLAMA_CORES_H
#define RT_LLAMA_CORES_H

/* Physical cores this process may use: the CPUs it may run on, two threads of one core counted once
 * where the system tells, at most the quota of its control group. At least 1. */
int rt_cores(void);

#endif
