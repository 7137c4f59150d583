/* tmpl/peak_words_x86.h - the step of words for kern_peak, of sse2 and sse41.
 * SPDX-License-Identifier: MIT */
#ifndef PEAK_WORDS_X86_H
#define PEAK_WORDS_X86_H

#include <emmintrin.h>

#include "compiler.h"
#include "kernels.h"

enum { PEAK_CHAINS = 8 };

typedef __m128i peak_ints;

KR_INLINE peak_ints peak_ones(void)
{
    return _mm_set1_epi8(1);
}

#define PEAK_WORDS_NAME "2 paddw + pmaddwd + paddd"

/* Two products by a multiplication (dot_sums.h). */
KR_INLINE peak_ints peak_words(peak_ints sum, peak_ints weights, peak_ints acts)
{
    const __m128i even = _mm_add_epi16(weights, acts);
    KR_OPAQUE(acts);
    return _mm_add_epi32(sum, _mm_madd_epi16(even, _mm_add_epi16(weights, acts)));
}

#endif
