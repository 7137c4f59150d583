/* sse2/quantize.c - activations as int16, with the sums that undo the weights' offsets.
 * SPDX-License-Identifier: MIT */
#include <dot.h>

#include "quantize.h"

size_t kern_acts_bytes(size_t k, size_t cols)
{
    return k / KERN_BLOCK * cols * DOT_ACT_BYTES;
}

static int32_t sum_words(__m128i v)
{
    const __m128i s4 = _mm_madd_epi16(v, _mm_set1_epi16(1));
    const __m128i s2 = _mm_add_epi32(s4, _mm_shuffle_epi32(s4, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(s2, _mm_shuffle_epi32(s2, 0xB1)));
}

void kern_quantize(void *acts, size_t k, size_t cols, size_t col0, size_t col1, size_t block0,
                   size_t block1, const float *x, size_t x_stride)
{
    const struct dot_acts a = dot_acts_view(acts, k, cols);
    for (size_t c = col0; c < col1; c++, x += x_stride) {
        for (size_t b = block0; b < block1; b++) {
            const size_t at = b * cols + c;
            int8_t bytes[KERN_BLOCK];
            a.d[at] = quantize_block(bytes, x + KERN_BLOCK * (b - block0));

            __m128i even_sum = _mm_setzero_si128(), odd_sum = even_sum; /* words: at most 508 */
            for (size_t i = 0; i < KERN_BLOCK; i += 16) {
                const __m128i v = dot_load(bytes + i);
                const __m128i even = _mm_srai_epi16(_mm_slli_epi16(v, 8), 8);
                const __m128i odd = _mm_srai_epi16(v, 8);
                int16_t *q = a.q + KERN_BLOCK * at + i;
                dot_store(q, _mm_unpacklo_epi32(even, odd));
                dot_store(q + 8, _mm_unpackhi_epi32(even, odd));
                even_sum = _mm_add_epi16(even_sum, even);
                odd_sum = _mm_add_epi16(odd_sum, odd);
            }
            a.start[KERN_Q8][at] = -128 * 256 * sum_words(even_sum);
            a.start[KERN_Q4][at] = -8 * 16 * sum_words(_mm_add_epi16(even_sum, odd_sum));
        }
    }
}
