/* sse2/peak.h - the inner loop of dot_sums.h with all operands in registers.
 * SPDX-License-Identifier: MIT */
#ifndef PEAK_H
#define PEAK_H

#include <emmintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler.h"

#define PEAK_WORDS_NAME "2 paddw + pmaddwd + paddd"

enum { PEAK_SUMS = 8 }; /* of 16 registers, and enough to hide the latency of a sum */

/* One round: 4 bytes of k of PEAK_SUMS x 4 outputs; returns the multiply-accumulates made. */
static uint64_t peak_words(size_t rounds)
{
    __m128i sum[PEAK_SUMS], even = _mm_set1_epi16(1), odd = _mm_set1_epi16(2);
    const __m128i weights_even = _mm_set1_epi16(3), weights_odd = _mm_set1_epi16(4);
    for (int i = 0; i < PEAK_SUMS; i++)
        sum[i] = _mm_setzero_si128();
    for (size_t r = 0; r < rounds; r++) {
        KR_UNROLL
        for (int i = 0; i < PEAK_SUMS; i++) {
            KR_OPAQUE(even);
            KR_OPAQUE(odd);
            const __m128i product =
                _mm_madd_epi16(_mm_add_epi16(odd, weights_even), _mm_add_epi16(even, weights_odd));
            sum[i] = _mm_add_epi32(sum[i], product);
            KR_OPAQUE(sum[i]);
        }
    }
    return PEAK_SUMS * 16 * (uint64_t)rounds;
}

#endif
