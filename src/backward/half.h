/* half.h - IEEE half-precision numbers in memory: two bytes each instead of four. */
#ifndef RT_HALF_H
#define RT_HALF_H

#include <stdint.h>

/* Rounds to nearest even; beyond 65504 to infinity. */
void rt_half_pack(const float *x, int n, uint16_t *out);
void rt_half_unpack(const uint16_t *x, int n, float *out);
/* out[i] = the product of row i of m (n_rows x n halves) with x, summed in float in a fixed order.
 */
void rt_half_times(const uint16_t *m, int n_rows, int n, const float *x, float *out);

#endif
