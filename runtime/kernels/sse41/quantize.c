/* sse41/quantize.c - activations as bytes, split bytes and words, with the sums that undo the
 * weights' offsets.
 * SPDX-License-Identifier: MIT */
#include <dot.h>

#include "quantize.h"

/* Two int16: `offset` times the sums of (k0, k1) and of (k2, k3) of the quads of two halves. */
static int32_t start_block(__m128i lo, __m128i hi, int offset)
{
    const __m128i one = _mm_set1_epi8(1);
    const __m128i s8 = _mm_add_epi16(_mm_maddubs_epi16(one, lo), _mm_maddubs_epi16(one, hi));
    const __m128i s4 = _mm_add_epi16(s8, _mm_shuffle_epi32(s8, 0x4E));
    const __m128i s2 = _mm_add_epi16(s4, _mm_shuffle_epi32(s4, 0xB1));
    return _mm_cvtsi128_si32(_mm_mullo_epi16(s2, _mm_set1_epi16((short)offset)));
}

/* The upper four bits of each byte, as a signed number. */
static __m128i high_part(__m128i q)
{
    const __m128i eight = _mm_set1_epi8(8);
    const __m128i nibble = _mm_and_si128(_mm_srli_epi16(q, 4), _mm_set1_epi8(15));
    return _mm_sub_epi8(_mm_xor_si128(nibble, eight), eight);
}

static void acts_block(const struct dot_acts *a, size_t at, const float *x)
{
    int8_t *q = a->q + KERN_BLOCK * at;
    a->d[at] = quantize_block(q, x);
    a->cross[at] = words_from_bytes(a->words + KERN_BLOCK * at, q);

    const __m128i lo = dot_load(q), hi = dot_load(q + 16), nibble = _mm_set1_epi8(15);
    a->start[at] = start_block(lo, hi, -8);
    const __m128i low[2] = {_mm_and_si128(lo, nibble), _mm_and_si128(hi, nibble)};
    const __m128i high[2] = {high_part(lo), high_part(hi)};
    for (int i = 0; i < 2; i++) {
        dot_store(a->part[0] + KERN_BLOCK * at + 16 * i, low[i]);
        dot_store(a->part[1] + KERN_BLOCK * at + 16 * i, high[i]);
    }
    a->rest[0][at] = start_block(low[0], low[1], -128);
    a->rest[1][at] = start_block(high[0], high[1], -128);
}

#include "acts.tmpl.h"
