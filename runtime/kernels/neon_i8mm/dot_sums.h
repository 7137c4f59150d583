/* neon_i8mm/dot_sums.h - the inner loops.  asm/dot_sums.h is the same in assembly; the build
 * chooses (ASM=1).
 * SPDX-License-Identifier: MIT */
#ifndef DOT_SUMS_H
#define DOT_SUMS_H

/* Exact dots of a block of 16 rows, of nibbles 16 times them, with one column.  Both pointers go on
 * to the next block. */
KR_INLINE void dot_sums_one(enum kern_wtype wtype, int32x4_t sums[4], const uint8_t **quads,
                            const int8_t **x)
{
    const int64x2x4_t twice = vld4q_dup_s64((const int64_t *)(const void *)*x);
    int32x4_t two[8]; /* sums of row 2g and of row 2g + 1 */
    KR_UNROLL
    for (size_t g = 0; g < 8; g++) {
        int8x16_t w[4];
        dot_unpack(wtype, w, *quads + 16 * g);
        two[g] = vdupq_n_s32(0);
        KR_UNROLL
        for (size_t z = 0; z < 4; z++)
            two[g] = vdotq_s32(two[g], w[z], vreinterpretq_s8_s64(twice.val[z]));
    }
    KR_UNROLL
    for (size_t g = 0; g < 4; g++)
        sums[g] = vpaddq_s32(two[2 * g], two[2 * g + 1]);
    *quads += PACK_ROWS * (wtype == KERN_Q4 ? KERN_BLOCK / 2 : KERN_BLOCK);
    *x += KERN_BLOCK;
}

/* One step of the float chains of 8 rows and n pairs of columns, sums[n][16][2]. */
KR_INLINE void dot_sums_pairs(enum kern_wtype wtype, float *sums, const struct dot_rows *r,
                              const int8_t *q, const float *d, size_t n)
{
    for (; n > 0; n--, sums += 2 * PACK_ROWS, q += 2 * KERN_BLOCK, d += 2) {
        int32x4_t dots[4] = {vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)};
        KR_UNROLL
        for (size_t z = 0; z < 4; z++) {
            const int8x16_t x = vld1q_s8(q + 16 * z);
            KR_UNROLL
            for (size_t g = 0; g < 4; g++)
                dots[g] = vmmlaq_s32(dots[g], r->w[g][z], x);
        }
        const float32x2_t two = vld1_f32(d);
        const float32x4_t d4 = vcombine_f32(two, two);
        KR_UNROLL
        for (size_t g = 0; g < 4; g++) {
            const float32x4_t s = vmulq_f32(r->scale[g], d4), sum = vld1q_f32(sums + 4 * g);
            vst1q_f32(sums + 4 * g, vfmaq_f32(sum, s, dot_float(wtype, dots[g])));
        }
    }
}

#endif
