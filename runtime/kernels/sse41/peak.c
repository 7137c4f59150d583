/* sse41/peak.c - how fast the inner loops of many columns could be: their arithmetic without a load.
 * SPDX-License-Identifier: MIT */
#include <tmmintrin.h>

#include "kernels.h"
#include "peak_words_x86.h"

KR_INLINE void peak_bytes(__m128i sums[4], __m128i acts, __m128i weights)
{
    __m128i quad = _mm_shuffle_epi32(acts, 0x00);
    KR_UNROLL
    for (int i = 0; i < 4; i++) {
        KR_OPAQUE(quad);
        sums[i] = _mm_add_epi16(sums[i], _mm_maddubs_epi16(weights, quad));
        KR_OPAQUE(sums[i]);
    }
}

KR_INLINE void peak_quad(enum kern_wtype w, __m128i sums[4], __m128i acts, __m128i weights)
{
    if (w == KERN_Q4)
        peak_bytes(sums, acts, weights);
    else
        peak_words(sums, acts, weights);
}

/* Sums of words are two to a lane. */
KR_INLINE void peak_end(enum kern_wtype w, __m128i sums[4], __m128i weights)
{
    KR_UNROLL
    for (int i = 0; i < 4 && w == KERN_Q4; i++)
        sums[i] = _mm_madd_epi16(sums[i], weights);
}

static const char *peak_name(enum kern_wtype w)
{
    return w == KERN_Q4 ? "8 pshufd + 4 (8 (pmaddubsw + paddw) + pmaddwd)" : PEAK_WORDS_NAME;
}

#include "peak_quad_x86.tmpl.h"
