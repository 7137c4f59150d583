/* sse2/dot.h - activations and integer dot products with pmaddwd alone.
 *
 * One column multiplies without widening the weights:
 *   Q4  a word holds four nibbles; masked by 0x0F and 0xF0 they are products with 16a and a, all in
 *       units of 16;
 *   Q8  a word is x = 256 h + l, so that 256 (h a1 + l a0) = x a1 + l (256 a0 - a1): two pmaddwd.
 *       |256 a0 - a1| <= 32639 fits a word.
 * The sum starts at what undoes the offset 8 of the nibbles or 128 of l, and is shifted down by 4
 * or 8 bits, exactly.  |sums| < 2^28.  Many columns share a block widened to words (words_x86.h).
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
    int32_t *start[2]; /* [blocks][cols], by wtype: -128 * 256 * sum of k0, k2; -8 * 16 * sum */
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

/* Quad z of 16 rows with quads z (low nibbles) and 4 + z (high nibbles) of a column. */
KR_INLINE void dot_q4_quad(struct dot_sums *s, const uint8_t *quads, const int16_t *low,
                           const int16_t *high)
{
    const __m128i low_mask = _mm_set1_epi16(0x0F), high_mask = _mm_set1_epi16(0xF0);
    const __m128i l = _mm_slli_epi16(_mm_loadl_epi64((const __m128i *)low), 4);
    const __m128i h = _mm_loadl_epi64((const __m128i *)high);
    const __m128i l_even = _mm_shuffle_epi32(l, 0x00), l_odd = _mm_shuffle_epi32(l, 0x55);
    const __m128i h_even = _mm_shuffle_epi32(h, 0x00), h_odd = _mm_shuffle_epi32(h, 0x55);
    for (int i = 0; i < 4; i++) {
        const __m128i even = dot_load(quads + 16 * i), odd = _mm_srli_epi16(even, 8);
        const __m128i e = _mm_add_epi32(_mm_madd_epi16(_mm_and_si128(even, low_mask), l_even),
                                        _mm_madd_epi16(_mm_and_si128(even, high_mask), h_even));
        const __m128i o = _mm_add_epi32(_mm_madd_epi16(_mm_and_si128(odd, low_mask), l_odd),
                                        _mm_madd_epi16(_mm_and_si128(odd, high_mask), h_odd));
        s->row[i] = _mm_add_epi32(s->row[i], _mm_add_epi32(e, o));
    }
}

/* Quad z of 16 rows with quad z of a column. */
KR_INLINE void dot_q8_quad(struct dot_sums *s, const uint8_t *quads, const int16_t *q)
{
    const __m128i byte = _mm_set1_epi16(0xFF), sign = _mm_set1_epi16((short)0x8000);
    const __m128i a = _mm_loadl_epi64((const __m128i *)q);
    const __m128i even = _mm_shuffle_epi32(a, 0x00), odd = _mm_shuffle_epi32(a, 0x55);
    const __m128i rest = _mm_sub_epi16(_mm_slli_epi16(even, 8), odd);
    for (int i = 0; i < 4; i++) {
        const __m128i x = dot_load(quads + 16 * i);
        const __m128i whole = _mm_madd_epi16(_mm_xor_si128(x, sign), odd);
        const __m128i low = _mm_madd_epi16(_mm_and_si128(x, byte), rest);
        s->row[i] = _mm_add_epi32(s->row[i], _mm_add_epi32(whole, low));
    }
}

KR_INLINE vf dot_block(enum kern_wtype wtype, const uint8_t *quads, const struct dot_acts *a,
                       size_t at)
{
    const int16_t *q = a->q + KERN_BLOCK * at;
    const __m128i start = _mm_set1_epi32(a->start[wtype][at]);
    struct dot_sums s = {{start, start, start, start}};
    if (wtype == KERN_Q4) {
        KR_UNROLL_BY_2
        for (int z = 0; z < 4; z++)
            dot_q4_quad(&s, quads + 64 * z, q + 4 * z, q + 16 + 4 * z);
        for (int i = 0; i < 4; i++)
            s.row[i] = _mm_srai_epi32(s.row[i], 4);
    } else {
        KR_UNROLL_BY_2
        for (int z = 0; z < 8; z++)
            dot_q8_quad(&s, quads + 64 * z, q + 4 * z);
        for (int i = 0; i < 4; i++)
            s.row[i] = _mm_srai_epi32(s.row[i], 8);
    }
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
