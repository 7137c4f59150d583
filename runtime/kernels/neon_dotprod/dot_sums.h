/* neon_dotprod/dot_sums.h - the inner loops.  asm/dot_sums.h is the same in assembly; the build
 * chooses (ASM=1).
 * SPDX-License-Identifier: MIT */
#ifndef DOT_SUMS_H
#define DOT_SUMS_H

/* Exact dots of a block of 16 rows, of nibbles 16 times them, with one column.  Both pointers go on
 * to the next block. */
KR_INLINE void dot_sums_one(enum kern_wtype wtype, int32x4_t sums[4], const uint8_t **quads,
                            const int8_t **x)
{
    const int8x16_t x0 = vld1q_s8(*x), x1 = vld1q_s8(*x + 16);
    KR_UNROLL
    for (size_t g = 0; g < 4; g++) {
        int8x16_t w[8];
        dot_unpack(wtype, w, *quads + 16 * g);
        sums[g] = dot_half(dot_half(vdupq_n_s32(0), w, x0), w + 4, x1);
    }
    *quads += PACK_ROWS * (wtype == KERN_Q4 ? KERN_BLOCK / 2 : KERN_BLOCK);
    *x += KERN_BLOCK;
}

/* One step of the float chains of 8 rows and an even number of columns, sums[n][16]. */
KR_INLINE void dot_sums_pairs(enum kern_wtype wtype, float *sums, const struct dot_rows *r,
                              const int8_t *q, const float *d, size_t n)
{
    for (; n > 0; n -= 2, sums += 2 * PACK_ROWS, q += 2 * KERN_BLOCK, d += 2) {
        const int8x16_t x[4] = {vld1q_s8(q), vld1q_s8(q + 16), vld1q_s8(q + 32), vld1q_s8(q + 48)};
        int32x4_t dots[2][2];
        KR_UNROLL
        for (size_t c = 0; c < 2; c++) {
            KR_UNROLL
            for (size_t g = 0; g < 2; g++)
                dots[c][g] = dot_half(dot_half(vdupq_n_s32(0), r->w[g], x[2 * c]), r->w[g] + 4,
                                      x[2 * c + 1]);
        }
        const float d0 = d[0], d1 = d[1];
        dot_scale(wtype, sums, r, d0, dots[0]);
        dot_scale(wtype, sums + PACK_ROWS, r, d1, dots[1]);
    }
}

#endif
