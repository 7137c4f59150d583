/* tmpl/attn_q8.h - scores and values of a tile over an int8 cache, in integers.
 *
 * Both are sums over quads: four elements of a key, or four positions of a value.  <isa>/attn.c has
 * defined, before the template, how it multiplies them:
 *
 *   enum { ATTN_DOT_ROWS, ATTN_DOT_WIDTH }  rows, and vectors of 16 sums, of the largest tile
 *   enum { ATTN_WIDEN_F16 }                 whether to convert a segment of halves once for all rows
 *   enum { ATTN_EXPS }                      exponentials side by side, at most EXP_MOST
 *   void attn_dot_pack(int16_t *p, vf v, enum attn_side side)
 *        16 floats, rounded to integers of at most KERN_Q8_STEPS, as attn_dot_tile() reads them;
 *        a quad takes 8 bytes
 *   void attn_dot_tile(const size_t rows, const size_t width, const enum attn_side side, vf *dots,
 *                      const struct attn_dot *a)
 *        dots[r * width + j], a lane for each of 16 columns: start[r] + the sum over quads z of the
 *        row's integers times the bytes at b + z * z_stride + j * j_stride + 4 * lane
 *
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_ATTN_Q8_H
#define TMPL_ATTN_Q8_H

#include "attn_dot.h"
#include "attn_tile.h"
#include "quantize.h"

/* The integers of a query of n floats, their unit, and what undoes the offset of the keys.  Their
 * sum is exact: |sum| <= 512 * 32512 < 2^24; of a NaN, which C does not convert, it counts as 0. */
static void attn_query(int16_t *ints, const float *q, size_t n, float *unit, int32_t *start)
{
    const vf factor = quantize_factor(attn_amax(q, n), (float)KERN_Q8_STEPS, unit);
    vf sum = vf_set1(0.0f);
    for (size_t d = 0; d < n; d += KERN_LANES) {
        const vf v = vf_mul(attn_load_o(q + d, n - d), factor);
        sum = vf_add(sum, vf_rint(v));
        attn_dot_pack(ints + d, v, ATTN_KEYS);
    }
    const float total = vf_sum(sum);
    *start = total > -0x1p24f && total < 0x1p24f ? -128 * (int32_t)total : 0;
}

/* Scores of the blocks from `block` on, into t->scores. */
KR_INLINE void attn_scores_q8_tile(const size_t rows, const size_t width, const struct attn_tile *t,
                                   struct attn_dot *a, const float *unit, size_t block)
{
    vf dots[ATTN_DOT_ROWS * ATTN_DOT_WIDTH];
    a->b = (const uint8_t *)t->kv.k + block * a->j_stride;
    attn_dot_tile(rows, width, ATTN_KEYS, dots, a);
    KR_UNROLL
    for (size_t j = 0; j < width; j++) {
        const size_t pos = (block + j) * KERN_LANES;
        const vf ks = vf_load(t->kv.ks + pos);
        KR_UNROLL
        for (size_t r = 0; r < rows; r++)
            vf_store(t->scores + r * KERN_SEGMENT + pos,
                     vf_mul(dots[r * width + j], vf_mul(vf_set1(unit[r]), ks)));
    }
}

KR_INLINE void attn_scores_q8(const size_t rows, const struct attn_tile *t)
{
    const size_t dim = attn_round(t->kv.head_dim);
    float unit[ATTN_DOT_ROWS];
    int32_t start[ATTN_DOT_ROWS];
    for (size_t r = 0; r < rows; r++) {
        attn_query(t->query_ints + r * dim, t->q[r], t->kv.head_dim, &unit[r], &start[r]);
        unit[r] *= t->scale;
    }
    struct attn_dot a = {.x = t->query_ints,
                         .x_stride = dim,
                         .start = start,
                         .z_stride = 4 * KERN_LANES,
                         .j_stride = KERN_LANES * dim,
                         .quads = dim / 4};
    const size_t end = (t->all.pos1 + KERN_LANES - 1) / KERN_LANES;
    size_t block = t->all.pos0 / KERN_LANES;
    for (; block + ATTN_DOT_WIDTH <= end; block += ATTN_DOT_WIDTH)
        attn_scores_q8_tile(rows, ATTN_DOT_WIDTH, t, &a, unit, block);
    for (; block < end; block++)
        attn_scores_q8_tile(rows, 1, t, &a, unit, block);
}

/* Elements d..d + 16*width - 1 of all rows. */
KR_INLINE void attn_values_q8_tile(const size_t rows, const size_t width, const struct attn_tile *t,
                                   struct attn_dot *a, const float *unit, size_t d)
{
    const size_t dim = t->kv.head_dim;
    vf dots[ATTN_DOT_ROWS * ATTN_DOT_WIDTH];
    a->b = (const uint8_t *)t->kv.v + t->all.pos0 / 4 * a->z_stride + 4 * d;
    attn_dot_tile(rows, width, ATTN_VALUES, dots, a);
    KR_UNROLL
    for (size_t r = 0; r < rows; r++) {
        KR_UNROLL
        for (size_t j = 0; j < width; j++) {
            const size_t at = d + j * KERN_LANES;
            attn_store_o(t->o[r] + at, vf_mul(dots[r * width + j], vf_set1(unit[r])), dim - at);
        }
    }
}

KR_INLINE void attn_values_q8(const size_t rows, const struct attn_tile *t, const float *unit)
{
    static const int32_t zero[ATTN_DOT_ROWS];
    const size_t dim = t->kv.head_dim, quad0 = t->all.pos0 / 4;
    struct attn_dot a = {.x = t->ints + 4 * quad0,
                         .x_stride = KERN_SEGMENT,
                         .start = zero,
                         .z_stride = 4 * attn_round(dim),
                         .j_stride = 4 * KERN_LANES,
                         .quads = (t->all.pos1 + 3) / 4 - quad0};
    if (t->first && ATTN_DOT_WIDTH * KERN_LANES < dim)
        attn_touch((const uint8_t *)t->kv.v + quad0 * a.z_stride, a.quads * a.z_stride);
    size_t d = 0;
    for (; d + (ATTN_DOT_WIDTH - 1) * KERN_LANES < dim; d += ATTN_DOT_WIDTH * KERN_LANES)
        attn_values_q8_tile(rows, ATTN_DOT_WIDTH, t, &a, unit, d);
    for (; d < dim; d += KERN_LANES)
        attn_values_q8_tile(rows, 1, t, &a, unit, d);
}

#endif
