/* sve/dot.h - integer dot products with sdot, at any vector length.
 *
 * sdot adds four products of signed bytes to each 32-bit lane, and a lane is a row.  The 16 rows
 * of a panel are one group of lanes per vector: 4 groups at 128 bits, 2 at 256, 12 + 4 rows at 384,
 * one from 512 bits on, where the lanes from 16 on stay off.
 *
 *        lane     0           1          ...
 *   weights  | r0 k0..3 | r1 k0..3 | ... |    signed
 *   acts     |  k0..3   |  k0..3   | ... |    by index, from 16 k repeated in each 128 bits
 *
 * Nibbles are two's complement: q is what an arithmetic shift leaves of the upper one, and 16 * q
 * what a left shift makes of the lower one.
 * SPDX-License-Identifier: MIT */
#ifndef DOT_H
#define DOT_H

#include "dot_arm.h"
#include "gather.h"

/* The lanes of the rows from `first` on that exist. */
KR_INLINE svbool_t dot_lanes(size_t first, size_t rows)
{
    return svwhilelt_b32_u64(first, rows);
}

/* Quad z as it lies, of the rows from `first` on.  The address is that of the quad, with the rows
 * as its index: the groups of a panel share it. */
KR_INLINE svint8_t dot_load(svbool_t lanes, size_t first, const uint8_t *quads, size_t z)
{
    const void *quad = quads + 4 * PACK_ROWS * z;
    return svreinterpret_s8_s32(svld1_s32(lanes, (const int32_t *)quad + first));
}

/* ---- one column ---------------------------------------------------------------------------- */

/* Dots of a group's rows with the block's activations, k = 0..15 in x and 16..31 in y: a chain for
 * either, which have different units if weights are nibbles. */
KR_INLINE svfloat32_t dot_group_q4(svbool_t lanes, size_t first, const uint8_t *quads, svint8_t x,
                                   svint8_t y)
{
    const svbool_t all = svptrue_b8();
    const svint8_t w0 = dot_load(lanes, first, quads, 0), w1 = dot_load(lanes, first, quads, 1);
    const svint8_t w2 = dot_load(lanes, first, quads, 2), w3 = dot_load(lanes, first, quads, 3);
    svint32_t low = svdot_lane_s32(svdup_n_s32(0), svlsl_n_s8_x(all, w0, 4), x, 0);
    svint32_t high = svdot_lane_s32(svdup_n_s32(0), svasr_n_s8_x(all, w0, 4), y, 0);
    low = svdot_lane_s32(low, svlsl_n_s8_x(all, w1, 4), x, 1);
    high = svdot_lane_s32(high, svasr_n_s8_x(all, w1, 4), y, 1);
    low = svdot_lane_s32(low, svlsl_n_s8_x(all, w2, 4), x, 2);
    high = svdot_lane_s32(high, svasr_n_s8_x(all, w2, 4), y, 2);
    low = svdot_lane_s32(low, svlsl_n_s8_x(all, w3, 4), x, 3);
    high = svdot_lane_s32(high, svasr_n_s8_x(all, w3, 4), y, 3);
    low = svasr_n_s32_x(all, low, 4);
    return svcvt_f32_s32_x(all, svadd_s32_x(all, low, high));
}

KR_INLINE svfloat32_t dot_group_q8(svbool_t lanes, size_t first, const uint8_t *quads, svint8_t x,
                                   svint8_t y)
{
    const svbool_t all = svptrue_b32();
    svint32_t low = svdot_lane_s32(svdup_n_s32(0), dot_load(lanes, first, quads, 0), x, 0);
    svint32_t high = svdot_lane_s32(svdup_n_s32(0), dot_load(lanes, first, quads, 4), y, 0);
    low = svdot_lane_s32(low, dot_load(lanes, first, quads, 1), x, 1);
    high = svdot_lane_s32(high, dot_load(lanes, first, quads, 5), y, 1);
    low = svdot_lane_s32(low, dot_load(lanes, first, quads, 2), x, 2);
    high = svdot_lane_s32(high, dot_load(lanes, first, quads, 6), y, 2);
    low = svdot_lane_s32(low, dot_load(lanes, first, quads, 3), x, 3);
    high = svdot_lane_s32(high, dot_load(lanes, first, quads, 7), y, 3);
    return svcvt_f32_s32_x(all, svadd_s32_x(all, low, high));
}

/* ---- several columns: the weights of a group stay in registers ------------------------------- */

/* k = 4z..4z+3 of a group's rows. */
KR_INLINE svint8_t dot_quad(enum kern_wtype wtype, svbool_t lanes, size_t first,
                            const uint8_t *quads, size_t z)
{
    const svbool_t all = svptrue_b8();
    if (wtype == KERN_Q8)
        return dot_load(lanes, first, quads, z);
    const svint8_t w = dot_load(lanes, first, quads, z % 4);
    return svasr_n_s8_x(all, z < 4 ? svlsl_n_s8_x(all, w, 4) : w, 4);
}

/* A vector cannot be in a struct or an array, so eight of them are eight arguments. */
#define DOT_WEIGHTS                                                                                \
    svint8_t w0, svint8_t w1, svint8_t w2, svint8_t w3, svint8_t w4, svint8_t w5, svint8_t w6,     \
        svint8_t w7

/* Two chains, for cores where sdot is slow to give its sum. */
KR_INLINE svfloat32_t dot_column(DOT_WEIGHTS, const int8_t *q)
{
    const svbool_t all = svptrue_b32();
    const svint8_t x = svld1rq_s8(svptrue_b8(), q), y = svld1rq_s8(svptrue_b8(), q + 16);
    svint32_t low = svdot_lane_s32(svdup_n_s32(0), w0, x, 0);
    svint32_t high = svdot_lane_s32(svdup_n_s32(0), w4, y, 0);
    low = svdot_lane_s32(low, w1, x, 1);
    high = svdot_lane_s32(high, w5, y, 1);
    low = svdot_lane_s32(low, w2, x, 2);
    high = svdot_lane_s32(high, w6, y, 2);
    low = svdot_lane_s32(low, w3, x, 3);
    high = svdot_lane_s32(high, w7, y, 3);
    return svcvt_f32_s32_x(all, svadd_s32_x(all, low, high));
}

/* One step of the float chain of a column: sums += d * dot. */
KR_INLINE void dot_scale(svbool_t lanes, float *sums, svfloat32_t d, svfloat32_t dot)
{
    svst1_f32(lanes, sums, svmla_f32_x(lanes, svld1_f32(lanes, sums), d, dot));
}

/* sdot by index finds activations in z0..z7 alone: what lives from column to column stays out. */
KR_INLINE void dot_keep_out(void)
{
    __asm__ volatile("" : : : "z0", "z1", "z2", "z3", "z4", "z5", "z6", "z7");
}

/* The rows of one group; sums point to the first of them. */
KR_INLINE void dot_group_cols(svbool_t lanes, float *sums, svfloat32_t scale, DOT_WEIGHTS,
                              const struct dot_acts *a, size_t at, size_t n)
{
    const svbool_t all = svptrue_b32();
    const int8_t *q = a->q + KERN_BLOCK * at;
    const float *d = a->d + at;
    size_t c = 0;
    for (; c + TILE_COLS <= n; c += TILE_COLS) {
        const svfloat32_t dot0 = dot_column(w0, w1, w2, w3, w4, w5, w6, w7, q);
        const svfloat32_t dot1 = dot_column(w0, w1, w2, w3, w4, w5, w6, w7, q + KERN_BLOCK);
        dot_scale(lanes, sums, svmul_n_f32_x(all, scale, d[0]), dot0);
        dot_scale(lanes, sums + PACK_ROWS, svmul_n_f32_x(all, scale, d[1]), dot1);
        q += TILE_COLS * KERN_BLOCK;
        d += TILE_COLS;
        sums += TILE_COLS * PACK_ROWS;
        dot_keep_out();
    }
    if (c < n)
        dot_scale(lanes, sums, svmul_n_f32_x(all, scale, *d),
                  dot_column(w0, w1, w2, w3, w4, w5, w6, w7, q));
}

#undef DOT_WEIGHTS

/* sums[n][16] of n columns gain their dots, a group of rows after the other. */
KR_INLINE void dot_block_cols(enum kern_wtype wtype, float *sums, const uint8_t *quads, vf scale,
                              const struct dot_acts *a, size_t at, size_t n)
{
    KR_ALIGNED(64) float scales[PACK_ROWS];
    vf_store(scales, scale);
    for (size_t r = 0; r < PACK_ROWS; r += svcntw()) {
        const svbool_t lanes = dot_lanes(r, PACK_ROWS);
        dot_group_cols(lanes, sums + r, svld1_f32(lanes, scales + r),
                       dot_quad(wtype, lanes, r, quads, 0), dot_quad(wtype, lanes, r, quads, 1),
                       dot_quad(wtype, lanes, r, quads, 2), dot_quad(wtype, lanes, r, quads, 3),
                       dot_quad(wtype, lanes, r, quads, 4), dot_quad(wtype, lanes, r, quads, 5),
                       dot_quad(wtype, lanes, r, quads, 6), dot_quad(wtype, lanes, r, quads, 7), a,
                       at, n);
    }
}

#endif
