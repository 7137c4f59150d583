/* tmpl/attn_float.h - scores and values of a tile over an f32 or f16 cache.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_ATTN_FLOAT_H
#define TMPL_ATTN_FLOAT_H

#include <string.h>

#include "attn_tile.h"

/* Vectors of a tile with `rows` rows, so that rows * width sums fit. */
KR_INLINE size_t attn_width(size_t rows)
{
    const size_t fit = ATTN_SUMS / rows;
    return fit >= ATTN_WIDTH ? ATTN_WIDTH : fit >= 2 ? 2 : 1;
}

/* 16 elements at index i of a cache of this type. */
KR_INLINE vf attn_load(const void *p, enum kern_kvtype type, size_t i)
{
    return type == KERN_KV_F32 ? vf_load((const float *)p + i)
                               : vf_load_f16((const uint16_t *)p + i);
}

/* Dots of `rows` queries with 16 * width positions from block `block` on. */
KR_INLINE void attn_scores_tile(const size_t rows, const size_t width, enum kern_kvtype type,
                                const struct attn_tile *t, size_t block)
{
    const size_t dim = t->kv.head_dim;
    const float *q = t->queries;
    vf sum[ATTN_ROWS][ATTN_WIDTH];
    KR_UNROLL
    for (size_t r = 0; r < rows; r++) {
        KR_UNROLL
        for (size_t j = 0; j < width; j++)
            sum[r][j] = vf_set1(0.0f);
    }
    for (size_t d = 0; d < dim; d++) {
        vf k[ATTN_WIDTH];
        KR_UNROLL
        for (size_t j = 0; j < width; j++)
            k[j] = attn_load(t->kv.k, type, ((block + j) * dim + d) * KERN_LANES);
        KR_UNROLL
        for (size_t r = 0; r < rows; r++) {
            const vf qd = vf_set1(q[r * dim + d]);
            KR_UNROLL
            for (size_t j = 0; j < width; j++)
                sum[r][j] = vf_fma(qd, k[j], sum[r][j]);
        }
    }
    KR_UNROLL
    for (size_t r = 0; r < rows; r++) {
        KR_UNROLL
        for (size_t j = 0; j < width; j++)
            vf_store(t->scores + r * KERN_SEGMENT + (block + j) * KERN_LANES, sum[r][j]);
    }
}

/* All dots of the tile's queries with the blocks that hold its positions. */
KR_INLINE void attn_scores_float(const size_t rows, enum kern_kvtype type,
                                 const struct attn_tile *t)
{
    /* With enough chains, block by block: a core fetches one stream best. */
    const size_t width = rows >= 3 ? 1 : attn_width(rows), dim = t->kv.head_dim;
    for (size_t r = 0; r < rows; r++)
        memcpy(t->queries + r * dim, t->q[r], dim * sizeof(float));
    const size_t end = (t->all.pos1 + KERN_LANES - 1) / KERN_LANES;
    size_t block = t->all.pos0 / KERN_LANES;
    for (; block + width <= end; block += width)
        attn_scores_tile(rows, width, type, t, block);
    for (; block < end; block++)
        attn_scores_tile(rows, 1, type, t, block);
}

/* o += weights * V over positions [pos0, pos1), elements d..d + 16*width - 1 of all rows; o is 0
 * before the tile's first position. */
KR_INLINE void attn_values_tile(const size_t rows, const size_t width, enum kern_kvtype type,
                                const struct attn_tile *t, size_t pos0, size_t pos1, size_t d)
{
    const size_t dim = t->kv.head_dim, stride = attn_round(dim);
    const bool begin = pos0 == t->all.pos0;
    vf sum[ATTN_ROWS][ATTN_WIDTH];
    KR_UNROLL
    for (size_t r = 0; r < rows; r++) {
        KR_UNROLL
        for (size_t j = 0; j < width; j++) {
            const size_t at = d + j * KERN_LANES;
            sum[r][j] = begin ? vf_set1(0.0f) : attn_load_o(t->o[r] + at, dim - at);
        }
    }
    for (size_t i = pos0; i < pos1; i++) {
        vf v[ATTN_WIDTH];
        KR_UNROLL
        for (size_t j = 0; j < width; j++)
            v[j] = attn_load(t->kv.v, type, i * stride + d + j * KERN_LANES);
        KR_UNROLL
        for (size_t r = 0; r < rows; r++) {
            const vf w = vf_set1(t->scores[r * KERN_SEGMENT + i]);
            KR_UNROLL
            for (size_t j = 0; j < width; j++)
                sum[r][j] = vf_fma(w, v[j], sum[r][j]);
        }
    }
    KR_UNROLL
    for (size_t r = 0; r < rows; r++) {
        KR_UNROLL
        for (size_t j = 0; j < width; j++) {
            const size_t at = d + j * KERN_LANES;
            attn_store_o(t->o[r] + at, sum[r][j], dim - at);
        }
    }
}

KR_INLINE void attn_values_float(const size_t rows, enum kern_kvtype type,
                                 const struct attn_tile *t)
{
    const size_t width = attn_width(rows), dim = t->kv.head_dim;
    const size_t row = attn_round(dim) * kern_kv_element(type);
    for (size_t pos = t->all.pos0, end; pos < t->all.pos1; pos = end) {
        end = t->all.pos1 - pos < ATTN_CHUNK ? t->all.pos1 : pos + ATTN_CHUNK;
        if (t->first && width * KERN_LANES < dim)
            attn_touch((const uint8_t *)t->kv.v + pos * row, (end - pos) * row);
        size_t d = 0;
        for (; d + (width - 1) * KERN_LANES < dim; d += width * KERN_LANES)
            attn_values_tile(rows, width, type, t, pos, end, d);
        for (; d < dim; d += KERN_LANES)
            attn_values_tile(rows, 1, type, t, pos, end, d);
    }
}

/* An f16 segment, as far as the queries see it, becomes f32 at `wide`: where loads of halves are
 * slow, and several tiles share them. */
static inline void attn_widen(struct kern_kv *kv, const struct kern_queries *in, size_t base,
                              float *wide)
{
    size_t pos0 = KERN_SEGMENT, pos1 = 0;
    for (size_t t = 0; t < in->tokens; t++) {
        pos0 = in->spans[t].pos0 - base < pos0 ? in->spans[t].pos0 - base : pos0;
        pos1 = in->spans[t].pos1 - base > pos1 ? in->spans[t].pos1 - base : pos1;
    }
    const size_t dim = kv->head_dim, stride = attn_round(dim);
    float *v = wide + KERN_SEGMENT * dim;
    for (size_t i = attn_block(pos0) * dim; i < attn_round(pos1) * dim; i += KERN_LANES)
        vf_store(wide + i, vf_load_f16((const uint16_t *)kv->k + i));
    for (size_t i = pos0 * stride; i < pos1 * stride; i += KERN_LANES)
        vf_store(v + i, vf_load_f16((const uint16_t *)kv->v + i));
    kv->k = wide;
    kv->v = v;
    kv->type = KERN_KV_F32;
}

#endif
