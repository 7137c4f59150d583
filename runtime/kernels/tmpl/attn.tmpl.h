/* tmpl/attn.tmpl.h - kern_kv_store, kern_attend and kern_attend_merge over the
 * including ISA's vf.  Include once, from <isa>/attn.c, after <isa.h>, which says
 * in ATTN_SUMS how many vf sums fit into registers beside their operands.
 *
 * The order of every sum is in kernels.h and does not depend on the tiles here.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include <isa.h>
#include <vec.h>

#include "compiler.h"
#include "exp.h"
#include "kernels.h"
#include "quantize.h"

enum {
    ATTN_HEADS = ATTN_SUMS < 8 ? ATTN_SUMS : 8, /* most heads of a tile; 8 cases are written out */
    ATTN_WIDTH = 4,                             /* most vectors of a tile beside its heads */
    ATTN_CHUNK = 64, /* positions whose V stays in L1 while the tiles of a row take turns */
};

/* What all tiles of one call share. */
struct attn_job {
    float *o, *m, *l, *scratch;
    const float *q;
    const struct kern_kv *kv;
    size_t pos0, pos1;
    float scale, cap;
};

/* Vectors of a tile with `heads` heads, so that heads * width sums fit. */
KR_INLINE size_t attn_width(size_t heads)
{
    const size_t fit = ATTN_SUMS / heads;
    return fit >= ATTN_WIDTH ? ATTN_WIDTH : fit >= 2 ? 2 : 1;
}

/* 16 elements at index i of a cache of this type. */
KR_INLINE vf attn_load(const void *p, enum kern_kvtype type, size_t i)
{
    return type == KERN_KV_F32   ? vf_load((const float *)p + i)
           : type == KERN_KV_F16 ? vf_load_f16((const uint16_t *)p + i)
                                 : vf_load_i8((const int8_t *)p + i);
}

/* Dots of `heads` queries with 16 * width positions from block `block` on. */
KR_INLINE void attn_scores_tile(const size_t heads, const size_t width, enum kern_kvtype type,
                                float *scores, const float *q, const struct kern_kv *kv,
                                size_t block)
{
    const size_t dim = kv->head_dim;
    vf sum[ATTN_HEADS][ATTN_WIDTH];
    KR_UNROLL
    for (size_t h = 0; h < heads; h++) {
        KR_UNROLL
        for (size_t j = 0; j < width; j++)
            sum[h][j] = vf_set1(0.0f);
    }
    for (size_t d = 0; d < dim; d++) {
        vf k[ATTN_WIDTH];
        KR_UNROLL
        for (size_t j = 0; j < width; j++)
            k[j] = attn_load(kv->k, type, ((block + j) * dim + d) * KERN_LANES);
        KR_UNROLL
        for (size_t h = 0; h < heads; h++) {
            const vf qd = vf_set1(q[h * dim + d]);
            KR_UNROLL
            for (size_t j = 0; j < width; j++)
                sum[h][j] = vf_fma(qd, k[j], sum[h][j]);
        }
    }
    KR_UNROLL
    for (size_t j = 0; j < width; j++) {
        const size_t pos = (block + j) * KERN_LANES;
        KR_UNROLL
        for (size_t h = 0; h < heads; h++) {
            const vf dot =
                type == KERN_KV_Q8 ? vf_mul(sum[h][j], vf_load(kv->ks + pos)) : sum[h][j];
            vf_store(scores + h * KERN_SEGMENT + pos % KERN_SEGMENT, dot);
        }
    }
}

/* All dots of `heads` queries with the blocks that hold [pos0, pos1). */
KR_INLINE void attn_scores(const size_t heads, enum kern_kvtype type, const struct attn_job *job)
{
    const size_t width = attn_width(heads);
    const size_t end = (job->pos1 + KERN_LANES - 1) / KERN_LANES;
    size_t block = job->pos0 / KERN_LANES;
    for (; block + width <= end; block += width)
        attn_scores_tile(heads, width, type, job->scratch, job->q, job->kv, block);
    for (; block < end; block++)
        attn_scores_tile(heads, 1, type, job->scratch, job->q, job->kv, block);
}

/* v in the lanes of [pos0, pos1), other elsewhere; lane 0 of v is position i of the segment. */
KR_INLINE vf attn_keep(vf v, size_t i, const struct attn_job *job, float other)
{
    const size_t lo = job->pos0 % KERN_SEGMENT, hi = lo + (job->pos1 - job->pos0);
    return vf_keep(v, lo > i ? lo - i : 0, hi - i < KERN_LANES ? hi - i : KERN_LANES,
                   vf_set1(other));
}

/* Scores of one head into the weights of its positions; the maximum and the sum.
 * s[i] belongs to position i of the segment. */
static void attn_weights(float *s, float *m, float *l, const struct attn_job *job)
{
    const size_t first = job->pos0 / KERN_LANES * KERN_LANES, start = first % KERN_SEGMENT;
    const size_t end = start + (job->pos1 - first);
    const bool q8 = job->kv->type == KERN_KV_Q8;

    vf top = vf_set1(-INFINITY);
    for (size_t i = start; i < end; i += KERN_LANES) {
        vf v = vf_mul(vf_load(s + i), vf_set1(job->scale));
        if (job->cap > 0.0f)
            v = vf_softcap(v, job->cap);
        vf_store(s + i, v);
        top = vf_max(top, attn_keep(v, i, job, -INFINITY));
    }
    *m = vf_amax(top);

    vf sum = vf_set1(0.0f);
    for (size_t i = start; i < end; i += KERN_LANES) {
        vf e = vf_exp(vf_sub(vf_load(s + i), vf_set1(*m)));
        e = attn_keep(e, i, job, 0.0f);
        sum = vf_add(sum, e);
        vf_store(s + i, q8 ? vf_mul(e, vf_load(job->kv->vs + first + (i - start))) : e);
    }
    *l = vf_sum(sum);
}

/* 16 floats at p, of which only `left` are there. */
KR_INLINE vf attn_load_o(const float *p, size_t left)
{
    return left < KERN_LANES ? vf_load_n(p, left) : vf_load(p);
}

KR_INLINE void attn_store_o(float *p, vf v, size_t left)
{
    if (left < KERN_LANES)
        vf_store_n(p, v, left);
    else
        vf_store(p, v);
}

/* o += weights * V over positions [pos0, pos1), dims d..d + 16*width - 1 of `heads` heads. */
KR_INLINE void attn_values_tile(const size_t heads, const size_t width, enum kern_kvtype type,
                                const struct attn_job *job, size_t pos0, size_t pos1, size_t d)
{
    const size_t dim = job->kv->head_dim;
    const size_t stride = (dim + KERN_LANES - 1) / KERN_LANES * KERN_LANES;
    const float *weights = job->scratch + pos0 % KERN_SEGMENT;
    vf sum[ATTN_HEADS][ATTN_WIDTH];
    KR_UNROLL
    for (size_t h = 0; h < heads; h++) {
        KR_UNROLL
        for (size_t j = 0; j < width; j++) {
            const size_t at = d + j * KERN_LANES;
            sum[h][j] = attn_load_o(job->o + h * dim + at, dim - at);
        }
    }
    for (size_t i = 0; i < pos1 - pos0; i++) {
        vf v[ATTN_WIDTH];
        KR_UNROLL
        for (size_t j = 0; j < width; j++)
            v[j] = attn_load(job->kv->v, type, (pos0 + i) * stride + d + j * KERN_LANES);
        KR_UNROLL
        for (size_t h = 0; h < heads; h++) {
            const vf w = vf_set1(weights[h * KERN_SEGMENT + i]);
            KR_UNROLL
            for (size_t j = 0; j < width; j++)
                sum[h][j] = vf_fma(w, v[j], sum[h][j]);
        }
    }
    KR_UNROLL
    for (size_t h = 0; h < heads; h++) {
        KR_UNROLL
        for (size_t j = 0; j < width; j++) {
            const size_t at = d + j * KERN_LANES;
            attn_store_o(job->o + h * dim + at, sum[h][j], dim - at);
        }
    }
}

KR_INLINE void attn_values(const size_t heads, enum kern_kvtype type, const struct attn_job *job)
{
    const size_t width = attn_width(heads), dim = job->kv->head_dim;
    memset(job->o, 0, heads * dim * sizeof *job->o);
    for (size_t pos = job->pos0, end; pos < job->pos1; pos = end) {
        end = job->pos1 - pos < ATTN_CHUNK ? job->pos1 : pos + ATTN_CHUNK;
        size_t d = 0;
        for (; d + (width - 1) * KERN_LANES < dim; d += width * KERN_LANES)
            attn_values_tile(heads, width, type, job, pos, end, d);
        for (; d < dim; d += KERN_LANES)
            attn_values_tile(heads, 1, type, job, pos, end, d);
    }
}

KR_INLINE void attn_tile(const size_t heads, enum kern_kvtype type, const struct attn_job *job)
{
    attn_scores(heads, type, job);
    for (size_t h = 0; h < heads; h++)
        attn_weights(job->scratch + h * KERN_SEGMENT, job->m + h, job->l + h, job);
    attn_values(heads, type, job);
}

/* The loops of attn_tile() unroll only if `heads` is a constant: one copy per count, up to
 * ATTN_HEADS. */
#define ATTN_CASE(n)                                                                               \
    case n:                                                                                        \
        if (n <= ATTN_HEADS)                                                                       \
            attn_tile(n <= ATTN_HEADS ? n : 1, type, job);                                         \
        break

KR_INLINE void attn_heads(size_t heads, enum kern_kvtype type, const struct attn_job *job)
{
    switch (heads) {
        ATTN_CASE(1);
        ATTN_CASE(2);
        ATTN_CASE(3);
        ATTN_CASE(4);
        ATTN_CASE(5);
        ATTN_CASE(6);
        ATTN_CASE(7);
        ATTN_CASE(8);
    }
}

KR_NOINLINE static void attn_f32(size_t heads, const struct attn_job *job)
{
    attn_heads(heads, KERN_KV_F32, job);
}

KR_NOINLINE static void attn_f16(size_t heads, const struct attn_job *job)
{
    attn_heads(heads, KERN_KV_F16, job);
}

KR_NOINLINE static void attn_q8(size_t heads, const struct attn_job *job)
{
    attn_heads(heads, KERN_KV_Q8, job);
}

void kern_attend(float *o, float *m, float *l, const float *q, size_t heads,
                 const struct kern_kv *kv, size_t pos0, size_t pos1, float scale, float cap,
                 float *scratch)
{
    const size_t tiles = (heads + ATTN_HEADS - 1) / ATTN_HEADS;
    /* Tiles of nearly equal size: 7 heads are 4 + 3, not 6 + 1. */
    for (size_t t = 0; t < tiles; t++) {
        const size_t h = heads * t / tiles, n = heads * (t + 1) / tiles - h;
        const struct attn_job job = {o + h * kv->head_dim,
                                     m + h,
                                     l + h,
                                     scratch,
                                     q + h * kv->head_dim,
                                     kv,
                                     pos0,
                                     pos1,
                                     scale,
                                     cap};
        if (kv->type == KERN_KV_F32)
            attn_f32(n, &job);
        else if (kv->type == KERN_KV_F16)
            attn_f16(n, &job);
        else
            attn_q8(n, &job);
    }
}

void kern_attend_merge(float *out, const float *o, size_t o_stride, const float *m, const float *l,
                       size_t ml_stride, size_t segments, size_t head_dim)
{
    float top = m[0];
    for (size_t s = 1; s < segments; s++)
        top = m[s * ml_stride] > top ? m[s * ml_stride] : top;

    vf total = vf_set1(0.0f);
    for (size_t s = 0; s < segments; s++) {
        const vf w = vf_exp(vf_set1(m[s * ml_stride] - top));
        total = vf_fma(w, vf_set1(l[s * ml_stride]), total);
    }
    for (size_t d = 0; d < head_dim; d += KERN_LANES) {
        vf sum = vf_set1(0.0f);
        for (size_t s = 0; s < segments; s++) {
            const vf w = vf_exp(vf_set1(m[s * ml_stride] - top));
            sum = vf_fma(w, attn_load_o(o + s * o_stride + d, head_dim - d), sum);
        }
        attn_store_o(out + d, vf_div(sum, total), head_dim - d);
    }
}

/* 16 floats of one position into the cache, which begins at p. */
static void kv_store_v(void *p, enum kern_kvtype type, size_t i, vf v)
{
    if (type == KERN_KV_F32)
        vf_store((float *)p + i, v);
    else if (type == KERN_KV_F16)
        vf_store_f16((uint16_t *)p + i, v);
    else
        vf_store_i8((int8_t *)p + i, v);
}

/* The same for K, whose 16 floats lie 16 elements apart. */
static void kv_store_k(void *p, enum kern_kvtype type, size_t i, vf v, size_t n)
{
    KR_ALIGNED(64) union {
        float f32[KERN_LANES];
        uint16_t f16[KERN_LANES];
        int8_t i8[KERN_LANES];
    } row;
    kv_store_v(&row, type, 0, v);
    for (size_t d = 0; d < n; d++) {
        if (type == KERN_KV_F32)
            ((float *)p)[i + d * KERN_LANES] = row.f32[d];
        else if (type == KERN_KV_F16)
            ((uint16_t *)p)[i + d * KERN_LANES] = row.f16[d];
        else
            ((int8_t *)p)[i + d * KERN_LANES] = row.i8[d];
    }
}

/* Factor and scale for an int8 cache. */
static vf kv_factor(const float *x, size_t n, float *d)
{
    vf top = vf_set1(0.0f);
    for (size_t i = 0; i < n; i += KERN_LANES)
        top = vf_max(top, vf_abs(attn_load_o(x + i, n - i)));
    return quantize_factor(vf_amax(top), d);
}

void kern_kv_store(const struct kern_kv *kv, size_t pos, const float *k, const float *v)
{
    const enum kern_kvtype type = kv->type;
    const bool q8 = type == KERN_KV_Q8;
    const size_t dim = kv->head_dim, stride = (dim + KERN_LANES - 1) / KERN_LANES * KERN_LANES;
    const size_t k_at = pos / KERN_LANES * dim * KERN_LANES + pos % KERN_LANES;
    vf kf = vf_set1(1.0f), vfac = kf;
    if (q8) {
        kf = kv_factor(k, dim, &kv->ks[pos]);
        vfac = kv_factor(v, dim, &kv->vs[pos]);
    }
    for (size_t d = 0; d < dim; d += KERN_LANES) {
        const size_t left = dim - d;
        vf kd = attn_load_o(k + d, left), vd = attn_load_o(v + d, left); /* zeros behind the end */
        if (q8) {
            kd = vf_rint(vf_mul(kd, kf));
            vd = vf_rint(vf_mul(vd, vfac));
        }
        kv_store_k(kv->k, type, k_at + d * KERN_LANES, kd, left < KERN_LANES ? left : KERN_LANES);
        kv_store_v(kv->v, type, pos * stride + d, vd);
    }
}
