/* neon_i8mm/peak.c - how fast the inner loop of many columns could be: smmla and nothing else.
 * SPDX-License-Identifier: MIT */
#include "kernels.h"
#include <vec.h>

enum {
    CHAINS = 16,   /* independent sums: four a cycle, four cycles each, on the widest cores */
    PRODUCTS = 32, /* of one smmla: 2 rows x 8 k x 2 columns */
};

uint64_t kern_peak(enum kern_wtype w, size_t rounds, const char **name)
{
    int8x16_t x = vdupq_n_s8(1);
    int32x4_t sums[CHAINS];
    (void)w; /* nibbles are unpacked before the loop */
    KR_UNROLL
    for (int i = 0; i < CHAINS; i++)
        sums[i] = vdupq_n_s32(0);
    for (size_t n = 0; n < rounds; n++) {
        KR_UNROLL
        for (int i = 0; i < CHAINS; i++) {
            KR_OPAQUE(x); /* else the products are the same in every step */
            sums[i] = vmmlaq_s32(sums[i], x, x);
            KR_OPAQUE(sums[i]);
        }
    }
    *name = "smmla";
    return (uint64_t)rounds * CHAINS * PRODUCTS;
}
