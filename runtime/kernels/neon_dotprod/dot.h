/* neon_dotprod/dot.h - activations and integer dot products with sdot.
 *
 * sdot adds four products of signed bytes to each 32-bit lane; a lane is a row, and the activations
 * are one lane of a register of 16 k:
 *
 *        lane   0           1           2           3
 *   weights  | r0 k0..3 | r1 k0..3 | r2 k0..3 | r3 k0..3 |
 *   acts     |  k0..3   |  k4..7   |  k8..11  |  k12..15 |   sdot takes lane z for k = 4z..4z+3
 *
 * SPDX-License-Identifier: MIT */
#ifndef DOT_H
#define DOT_H

#include "dot_arm.h"
#include "gather.h"

/* sum += 4 rows x 16 k. */
KR_INLINE int32x4_t dot_half(int32x4_t sum, const int8x16_t w[4], int8x16_t x)
{
    sum = vdotq_laneq_s32(sum, w[0], x, 0);
    sum = vdotq_laneq_s32(sum, w[1], x, 1);
    sum = vdotq_laneq_s32(sum, w[2], x, 2);
    return vdotq_laneq_s32(sum, w[3], x, 3);
}

/* 8 rows of a block, four by four; many columns meet them in registers. */
struct dot_rows {
    int8x16_t w[2][8];
    float32x4_t scale[2];
};

KR_INLINE struct dot_rows dot_rows(enum kern_wtype wtype, const uint8_t *quads, float32x4_t scale0,
                                   float32x4_t scale1)
{
    struct dot_rows r = {.scale = {scale0, scale1}};
    dot_unpack(wtype, r.w[0], quads);
    dot_unpack(wtype, r.w[1], quads + 16);
    return r;
}

/* sum[8] of a column gains its dots: one step of the float chain. */
KR_INLINE void dot_scale(enum kern_wtype wtype, float *sum, const struct dot_rows *r, float d,
                         const int32x4_t dots[2])
{
    const float32x4_t s0 = vmulq_n_f32(r->scale[0], d), s1 = vmulq_n_f32(r->scale[1], d);
    const float32x4_t f0 = vfmaq_f32(vld1q_f32(sum), s0, dot_float(wtype, dots[0]));
    const float32x4_t f1 = vfmaq_f32(vld1q_f32(sum + 4), s1, dot_float(wtype, dots[1]));
    vst1q_f32(sum, f0);
    vst1q_f32(sum + 4, f1);
}

#include <dot_sums.h>

KR_INLINE vf dot_block(enum kern_wtype wtype, const uint8_t **quads, const int8_t **x)
{
    int32x4_t sums[4];
    dot_sums_one(wtype, sums, quads, x);
    return (vf){dot_float(wtype, sums[0]), dot_float(wtype, sums[1]), dot_float(wtype, sums[2]),
                dot_float(wtype, sums[3])};
}

/* 8 of the rows of dot_block_cols(). */
KR_INLINE void dot_8_rows(enum kern_wtype wtype, float *sums, struct dot_rows r, const int8_t *q,
                          const float *d, size_t n)
{
    const size_t last = n - n % 2;
    dot_sums_pairs(wtype, sums, &r, q, d, last);
    if (last < n) {
        const int8x16_t x0 = vld1q_s8(q + KERN_BLOCK * last);
        const int8x16_t x1 = vld1q_s8(q + KERN_BLOCK * last + 16);
        int32x4_t dots[2];
        for (size_t g = 0; g < 2; g++)
            dots[g] = dot_half(dot_half(vdupq_n_s32(0), r.w[g], x0), r.w[g] + 4, x1);
        dot_scale(wtype, sums + PACK_ROWS * last, &r, d[last], dots);
    }
}

KR_INLINE void dot_block_cols(enum kern_wtype wtype, float *sums, const uint8_t *quads, vf scale,
                              const struct dot_acts *a, size_t at, size_t n)
{
    const int8_t *q = a->q + KERN_BLOCK * at;
    const float *d = a->d + at;
    dot_8_rows(wtype, sums, dot_rows(wtype, quads, scale.a, scale.b), q, d, n);
    dot_8_rows(wtype, sums + 8, dot_rows(wtype, quads + 32, scale.c, scale.d), q, d, n);
}

#endif
