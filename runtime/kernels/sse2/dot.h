/* sse2/dot.h - activations and integer dot products with pmaddwd alone (words_x86.h).
 *
 * One column multiplies the unsigned weights as they stand and starts at what undoes their offset:
 *   Q4  a word holds four nibbles, n0 + 16 n1 + 256 n2 + 4096 n3; three are masked and one is moved,
 *       and activations 256, 16, 1 and 256 times themselves bring all to units of 256;
 *   Q8  an even and an odd byte.
 * |sums| < 2^24.  Many columns share a block widened to signed words (dot_sums.h).
 * SPDX-License-Identifier: MIT */
#ifndef DOT_H
#define DOT_H

#include <isa.h>
#include <vec.h>

#include "gather_x86.h"
#include "kernels.h"
#include "words_x86.h"

/* Activations of [blocks][cols] blocks, block-major. */
struct dot_acts {
    int16_t *q;        /* [blocks][cols][32], quads as k0 k2 k1 k3 */
    float *d;          /* [blocks][cols] */
    int32_t *start[2]; /* [blocks][cols], by wtype: -128 and -8 * 256 times their sum */
    int32_t *cross;    /* [blocks][cols]: -sum of k0*k1 + k2*k3 of all quads, for dot_sums.h */
};

enum { DOT_ACT_BYTES = 64 + 4 * 4 }; /* per block and column */

KR_INLINE struct dot_acts dot_acts_view(const void *acts, size_t k, size_t cols)
{
    const size_t n = k / KERN_BLOCK * cols;
    int16_t *q = (int16_t *)acts;
    float *d = (float *)(q + KERN_BLOCK * n);
    int32_t *start = (int32_t *)(d + n);
    return (struct dot_acts){q, d, {[KERN_Q8] = start, [KERN_Q4] = start + n}, start + 2 * n};
}

/* ---- one column ---------------------------------------------------------------------------- */

/* A quad of 16 rows with the words k0 k2 k1 k3 of a column for its low and for its high nibbles. */
KR_INLINE void dot_q4_quad(struct dot_sums *s, const uint8_t *quad, const int16_t *low,
                           const int16_t *high)
{
    const __m128i l = _mm_loadl_epi64((const __m128i *)low);
    const __m128i h = _mm_loadl_epi64((const __m128i *)high), h_256 = _mm_slli_epi16(h, 8);
    const __m128i a0 = _mm_shuffle_epi32(_mm_slli_epi16(l, 8), 0x00);
    const __m128i a1 = _mm_shuffle_epi32(_mm_slli_epi16(h, 4), 0x00);
    const __m128i a2 = _mm_shuffle_epi32(l, 0x55), a3 = _mm_shuffle_epi32(h_256, 0x55);
    for (int i = 0; i < 4; i++) {
        const __m128i w = dot_load(quad + 16 * i);
        const __m128i n0 = _mm_and_si128(w, _mm_set1_epi16(0x000F));
        const __m128i n1 = _mm_and_si128(w, _mm_set1_epi16(0x00F0));
        const __m128i n2 = _mm_and_si128(w, _mm_set1_epi16(0x0F00));
        const __m128i n3 = _mm_srli_epi16(w, 12);
        const __m128i e = _mm_add_epi32(_mm_madd_epi16(n0, a0), _mm_madd_epi16(n1, a1));
        const __m128i o = _mm_add_epi32(_mm_madd_epi16(n2, a2), _mm_madd_epi16(n3, a3));
        s->row[i] = _mm_add_epi32(s->row[i], _mm_add_epi32(e, o));
    }
}

/* Dots of packed quads with the column x[32]; *start is -8 * 256 times its sum. */
KR_INLINE struct dot_sums dot_q4(const uint8_t *quads, const int16_t *x, const int32_t *start)
{
    const __m128i v = _mm_set1_epi32(*start);
    struct dot_sums s = {{v, v, v, v}};
    KR_UNROLL_BY_2
    for (int z = 0; z < 4; z++)
        dot_q4_quad(&s, quads + 64 * z, x + 4 * z, x + 16 + 4 * z);
    for (int i = 0; i < 4; i++)
        s.row[i] = _mm_srai_epi32(s.row[i], 8);
    return s;
}

KR_INLINE void dot_q8_quad(struct dot_sums *s, const uint8_t *quad, const int16_t *x)
{
    const __m128i v = _mm_loadl_epi64((const __m128i *)x);
    const __m128i even = _mm_shuffle_epi32(v, 0x00), odd = _mm_shuffle_epi32(v, 0x55);
    for (int i = 0; i < 4; i++) {
        const __m128i w = dot_load(quad + 16 * i);
        const __m128i e = _mm_madd_epi16(_mm_and_si128(w, _mm_set1_epi16(0xFF)), even);
        const __m128i o = _mm_madd_epi16(_mm_srli_epi16(w, 8), odd);
        s->row[i] = _mm_add_epi32(s->row[i], _mm_add_epi32(e, o));
    }
}

/* Likewise; *start is -128 times the sum of the column. */
KR_INLINE struct dot_sums dot_q8(const uint8_t *quads, const int16_t *x, const int32_t *start)
{
    const __m128i v = _mm_set1_epi32(*start);
    struct dot_sums s = {{v, v, v, v}};
    KR_UNROLL_BY_2
    for (int z = 0; z < 8; z++)
        dot_q8_quad(&s, quads + 64 * z, x + 4 * z);
    return s;
}

KR_INLINE vf dot_block(enum kern_wtype wtype, const uint8_t *quads, const struct dot_acts *a,
                       size_t at)
{
    const struct dot_sums s = wtype == KERN_Q4
                                  ? dot_q4(quads, a->q + KERN_BLOCK * at, a->start[wtype] + at)
                                  : dot_q8(quads, a->q + KERN_BLOCK * at, a->start[wtype] + at);
    return dot_to_float(&s);
}

/* ---- many columns -------------------------------------------------------------------------- */

#include <dot_sums.h>

KR_INLINE void dot_block_cols(enum kern_wtype wtype, float *sums, const uint8_t *quads, vf scale,
                              const struct dot_acts *a, size_t at, size_t n)
{
    if (n < WIDEN_COLS) {
        for (size_t c = at; c < at + n; c++, sums += 16)
            dot_scale(sums, dot_block(wtype, quads, a, c), scale, a->d[c]);
        return;
    }
    struct dot_words u;
    if (wtype == KERN_Q4)
        words_unpack_q4(&u, quads);
    else
        words_unpack_q8(&u, quads);
    for (size_t c = at; c < at + n; c++, sums += 16) {
        const struct dot_sums dot = dot_sums_words(&u, a->q + KERN_BLOCK * c, a->cross + c);
        dot_scale(sums, dot_to_float(&dot), scale, a->d[c]);
    }
}

#endif
