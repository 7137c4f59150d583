/* sse2/peak.c - how fast the inner loops of many columns could be: their arithmetic without a load.
 * SPDX-License-Identifier: MIT */
#include "peak_words_x86.h"

/* Both formats become words. */
KR_INLINE peak_ints peak_step(enum kern_wtype w, peak_ints sum, peak_ints weights, peak_ints acts)
{
    (void)w;
    return peak_words(sum, weights, acts);
}

static const char *peak_name(enum kern_wtype w)
{
    (void)w;
    return PEAK_WORDS_NAME;
}

#include "peak.tmpl.h"
