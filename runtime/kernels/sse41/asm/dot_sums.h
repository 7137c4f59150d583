/* sse41/asm/dot_sums.h - the inner loops of sse41/dot_sums.h in assembly (ASM=1): same bits.
 *
 * Two columns share a load of the weights: 8 sums, 2 broadcasts and twice 2 products of 16 xmm.
 * SPDX-License-Identifier: MIT */
#ifndef DOT_SUMS_H
#define DOT_SUMS_H

#include "../../sse2/asm/dot_sums.h"

/* Four rows of the weights at `at` and both columns, xmm14 and xmm15. */
#define DOT_ROWS(row, at, x, y)                                                                    \
    "movdqa " at "(%[w]), " x "\n\t"                                                               \
    "movdqa " x ", " y "\n\t"                                                                      \
    "pmaddubsw %%xmm14, " x "\n\t"                                                                 \
    "pmaddubsw %%xmm15, " y "\n\t"                                                                 \
    "paddw " x ", %[x" row "]\n\t"                                                                 \
    "paddw " y ", %[y" row "]\n\t"

#define DOT_STEP(z, from, lane)                                                                    \
    "pshufd $" lane ", " from "(%[x]), %%xmm14\n\t"                                                \
    "pshufd $" lane ", 32+" from "(%[x]), %%xmm15\n\t" DOT_ROWS("0", "64*" z, "%%xmm8", "%%xmm9")  \
        DOT_ROWS("1", "64*" z "+16", "%%xmm10", "%%xmm11")                                         \
            DOT_ROWS("2", "64*" z "+32", "%%xmm8", "%%xmm9")                                       \
                DOT_ROWS("3", "64*" z "+48", "%%xmm10", "%%xmm11")

KR_INLINE void dot_sums_bytes(struct dot_sums s[2], const struct dot_bytes *u, const int8_t *x,
                              const int32_t *start)
{
    KR_UNROLL
    for (int c = 0; c < 2; c++)
        s[c].row[0] = s[c].row[1] = s[c].row[2] = s[c].row[3] = _mm_set1_epi32(start[c]);
    __asm__(DOT_STEP("0", "0", "0x00") DOT_STEP("1", "0", "0x55") DOT_STEP("2", "0", "0xAA")
                DOT_STEP("3", "0", "0xFF") DOT_STEP("4", "16", "0x00") DOT_STEP("5", "16", "0x55")
                    DOT_STEP("6", "16", "0xAA") DOT_STEP("7", "16", "0xFF")
            : [x0] "+x"(s[0].row[0]), [x1] "+x"(s[0].row[1]), [x2] "+x"(s[0].row[2]),
              [x3] "+x"(s[0].row[3]), [y0] "+x"(s[1].row[0]), [y1] "+x"(s[1].row[1]),
              [y2] "+x"(s[1].row[2]), [y3] "+x"(s[1].row[3])
            : [w] "r"(u), [x] "r"(x), "m"(*u), "m"(*(const int8_t(*)[2 * KERN_BLOCK]) x)
            : "xmm8", "xmm9", "xmm10", "xmm11", "xmm14", "xmm15");
    const __m128i one = _mm_set1_epi16(1);
    KR_UNROLL
    for (int i = 0; i < 4; i++) {
        s[0].row[i] = _mm_madd_epi16(s[0].row[i], one);
        s[1].row[i] = _mm_madd_epi16(s[1].row[i], one);
    }
}

#undef DOT_ROWS
#undef DOT_STEP

#endif
