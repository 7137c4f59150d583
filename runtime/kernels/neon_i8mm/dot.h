/* neon_i8mm/dot.h - activations and integer dot products with smmla, and sdot for one column.
 *
 * A register of weights is 2 rows of 8 k; one of activations, 2 columns of 8 k.  smmla adds the
 * four dots of 8:
 *
 *   weights | r0 k0..7 | r1 k0..7 |   acts | c0 k0..7 | c1 k0..7 |
 *   sums    | r0 c0 | r0 c1 | r1 c0 | r1 c1 |
 *
 * So columns lie in pairs, k0..7 of both, k8..15 of both, ...; the last of an odd number stands
 * alone, and so does the only one.
 *
 * For one column the same weights meet 8 activations twice: sdot leaves two sums a row, addp one.
 * SPDX-License-Identifier: MIT */
#ifndef DOT_H
#define DOT_H

#include "dot_arm.h"
#include "gather.h"

/* 8 rows of a block, two by two: their weights, and each scale twice. */
struct dot_rows {
    int8x16_t w[4][4];
    float32x4_t scale[4];
};

KR_INLINE struct dot_rows dot_rows(enum kern_wtype wtype, const uint8_t *quads, float32x4_t scale0,
                                   float32x4_t scale1)
{
    struct dot_rows r = {.scale = {vzip1q_f32(scale0, scale0), vzip2q_f32(scale0, scale0),
                                   vzip1q_f32(scale1, scale1), vzip2q_f32(scale1, scale1)}};
    KR_UNROLL
    for (size_t g = 0; g < 4; g++)
        dot_unpack(wtype, r.w[g], quads + 16 * g);
    return r;
}

#include <dot_sums.h>

/* The column has to stand alone. */
KR_INLINE vf dot_block(enum kern_wtype wtype, const uint8_t **quads, const int8_t **x)
{
    int32x4_t sums[4];
    dot_sums_one(wtype, sums, quads, x);
    return (vf){dot_float(wtype, sums[0]), dot_float(wtype, sums[1]), dot_float(wtype, sums[2]),
                dot_float(wtype, sums[3])};
}

/* All n columns of a block: sums are [n / 2][16][2], and [16] for the one that stands alone. */
KR_INLINE void dot_block_cols(enum kern_wtype wtype, float *sums, const uint8_t *quads, vf scale,
                              const struct dot_acts *a, size_t at, size_t n)
{
    const struct dot_rows low = dot_rows(wtype, quads, scale.a, scale.b);
    dot_sums_pairs(wtype, sums, &low, a->q + KERN_BLOCK * at, a->d + at, n / 2);
    const struct dot_rows high = dot_rows(wtype, quads + 64, scale.c, scale.d);
    dot_sums_pairs(wtype, sums + 16, &high, a->q + KERN_BLOCK * at, a->d + at, n / 2);
    if (n % 2) {
        const int8_t *x = a->q + KERN_BLOCK * (at + n - 1);
        float *sum = sums + PACK_ROWS * (n - 1);
        const vf d = vf_mul(scale, vf_set1(a->d[at + n - 1])), dots = dot_block(wtype, &quads, &x);
        vf_store(sum, vf_fma(d, dots, vf_load(sum)));
    }
}

#endif
