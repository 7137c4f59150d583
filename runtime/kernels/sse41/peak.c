/* sse41/peak.c - how fast the inner loops of many columns could be: their arithmetic without a load.
 * SPDX-License-Identifier: MIT */
#include <tmmintrin.h>

#include "peak_words_x86.h"

KR_INLINE peak_ints peak_step(enum kern_wtype w, peak_ints sum, peak_ints weights, peak_ints acts)
{
    return w == KERN_Q4 ? _mm_add_epi16(sum, _mm_maddubs_epi16(weights, acts))
                        : peak_words(sum, weights, acts);
}

static const char *peak_name(enum kern_wtype w)
{
    return w == KERN_Q4 ? "pmaddubsw + paddw" : PEAK_WORDS_NAME;
}

#include "peak.tmpl.h"
