/* neon_dotprod/asm/dot_sums.h - the inner loops of neon_dotprod/dot_sums.h in assembly (ASM=1): same
 * bits.
 *
 * Compilers move loads up until registers run out, and copy sums.  Here each register has its
 * place, and little waits for what stands just before it, for cores that keep the order.
 * SPDX-License-Identifier: MIT */
#ifndef DOT_SUMS_H
#define DOT_SUMS_H

#include "asm_arm.h"

/* ---- one column ---------------------------------------------------------------------------- */

/* Activations in v0, v1; 64 bytes of weights, k = 4z..4z+3 of 16 rows, go to four registers from v16
 * or v20 on. */
/* Four registers of weights times a lane of x. */
#define DOT_16(w0, w1, w2, w3, x)                                                                  \
    "sdot %[s0].4s, " w0 ".16b, " x "\n\t"                                                         \
    "sdot %[s1].4s, " w1 ".16b, " x "\n\t"                                                         \
    "sdot %[s2].4s, " w2 ".16b, " x "\n\t"                                                         \
    "sdot %[s3].4s, " w3 ".16b, " x "\n\t"

#define DOT_A(x) DOT_16("v16", "v17", "v18", "v19", x)
#define DOT_B(x) DOT_16("v20", "v21", "v22", "v23", x)
#define DOT_LOW(x) DOT_16("v24", "v25", "v26", "v27", x)

#define DOT_NIBBLES_A(z)                                                                           \
    DOT_SPLIT("v16", "v17", "v18", "v19") DOT_LOW("v0.4b[" z "]") DOT_A("v1.4b[" z "]")
#define DOT_NIBBLES_B(z)                                                                           \
    DOT_SPLIT("v20", "v21", "v22", "v23") DOT_LOW("v0.4b[" z "]") DOT_B("v1.4b[" z "]")

/* Weights are on their way while others are multiplied. */
#define DOT_BEGIN                                                                                  \
    "ld1 {v0.16b - v1.16b}, [%[x]], #32\n\t"                                                       \
    "ld1 {v16.16b - v19.16b}, [%[w]], #64\n\t"                                                     \
    "ld1 {v20.16b - v23.16b}, [%[w]], #64\n\t"                                                     \
    "movi %[s0].4s, #0\n\t"                                                                        \
    "movi %[s1].4s, #0\n\t"                                                                        \
    "movi %[s2].4s, #0\n\t"                                                                        \
    "movi %[s3].4s, #0\n\t"
#define DOT_Q4                                                                                     \
    DOT_BEGIN                                                                                      \
    DOT_NIBBLES_A("0")                                                                             \
    DOT_LOAD_A DOT_NIBBLES_B("1") DOT_LOAD_B DOT_NIBBLES_A("2") DOT_NIBBLES_B("3")
#define DOT_Q8                                                                                     \
    DOT_BEGIN                                                                                      \
    DOT_A("v0.4b[0]")                                                                              \
    DOT_LOAD_A DOT_B("v0.4b[1]") DOT_LOAD_B DOT_A("v0.4b[2]") DOT_LOAD_A DOT_B("v0.4b[3]")         \
        DOT_LOAD_B DOT_A("v1.4b[0]") DOT_LOAD_A DOT_B("v1.4b[1]") DOT_LOAD_B DOT_A("v1.4b[2]")     \
            DOT_B("v1.4b[3]")

#define DOT_SUMS [s0] "=&w"(sums[0]), [s1] "=&w"(sums[1]), [s2] "=&w"(sums[2]), [s3] "=&w"(sums[3])

KR_INLINE void dot_sums_one(enum kern_wtype wtype, int32x4_t sums[4], const uint8_t **quads,
                            const int8_t **x)
{
    if (wtype == KERN_Q4)
        __asm__ volatile(DOT_Q4
                         : DOT_SUMS, [w] "+r"(*quads), [x] "+r"(*x)
                         : [high] "w"(vdupq_n_u8(0xF0))
                         : "memory", "v0", "v1", "v16", "v17", "v18", "v19", "v20", "v21", "v22",
                           "v23", "v24", "v25", "v26", "v27");
    else
        __asm__ volatile(DOT_Q8
                         : DOT_SUMS, [w] "+r"(*quads), [x] "+r"(*x)
                         :
                         : "memory", "v0", "v1", "v16", "v17", "v18", "v19", "v20", "v21", "v22",
                           "v23");
}

/* ---- pairs of columns ------------------------------------------------------------------------ */

/* Activations in v0, v1 and v2, v3; dots in v4, v5 and v6, v7; scales in v12. */
#define DOT_PAIR_LOAD                                                                              \
    "ld1 {v0.16b - v3.16b}, [%[q]], #64\n\t"                                                       \
    "ldr d12, [%[d]], #8\n\t"                                                                      \
    "movi v4.4s, #0\n\t"                                                                           \
    "movi v5.4s, #0\n\t"                                                                           \
    "movi v6.4s, #0\n\t"                                                                           \
    "movi v7.4s, #0\n\t"

/* k = 4z..4z+3 of 8 rows and two columns. */
#define DOT_8X2(z, x, y)                                                                           \
    "sdot v4.4s, %[l" z "].16b, " x "\n\t"                                                         \
    "sdot v5.4s, %[h" z "].16b, " x "\n\t"                                                         \
    "sdot v6.4s, %[l" z "].16b, " y "\n\t"                                                         \
    "sdot v7.4s, %[h" z "].16b, " y "\n\t"

#define DOT_PAIR_LOW                                                                               \
    DOT_8X2("0", "v0.4b[0]", "v2.4b[0]")                                                           \
    DOT_8X2("1", "v0.4b[1]", "v2.4b[1]")                                                           \
    DOT_8X2("2", "v0.4b[2]", "v2.4b[2]")                                                           \
    DOT_8X2("3", "v0.4b[3]", "v2.4b[3]")
#define DOT_PAIR_HIGH                                                                              \
    DOT_8X2("4", "v1.4b[0]", "v3.4b[0]")                                                           \
    DOT_8X2("5", "v1.4b[1]", "v3.4b[1]")                                                           \
    DOT_8X2("6", "v1.4b[2]", "v3.4b[2]")                                                           \
    DOT_8X2("7", "v1.4b[3]", "v3.4b[3]")

#define DOT_PAIR_SUMS                                                                              \
    "ldp q8, q9, [%[sums]]\n\t"                                                                    \
    "ldp q10, q11, [%[sums], #64]\n\t"

#define DOT_PAIR_SCALE(bits)                                                                       \
    "fmul v0.4s, %[scale0].4s, v12.s[0]\n\t"                                                       \
    "fmul v1.4s, %[scale1].4s, v12.s[0]\n\t"                                                       \
    "fmul v2.4s, %[scale0].4s, v12.s[1]\n\t"                                                       \
    "fmul v3.4s, %[scale1].4s, v12.s[1]\n\t"                                                       \
    "scvtf v4.4s, v4.4s" bits "\n\t"                                                               \
    "scvtf v5.4s, v5.4s" bits "\n\t"                                                               \
    "scvtf v6.4s, v6.4s" bits "\n\t"                                                               \
    "scvtf v7.4s, v7.4s" bits "\n\t"                                                               \
    "fmla v8.4s, v0.4s, v4.4s\n\t"                                                                 \
    "fmla v9.4s, v1.4s, v5.4s\n\t"                                                                 \
    "fmla v10.4s, v2.4s, v6.4s\n\t"                                                                \
    "fmla v11.4s, v3.4s, v7.4s\n\t"                                                                \
    "stp q10, q11, [%[sums], #64]\n\t"                                                             \
    "stp q8, q9, [%[sums]], #128\n\t"

#define DOT_PAIRS(bits)                                                                            \
    "1: subs %[n], %[n], #2\n\t" DOT_PAIR_LOAD DOT_PAIR_LOW DOT_PAIR_SUMS DOT_PAIR_HIGH            \
    DOT_PAIR_SCALE(bits) "b.ne 1b\n\t"

#define DOT_PAIR_WEIGHTS                                                                           \
    [l0] "w"(r->w[0][0]), [l1] "w"(r->w[0][1]), [l2] "w"(r->w[0][2]), [l3] "w"(r->w[0][3]),        \
        [l4] "w"(r->w[0][4]), [l5] "w"(r->w[0][5]), [l6] "w"(r->w[0][6]), [l7] "w"(r->w[0][7]),    \
        [h0] "w"(r->w[1][0]), [h1] "w"(r->w[1][1]), [h2] "w"(r->w[1][2]), [h3] "w"(r->w[1][3]),    \
        [h4] "w"(r->w[1][4]), [h5] "w"(r->w[1][5]), [h6] "w"(r->w[1][6]), [h7] "w"(r->w[1][7]),    \
        [scale0] "w"(r->scale[0]), [scale1] "w"(r->scale[1])
#define DOT_PAIR_CLOBBERS                                                                          \
    "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12"

KR_INLINE void dot_sums_pairs(enum kern_wtype wtype, float *sums, const struct dot_rows *r,
                              const int8_t *q, const float *d, size_t n)
{
    if (n == 0)
        return;
    if (wtype == KERN_Q4)
        __asm__ volatile(DOT_PAIRS(", #4")
                         : [sums] "+r"(sums), [q] "+r"(q), [d] "+r"(d), [n] "+r"(n)
                         : DOT_PAIR_WEIGHTS
                         : DOT_PAIR_CLOBBERS);
    else
        __asm__ volatile(DOT_PAIRS("")
                         : [sums] "+r"(sums), [q] "+r"(q), [d] "+r"(d), [n] "+r"(n)
                         : DOT_PAIR_WEIGHTS
                         : DOT_PAIR_CLOBBERS);
}

#undef DOT_16
#undef DOT_A
#undef DOT_B
#undef DOT_LOW
#undef DOT_NIBBLES_A
#undef DOT_NIBBLES_B
#undef DOT_BEGIN
#undef DOT_Q4
#undef DOT_Q8
#undef DOT_SUMS
#undef DOT_PAIR_LOAD
#undef DOT_8X2
#undef DOT_PAIR_LOW
#undef DOT_PAIR_HIGH
#undef DOT_PAIR_SUMS
#undef DOT_PAIR_SCALE
#undef DOT_PAIRS
#undef DOT_PAIR_WEIGHTS
#undef DOT_PAIR_CLOBBERS

#endif
