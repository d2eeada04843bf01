/* half.c - IEEE half-precision numbers, by their bits.
 *
 * No type or instruction for halves is asked of the machine: a half's exponent and mantissa, moved
 * to a float's place, want only another offset in the exponent. Products convert on the way: a
 * matrix of halves is half as much to read. Their sums run in LANES parts, in a fixed order, so the
 * bits are the same everywhere. */
#include "half.h"
#include "../twice.h"

#include <string.h>

static inline float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Below 2^-14 halves are multiples of 2^-24: in a float of exponent -14 the mantissa counts just
 * these. Exponent 31, infinity and NaN, becomes 255. */
static inline float unpack(uint16_t h) {
    uint32_t magnitude = (uint32_t)(h & 0x7fff), moved = magnitude << 13;
    uint32_t offset = magnitude >= 0x7c00 ? 0x70000000u : 0x38000000u;
    float large = float_of(moved + offset), small = float_of(moved + 0x38800000u) - 0x1p-14f;
    uint32_t bits = bits_of(magnitude < 0x0400 ? small : large);
    return float_of(bits | (uint32_t)(h & 0x8000) << 16);
}

/* The rounding to multiples of 2^-24 is left to an addition, whose sum has just that precision. */
static inline uint16_t pack(float f) {
    uint32_t bits = bits_of(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    uint32_t small = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t even = magnitude >> 13 & 1;
    uint32_t large = (magnitude - 0x38000000u + 0xfff + even) >> 13;
    uint32_t half = magnitude < 0x38800000u ? small : large;
    half = magnitude >= 0x47800000u ? 0x7c00 : half;
    half = magnitude > 0x7f800000u ? 0x7e00 : half;
    return (uint16_t)(half | sign);
}

TWICE void rt_half_pack(const float *x, int n, uint16_t *out) {
    for (int i = 0; i < n; i++) out[i] = pack(x[i]);
}

TWICE void rt_half_unpack(const uint16_t *x, int n, float *out) {
    for (int i = 0; i < n; i++) out[i] = unpack(x[i]);
}

enum { LANES = 32 };

static inline float fold(float *acc) {
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int j = 0; j < width; j++) acc[j] += acc[j + width];
    }
    return acc[0];
}

TWICE void rt_half_times(const uint16_t *m, int n_rows, int n, const float *x, float *out) {
    for (int r = 0; r < n_rows; r++) {
        const uint16_t *row = m + (size_t)r * (size_t)n;
        float acc[LANES] = {0};
        int i = 0;
        for (; i + LANES <= n; i += LANES) {
            for (int j = 0; j < LANES; j++) acc[j] += unpack(row[i + j]) * x[i + j];
        }
        for (int j = 0; i < n; i++, j++) acc[j] += unpack(row[i]) * x[i];
        out[r] = fold(acc);
    }
}
