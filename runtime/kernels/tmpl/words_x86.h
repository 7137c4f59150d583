/* tmpl/words_x86.h - what sse2 and sse41 share: activations and weights as 16-bit words.
 *
 * A lane of 32 bits is a row; four xmm hold the 16 rows of a panel.  pmaddwd adds two products of
 * words to a lane.  A quad of bytes becomes two words twice, its even bytes k0, k2 and its odd ones
 * k1, k3, which is the order that widening within a word gives.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_WORDS_X86_H
#define TMPL_WORDS_X86_H

#include <vec.h>

#include "compiler.h"
#include "dot_scale.h"
#include "kernels.h"

KR_INLINE __m128i dot_load(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

KR_INLINE void dot_store(void *p, __m128i v)
{
    _mm_store_si128((__m128i *)p, v);
}

KR_INLINE __m128i dot_even_words(__m128i bytes)
{
    return _mm_srai_epi16(_mm_slli_epi16(bytes, 8), 8);
}

KR_INLINE __m128i dot_odd_words(__m128i bytes)
{
    return _mm_srai_epi16(bytes, 8);
}

/* The 16 rows, as integers. */
struct dot_sums {
    __m128i row[4];
};

KR_INLINE vf dot_to_float(const struct dot_sums *s)
{
    return (vf){_mm_cvtepi32_ps(s->row[0]), _mm_cvtepi32_ps(s->row[1]), _mm_cvtepi32_ps(s->row[2]),
                _mm_cvtepi32_ps(s->row[3])};
}

/* ---- activations --------------------------------------------------------------------------- */

KR_INLINE int32_t words_sum_lanes(__m128i v)
{
    const __m128i s2 = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(s2, _mm_shuffle_epi32(s2, 0xB1)));
}

/* 32 words out of the 32 bytes of a block, quads as k0 k2 k1 k3; returns minus the sum of k0*k1 +
 * k2*k3 of all quads, the column's part of dot_sums_words. */
KR_INLINE int32_t words_from_bytes(int16_t *words, const int8_t *q)
{
    __m128i cross = _mm_setzero_si128();
    KR_UNROLL
    for (int i = 0; i < KERN_BLOCK; i += 16) {
        const __m128i v = dot_load(q + i), even = dot_even_words(v), odd = dot_odd_words(v);
        dot_store(words + i, _mm_unpacklo_epi32(even, odd));
        dot_store(words + i + 8, _mm_unpackhi_epi32(even, odd));
        cross = _mm_sub_epi32(cross, _mm_madd_epi16(even, odd));
    }
    return words_sum_lanes(cross);
}

/* ---- weights of many columns --------------------------------------------------------------- */

/* A block widened to signed words; a step is 2 words of 16 rows. */
struct dot_words {
    KR_ALIGNED(64) int16_t even[8][32], odd[8][32];
    KR_ALIGNED(64) int32_t cross[16]; /* -sum of even * odd by row, the row's part */
};

KR_INLINE void words_unpack_q4(struct dot_words *u, const uint8_t *quads)
{
    const __m128i nibble = _mm_set1_epi16(15), offset = _mm_set1_epi16(8);
    for (int i = 0; i < 4; i++) {
        __m128i cross = _mm_setzero_si128();
        for (int z = 0; z < 4; z++) {
            const __m128i w = dot_load(quads + 64 * z + 16 * i), h = _mm_srli_epi16(w, 8);
            const __m128i even[2] = {
                _mm_sub_epi16(_mm_and_si128(w, nibble), offset),
                _mm_sub_epi16(_mm_and_si128(_mm_srli_epi16(w, 4), nibble), offset)};
            const __m128i odd[2] = {_mm_sub_epi16(_mm_and_si128(h, nibble), offset),
                                    _mm_sub_epi16(_mm_srli_epi16(h, 4), offset)};
            KR_UNROLL
            for (int half = 0; half < 2; half++) {
                dot_store(u->even[4 * half + z] + 8 * i, even[half]);
                dot_store(u->odd[4 * half + z] + 8 * i, odd[half]);
                cross = _mm_sub_epi32(cross, _mm_madd_epi16(even[half], odd[half]));
            }
        }
        dot_store(u->cross + 4 * i, cross);
    }
}

KR_INLINE void words_unpack_q8(struct dot_words *u, const uint8_t *quads)
{
    const __m128i sign = _mm_set1_epi8(-128);
    for (int i = 0; i < 4; i++) {
        __m128i cross = _mm_setzero_si128();
        for (int z = 0; z < 8; z++) {
            const __m128i w = _mm_xor_si128(dot_load(quads + 64 * z + 16 * i), sign);
            const __m128i even = dot_even_words(w), odd = dot_odd_words(w);
            dot_store(u->even[z] + 8 * i, even);
            dot_store(u->odd[z] + 8 * i, odd);
            cross = _mm_sub_epi32(cross, _mm_madd_epi16(even, odd));
        }
        dot_store(u->cross + 4 * i, cross);
    }
}

#endif
