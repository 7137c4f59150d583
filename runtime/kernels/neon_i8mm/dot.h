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

/* Two sums each of rows 0 and 1 of the two at `quads`. */
KR_INLINE int32x4_t dot_2(enum kern_wtype wtype, const uint8_t *quads, int64x2x4_t x)
{
    int8x16_t w[4];
    int32x4_t sum = vdupq_n_s32(0);
    dot_unpack(wtype, 8, w, quads);
    KR_UNROLL
    for (size_t z = 0; z < 4; z++)
        sum = vdotq_s32(sum, w[z], vreinterpretq_s8_s64(x.val[z]));
    return sum;
}

KR_INLINE float32x4_t dot_4(enum kern_wtype wtype, const uint8_t *quads, int64x2x4_t x)
{
    return dot_float(wtype, vpaddq_s32(dot_2(wtype, quads, x), dot_2(wtype, quads + 16, x)));
}

/* The column has to stand alone. */
KR_INLINE vf dot_block(enum kern_wtype wtype, const uint8_t *quads, const struct dot_acts *a,
                       size_t at)
{
    const int64x2x4_t x = vld4q_dup_s64((const int64_t *)(a->q + KERN_BLOCK * at));
    return (vf){dot_4(wtype, quads, x), dot_4(wtype, quads + 32, x), dot_4(wtype, quads + 64, x),
                dot_4(wtype, quads + 96, x)};
}

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
        dot_unpack(wtype, 8, r.w[g], quads + 16 * g);
    return r;
}

/* One step of the float chains of 8 rows and `pairs` pairs of columns, a constant, from `at` on;
 * sums[pair][row][2] has 16 rows. */
KR_INLINE void dot_tile(enum kern_wtype wtype, const size_t pairs, float *sums,
                        const struct dot_rows *r, const struct dot_acts *a, size_t at)
{
    int32x4_t dots[TILE_PAIRS][4];
    KR_UNROLL
    for (size_t p = 0; p < pairs; p++) {
        KR_UNROLL
        for (size_t g = 0; g < 4; g++)
            dots[p][g] = vdupq_n_s32(0);
    }
    KR_UNROLL
    for (size_t z = 0; z < 4; z++) {
        KR_UNROLL
        for (size_t p = 0; p < pairs; p++) {
            const int8x16_t x = vld1q_s8(a->q + KERN_BLOCK * (at + 2 * p) + 16 * z);
            KR_UNROLL
            for (size_t g = 0; g < 4; g++)
                dots[p][g] = vmmlaq_s32(dots[p][g], r->w[g][z], x);
        }
    }
    KR_UNROLL
    for (size_t p = 0; p < pairs; p++) {
        const float32x2_t two = vld1_f32(a->d + at + 2 * p);
        const float32x4_t d = vcombine_f32(two, two);
        KR_UNROLL
        for (size_t g = 0; g < 4; g++) {
            float *sum = sums + 2 * PACK_ROWS * p + 4 * g;
            const float32x4_t s = vmulq_f32(r->scale[g], d);
            vst1q_f32(sum, vfmaq_f32(vld1q_f32(sum), s, dot_float(wtype, dots[p][g])));
        }
    }
}

/* Rows 8i..8i+7 of dot_block_cols(). */
KR_INLINE void dot_pairs(enum kern_wtype wtype, float *sums, struct dot_rows r,
                         const struct dot_acts *a, size_t at, size_t n)
{
    size_t c = 0;
    for (; c + 2 * TILE_PAIRS <= n; c += 2 * TILE_PAIRS)
        dot_tile(wtype, TILE_PAIRS, sums + PACK_ROWS * c, &r, a, at + c);
    if (c + 2 <= n)
        dot_tile(wtype, 1, sums + PACK_ROWS * c, &r, a, at + c);
}

/* All n columns of a block: sums are [n / 2][16][2], and [16] for the one that stands alone. */
KR_INLINE void dot_block_cols(enum kern_wtype wtype, float *sums, const uint8_t *quads, vf scale,
                              const struct dot_acts *a, size_t at, size_t n)
{
    dot_pairs(wtype, sums, dot_rows(wtype, quads, scale.a, scale.b), a, at, n);
    dot_pairs(wtype, sums + 16, dot_rows(wtype, quads + 64, scale.c, scale.d), a, at, n);
    if (n % 2) {
        float *sum = sums + PACK_ROWS * (n - 1);
        const vf d = vf_mul(scale, vf_set1(a->d[at + n - 1]));
        vf_store(sum, vf_fma(d, dot_block(wtype, quads, a, at + n - 1), vf_load(sum)));
    }
}

#endif
