/* sse41/dot.h - activations and integer dot products with pmaddubsw.
 *
 * A lane of 32 bits is a row; four xmm hold the 16 rows of a panel.  pmaddubsw adds two products of
 * unsigned weight and signed activation bytes to a 16-bit half of the lane, and a whole block goes
 * into one 16-bit sum.  It starts at what undoes the weights' offset, so that the result fits; what
 * wraps on the way does not matter.  One pmaddwd adds the halves.
 *
 * Q4: the start is -8 times the sum of the activations; |result| <= 16*8*127 = 16256.
 * Q8: the activations are split, a = 16*high + low with low in 0..15 and high in -8..7, or the two
 * products did not fit; the starts are -128 times the sums, |results| <= 16*128*15 = 30720.  Many
 * columns share a block widened to words instead (words_x86.h).
 * SPDX-License-Identifier: MIT */
#ifndef DOT_H
#define DOT_H

#include <isa.h>
#include <vec.h>

#include <tmmintrin.h>

#include "gather_x86.h"
#include "kernels.h"
#include "words_x86.h"

/* Activations of [blocks][cols] blocks, block-major. */
struct dot_acts {
    int8_t *q;        /* [blocks][cols][32] */
    int8_t *part[2];  /* [blocks][cols][32] each: low and high */
    int16_t *words;   /* [blocks][cols][32], quads as k0 k2 k1 k3 */
    float *d;         /* [blocks][cols] */
    int32_t *start;   /* [blocks][cols]: two int16, -8 * sums of (k0, k1), (k2, k3) of all quads */
    int32_t *rest[2]; /* [blocks][cols] each: the same of low and high, -128 times */
    int32_t *cross;   /* [blocks][cols]: -sum of k0*k1 + k2*k3 of all quads, for the words */
};

enum { DOT_ACT_BYTES = 32 + 2 * 32 + 64 + 5 * 4 }; /* per block and column */

KR_INLINE struct dot_acts dot_acts_view(const void *acts, size_t k, size_t cols)
{
    const size_t n = k / KERN_BLOCK * cols;
    int8_t *q = (int8_t *)acts, *low = q + KERN_BLOCK * n, *high = low + KERN_BLOCK * n;
    int16_t *words = (int16_t *)(high + KERN_BLOCK * n);
    float *d = (float *)(words + KERN_BLOCK * n);
    int32_t *start = (int32_t *)(d + n);
    return (struct dot_acts){
        q, {low, high}, words, d, start, {start + n, start + 2 * n}, start + 3 * n};
}

KR_INLINE struct dot_sums dot_start(int32_t start)
{
    const __m128i v = _mm_set1_epi32(start);
    return (struct dot_sums){{v, v, v, v}};
}

/* The two halves of each row, added. */
KR_INLINE vf dot_halves_to_float(struct dot_sums s)
{
    const __m128i one = _mm_set1_epi16(1);
    KR_UNROLL
    for (int i = 0; i < 4; i++)
        s.row[i] = _mm_madd_epi16(s.row[i], one);
    return dot_to_float(&s);
}

#include <dot_sums.h>

/* ---- one column ---------------------------------------------------------------------------- */

KR_INLINE vf dot_block_q4(const uint8_t *quads, const struct dot_acts *a, size_t at)
{
    struct dot_sums s = dot_start(a->start[at]);
    dot_nibbles(&s, quads, a->q + KERN_BLOCK * at);
    return dot_halves_to_float(s);
}

KR_INLINE vf dot_block_q8(const uint8_t *quads, const struct dot_acts *a, size_t at)
{
    const __m128i one = _mm_set1_epi16(1), sixteen = _mm_set1_epi16(16);
    struct dot_sums low = dot_start(a->rest[0][at]), high = dot_start(a->rest[1][at]);
    dot_two(&low, &high, quads, a->part[0] + KERN_BLOCK * at, a->part[1] + KERN_BLOCK * at);
    KR_UNROLL
    for (int i = 0; i < 4; i++)
        low.row[i] =
            _mm_add_epi32(_mm_madd_epi16(low.row[i], one), _mm_madd_epi16(high.row[i], sixteen));
    return dot_to_float(&low);
}

KR_INLINE vf dot_block(enum kern_wtype wtype, const uint8_t *quads, const struct dot_acts *a,
                       size_t at)
{
    return wtype == KERN_Q4 ? dot_block_q4(quads, a, at) : dot_block_q8(quads, a, at);
}

/* ---- many columns -------------------------------------------------------------------------- */

/* The bytes of a Q4 block, as quads. */
KR_INLINE void dot_unpack_q4(uint8_t bytes[512], const uint8_t *quads)
{
    const __m128i nibble = _mm_set1_epi8(15);
    for (int i = 0; i < 256; i += 16) {
        const __m128i w = dot_load(quads + i);
        dot_store(bytes + i, _mm_and_si128(w, nibble));
        dot_store(bytes + 256 + i, _mm_and_si128(_mm_srli_epi16(w, 4), nibble));
    }
}

KR_INLINE void dot_block_cols_q4(float *sums, const uint8_t *quads, vf scale,
                                 const struct dot_acts *a, size_t at, size_t n)
{
    const size_t end = at + n;
    if (n >= UNPACK_COLS) {
        KR_ALIGNED(64) uint8_t bytes[512];
        dot_unpack_q4(bytes, quads);
        for (; at + 2 <= end; at += 2, sums += 2 * 16) {
            struct dot_sums s = dot_start(a->start[at]), t = dot_start(a->start[at + 1]);
            dot_two(&s, &t, bytes, a->q + KERN_BLOCK * at, a->q + KERN_BLOCK * (at + 1));
            dot_scale(sums, dot_halves_to_float(s), scale, a->d[at]);
            dot_scale(sums + 16, dot_halves_to_float(t), scale, a->d[at + 1]);
        }
    }
    for (; at < end; at++, sums += 16)
        dot_scale(sums, dot_block_q4(quads, a, at), scale, a->d[at]);
}

KR_INLINE void dot_block_cols_q8(float *sums, const uint8_t *quads, vf scale,
                                 const struct dot_acts *a, size_t at, size_t n)
{
    const size_t end = at + n;
    if (n >= WIDEN_COLS) {
        struct dot_words u;
        words_unpack_q8(&u, quads);
        for (; at < end; at++, sums += 16) {
            const struct dot_sums dot =
                dot_sums_words(&u, a->words + KERN_BLOCK * at, a->cross + at);
            dot_scale(sums, dot_to_float(&dot), scale, a->d[at]);
        }
    }
    for (; at < end; at++, sums += 16)
        dot_scale(sums, dot_block_q8(quads, a, at), scale, a->d[at]);
}

KR_INLINE void dot_block_cols(enum kern_wtype wtype, float *sums, const uint8_t *quads, vf scale,
                              const struct dot_acts *a, size_t at, size_t n)
{
    if (wtype == KERN_Q4)
        dot_block_cols_q4(sums, quads, scale, a, at, n);
    else
        dot_block_cols_q8(sums, quads, scale, a, at, n);
}

#endif
