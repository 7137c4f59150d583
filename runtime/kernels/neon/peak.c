/* neon/peak.c - what the multipliers can do: the products of the many-column loops of dot.h, alone.
 * SPDX-License-Identifier: MIT */
#include "kernels.h"

#include "neon_compat.h"

enum {
    CHAINS = NEON_REGISTERS / 4, /* independent sums: more than a multiplier has stages */
    Q4_PRODUCTS = 8,             /* of one smlal */
    Q8_PRODUCTS = 16,            /* of smull, smlal and sadalp */
};

static void peak_q4(size_t rounds)
{
    int8x8_t w[CHAINS], x = vdup_n_s8(1);
    int16x8_t sum[CHAINS];
    KR_UNROLL
    for (int i = 0; i < CHAINS; i++) {
        w[i] = vdup_n_s8(1);
        sum[i] = vdupq_n_s16(0);
    }
    for (size_t n = 0; n < rounds; n++) {
        KR_OPAQUE(x);
        KR_UNROLL
        for (int i = 0; i < CHAINS; i++) {
            KR_OPAQUE(w[i]);
            sum[i] = vmlal_s8(sum[i], w[i], x);
        }
    }
    KR_UNROLL
    for (int i = 0; i < CHAINS; i++)
        KR_OPAQUE(sum[i]);
}

static void peak_q8(size_t rounds)
{
    int8x8_t w[CHAINS], x = vdup_n_s8(1), y = x;
    int32x4_t sum[CHAINS];
    KR_UNROLL
    for (int i = 0; i < CHAINS; i++) {
        w[i] = x;
        sum[i] = vdupq_n_s32(0);
    }
    for (size_t n = 0; n < rounds; n++) {
        int16x8_t pairs[CHAINS]; /* step by step, for cores that do not reorder */
        KR_OPAQUE(x);
        KR_OPAQUE(y);
        KR_UNROLL
        for (int i = 0; i < CHAINS; i++) {
            KR_OPAQUE(w[i]);
            pairs[i] = vmull_s8(w[i], x);
        }
        KR_UNROLL
        for (int i = 0; i < CHAINS; i++)
            pairs[i] = vmlal_s8(pairs[i], w[i], y);
        KR_UNROLL
        for (int i = 0; i < CHAINS; i++)
            sum[i] = vpadalq_s16(sum[i], pairs[i]);
    }
    KR_UNROLL
    for (int i = 0; i < CHAINS; i++)
        KR_OPAQUE(sum[i]);
}

uint64_t kern_peak(enum kern_wtype w, size_t rounds, const char **name)
{
    if (w == KERN_Q4) {
        peak_q4(rounds);
        *name = "smlal";
        return (uint64_t)rounds * CHAINS * Q4_PRODUCTS;
    }
    peak_q8(rounds);
    *name = "smull + smlal + sadalp";
    return (uint64_t)rounds * CHAINS * Q8_PRODUCTS;
}
