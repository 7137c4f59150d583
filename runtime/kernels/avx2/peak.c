/* avx2/peak.c - how fast the inner loops of many columns could be: the arithmetic of a block's dots
 * without a load.  Not tmpl/peak.tmpl.h, because a dot of Q4 is complete only with the vpmaddwd that
 * ends its block.
 * SPDX-License-Identifier: MIT */
#include <isa.h>
#include <vec.h>

#include "kernels.h"

enum { CHAINS = 2 * TILE_COLS, STEPS = 8 }; /* sums, and steps of a block */

/* Q4: bytes, in 16 bits.  Q8: words, two products by a multiplication (asm/dot_sums.h). */
KR_INLINE __m256i peak_step(enum kern_wtype w, __m256i sum, __m256i weights, __m256i acts)
{
    if (w == KERN_Q4)
        return _mm256_add_epi16(sum, _mm256_maddubs_epi16(weights, acts));
    const __m256i even = _mm256_add_epi16(weights, acts);
    KR_OPAQUE(acts);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(even, _mm256_add_epi16(weights, acts)));
}

KR_INLINE uint64_t peak_run(enum kern_wtype w, size_t rounds)
{
    __m256i sums[CHAINS], weights = _mm256_set1_epi8(1), acts = weights;
    KR_OPAQUE(weights);
    KR_UNROLL
    for (int c = 0; c < CHAINS; c++)
        sums[c] = weights;
    for (size_t i = 0; i < rounds; i++) {
        KR_UNROLL
        for (int z = 0; z < STEPS; z++) {
            KR_UNROLL
            for (int c = 0; c < CHAINS; c++) {
                KR_OPAQUE(acts); /* else the products are the same in every step */
                sums[c] = peak_step(w, sums[c], weights, acts);
                KR_OPAQUE(sums[c]);
            }
        }
        KR_UNROLL
        for (int c = 0; c < CHAINS && w == KERN_Q4; c++)
            sums[c] = _mm256_madd_epi16(sums[c], weights);
    }
    return (uint64_t)rounds * STEPS * CHAINS * sizeof(__m256i);
}

uint64_t kern_peak(enum kern_wtype w, size_t rounds, const char **name)
{
    *name = w == KERN_Q4 ? "8 (vpmaddubsw + vpaddw) + vpmaddwd" : "2 vpaddw + vpmaddwd + vpaddd";
    return w == KERN_Q4 ? peak_run(KERN_Q4, rounds) : peak_run(KERN_Q8, rounds);
}
