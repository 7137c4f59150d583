/* tmpl/peak_quad_x86.tmpl.h - kern_peak of sse2 and sse41: blocks of 16 rows and a column over and
 * over, with the broadcast of the activations, which is an instruction here.  Include once, at the
 * end of <isa>/peak.c, which defines
 *
 *   void peak_quad(w, __m128i sums[4], acts, weights)   sums += 4 x 16 products
 *   void peak_end(w, __m128i sums[4], weights)          what completes the dots of a block
 *   const char *peak_name(w)                            its instructions
 *
 * SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <stdint.h>

enum { PEAK_QUADS = 8 }; /* of a block */

KR_INLINE uint64_t peak_run(enum kern_wtype w, size_t rounds)
{
    __m128i sums[4], acts = _mm_set1_epi8(1), weights = acts;
    KR_OPAQUE(weights);
    KR_UNROLL
    for (int i = 0; i < 4; i++)
        sums[i] = weights;
    for (size_t r = 0; r < rounds; r++) {
        KR_UNROLL
        for (int q = 0; q < PEAK_QUADS; q++) {
            KR_OPAQUE(acts); /* else the products are the same in every quad */
            peak_quad(w, sums, acts, weights);
        }
        peak_end(w, sums, weights);
    }
    return (uint64_t)rounds * PEAK_QUADS * 4 * sizeof(__m128i);
}

uint64_t kern_peak(enum kern_wtype w, size_t rounds, const char **name)
{
    *name = peak_name(w);
    return w == KERN_Q4 ? peak_run(KERN_Q4, rounds) : peak_run(KERN_Q8, rounds);
}
