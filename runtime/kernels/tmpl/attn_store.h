/* tmpl/attn_store.h - one position into the KV cache.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_ATTN_STORE_H
#define TMPL_ATTN_STORE_H

#include <string.h>

#include "attn_tile.h"
#include "quantize.h"

/* Row `pos` of V, and its column of K: blocks of 16 positions, transposed. */
static void kv_store_f32(const struct kern_kv *kv, size_t pos, const float *k, const float *v)
{
    const size_t dim = kv->head_dim;
    float *to = (float *)kv->k + attn_block(pos) * dim + pos % KERN_LANES;
    float *row = (float *)kv->v + pos * attn_round(dim);
    for (size_t d = 0; d < dim; d++)
        to[d * KERN_LANES] = k[d];
    for (size_t d = 0; d < dim; d += KERN_LANES)
        vf_store(row + d, attn_load_o(v + d, dim - d)); /* zeros behind the end */
}

static void kv_store_f16(const struct kern_kv *kv, size_t pos, const float *k, const float *v)
{
    const size_t dim = kv->head_dim;
    uint16_t *to = (uint16_t *)kv->k + attn_block(pos) * dim + pos % KERN_LANES;
    uint16_t *row = (uint16_t *)kv->v + pos * attn_round(dim);
    for (size_t d = 0; d < dim; d += KERN_LANES) {
        uint16_t half[KERN_LANES];
        const size_t left = dim - d, n = left < KERN_LANES ? left : KERN_LANES;
        vf_store_f16(half, attn_load_o(k + d, left));
        for (size_t i = 0; i < n; i++)
            to[(d + i) * KERN_LANES] = half[i];
        vf_store_f16(row + d, attn_load_o(v + d, left));
    }
}

/* 16 integers of x, from d on, zero behind its end. */
KR_INLINE void kv_quantize(int8_t *q, const float *x, size_t left, vf factor)
{
    vf_store_i8(q, vf_rint(vf_mul(attn_load_o(x, left), factor)));
}

/* Quads: K four elements of one position, V four positions of one element. */
static void kv_store_q8(const struct kern_kv *kv, size_t pos, const float *k, const float *v)
{
    const size_t dim = kv->head_dim, stride = attn_round(dim);
    uint8_t *to = (uint8_t *)kv->k + attn_block(pos) * stride + 4 * (pos % KERN_LANES);
    int8_t *row = (int8_t *)kv->v + pos / 4 * 4 * stride + pos % 4;
    const vf kf = quantize_factor(attn_amax(k, dim), 127.0f, &kv->ks[pos]);
    const vf vfac = quantize_factor(attn_amax(v, dim), 127.0f, &kv->vs[pos]);
    for (size_t d = 0; d < dim; d += KERN_LANES) {
        int8_t q[KERN_LANES];
        kv_quantize(q, k + d, dim - d, kf);
        for (size_t i = 0; i < KERN_LANES; i++)
            to[(d + i) / 4 * 4 * KERN_LANES + i % 4] = (uint8_t)(q[i] + 128);
        kv_quantize(q, v + d, dim - d, vfac);
        for (size_t i = 0; i < KERN_LANES; i++)
            row[4 * (d + i)] = q[i];
    }
}

void kern_kv_store(const struct kern_kv *kv, size_t pos, const float *k, const float *v)
{
    if (kv->type == KERN_KV_F32)
        kv_store_f32(kv, pos, k, v);
    else if (kv->type == KERN_KV_F16)
        kv_store_f16(kv, pos, k, v);
    else
        kv_store_q8(kv, pos, k, v);
}

#endif
