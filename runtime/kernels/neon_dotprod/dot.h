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

KR_INLINE float32x4_t dot_4(enum kern_wtype wtype, const uint8_t *quads, int8x16_t x0, int8x16_t x1)
{
    int8x16_t w[8];
    dot_unpack(wtype, 4, w, quads);
    return dot_float(wtype, dot_half(dot_half(vdupq_n_s32(0), w, x0), w + 4, x1));
}

KR_INLINE vf dot_block(enum kern_wtype wtype, const uint8_t *quads, const struct dot_acts *a,
                       size_t at)
{
    const int8x16_t x0 = vld1q_s8(a->q + KERN_BLOCK * at);
    const int8x16_t x1 = vld1q_s8(a->q + KERN_BLOCK * at + 16);
    return (vf){dot_4(wtype, quads, x0, x1), dot_4(wtype, quads + 16, x0, x1),
                dot_4(wtype, quads + 32, x0, x1), dot_4(wtype, quads + 48, x0, x1)};
}

/* One step of the float chains of 8 rows and `cols` columns, a constant, from `at` on. */
KR_INLINE void dot_tile(enum kern_wtype wtype, const size_t cols, float *sums,
                        const int8x16_t w0[8], const int8x16_t w1[8], float32x4_t scale0,
                        float32x4_t scale1, const struct dot_acts *a, size_t at)
{
    int32x4_t low[TILE_COLS], high[TILE_COLS]; /* rows 0..3, 4..7 */
    KR_UNROLL
    for (size_t c = 0; c < cols; c++)
        low[c] = high[c] = vdupq_n_s32(0);
    KR_UNROLL
    for (size_t half = 0; half < 2; half++) {
        KR_UNROLL
        for (size_t c = 0; c < cols; c++) {
            const int8x16_t x = vld1q_s8(a->q + KERN_BLOCK * (at + c) + 16 * half);
            low[c] = dot_half(low[c], w0 + 4 * half, x);
            high[c] = dot_half(high[c], w1 + 4 * half, x);
        }
    }
    KR_UNROLL
    for (size_t c = 0; c < cols; c++) {
        float *sum = sums + PACK_ROWS * c;
        const float32x4_t d = vdupq_n_f32(a->d[at + c]);
        const float32x4_t s0 = vmulq_f32(scale0, d), s1 = vmulq_f32(scale1, d);
        vst1q_f32(sum, vfmaq_f32(vld1q_f32(sum), s0, dot_float(wtype, low[c])));
        vst1q_f32(sum + 4, vfmaq_f32(vld1q_f32(sum + 4), s1, dot_float(wtype, high[c])));
    }
}

/* Rows 8i..8i+7 of dot_block_cols(). */
KR_INLINE void dot_rows(enum kern_wtype wtype, float *sums, const uint8_t *quads,
                        float32x4_t scale0, float32x4_t scale1, const struct dot_acts *a, size_t at,
                        size_t n)
{
    int8x16_t w0[8], w1[8];
    dot_unpack(wtype, 4, w0, quads);
    dot_unpack(wtype, 4, w1, quads + 16);
    size_t c = 0;
    for (; c + TILE_COLS <= n; c += TILE_COLS)
        dot_tile(wtype, TILE_COLS, sums + PACK_ROWS * c, w0, w1, scale0, scale1, a, at + c);
    for (; c < n; c++)
        dot_tile(wtype, 1, sums + PACK_ROWS * c, w0, w1, scale0, scale1, a, at + c);
}

KR_INLINE void dot_block_cols(enum kern_wtype wtype, float *sums, const uint8_t *quads, vf scale,
                              const struct dot_acts *a, size_t at, size_t n)
{
    dot_rows(wtype, sums, quads, scale.a, scale.b, a, at, n);
    dot_rows(wtype, sums + 8, quads + 32, scale.c, scale.d, a, at, n);
}

#endif
