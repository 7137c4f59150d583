/* avx2/quantize.c - activations as int8 and int16, with the sums that undo the nibbles' offset.
 * SPDX-License-Identifier: MIT */
#include <dot.h>

/* Sums of words across a register: words (dwords) i and j with i - j even (any) share a sum. */
KR_INLINE __m128i sum_pairs(__m128i v)
{
    const __m128i s2 = _mm_add_epi16(v, _mm_shuffle_epi32(v, 0x4E));
    return _mm_add_epi16(s2, _mm_shuffle_epi32(s2, 0xB1));
}

KR_INLINE __m128i sum_lanes(__m128i v)
{
    const __m128i s2 = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4E));
    return _mm_add_epi32(s2, _mm_shuffle_epi32(s2, 0xB1));
}

/* 16 words out of 16 bytes, quads as k0 k2 k1 k3; returns k0*k1 + k2*k3 in lanes. */
KR_INLINE __m128i widen(int16_t *wide, __m128i q)
{
    const __m128i even = _mm_srai_epi16(_mm_slli_epi16(q, 8), 8), odd = _mm_srai_epi16(q, 8);
    _mm_storeu_si128((__m128i *)wide, _mm_unpacklo_epi32(even, odd));
    _mm_storeu_si128((__m128i *)(wide + 8), _mm_unpackhi_epi32(even, odd));
    return _mm_madd_epi16(even, odd);
}

KR_INLINE void acts_block(const struct dot_acts *a, size_t at, vf low, vf high)
{
    int8_t *q = a->q + KERN_BLOCK * at;
    int16_t *wide = a->wide + KERN_BLOCK * at;
    vf_store_i8(q, low);
    vf_store_i8(q + 16, high);
    const __m128i lower = _mm_loadu_si128((const __m128i *)q);
    const __m128i upper = _mm_loadu_si128((const __m128i *)(q + 16));

    const __m128i one = _mm_set1_epi8(1);
    const __m128i pairs =
        sum_pairs(_mm_add_epi16(_mm_maddubs_epi16(one, lower), _mm_maddubs_epi16(one, upper)));
    a->start[at] = _mm_cvtsi128_si32(_mm_mullo_epi16(pairs, _mm_set1_epi16(-8)));

    const __m128i cross = _mm_add_epi32(widen(wide, lower), widen(wide + 16, upper));
    if (DOT_CROSS)
        a->cross[at] = -_mm_cvtsi128_si32(sum_lanes(cross));
}

#include "acts_runs.tmpl.h"
