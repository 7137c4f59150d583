/* avx2/quantize.c - activations as int8 and int16, with the sums that undo the nibbles' offset.
 * SPDX-License-Identifier: MIT */
#include <dot.h>

#include "quantize.h"

size_t kern_acts_bytes(size_t k, size_t cols)
{
    return k / KERN_BLOCK * cols * DOT_ACT_BYTES;
}

/* Two int16: -8 times the sums of (k0, k1) and of (k2, k3) of the block's quads. */
static int32_t start_block(const int8_t *q)
{
    const __m256i v = _mm256_loadu_si256((const __m256i *)q);
    const __m256i s = _mm256_maddubs_epi16(_mm256_set1_epi8(1), v);
    const __m128i s8 = _mm_add_epi16(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    const __m128i s4 = _mm_add_epi16(s8, _mm_shuffle_epi32(s8, 0x4E));
    const __m128i s2 = _mm_add_epi16(s4, _mm_shuffle_epi32(s4, 0xB1));
    return _mm_cvtsi128_si32(_mm_mullo_epi16(s2, _mm_set1_epi16(-8)));
}

/* 16 words out of 16 bytes, quads as k0 k2 k1 k3; returns k0*k1 + k2*k3 in lanes. */
static __m128i widen_half(int16_t *wide, const int8_t *q)
{
    const __m128i v = _mm_loadu_si128((const __m128i *)q);
    const __m128i even = _mm_srai_epi16(_mm_slli_epi16(v, 8), 8), odd = _mm_srai_epi16(v, 8);
    _mm_storeu_si128((__m128i *)wide, _mm_unpacklo_epi32(even, odd));
    _mm_storeu_si128((__m128i *)(wide + 8), _mm_unpackhi_epi32(even, odd));
    return _mm_madd_epi16(even, odd);
}

static int32_t sum_lanes(__m128i v)
{
    const __m128i s2 = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4E));
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
            a.start[at] = start_block(q);
            int16_t *wide = a.wide + KERN_BLOCK * at;
            a.cross[at] =
                -sum_lanes(_mm_add_epi32(widen_half(wide, q), widen_half(wide + 16, q + 16)));
        }
    }
}
