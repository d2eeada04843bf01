/* twice.h - loops that are compiled a second time for AVX2, where the loader picks.
 *
 * The sources that use it are compiled with -O3 (CMakeLists.txt). Contraction into fused operations
 * is off (C11 mode), so both forms give the same bits. */
#ifndef RT_TWICE_H
#define RT_TWICE_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TWICE __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define TWICE
#endif

#endif
