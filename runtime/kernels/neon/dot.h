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
 * Cores without dot products multiply once per cycle: loops leave them little else to do, and their
 * code is straight, so that a core that does not reorder finds the next loads among the products.
 * SPDX-License-Identifier: MIT */
#ifndef DOT_H
#define DOT_H

#include <isa.h>
#include <vec.h>

#include "dot_scale.h"
#include "gather.h"
#include "kernels.h"

/* Activations of [blocks][cols] blocks, block-major. */
struct dot_acts {
    int8_t *q;      /* [blocks][cols][32]: k 0..7, 16..23, 8..15, 24..31, as nibbles need them */
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

/* ---- Q4 ------------------------------------------------------------------------------------ */

/* Dots of a block of one or two panels with `cols` columns from `at` on, all constants, in
 * dots[cols][panels].  An activation in all lanes serves both panels, a nibble all columns. */
KR_INLINE void dot_tile_q4(const size_t panels, const size_t cols, vf *dots,
                           const uint8_t *const *quads, const struct dot_acts *a, size_t at)
{
    const int8_t *q = a->q + KERN_BLOCK * at;
    int16x8_t lo[2 * TILE_Q4_COLS], hi[2 * TILE_Q4_COLS]; /* rows 0..7, 8..15 */
    KR_UNROLL
    for (size_t i = 0; i < panels * cols; i++)
        lo[i] = hi[i] = vdupq_n_s16(a->start[at + i / panels]);
    for (size_t k8 = 0; k8 < 16; k8 += 8) {
        neon_bytes x[TILE_Q4_COLS];
        KR_UNROLL
        for (size_t c = 0; c < cols; c++)
            x[c] = neon_load_bytes(q + KERN_BLOCK * c + 2 * k8);
        KR_UNROLL
        for (size_t k = 0; k < 8; k++) {
            int8x16_t low[2], high[2];
            KR_UNROLL
            for (size_t p = 0; p < panels; p++) {
                const uint8x16_t w = vld1q_u8(quads[p] + PACK_ROWS * (k8 + k));
                low[p] = vreinterpretq_s8_u8(vandq_u8(w, vdupq_n_u8(15)));
                high[p] = vreinterpretq_s8_u8(vshrq_n_u8(w, 4));
            }
            KR_UNROLL
            for (size_t i = 0; i < panels * cols; i++) {
                const size_t c = i / panels, p = i % panels;
                const int8x16_t y = neon_byte(x[c], k), z = neon_byte(x[c], 8 + k);
                lo[i] = vmlal_s8(lo[i], vget_low_s8(low[p]), vget_low_s8(y));
                hi[i] = vmlal_high_s8(hi[i], low[p], y);
                lo[i] = vmlal_s8(lo[i], vget_low_s8(high[p]), vget_low_s8(z));
                hi[i] = vmlal_high_s8(hi[i], high[p], z);
            }
            if (NEON_REGISTERS == 16)
                KR_OPAQUE(lo[0]); /* the next k waits: more at once are more than registers hold */
        }
    }
    KR_UNROLL
    for (size_t i = 0; i < panels * cols; i++)
        dots[i] = vf_from_s16(lo[i], hi[i]);
}

/* One step of the float chains of one or two panels and n columns: sums[panel][n][16]. */
KR_INLINE void dot_cols_q4(const size_t panels, float *const *sums, const uint8_t *const *quads,
                           const vf *scale, const struct dot_acts *a, size_t at, size_t n)
{
    vf dots[2 * TILE_Q4_COLS];
    size_t c = 0;
    for (; c + TILE_Q4_COLS <= n; c += TILE_Q4_COLS) {
        dot_tile_q4(panels, TILE_Q4_COLS, dots, quads, a, at + c);
        KR_UNROLL
        for (size_t i = 0; i < panels * TILE_Q4_COLS; i++) {
            const size_t p = i % panels, col = c + i / panels;
            dot_scale(sums[p] + PACK_ROWS * col, dots[i], scale[p], a->d[at + col]);
        }
    }
    for (; c < n; c++) {
        dot_tile_q4(panels, 1, dots, quads, a, at + c);
        KR_UNROLL
        for (size_t p = 0; p < panels; p++)
            dot_scale(sums[p] + PACK_ROWS * c, dots[p], scale[p], a->d[at + c]);
    }
}

/* ---- Q8 ------------------------------------------------------------------------------------ */

/* Dots of a block of 4 rows with a column whose quads are in x, each four times: 0, 1, 4, 5, then
 * 2, 3, 6, 7, as they lie.  `quads` points to the first row. */
KR_INLINE float32x4_t dot_rows_q8(const uint8_t *quads, const int8x16_t x[8])
{
    int32x4_t lo, hi; /* rows 0, 1 and 2, 3 */
    KR_UNROLL
    for (size_t i = 0; i < 8; i += 2) {
        const uint8_t *quad = quads + 4 * PACK_ROWS * (i / 4 * 2 + i % 4 * 2);
        const int8x16_t v = neon_load_s8(quad), w = neon_load_s8(quad + 4 * PACK_ROWS);
        int16x8_t low = vmull_s8(vget_low_s8(v), vget_low_s8(x[i]));
        int16x8_t high = vmull_high_s8(v, x[i]);
        low = vmlal_s8(low, vget_low_s8(w), vget_low_s8(x[i + 1]));
        high = vmlal_high_s8(high, w, x[i + 1]);
        lo = i == 0 ? vpaddlq_s16(low) : vpadalq_s16(lo, low);
        hi = i == 0 ? vpaddlq_s16(high) : vpadalq_s16(hi, high);
    }
    return vcvtq_f32_s32(vpaddq_s32(lo, hi));
}

KR_INLINE vf dot_block_q8(const uint8_t *quads, const struct dot_acts *a, size_t at)
{
    int8x16_t x[8];
    float32x4_t dots[4];
    neon_spread(x, a->q + KERN_BLOCK * at);
    neon_spread(x + 4, a->q + KERN_BLOCK * at + 16);
    for (size_t i = 0; i < 4; i += GROUPS_Q8) {
        KR_UNROLL
        for (size_t g = i; g < i + GROUPS_Q8; g++) {
            dots[g] = dot_rows_q8(quads + 16 * g, x);
            if (g % 2 == 1)
                KR_OPAQUE(dots[g]); /* the next wait: more at once are more than registers hold */
        }
    }
    return (vf){dots[0], dots[1], dots[2], dots[3]};
}

/* ---- for tmpl/p16.h ------------------------------------------------------------------------ */

KR_INLINE vf dot_block(enum kern_wtype wtype, const uint8_t *quads, const struct dot_acts *a,
                       size_t at)
{
    if (wtype == KERN_Q8)
        return dot_block_q8(quads, a, at);
    vf dot[1];
    dot_tile_q4(1, 1, dot, &quads, a, at);
    return dot[0];
}

KR_INLINE void dot_block_cols(enum kern_wtype wtype, float *sums, const uint8_t *quads, vf scale,
                              const struct dot_acts *a, size_t at, size_t n)
{
    if (wtype == KERN_Q4)
        dot_cols_q4(1, &sums, &quads, &scale, a, at, n);
    else
        for (size_t c = 0; c < n; c++)
            dot_scale(sums + PACK_ROWS * c, dot_block_q8(quads, a, at + c), scale, a->d[at + c]);
}

#endif
