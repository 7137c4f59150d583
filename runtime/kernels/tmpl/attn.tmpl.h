/* tmpl/attn.tmpl.h - kern_attend and its relatives over the including ISA's vf.
 *
 * Include once, from <isa>/attn.c, after <isa.h>, which says in ATTN_SUMS how many vf sums fit into
 * registers beside their operands, and after the integer dots that attn_q8.h asks for.
 *
 * A row is one query head of one token.  Rows are taken in tiles that share every load of K and V;
 * the order of every sum is in kernels.h and does not depend on the tiles here.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include <isa.h>
#include <vec.h>

#include "attn_float.h"
#include "attn_q8.h"
#include "attn_store.h"
#include "attn_tile.h"
#include "compiler.h"
#include "exp.h"
#include "kernels.h"

/* ---- scores into weights --------------------------------------------------------------------- */

/* v where position i + lane is one of the row's, else other: only the ends need a mask. */
KR_INLINE vf attn_keep(vf v, size_t i, struct kern_span s, float other)
{
    if (s.pos0 <= i && i + KERN_LANES <= s.pos1)
        return v;
    return vf_keep(v, s.pos0 > i ? s.pos0 - i : 0,
                   s.pos1 - i < KERN_LANES ? s.pos1 - i : KERN_LANES, vf_set1(other));
}

/* Largest score of a row; those of its blocks are scaled and capped on the way. */
KR_INLINE float attn_top(float *scores, const bool q8, const struct attn_tile *t,
                         struct kern_span s)
{
    vf top = vf_set1(-INFINITY);
    for (size_t i = attn_block(s.pos0); i < s.pos1; i += KERN_LANES) {
        vf v = vf_load(scores + i);
        if (!q8)
            v = vf_mul(v, vf_set1(t->scale));
        if (t->cap > 0.0f)
            v = vf_softcap(v, t->cap);
        if (!q8 || t->cap > 0.0f)
            vf_store(scores + i, v);
        top = vf_max(top, attn_keep(v, i, s, -INFINITY));
    }
    return vf_amax(top);
}

/* Sum and maximum of the weights so far. */
struct attn_weights {
    vf sum, top;
};

/* n vectors of scores into weights, times vs if there is one. */
KR_INLINE void attn_exps(const size_t n, float *scores, const float *vs, size_t at,
                         struct kern_span s, float m, struct attn_weights *w)
{
    vf e[ATTN_EXPS];
    KR_UNROLL
    for (size_t i = 0; i < n; i++)
        e[i] = vf_sub(vf_load(scores + at + i * KERN_LANES), vf_set1(m));
    vf_exp_each(n, e);
    KR_UNROLL
    for (size_t i = 0; i < n; i++) {
        const size_t pos = at + i * KERN_LANES;
        e[i] = attn_keep(e[i], pos, s, 0.0f);
        w->sum = vf_add(w->sum, e[i]);
        if (vs) {
            e[i] = attn_keep(vf_mul(e[i], vf_load(vs + pos)), pos, s, 0.0f);
            w->top = vf_max(w->top, e[i]);
        }
        vf_store(scores + pos, e[i]);
    }
}

/* Scores of a row into its weights; its m and l. */
KR_INLINE struct attn_weights attn_softmax(float *scores, const float *vs,
                                           const struct attn_tile *t, size_t r)
{
    const struct kern_span s = t->span[r];
    const float m = attn_top(scores, vs != NULL, t, s);
    struct attn_weights w = {vf_set1(0.0f), vf_set1(0.0f)};
    size_t i = attn_block(s.pos0);
    for (; i + (ATTN_EXPS - 1) * KERN_LANES < s.pos1; i += ATTN_EXPS * KERN_LANES)
        attn_exps(ATTN_EXPS, scores, vs, i, s, m, &w);
    for (; i < s.pos1; i += KERN_LANES)
        attn_exps(1, scores, vs, i, s, m, &w);
    *t->m[r] = m;
    *t->l[r] = vf_sum(w.sum);
    return w;
}

/* Scores of row r into the weights of its positions, 0 elsewhere in the tile's blocks. */
static void attn_weights_float(const struct attn_tile *t, size_t r)
{
    float *scores = t->scores + r * KERN_SEGMENT;
    attn_softmax(scores, NULL, t, r);
    for (size_t i = attn_block(t->all.pos0); i < attn_block(t->span[r].pos0); i += KERN_LANES)
        vf_store(scores + i, vf_set1(0.0f));
    for (size_t i = attn_round(t->span[r].pos1); i < t->all.pos1; i += KERN_LANES)
        vf_store(scores + i, vf_set1(0.0f));
}

/* The same, as integers, whose unit goes to *unit. */
static void attn_weights_q8(const struct attn_tile *t, size_t r, float *unit)
{
    const struct kern_span s = t->span[r];
    float *scores = t->scores + r * KERN_SEGMENT;
    int16_t *ints = t->ints + r * KERN_SEGMENT;
    const struct attn_weights w = attn_softmax(scores, t->kv.vs, t, r);
    const vf factor = quantize_factor(vf_amax(w.top), (float)KERN_Q8_STEPS, unit);
    size_t i = attn_block(t->all.pos0);
    for (; i < attn_block(s.pos0); i += KERN_LANES)
        attn_dot_pack(ints + i, vf_set1(0.0f), ATTN_VALUES);
    for (; i < s.pos1; i += KERN_LANES)
        attn_dot_pack(ints + i, vf_mul(vf_load(scores + i), factor), ATTN_VALUES);
    for (; i < t->all.pos1; i += KERN_LANES)
        attn_dot_pack(ints + i, vf_set1(0.0f), ATTN_VALUES);
}

/* ---- one tile -------------------------------------------------------------------------------- */

KR_INLINE void attn_float(const size_t rows, enum kern_kvtype type, const struct attn_tile *t)
{
    attn_scores_float(rows, type, t);
    for (size_t r = 0; r < rows; r++)
        attn_weights_float(t, r);
    attn_values_float(rows, type, t);
}

KR_INLINE void attn_q8(const size_t rows, const struct attn_tile *t)
{
    float unit[ATTN_DOT_ROWS];
    attn_scores_q8(rows, t);
    for (size_t r = 0; r < rows; r++)
        attn_weights_q8(t, r, &unit[r]);
    attn_values_q8(rows, t, unit);
}

/* The loops of a tile unroll only if `rows` is a constant: one copy per count, up to ATTN_MOST. */
#define ATTN_CASE(n, most, call)                                                                   \
    case n:                                                                                        \
        if (n <= most) {                                                                           \
            const size_t rows = n <= most ? n : 1;                                                 \
            call;                                                                                  \
        }                                                                                          \
        break
#define ATTN_CASES(count, most, call)                                                              \
    switch (count) {                                                                               \
        ATTN_CASE(1, most, call);                                                                  \
        ATTN_CASE(2, most, call);                                                                  \
        ATTN_CASE(3, most, call);                                                                  \
        ATTN_CASE(4, most, call);                                                                  \
        ATTN_CASE(5, most, call);                                                                  \
        ATTN_CASE(6, most, call);                                                                  \
        ATTN_CASE(7, most, call);                                                                  \
    }

KR_NOINLINE static void attn_tile_f32(size_t count, const struct attn_tile *t){
    ATTN_CASES(count, ATTN_ROWS, attn_float(rows, KERN_KV_F32, t))}

KR_NOINLINE static void attn_tile_f16(size_t count, const struct attn_tile *t){
    ATTN_CASES(count, ATTN_ROWS, attn_float(rows, KERN_KV_F16, t))}

KR_NOINLINE static void attn_tile_q8(size_t count, const struct attn_tile *t)
{
    ATTN_CASES(count, ATTN_DOT_ROWS, attn_q8(rows, t))
}

/* ---- all rows -------------------------------------------------------------------------------- */

/* Rows [row0, row1) of the call as a tile. */
static void attn_take(struct attn_tile *t, const struct kern_parts *out,
                      const struct kern_queries *in, size_t row0, size_t row1, size_t base)
{
    const size_t dim = t->kv.head_dim;
    t->all = (struct kern_span){UINT32_MAX, 0};
    for (size_t row = row0; row < row1; row++) {
        const size_t token = row / in->heads, head = row % in->heads, r = row - row0;
        const struct kern_span s = {in->spans[token].pos0 - (uint32_t)base,
                                    in->spans[token].pos1 - (uint32_t)base};
        t->span[r] = s;
        t->all.pos0 = s.pos0 < t->all.pos0 ? s.pos0 : t->all.pos0;
        t->all.pos1 = s.pos1 > t->all.pos1 ? s.pos1 : t->all.pos1;
        t->o[r] = out->o + token * out->o_stride + head * dim;
        t->m[r] = out->m + token * out->ml_stride + head;
        t->l[r] = out->l + token * out->ml_stride + head;
        t->q[r] = in->q + token * in->q_stride + head * dim;
    }
}

size_t kern_attend_bytes(enum kern_kvtype type, size_t head_dim)
{
    const size_t dim = attn_round(head_dim), row = KERN_SEGMENT + dim;
    const size_t tile = ATTN_MOST * row * (sizeof(float) + sizeof(int16_t));
    const bool widen = type == KERN_KV_F16 && ATTN_WIDEN_F16;
    return tile + (widen ? 2 * KERN_SEGMENT * dim * sizeof(float) : 0);
}

void kern_attend(const struct kern_parts *out, const struct kern_queries *in,
                 const struct kern_kv *kv, void *scratch)
{
    const size_t base = in->spans[0].pos0 / KERN_SEGMENT * KERN_SEGMENT;
    const size_t dim = attn_round(kv->head_dim);
    struct attn_tile t = {.kv = attn_segment(kv, base), .scale = in->scale, .cap = in->cap};
    t.scores = scratch;
    t.queries = t.scores + ATTN_MOST * KERN_SEGMENT;
    t.ints = (int16_t *)(t.queries + ATTN_MOST * dim);
    t.query_ints = t.ints + ATTN_MOST * KERN_SEGMENT;
    if (kv->type == KERN_KV_F16 && ATTN_WIDEN_F16)
        attn_widen(&t.kv, in, base, (float *)(void *)(t.query_ints + ATTN_MOST * dim));

    /* Tiles of nearly equal size: 9 rows are 5 + 4, not 7 + 2. */
    const size_t most = kv->type == KERN_KV_Q8 ? ATTN_DOT_ROWS : ATTN_ROWS;
    const size_t rows = in->tokens * in->heads, tiles = (rows + most - 1) / most;
    for (size_t i = 0; i < tiles; i++) {
        const size_t row0 = rows * i / tiles, row1 = rows * (i + 1) / tiles;
        t.first = i == 0;
        attn_take(&t, out, in, row0, row1, base);
        if (t.kv.type == KERN_KV_F32)
            attn_tile_f32(row1 - row0, &t);
        else if (t.kv.type == KERN_KV_F16)
            attn_tile_f16(row1 - row0, &t);
        else
            attn_tile_q8(row1 - row0, &t);
    }
}

/* ---- segments -------------------------------------------------------------------------------- */

/* Elements d..d + 16*width - 1 of the result. */
KR_INLINE void attn_merge(const size_t width, float *out, const float *o, size_t o_stride,
                          const float *m, const float *l, size_t ml_stride, size_t segments,
                          float top, size_t left)
{
    vf total = vf_set1(0.0f), sum[ATTN_WIDTH];
    KR_UNROLL
    for (size_t j = 0; j < width; j++)
        sum[j] = vf_set1(0.0f);
    for (size_t s = 0; s < segments; s++) {
        const vf w = vf_exp(vf_set1(m[s * ml_stride] - top));
        total = vf_fma(w, vf_set1(l[s * ml_stride]), total);
        KR_UNROLL
        for (size_t j = 0; j < width; j++) {
            const size_t d = j * KERN_LANES;
            sum[j] = vf_fma(w, attn_load_o(o + s * o_stride + d, left - d), sum[j]);
        }
    }
    KR_UNROLL
    for (size_t j = 0; j < width; j++)
        attn_store_o(out + j * KERN_LANES, vf_div(sum[j], total), left - j * KERN_LANES);
}

void kern_attend_merge(float *out, const float *o, size_t o_stride, const float *m, const float *l,
                       size_t ml_stride, size_t segments, size_t head_dim)
{
    float top = m[0];
    for (size_t s = 1; s < segments; s++)
        top = m[s * ml_stride] > top ? m[s * ml_stride] : top;

    size_t d = 0;
    for (; d + (ATTN_WIDTH - 1) * KERN_LANES < head_dim; d += ATTN_WIDTH * KERN_LANES)
        attn_merge(ATTN_WIDTH, out + d, o + d, o_stride, m, l, ml_stride, segments, top,
                   head_dim - d);
    for (; d < head_dim; d += KERN_LANES)
        attn_merge(1, out + d, o + d, o_stride, m, l, ml_stride, segments, top, head_dim - d);
}
