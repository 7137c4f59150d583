/* neon/dot.h - activations and integer dot products without a dot product instruction.
 *
 * Q4: the 16 bytes of one k are 16 rows, so smlal adds to an int16 per row, and a whole block goes
 * into one: |sum| <= 32 * 8 * 127 = 32512.  Nibbles are q + 8; the sum starts at -8 times that of
 * the activations, and what wraps on the way does not matter.
 *
 *     byte r = low nibble q[r][k] + 8, high nibble q[r][16 + k] + 8          k = 0..15
 *
 * Q8: 16 bytes are 4 rows of 4 k.  Two products fit an int16, 2 * 127 * 127 = 32258; sadalp adds
 * neighbours to int32; addp leaves a lane per row.
 *
 *     | row 0: k..k+3 | row 1 | row 2 | row 3 |   smull low: rows 0, 1   smull2: rows 2, 3
 *
 * SPDX-License-Identifier: MIT */
#ifndef DOT_H
#define DOT_H

#include <isa.h>
#include <vec.h>

#include "gather.h"
#include "kernels.h"

/* Activations of [blocks][cols] blocks, block-major. */
struct dot_acts {
    int8_t *q;      /* [blocks][cols][32] */
    float *d;       /* [blocks][cols] */
    int16_t *start; /* [blocks][cols]: -8 * sum of the 32 */
};

enum { DOT_ACT_BYTES = 32 + 4 + 2 }; /* per block and column */

KR_INLINE struct dot_acts dot_acts_view(const void *acts, size_t k, size_t cols)
{
    const size_t n = k / KERN_BLOCK * cols;
    int8_t *q = (int8_t *)acts;
    float *d = (float *)(q + KERN_BLOCK * n);
    return (struct dot_acts){q, d, (int16_t *)(d + n)};
}

/* Dots of a block with `cols` columns from `at` on; cols is a constant up to TILE_Q4_COLS. */
KR_INLINE void dot_tile_q4(const size_t cols, vf *dots, const uint8_t *quads,
                           const struct dot_acts *a, size_t at)
{
    const int8_t *q = a->q + KERN_BLOCK * at;
    int16x8_t lo[TILE_Q4_COLS], hi[TILE_Q4_COLS]; /* rows 0..7, 8..15 */
    KR_UNROLL
    for (size_t c = 0; c < cols; c++)
        lo[c] = hi[c] = vdupq_n_s16(a->start[at + c]);
    KR_UNROLL_BY_2
    for (size_t k = 0; k < 16; k++) {
        const uint8x16_t w = vld1q_u8(quads + PACK_ROWS * k);
        const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(w, vdupq_n_u8(15)));
        const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(w, 4));
        KR_UNROLL
        for (size_t c = 0; c < cols; c++) {
            const int8x16_t x = vld1q_dup_s8(q + KERN_BLOCK * c + k);
            const int8x16_t y = vld1q_dup_s8(q + KERN_BLOCK * c + 16 + k);
            lo[c] = vmlal_s8(lo[c], vget_low_s8(low), vget_low_s8(x));
            hi[c] = vmlal_high_s8(hi[c], low, x);
            lo[c] = vmlal_s8(lo[c], vget_low_s8(high), vget_low_s8(y));
            hi[c] = vmlal_high_s8(hi[c], high, y);
        }
    }
    KR_UNROLL
    for (size_t c = 0; c < cols; c++)
        dots[c] = vf_from_s16(lo[c], hi[c]);
}

/* The four bytes at p, four times. */
KR_INLINE int8x16_t dot_broadcast(const int8_t *p)
{
    int32_t quad;
    memcpy(&quad, p, sizeof quad);
    return vreinterpretq_s8_s32(vdupq_n_s32(quad));
}

/* Two quads of k of rows 0 and 1, of rows 2 and 3, are added to sum. */
KR_INLINE int32x4_t dot_low(int32x4_t sum, int8x16_t w0, int8x16_t w1, int8x16_t x0, int8x16_t x1)
{
    const int16x8_t p = vmull_s8(vget_low_s8(w0), vget_low_s8(x0));
    return vpadalq_s16(sum, vmlal_s8(p, vget_low_s8(w1), vget_low_s8(x1)));
}

KR_INLINE int32x4_t dot_high(int32x4_t sum, int8x16_t w0, int8x16_t w1, int8x16_t x0, int8x16_t x1)
{
    return vpadalq_s16(sum, vmlal_high_s8(vmull_high_s8(w0, x0), w1, x1));
}

/* Dots of a block with `cols` columns from `at` on; cols is a constant up to TILE_Q8_COLS. */
KR_INLINE void dot_tile_q8(const size_t cols, vf *dots, const uint8_t *quads,
                           const struct dot_acts *a, size_t at)
{
    const int8_t *q = a->q + KERN_BLOCK * at, *w = (const int8_t *)quads;
    int32x4_t lo[TILE_Q8_COLS][4], hi[TILE_Q8_COLS][4]; /* of 4 rows: rows 0, 1 and 2, 3 */
    KR_UNROLL
    for (size_t c = 0; c < cols; c++) {
        KR_UNROLL
        for (size_t g = 0; g < 4; g++)
            lo[c][g] = hi[c][g] = vdupq_n_s32(0);
    }
    KR_UNROLL_BY_2
    for (size_t z = 0; z < 8; z += 2, w += 2 * 4 * PACK_ROWS) {
        KR_UNROLL
        for (size_t g = 0; g < 4; g++) {
            const int8x16_t w0 = vld1q_s8(w + 16 * g), w1 = vld1q_s8(w + 4 * PACK_ROWS + 16 * g);
            KR_UNROLL
            for (size_t c = 0; c < cols; c++) {
                const int8x16_t x0 = dot_broadcast(q + KERN_BLOCK * c + 4 * z);
                const int8x16_t x1 = dot_broadcast(q + KERN_BLOCK * c + 4 * z + 4);
                lo[c][g] = dot_low(lo[c][g], w0, w1, x0, x1);
                hi[c][g] = dot_high(hi[c][g], w0, w1, x0, x1);
            }
        }
    }
    KR_UNROLL
    for (size_t c = 0; c < cols; c++)
        dots[c] = (vf){vcvtq_f32_s32(vpaddq_s32(lo[c][0], hi[c][0])),
                       vcvtq_f32_s32(vpaddq_s32(lo[c][1], hi[c][1])),
                       vcvtq_f32_s32(vpaddq_s32(lo[c][2], hi[c][2])),
                       vcvtq_f32_s32(vpaddq_s32(lo[c][3], hi[c][3]))};
}

KR_INLINE void dot_tile(enum kern_wtype wtype, const size_t cols, vf *dots, const uint8_t *quads,
                        const struct dot_acts *a, size_t at)
{
    if (wtype == KERN_Q4)
        dot_tile_q4(cols, dots, quads, a, at);
    else
        dot_tile_q8(cols, dots, quads, a, at);
}

KR_INLINE vf dot_block(enum kern_wtype wtype, const uint8_t *quads, const struct dot_acts *a,
                       size_t at)
{
    vf dot[1];
    dot_tile(wtype, 1, dot, quads, a, at);
    return dot[0];
}

/* sums[n][16] of n columns gain their dots: one step of the float chain. */
KR_INLINE void dot_block_cols(enum kern_wtype wtype, float *sums, const uint8_t *quads, vf scale,
                              const struct dot_acts *a, size_t at, size_t n)
{
    const size_t tile = wtype == KERN_Q4 ? TILE_Q4_COLS : TILE_Q8_COLS;
    size_t c = 0;
    for (; c + tile <= n; c += tile) {
        vf dots[TILE_Q4_COLS];
        dot_tile(wtype, tile, dots, quads, a, at + c);
        KR_UNROLL
        for (size_t i = 0; i < tile; i++) {
            float *sum = sums + PACK_ROWS * (c + i);
            const vf d = vf_mul(scale, vf_set1(a->d[at + c + i]));
            vf_store(sum, vf_fma(d, dots[i], vf_load(sum)));
        }
    }
    for (; c < n; c++) {
        float *sum = sums + PACK_ROWS * c;
        const vf d = vf_mul(scale, vf_set1(a->d[at + c]));
        vf_store(sum, vf_fma(d, dot_block(wtype, quads, a, at + c), vf_load(sum)));
    }
}

#endif
