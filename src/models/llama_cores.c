/* llama_cores.c - how many threads a computation should use; see llama_cores.h.
 *
 * Threads beyond the cores, or beyond the quota of a container, make every token slower: libllama's
 * threads wait for each other by spinning. Where the system does not say, each CPU counts. */
#define _GNU_SOURCE
#include "llama_cores.h"

#include <sched.h>
#include <stdio.h>

enum { MAX_CPUS = CPU_SETSIZE };

/* The lowest CPU that shares a core with this one, or itself. */
static int first_sibling(int cpu) {
    char path[96];
    int first = cpu;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *f = fopen(path, "r");
    if (!f) return cpu;
    if (fscanf(f, "%d", &first) != 1 || first < 0 || first >= MAX_CPUS) first = cpu;
    fclose(f);
    return first;
}

/* CPUs' worth of time that the control group grants; 0: no limit known. */
static int quota(void) {
    long long granted = 0, period = 0;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!f) return 0;
    int got = fscanf(f, "%lld %lld", &granted, &period);
    fclose(f);
    if (got != 2 || granted <= 0 || period <= 0) return 0;
    long long whole = (granted + period - 1) / period;
    return whole < MAX_CPUS ? (int)whole : 0;
}

int rt_cores(void) {
    cpu_set_t allowed;
    unsigned char seen[MAX_CPUS] = {0};
    int n = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
    for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &allowed)) continue;
        int core = first_sibling(cpu);
        n += !seen[core];
        seen[core] = 1;
    }
    int limit = quota();
    if (limit > 0 && limit < n) n = limit;
    return n > 0 ? n : 1;
}
