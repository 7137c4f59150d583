/* avxvnni/dot.h - integer dot products with vpdpbusd on 8 lanes.
 *
 * vpdpbusd adds four products of unsigned weight bytes and signed activation bytes to each 32-bit
 * lane, and a lane is a row; two ymm hold the 16 rows of a panel and share a broadcast:
 *
 *        lane       0          1          ...  7
 *   weights lo  | r0 k0..3 | r1 k0..3 | ... | r7 k0..3  |    unsigned: q + 8 or q + 128
 *   weights hi  | r8 k0..3 | r9 k0..3 | ... | r15 k0..3 |
 *   acts        |  k0..3   |  k0..3   | ... |  k0..3    |    one broadcast dword
 *
 * |sum| <= 32*255*127, so nothing comes near 2^31; where it starts: tmpl/acts_vnni.h.
 * SPDX-License-Identifier: MIT */
#ifndef DOT_H
#define DOT_H

#include <isa.h>
#include <vec.h>

#include "acts_vnni.h"
#include "dot_scale.h"
#include "dot_ymm.h"
#include "gather_x86.h"
#include "kernels.h"
#include "stream_x86.h"

KR_INLINE __m256i dot_load(const uint8_t *p)
{
    return _mm256_load_si256((const __m256i *)p);
}

KR_INLINE void dot_store(uint8_t *p, __m256i v)
{
    _mm256_store_si256((__m256i *)p, v);
}

KR_INLINE __m256i dot_low(__m256i nibbles)
{
    return _mm256_and_si256(nibbles, _mm256_set1_epi8(15));
}

KR_INLINE __m256i dot_high(__m256i nibbles)
{
    return dot_low(_mm256_srli_epi16(nibbles, 4));
}

/* One column alone. */
KR_INLINE vf dot_block(enum kern_wtype wtype, const uint8_t *quads, const struct dot_acts *a,
                       size_t at)
{
    stream_ahead(quads);
    const int8_t *q = a->q + KERN_BLOCK * at;
    __m256i lo = dot_broadcast(a->start[wtype] + at), hi = lo;
    for (int z = 0; z < (wtype == KERN_Q4 ? 4 : 8); z++) {
        const __m256i w_lo = dot_load(quads + 64 * z), w_hi = dot_load(quads + 64 * z + 32);
        const __m256i v = dot_broadcast(q + 4 * z);
        lo = _mm256_dpbusd_epi32(lo, wtype == KERN_Q4 ? dot_low(w_lo) : w_lo, v);
        hi = _mm256_dpbusd_epi32(hi, wtype == KERN_Q4 ? dot_low(w_hi) : w_hi, v);
        if (wtype == KERN_Q4) {
            const __m256i next = dot_broadcast(q + 16 + 4 * z);
            lo = _mm256_dpbusd_epi32(lo, dot_high(w_lo), next);
            hi = _mm256_dpbusd_epi32(hi, dot_high(w_hi), next);
        }
    }
    return dot_to_float(lo, hi);
}

/* ---- many columns -------------------------------------------------------------------------- */

/* The quads of a q4 block as bytes: k = 4z..4z+3 in step[z]. */
struct dot_weights {
    KR_ALIGNED(64) uint8_t step[8][64];
};

KR_INLINE void dot_unpack_q4(struct dot_weights *u, const uint8_t *quads)
{
    for (int half = 0; half < 64; half += 32) {
        for (int z = 0; z < 4; z++) {
            const __m256i w = dot_load(quads + 64 * z + half);
            dot_store(u->step[z] + half, dot_low(w));
            dot_store(u->step[4 + z] + half, dot_high(w));
        }
    }
}

/* sums[c][16] += the scaled dots of a block with columns at .. at + n - 1, n <= TILE_COLS a constant;
 * steps[8][64] is the block as bytes.  2 * n chains: two a cycle of latency 4 to 6 want 8 to 12. */
KR_INLINE void dot_tile(float *sums, const uint8_t *steps, vf scale, const struct dot_acts *a,
                        const int32_t *start, size_t at, const int n)
{
    const int8_t *q = a->q + KERN_BLOCK * at;
    __m256i lo[TILE_COLS], hi[TILE_COLS];
    KR_UNROLL
    for (int c = 0; c < n; c++)
        lo[c] = hi[c] = dot_broadcast(start + at + c);
    KR_UNROLL
    for (int z = 0; z < 8; z++) {
        const __m256i w_lo = dot_load(steps + 64 * z), w_hi = dot_load(steps + 64 * z + 32);
        KR_UNROLL
        for (int c = 0; c < n; c++) {
            const __m256i v = dot_broadcast(q + KERN_BLOCK * c + 4 * z);
            lo[c] = _mm256_dpbusd_epi32(lo[c], w_lo, v);
            hi[c] = _mm256_dpbusd_epi32(hi[c], w_hi, v);
        }
    }
    KR_UNROLL
    for (int c = 0; c < n; c++) {
        dot_scale(sums + 16 * c, dot_to_float(lo[c], hi[c]), scale, a->d[at + (size_t)c]);
    }
}

KR_INLINE void dot_block_cols(enum kern_wtype wtype, float *sums, const uint8_t *quads, vf scale,
                              const struct dot_acts *a, size_t at, size_t n)
{
    struct dot_weights u;
    const uint8_t *steps = quads;
    if (wtype == KERN_Q4) {
        dot_unpack_q4(&u, quads);
        steps = u.step[0];
    }
    const int32_t *start = a->start[wtype];
    size_t c = 0;
    for (; c + TILE_COLS <= n && n - c != 2 * TILE_REST; c += TILE_COLS)
        dot_tile(sums + 16 * c, steps, scale, a, start, at + c, TILE_COLS);
    for (; c + TILE_REST <= n; c += TILE_REST)
        dot_tile(sums + 16 * c, steps, scale, a, start, at + c, TILE_REST);
    for (; c < n; c++)
        dot_tile(sums + 16 * c, steps, scale, a, start, at + c, 1);
}

#endif
