/* sse2/quantize.c - activations as int16, with the sums that undo the weights' offsets.
 * SPDX-License-Identifier: MIT */
#include <dot.h>

#include "quantize.h"

static void acts_block(const struct dot_acts *a, size_t at, const float *x)
{
    KR_ALIGNED(16) int8_t bytes[KERN_BLOCK];
    a->d[at] = quantize_block(bytes, x);
    a->cross[at] = words_from_bytes(a->q + KERN_BLOCK * at, bytes);

    const __m128i lo = dot_load(bytes), hi = dot_load(bytes + 16);
    const __m128i even = _mm_add_epi16(dot_even_words(lo), dot_even_words(hi));
    const __m128i odd = _mm_add_epi16(dot_odd_words(lo), dot_odd_words(hi));
    const int32_t sum =
        words_sum_lanes(_mm_madd_epi16(_mm_add_epi16(even, odd), _mm_set1_epi16(1)));
    a->start[KERN_Q8][at] = -128 * sum;
    a->start[KERN_Q4][at] = -8 * 256 * sum;
}

#include "acts.tmpl.h"
