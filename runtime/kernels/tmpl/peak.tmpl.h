/* tmpl/peak.tmpl.h - kern_peak: the arithmetic of the inner loop over and over.  Include once, at the
 * end of <isa>/peak.c, which defines
 *
 *   peak_ints                            a register of integers
 *   PEAK_CHAINS                          independent sums: enough for the latency, all in registers
 *   peak_ints peak_ones()                every byte 1
 *   peak_ints peak_step(w, sum, weights, acts)   sum += sizeof(peak_ints) products
 *   const char *peak_name(w)             its instructions
 * SPDX-License-Identifier: MIT */
#include "compiler.h"
#include "kernels.h"

KR_INLINE uint64_t peak_run(enum kern_wtype w, size_t rounds)
{
    peak_ints sums[PEAK_CHAINS], weights = peak_ones(), acts = weights;
    KR_OPAQUE(weights);
    KR_UNROLL
    for (int c = 0; c < PEAK_CHAINS; c++)
        sums[c] = weights;
    for (size_t i = 0; i < rounds; i++) {
        KR_UNROLL
        for (int c = 0; c < PEAK_CHAINS; c++) {
            KR_OPAQUE(acts); /* else the products are the same in every step */
            sums[c] = peak_step(w, sums[c], weights, acts);
            KR_OPAQUE(sums[c]);
        }
    }
    return (uint64_t)rounds * PEAK_CHAINS * sizeof(peak_ints);
}

uint64_t kern_peak(enum kern_wtype w, size_t rounds, const char **name)
{
    *name = peak_name(w);
    return w == KERN_Q4 ? peak_run(KERN_Q4, rounds) : peak_run(KERN_Q8, rounds);
}
