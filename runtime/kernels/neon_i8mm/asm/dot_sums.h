/* neon_i8mm/asm/dot_sums.h - the inner loops of neon_i8mm/dot_sums.h in assembly (ASM=1): same bits.
 *
 * Compilers move loads up until registers run out, and copy sums.  Here each register has its
 * place, and little waits for what stands just before it, for cores that keep the order.
 * SPDX-License-Identifier: MIT */
#ifndef DOT_SUMS_H
#define DOT_SUMS_H

#include "asm_arm.h"

/* ---- one column ---------------------------------------------------------------------------- */

/* 64 bytes of weights, 8 k of rows 0 to 7 or 8 to 15, go to four registers from v16 or v20 on. */
/* Four registers of weights times x, activations k8z..8z+7 twice in vz. */
#define DOT_8_A(w0, w1, w2, w3, x)                                                                 \
    "sdot v4.4s, " w0 ".16b, " x ".16b\n\t"                                                        \
    "sdot v5.4s, " w1 ".16b, " x ".16b\n\t"                                                        \
    "sdot v6.4s, " w2 ".16b, " x ".16b\n\t"                                                        \
    "sdot v7.4s, " w3 ".16b, " x ".16b\n\t"
#define DOT_8_B(w0, w1, w2, w3, x)                                                                 \
    "sdot %[s0].4s, " w0 ".16b, " x ".16b\n\t"                                                     \
    "sdot %[s1].4s, " w1 ".16b, " x ".16b\n\t"                                                     \
    "sdot %[s2].4s, " w2 ".16b, " x ".16b\n\t"                                                     \
    "sdot %[s3].4s, " w3 ".16b, " x ".16b\n\t"

#define DOT_A(x) DOT_8_A("v16", "v17", "v18", "v19", x)
#define DOT_B(x) DOT_8_B("v20", "v21", "v22", "v23", x)
#define DOT_LOW_A(x) DOT_8_A("v24", "v25", "v26", "v27", x)
#define DOT_LOW_B(x) DOT_8_B("v24", "v25", "v26", "v27", x)

#define DOT_NIBBLES_A(x, y) DOT_SPLIT("v16", "v17", "v18", "v19") DOT_LOW_A(x) DOT_A(y)
#define DOT_NIBBLES_B(x, y) DOT_SPLIT("v20", "v21", "v22", "v23") DOT_LOW_B(x) DOT_B(y)

/* Weights are on their way while others are multiplied. */
#define DOT_BEGIN                                                                                  \
    "ld4r {v0.2d - v3.2d}, [%[x]], #32\n\t"                                                        \
    "ld1 {v16.16b - v19.16b}, [%[w]], #64\n\t"                                                     \
    "ld1 {v20.16b - v23.16b}, [%[w]], #64\n\t"                                                     \
    "movi v4.4s, #0\n\t"                                                                           \
    "movi v5.4s, #0\n\t"                                                                           \
    "movi v6.4s, #0\n\t"                                                                           \
    "movi v7.4s, #0\n\t"                                                                           \
    "movi %[s0].4s, #0\n\t"                                                                        \
    "movi %[s1].4s, #0\n\t"                                                                        \
    "movi %[s2].4s, #0\n\t"                                                                        \
    "movi %[s3].4s, #0\n\t"
/* Two sums of each row become one. */
#define DOT_END                                                                                    \
    "addp %[s3].4s, %[s2].4s, %[s3].4s\n\t"                                                        \
    "addp %[s2].4s, %[s0].4s, %[s1].4s\n\t"                                                        \
    "addp %[s0].4s, v4.4s, v5.4s\n\t"                                                              \
    "addp %[s1].4s, v6.4s, v7.4s\n\t"

#define DOT_Q4                                                                                     \
    DOT_BEGIN                                                                                      \
    DOT_NIBBLES_A("v0", "v2")                                                                      \
    DOT_LOAD_A DOT_NIBBLES_B("v0", "v2") DOT_LOAD_B DOT_NIBBLES_A("v1", "v3")                      \
        DOT_NIBBLES_B("v1", "v3") DOT_END
#define DOT_Q8                                                                                     \
    DOT_BEGIN                                                                                      \
    DOT_A("v0")                                                                                    \
    DOT_LOAD_A DOT_B("v0") DOT_LOAD_B DOT_A("v1") DOT_LOAD_A DOT_B("v1") DOT_LOAD_B DOT_A("v2")    \
        DOT_LOAD_A DOT_B("v2") DOT_LOAD_B DOT_A("v3") DOT_B("v3") DOT_END

#define DOT_SUMS [s0] "=&w"(sums[0]), [s1] "=&w"(sums[1]), [s2] "=&w"(sums[2]), [s3] "=&w"(sums[3])

KR_INLINE void dot_sums_one(enum kern_wtype wtype, int32x4_t sums[4], const uint8_t **quads,
                            const int8_t **x)
{
    if (wtype == KERN_Q4)
        __asm__ volatile(DOT_Q4
                         : DOT_SUMS, [w] "+r"(*quads), [x] "+r"(*x)
                         : [high] "w"(vdupq_n_u8(0xF0))
                         : "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17",
                           "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27");
    else
        __asm__ volatile(DOT_Q8
                         : DOT_SUMS, [w] "+r"(*quads), [x] "+r"(*x)
                         :
                         : "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17",
                           "v18", "v19", "v20", "v21", "v22", "v23");
}

/* ---- pairs of columns ------------------------------------------------------------------------ */

/* Activations in v0 to v3, dots in v4 to v7.  32 registers: 16 of weights, 4 of scales, these
 * and 4 of sums. */
#define DOT_PAIR_LOAD                                                                              \
    "ld1 {v0.16b - v3.16b}, [%[q]], #64\n\t"                                                       \
    "movi v4.4s, #0\n\t"                                                                           \
    "movi v5.4s, #0\n\t"                                                                           \
    "movi v6.4s, #0\n\t"                                                                           \
    "movi v7.4s, #0\n\t"

/* 8 k of 8 rows. */
#define DOT_8X2(w0, w1, w2, w3, x)                                                                 \
    "smmla v4.4s, %[" w0 "].16b, " x ".16b\n\t"                                                    \
    "smmla v5.4s, %[" w1 "].16b, " x ".16b\n\t"                                                    \
    "smmla v6.4s, %[" w2 "].16b, " x ".16b\n\t"                                                    \
    "smmla v7.4s, %[" w3 "].16b, " x ".16b\n\t"

#define DOT_PAIR_DOTS                                                                              \
    DOT_8X2("a0", "b0", "c0", "d0", "v0")                                                          \
    DOT_8X2("a1", "b1", "c1", "d1", "v1")                                                          \
    DOT_8X2("a2", "b2", "c2", "d2", "v2")                                                          \
    "ld1r {v0.2d}, [%[d]], #8\n\t" /* both scales twice */                                         \
    "ld1 {v16.4s - v19.4s}, [%[sums]]\n\t" DOT_8X2("a3", "b3", "c3", "d3", "v3")

#define DOT_PAIR_SCALE(bits)                                                                       \
    "fmul v1.4s, %[scale0].4s, v0.4s\n\t"                                                          \
    "fmul v2.4s, %[scale1].4s, v0.4s\n\t"                                                          \
    "fmul v3.4s, %[scale2].4s, v0.4s\n\t"                                                          \
    "fmul v0.4s, %[scale3].4s, v0.4s\n\t"                                                          \
    "scvtf v4.4s, v4.4s" bits "\n\t"                                                               \
    "scvtf v5.4s, v5.4s" bits "\n\t"                                                               \
    "scvtf v6.4s, v6.4s" bits "\n\t"                                                               \
    "scvtf v7.4s, v7.4s" bits "\n\t"                                                               \
    "fmla v16.4s, v1.4s, v4.4s\n\t"                                                                \
    "fmla v17.4s, v2.4s, v5.4s\n\t"                                                                \
    "fmla v18.4s, v3.4s, v6.4s\n\t"                                                                \
    "fmla v19.4s, v0.4s, v7.4s\n\t"                                                                \
    "st1 {v16.4s - v19.4s}, [%[sums]], %[step]\n\t"

#define DOT_PAIRS(bits)                                                                            \
    "1: subs %[n], %[n], #1\n\t" DOT_PAIR_LOAD DOT_PAIR_DOTS DOT_PAIR_SCALE(bits) "b.ne 1b\n\t"

#define DOT_PAIR_POINTERS [sums] "+&r"(sums), [q] "+&r"(q), [d] "+&r"(d), [n] "+&r"(n)
#define DOT_PAIR_WEIGHTS                                                                           \
    [a0] "w"(r->w[0][0]), [a1] "w"(r->w[0][1]), [a2] "w"(r->w[0][2]), [a3] "w"(r->w[0][3]),        \
        [b0] "w"(r->w[1][0]), [b1] "w"(r->w[1][1]), [b2] "w"(r->w[1][2]), [b3] "w"(r->w[1][3]),    \
        [c0] "w"(r->w[2][0]), [c1] "w"(r->w[2][1]), [c2] "w"(r->w[2][2]), [c3] "w"(r->w[2][3]),    \
        [d0] "w"(r->w[3][0]), [d1] "w"(r->w[3][1]), [d2] "w"(r->w[3][2]), [d3] "w"(r->w[3][3]),    \
        [scale0] "w"(r->scale[0]), [scale1] "w"(r->scale[1]), [scale2] "w"(r->scale[2]),           \
        [scale3] "w"(r->scale[3])
#define DOT_PAIR_CLOBBERS                                                                          \
    "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19"

KR_INLINE void dot_sums_pairs(enum kern_wtype wtype, float *sums, const struct dot_rows *r,
                              const int8_t *q, const float *d, size_t n)
{
    const size_t step = 2 * PACK_ROWS * sizeof *sums;
    if (n == 0)
        return;
    if (wtype == KERN_Q4)
        __asm__ volatile(DOT_PAIRS(", #4")
                         : DOT_PAIR_POINTERS
                         : DOT_PAIR_WEIGHTS, [step] "r"(step)
                         : DOT_PAIR_CLOBBERS);
    else
        __asm__ volatile(DOT_PAIRS("")
                         : DOT_PAIR_POINTERS
                         : DOT_PAIR_WEIGHTS, [step] "r"(step)
                         : DOT_PAIR_CLOBBERS);
}

#undef DOT_8_A
#undef DOT_8_B
#undef DOT_A
#undef DOT_B
#undef DOT_LOW_A
#undef DOT_LOW_B
#undef DOT_NIBBLES_A
#undef DOT_NIBBLES_B
#undef DOT_BEGIN
#undef DOT_END
#undef DOT_Q4
#undef DOT_Q8
#undef DOT_SUMS
#undef DOT_PAIR_LOAD
#undef DOT_8X2
#undef DOT_PAIR_DOTS
#undef DOT_PAIR_SCALE
#undef DOT_PAIRS
#undef DOT_PAIR_POINTERS
#undef DOT_PAIR_WEIGHTS
#undef DOT_PAIR_CLOBBERS

#endif
