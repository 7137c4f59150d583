/* tmpl/attn_tile.h - a tile of rows of kern_attend, and what its parts share.
 *
 * Positions inside a tile are relative to its segment.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_ATTN_TILE_H
#define TMPL_ATTN_TILE_H

#include <stdbool.h>

#include <vec.h>

#include "compiler.h"
#include "kernels.h"

enum {
    ATTN_ROWS = ATTN_SUMS < 7 ? ATTN_SUMS : 7, /* most rows of a float tile: 7 fill 28 sums by 4 */
    ATTN_WIDTH = 4,                            /* most vectors of a tile beside its rows */
    ATTN_MOST = 7,                             /* most rows of any tile; 7 cases are written out */
    ATTN_CHUNK = 64, /* positions whose V stays in L1 while the tiles of a row take turns */
    ATTN_LINE = 64,  /* bytes that memory delivers at once */
};

struct attn_tile {
    struct kern_kv kv; /* the segment */
    float scale, cap;
    bool first;          /* of the call: K and V may not be in the core's cache yet */
    float *scores;       /* [rows][KERN_SEGMENT]: scores, then weights */
    float *queries;      /* [rows][head_dim] */
    int16_t *ints;       /* [rows][KERN_SEGMENT]: weights as integers (attn_q8.h) */
    int16_t *query_ints; /* [rows][head_dim rounded up] */
    struct kern_span span[ATTN_MOST], all; /* each row's positions; from the first to the last */
    const float *q[ATTN_MOST];
    float *o[ATTN_MOST], *m[ATTN_MOST], *l[ATTN_MOST];
};

/* To a multiple of 16, down and up. */
KR_INLINE size_t attn_block(size_t pos)
{
    return pos / KERN_LANES * KERN_LANES;
}

KR_INLINE size_t attn_round(size_t n)
{
    return (n + KERN_LANES - 1) / KERN_LANES * KERN_LANES;
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

/* Read memory in order, before passes that each take a part of every row: a core fetches one stream
 * much faster than pieces of it. */
KR_INLINE void attn_touch(const void *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += ATTN_LINE)
        (void)((const volatile uint8_t *)p)[i];
}

/* The largest |x| of n floats. */
static inline float attn_amax(const float *x, size_t n)
{
    vf top = vf_set1(0.0f);
    for (size_t i = 0; i < n; i += KERN_LANES)
        top = vf_max(top, vf_abs(attn_load_o(x + i, n - i)));
    return vf_amax(top);
}

/* The cache from position `base` on. */
static inline struct kern_kv attn_segment(const struct kern_kv *kv, size_t base)
{
    struct kern_kv at = *kv;
    const size_t element = kern_kv_element((enum kern_kvtype)kv->type);
    const size_t v = base * attn_round(kv->head_dim) * element;
    const size_t k = kv->type == KERN_KV_Q8 ? v : base * kv->head_dim * element;
    at.k = (uint8_t *)kv->k + k;
    at.v = (uint8_t *)kv->v + v;
    if (kv->type == KERN_KV_Q8) {
        at.ks += base;
        at.vs += base;
    }
    return at;
}

#endif
