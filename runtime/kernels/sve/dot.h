/* sve/dot.h - activations and integer dot products with sdot, at any vector length.
 *
 * sdot adds four products of signed bytes to each 32-bit lane, and a lane is a row.  The 16 rows
 * of a panel are one group of lanes per vector: 4 groups at 128 bits, 2 at 256, 12 + 4 rows at 384,
 * one from 512 bits on, where the lanes from 16 on stay off.
 *
 *        lane     0           1          ...
 *   weights  | r0 k0..3 | r1 k0..3 | ... |    signed
 *   acts     |  k0..3   |  k0..3   | ... |    by index, from 16 k repeated in each 128 bits
 *
 * Nibbles are two's complement: moved to the upper half of a byte they are 16 * q, and so is the
 * sum, which stays below 2^31 and is shifted back at its end, exactly.
 * SPDX-License-Identifier: MIT */
#ifndef DOT_H
#define DOT_H

#include <isa.h>
#include <vec.h>

#include "gather.h"
#include "kernels.h"

/* Activations of [blocks][cols] blocks, block-major. */
struct dot_acts {
    int8_t *q; /* [blocks][cols][32] */
    float *d;  /* [blocks][cols] */
};

enum { DOT_ACT_BYTES = 32 + 4 }; /* per block and column */

KR_INLINE struct dot_acts dot_acts_view(const void *acts, size_t k, size_t cols)
{
    int8_t *q = (int8_t *)acts;
    return (struct dot_acts){q, (float *)(q + k / KERN_BLOCK * cols * KERN_BLOCK)};
}

/* The lanes of the rows from `first` on that exist. */
KR_INLINE svbool_t dot_rows(size_t first, size_t rows)
{
    return svwhilelt_b32_u64(first, rows);
}

/* k = 4z..4z+3 of a group's rows; `quads` points to its first row. */
KR_INLINE svint8_t dot_quad(enum kern_wtype wtype, svbool_t rows, const uint8_t *quads, size_t z)
{
    const size_t at = wtype == KERN_Q8 ? z : z % 4;
    const svbool_t all = svptrue_b8();
    const svint8_t w = svreinterpret_s8_s32(
        svld1_s32(rows, (const int32_t *)(const void *)(quads + PACK_ROWS * 4 * at)));
    return wtype == KERN_Q8 ? w : z < 4 ? svlsl_n_s8_x(all, w, 4) : svand_n_s8_x(all, w, -16);
}

/* Sums of products as floats. */
KR_INLINE svfloat32_t dot_to_float(enum kern_wtype wtype, svint32_t sum)
{
    const svbool_t all = svptrue_b32();
    return svcvt_f32_s32_x(all, wtype == KERN_Q8 ? sum : svasr_n_s32_x(all, sum, 4));
}

/* ---- one column ---------------------------------------------------------------------------- */

/* Dots of a group's rows with column `at`: two chains of half the length. */
KR_INLINE svfloat32_t dot_block(enum kern_wtype wtype, svbool_t rows, const uint8_t *quads,
                                const struct dot_acts *a, size_t at)
{
    const int8_t *q = a->q + KERN_BLOCK * at;
    const svint8_t x = svld1rq_s8(svptrue_b8(), q), y = svld1rq_s8(svptrue_b8(), q + 16);
    svint32_t low = svdup_n_s32(0), high = low;
    low = svdot_lane_s32(low, dot_quad(wtype, rows, quads, 0), x, 0);
    high = svdot_lane_s32(high, dot_quad(wtype, rows, quads, 4), y, 0);
    low = svdot_lane_s32(low, dot_quad(wtype, rows, quads, 1), x, 1);
    high = svdot_lane_s32(high, dot_quad(wtype, rows, quads, 5), y, 1);
    low = svdot_lane_s32(low, dot_quad(wtype, rows, quads, 2), x, 2);
    high = svdot_lane_s32(high, dot_quad(wtype, rows, quads, 6), y, 2);
    low = svdot_lane_s32(low, dot_quad(wtype, rows, quads, 3), x, 3);
    high = svdot_lane_s32(high, dot_quad(wtype, rows, quads, 7), y, 3);
    return dot_to_float(wtype, svadd_s32_x(svptrue_b32(), low, high));
}

/* ---- several columns: the weights of a group stay in registers ------------------------------- */

/* A vector cannot be in a struct or an array, so eight of them are eight arguments. */
#define DOT_WEIGHTS                                                                                \
    svint8_t w0, svint8_t w1, svint8_t w2, svint8_t w3, svint8_t w4, svint8_t w5, svint8_t w6,     \
        svint8_t w7

/* One chain: the other columns hide its latency. */
KR_INLINE svint32_t dot_column(DOT_WEIGHTS, const int8_t *q)
{
    const svint8_t x = svld1rq_s8(svptrue_b8(), q), y = svld1rq_s8(svptrue_b8(), q + 16);
    svint32_t sum = svdot_lane_s32(svdup_n_s32(0), w0, x, 0);
    sum = svdot_lane_s32(sum, w1, x, 1);
    sum = svdot_lane_s32(sum, w2, x, 2);
    sum = svdot_lane_s32(sum, w3, x, 3);
    sum = svdot_lane_s32(sum, w4, y, 0);
    sum = svdot_lane_s32(sum, w5, y, 1);
    sum = svdot_lane_s32(sum, w6, y, 2);
    return svdot_lane_s32(sum, w7, y, 3);
}

/* One step of the float chain of a column: sums += d * dot. */
KR_INLINE void dot_scale(enum kern_wtype wtype, svbool_t rows, float *sums, svfloat32_t d,
                         svint32_t dot)
{
    const svfloat32_t sum = svld1_f32(rows, sums);
    svst1_f32(rows, sums, svmla_f32_x(rows, sum, d, dot_to_float(wtype, dot)));
}

/* The rows of one group; sums point to the first of them. */
KR_INLINE void dot_group_cols(enum kern_wtype wtype, svbool_t rows, float *sums, svfloat32_t scale,
                              DOT_WEIGHTS, const struct dot_acts *a, size_t at, size_t n)
{
    const svbool_t all = svptrue_b32();
    const int8_t *q = a->q + KERN_BLOCK * at;
    const float *d = a->d + at;
    size_t c = 0;
    for (; c + TILE_COLS <= n; c += TILE_COLS) {
        const svint32_t s0 = dot_column(w0, w1, w2, w3, w4, w5, w6, w7, q);
        const svint32_t s1 = dot_column(w0, w1, w2, w3, w4, w5, w6, w7, q + KERN_BLOCK);
        const svint32_t s2 = dot_column(w0, w1, w2, w3, w4, w5, w6, w7, q + 2 * KERN_BLOCK);
        const svint32_t s3 = dot_column(w0, w1, w2, w3, w4, w5, w6, w7, q + 3 * KERN_BLOCK);
        const svfloat32_t d4 = svld1rq_f32(all, d);
        dot_scale(wtype, rows, sums, svmul_lane_f32(scale, d4, 0), s0);
        dot_scale(wtype, rows, sums + PACK_ROWS, svmul_lane_f32(scale, d4, 1), s1);
        dot_scale(wtype, rows, sums + 2 * PACK_ROWS, svmul_lane_f32(scale, d4, 2), s2);
        dot_scale(wtype, rows, sums + 3 * PACK_ROWS, svmul_lane_f32(scale, d4, 3), s3);
        q += TILE_COLS * KERN_BLOCK;
        d += TILE_COLS;
        sums += TILE_COLS * PACK_ROWS;
    }
    for (; c < n; c++) {
        const svint32_t sum = dot_column(w0, w1, w2, w3, w4, w5, w6, w7, q);
        dot_scale(wtype, rows, sums, svmul_n_f32_x(all, scale, *d), sum);
        q += KERN_BLOCK;
        d++;
        sums += PACK_ROWS;
    }
}

/* sums[n][16] of n columns gain their dots, a group of rows after the other. */
KR_INLINE void dot_block_cols(enum kern_wtype wtype, float *sums, const uint8_t *quads, vf scale,
                              const struct dot_acts *a, size_t at, size_t n)
{
    KR_ALIGNED(64) float scales[PACK_ROWS];
    vf_store(scales, scale);
    for (size_t r = 0; r < PACK_ROWS; r += svcntw()) {
        const svbool_t rows = dot_rows(r, PACK_ROWS);
        const uint8_t *group = quads + 4 * r;
        dot_group_cols(wtype, rows, sums + r, svld1_f32(rows, scales + r),
                       dot_quad(wtype, rows, group, 0), dot_quad(wtype, rows, group, 1),
                       dot_quad(wtype, rows, group, 2), dot_quad(wtype, rows, group, 3),
                       dot_quad(wtype, rows, group, 4), dot_quad(wtype, rows, group, 5),
                       dot_quad(wtype, rows, group, 6), dot_quad(wtype, rows, group, 7), a, at, n);
    }
}

#undef DOT_WEIGHTS

#endif
