/* avx2/peak.c - how fast the inner loops of many columns could be: their arithmetic without a load.
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

/* Q4: bytes, in 16 bits.  Q8: words, two products by a multiplication (dot_sums.h). */
KR_INLINE peak_ints peak_step(enum kern_wtype w, peak_ints sum, peak_ints weights, peak_ints acts)
{
    if (w == KERN_Q4)
        return _mm256_add_epi16(sum, _mm256_maddubs_epi16(weights, acts));
    const __m256i even = _mm256_add_epi16(weights, acts);
    KR_OPAQUE(acts);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(even, _mm256_add_epi16(weights, acts)));
}

static const char *peak_name(enum kern_wtype w)
{
    return w == KERN_Q4 ? "vpmaddubsw + vpaddw" : "2 vpaddw + vpmaddwd + vpaddd";
}

#include "peak.tmpl.h"
