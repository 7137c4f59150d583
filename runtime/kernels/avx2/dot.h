/* avx2/dot.h - activations and integer dot products without a dot product instruction.
 *
 * A lane of 32 bits is a row; two ymm hold the 16 rows of a panel.
 *
 * Q4: vpmaddubsw adds two products of unsigned weight (0..15) and signed activation bytes to a
 * 16-bit half of the lane.  A whole block goes into one 16-bit sum, which starts at -8 times the
 * sum of its activations: the result is at most 16*8*127 = 16256, and what wraps on the way does
 * not matter.  One vpmaddwd adds the halves.
 *
 * Q8: one column multiplies |w| with sign(w)*a: two products are at most 2*127*127 = 32258, exact
 * in 16 bits because neither is ever -128.  Many columns share a block widened to 16 bits, with
 * activations of 16 bits in the order that widening gives: even (k0, k2) and odd (k1, k3).
 * SPDX-License-Identifier: MIT */
#ifndef DOT_H
#define DOT_H

#include <isa.h>
#include <vec.h>

#include "dot_scale.h"
#include "dot_ymm.h"
#include "gather_x86.h"
#include "kernels.h"
#include "stream_x86.h"

/* Activations of [blocks][cols] blocks, block-major. */
struct dot_acts {
    int8_t *q;      /* [blocks][cols][32] */
    int16_t *wide;  /* [blocks][cols][32], quads as k0 k2 k1 k3 */
    float *d;       /* [blocks][cols] */
    int32_t *start; /* [blocks][cols]: two int16, -8 * sum of (k0, k1), (k2, k3) of all quads */
    int32_t *cross; /* [blocks][cols], if DOT_CROSS: -sum of k0*k1 + k2*k3 of all quads */
};

/* A block unpacked for many columns, in steps of 64 bytes: the two ymm of the panel's rows.
 * Q4: 8 steps of four bytes of k; Q8: 8 pairs of steps of two words, even and odd. */
struct dot_weights {
    KR_ALIGNED(64) uint8_t step[16][64];
    KR_ALIGNED(64) int32_t cross[16]; /* Q8, if DOT_CROSS: -sum of even * odd by row */
};

KR_INLINE __m256i dot_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

KR_INLINE void dot_store(void *p, __m256i v)
{
    _mm256_store_si256((__m256i *)p, v);
}

#include <dot_sums.h>

enum { DOT_ACT_BYTES = 32 + 64 + (2 + DOT_CROSS) * 4 }; /* per block and column */

KR_INLINE struct dot_acts dot_acts_view(const void *acts, size_t k, size_t cols)
{
    const size_t n = k / KERN_BLOCK * cols;
    int8_t *q = (int8_t *)acts;
    int16_t *wide = (int16_t *)(q + KERN_BLOCK * n);
    float *d = (float *)(wide + KERN_BLOCK * n);
    int32_t *start = (int32_t *)(d + n);
    return (struct dot_acts){q, wide, d, start, DOT_CROSS ? start + n : NULL};
}

/* ---- one column ---------------------------------------------------------------------------- */

KR_INLINE __m256i dot_q4_step(__m256i sum, __m256i w, __m256i a_low, __m256i a_high)
{
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i low = _mm256_and_si256(w, nibble);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(w, 4), nibble);
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(low, a_low));
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(high, a_high));
}

KR_INLINE vf dot_block_q4(const uint8_t *quads, const struct dot_acts *a, size_t at)
{
    const int8_t *q = a->q + KERN_BLOCK * at;
    __m256i lo = dot_broadcast(a->start + at), hi = lo;
    KR_UNROLL_BY_2
    for (int z = 0; z < 4; z++) {
        const __m256i a_low = dot_broadcast(q + 4 * z), a_high = dot_broadcast(q + 16 + 4 * z);
        lo = dot_q4_step(lo, dot_load(quads + 64 * z), a_low, a_high);
        hi = dot_q4_step(hi, dot_load(quads + 64 * z + 32), a_low, a_high);
    }
    const __m256i one = _mm256_set1_epi16(1);
    return dot_to_float(_mm256_madd_epi16(lo, one), _mm256_madd_epi16(hi, one));
}

KR_INLINE __m256i dot_q8_step(__m256i sum, __m256i stored, __m256i a)
{
    const __m256i w = _mm256_xor_si256(stored, _mm256_set1_epi8(-128));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

KR_INLINE vf dot_block_q8(const uint8_t *quads, const struct dot_acts *a, size_t at)
{
    const int8_t *q = a->q + KERN_BLOCK * at;
    __m256i lo = _mm256_setzero_si256(), hi = lo;
    KR_UNROLL_BY_2
    for (int z = 0; z < 8; z++) {
        const __m256i v = dot_broadcast(q + 4 * z);
        lo = dot_q8_step(lo, dot_load(quads + 64 * z), v);
        hi = dot_q8_step(hi, dot_load(quads + 64 * z + 32), v);
    }
    return dot_to_float(lo, hi);
}

KR_INLINE vf dot_block(enum kern_wtype wtype, const uint8_t *quads, const struct dot_acts *a,
                       size_t at)
{
    stream_ahead(quads);
    return wtype == KERN_Q4 ? dot_block_q4(quads, a, at) : dot_block_q8(quads, a, at);
}

/* ---- many columns -------------------------------------------------------------------------- */

KR_INLINE void dot_unpack_q4(struct dot_weights *u, const uint8_t *quads)
{
    const __m256i nibble = _mm256_set1_epi8(15);
    for (int half = 0; half < 64; half += 32) {
        for (int z = 0; z < 4; z++) {
            const __m256i w = dot_load(quads + 64 * z + half);
            dot_store(u->step[z] + half, _mm256_and_si256(w, nibble));
            dot_store(u->step[4 + z] + half, _mm256_and_si256(_mm256_srli_epi16(w, 4), nibble));
        }
    }
}

KR_INLINE void dot_unpack_q8(struct dot_weights *u, const uint8_t *quads)
{
    const __m256i sign = _mm256_set1_epi8(-128);
    for (int half = 0; half < 64; half += 32) {
        __m256i cross = _mm256_setzero_si256();
        for (int z = 0; z < 8; z++) {
            const __m256i w = _mm256_xor_si256(dot_load(quads + 64 * z + half), sign);
            const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8);
            const __m256i odd = _mm256_srai_epi16(w, 8);
            dot_store(u->step[2 * z] + half, even);
            dot_store(u->step[2 * z + 1] + half, odd);
            if (DOT_CROSS)
                cross = _mm256_sub_epi32(cross, _mm256_madd_epi16(even, odd));
        }
        if (DOT_CROSS)
            dot_store((uint8_t *)u->cross + half, cross);
    }
}

/* TILE_COLS columns from `at` on, with sums[TILE_COLS][16]. */
KR_INLINE void dot_tile(enum kern_wtype wtype, float *sums, const struct dot_weights *u, vf scale,
                        const struct dot_acts *a, size_t at)
{
    __m256i lo[TILE_COLS], hi[TILE_COLS];
    if (wtype == KERN_Q4)
        dot_sums_q4(lo, hi, u, a, at);
    else
        dot_sums_q8(lo, hi, u, a, at);
    const __m256i one = _mm256_set1_epi16(1);
    KR_UNROLL
    for (int c = 0; c < TILE_COLS; c++) {
        const vf dot = wtype == KERN_Q4 ? dot_to_float(_mm256_madd_epi16(lo[c], one),
                                                       _mm256_madd_epi16(hi[c], one))
                                        : dot_to_float(lo[c], hi[c]);
        dot_scale(sums + 16 * c, dot, scale, a->d[at + (size_t)c]);
    }
}

KR_INLINE void dot_block_cols(enum kern_wtype wtype, float *sums, const uint8_t *quads, vf scale,
                              const struct dot_acts *a, size_t at, size_t n)
{
    size_t c = 0;
    if (n >= TILE_COLS) {
        struct dot_weights u;
        if (wtype == KERN_Q4)
            dot_unpack_q4(&u, quads);
        else
            dot_unpack_q8(&u, quads);
        for (; c + TILE_COLS <= n; c += TILE_COLS)
            dot_tile(wtype, sums + 16 * c, &u, scale, a, at + c);
    }
    for (; c < n; c++)
        dot_scale(sums + 16 * c, dot_block(wtype, quads, a, at + c), scale, a->d[at + c]);
}

#endif
