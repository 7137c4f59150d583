/* avxvnni/quantize.c - activations as int8, with the sums that undo the weights' offsets.
 * SPDX-License-Identifier: MIT */
#include <dot.h>

#include "quantize.h"

size_t kern_acts_bytes(size_t k, size_t cols)
{
    return k / KERN_BLOCK * cols * DOT_ACT_BYTES;
}

static int32_t sum_block(const int8_t *q)
{
    const __m256i v = _mm256_loadu_si256((const __m256i *)q);
    const __m256i s = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), v);
    const __m128i s4 = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
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
            int8_t *q = a.q + KERN_BLOCK * at;
            a.d[at] = quantize_block(q, x + KERN_BLOCK * (b - block0));
            const int32_t sum = sum_block(q);
            a.start[KERN_Q8][at] = -128 * sum;
            a.start[KERN_Q4][at] = -8 * sum;
        }
    }
}
