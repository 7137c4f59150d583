/* sse2/peak.c - how fast the inner loop of many columns could be: its arithmetic without a load.
 * SPDX-License-Identifier: MIT */
#include "kernels.h"
#include "peak_words_x86.h"

/* Both formats become words. */
KR_INLINE void peak_quad(enum kern_wtype w, __m128i sums[4], __m128i acts, __m128i weights)
{
    (void)w;
    peak_words(sums, acts, weights);
}

/* Sums are complete already. */
KR_INLINE void peak_end(enum kern_wtype w, __m128i sums[4], __m128i weights)
{
    (void)w;
    (void)sums;
    (void)weights;
}

static const char *peak_name(enum kern_wtype w)
{
    (void)w;
    return PEAK_WORDS_NAME;
}

#include "peak_quad_x86.tmpl.h"
