/* avx512vnni/dot.h - integer dot products with vpdpbusd on 16 lanes.
 *
 * vpdpbusd adds four products of unsigned weight bytes and signed activation bytes to each 32-bit
 * lane, and a lane is a row:
 *
 *        lane     0           1          ...  15
 *   weights  | r0 k0..3 | r1 k0..3 | ... | r15 k0..3 |    unsigned: q + 8 or q + 128
 *   acts     |  k0..3   |  k0..3   | ... |   k0..3   |    one broadcast dword
 *
 * |sum| <= 32*255*127, so nothing comes near 2^31; where it starts: tmpl/acts_vnni.h.
 * SPDX-License-Identifier: MIT */
#ifndef DOT_H
#define DOT_H

#include <string.h>

#include <isa.h>
#include <vec.h>

#include "acts_vnni.h"
#include "dot_scale.h"
#include "gather_x86.h"
#include "kernels.h"
#include "stream_x86.h"

KR_INLINE __m512i dot_broadcast(const void *p)
{
    int32_t quad;
    memcpy(&quad, p, sizeof quad);
    return _mm512_set1_epi32(quad);
}

/* Quad z of a block as bytes: k = 4z..4z+3. */
KR_INLINE __m512i dot_quad(enum kern_wtype wtype, const uint8_t *quads, int z)
{
    if (wtype == KERN_Q8)
        return _mm512_load_si512(quads + 64 * z);
    const __m512i x = _mm512_load_si512(quads + 64 * (z % 4));
    return _mm512_and_si512(z < 4 ? x : _mm512_srli_epi16(x, 4), _mm512_set1_epi8(15));
}

/* All eight of them. */
struct dot_weights {
    __m512i w[8];
};

KR_INLINE struct dot_weights dot_unpack(enum kern_wtype wtype, const uint8_t *quads)
{
    struct dot_weights u;
    KR_UNROLL
    for (int z = 0; z < 8; z++)
        u.w[z] = dot_quad(wtype, quads, z);
    return u;
}

/* Some columns share u: one chain, so that it needs one register; the others hide its latency. */
KR_INLINE vf dot_column(enum kern_wtype wtype, const struct dot_weights *u,
                        const struct dot_acts *a, size_t at)
{
    const int8_t *q = a->q + KERN_BLOCK * at;
    __m512i sum = _mm512_set1_epi32(a->start[wtype][at]);
    for (int z = 0; z < 8; z++)
        sum = _mm512_dpbusd_epi32(sum, u->w[z], dot_broadcast(q + 4 * z));
    return _mm512_cvtepi32_ps(sum);
}

/* One column alone: two chains of half the length. */
KR_INLINE vf dot_block(enum kern_wtype wtype, const uint8_t *quads, const struct dot_acts *a,
                       size_t at)
{
    stream_ahead(quads);
    const struct dot_weights u = dot_unpack(wtype, quads);
    const int8_t *q = a->q + KERN_BLOCK * at;
    __m512i low = _mm512_set1_epi32(a->start[wtype][at]), high = _mm512_setzero_si512();
    for (int z = 0; z < 4; z++) {
        low = _mm512_dpbusd_epi32(low, u.w[z], dot_broadcast(q + 4 * z));
        high = _mm512_dpbusd_epi32(high, u.w[4 + z], dot_broadcast(q + 16 + 4 * z));
    }
    return _mm512_cvtepi32_ps(_mm512_add_epi32(low, high));
}

/* sums[c] += the scaled dots of a block with columns at .. at + n - 1, n <= TILE_COLS a constant.
 * Each quad meets all columns before the next one: n chains, and one register of weights. */
KR_INLINE void dot_tile(enum kern_wtype wtype, vf sums[TILE_COLS], const uint8_t *quads, vf scale,
                        const struct dot_acts *a, size_t at, const int n)
{
    const int8_t *q = a->q + KERN_BLOCK * at;
    __m512i dots[TILE_COLS];
    KR_UNROLL
    for (int c = 0; c < n; c++)
        dots[c] = _mm512_set1_epi32(a->start[wtype][at + (size_t)c]);
    KR_UNROLL
    for (int z = 0; z < 8; z++) {
        const __m512i w = dot_quad(wtype, quads, z);
        KR_UNROLL
        for (int c = 0; c < n; c++)
            dots[c] = _mm512_dpbusd_epi32(dots[c], w, dot_broadcast(q + KERN_BLOCK * c + 4 * z));
    }
    KR_UNROLL
    for (int c = 0; c < n; c++) {
        const vf d = vf_mul(scale, vf_set1(a->d[at + (size_t)c]));
        sums[c] = vf_fma(d, _mm512_cvtepi32_ps(dots[c]), sums[c]);
    }
}

KR_INLINE void dot_block_cols(enum kern_wtype wtype, float *sums, const uint8_t *quads, vf scale,
                              const struct dot_acts *a, size_t at, size_t n)
{
    const struct dot_weights u = dot_unpack(wtype, quads);
    for (size_t c = 0; c < n; c++, sums += 16)
        dot_scale(sums, dot_column(wtype, &u, a, at + c), scale, a->d[at + c]);
}

#endif
