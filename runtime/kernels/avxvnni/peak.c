/* avxvnni/peak.c - how fast the inner loop of many columns could be: vpdpbusd and nothing else.
 * SPDX-License-Identifier: MIT */
#include <isa.h>
#include <vec.h>

#include "kernels.h"

enum { PEAK_CHAINS = 2 * TILE_COLS };

typedef __m256i peak_ints;

KR_INLINE peak_ints peak_ones(void)
{
    return _mm256_set1_epi8(1);
}

KR_INLINE peak_ints peak_step(enum kern_wtype w, peak_ints sum, peak_ints weights, peak_ints acts)
{
    (void)w; /* nibbles are unpacked before the loop */
    return _mm256_dpbusd_epi32(sum, weights, acts);
}

static const char *peak_name(enum kern_wtype w)
{
    (void)w;
    return "vpdpbusd ymm";
}

#include "peak.tmpl.h"
