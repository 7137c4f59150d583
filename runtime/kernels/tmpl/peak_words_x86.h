/* tmpl/peak_words_x86.h - the quad of words for kern_peak of sse2, and of sse41 for Q8.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_PEAK_WORDS_X86_H
#define TMPL_PEAK_WORDS_X86_H

#include <emmintrin.h>

#include "compiler.h"

#define PEAK_WORDS_NAME "2 pshufd + 4 (2 paddw + pmaddwd + paddd)"

/* Two products by a multiplication (sse2/dot_sums.h). */
KR_INLINE void peak_words(__m128i sums[4], __m128i acts, __m128i weights)
{
    __m128i even = _mm_shuffle_epi32(acts, 0x00), odd = _mm_shuffle_epi32(acts, 0x55);
    KR_UNROLL
    for (int i = 0; i < 4; i++) {
        KR_OPAQUE(even);
        KR_OPAQUE(odd);
        const __m128i x = _mm_add_epi16(odd, weights), y = _mm_add_epi16(even, weights);
        sums[i] = _mm_add_epi32(sums[i], _mm_madd_epi16(x, y));
        KR_OPAQUE(sums[i]);
    }
}

#endif
