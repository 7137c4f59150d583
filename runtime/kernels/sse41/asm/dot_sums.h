/* sse41/asm/dot_sums.h - the inner loops of sse41/dot_sums.h in assembly (ASM=1): same bits.
 *
 * Each register has its place: up to 8 sums, 2 broadcasts and twice 2 products of 16 xmm.
 * SPDX-License-Identifier: MIT */
#ifndef DOT_SUMS_H
#define DOT_SUMS_H

#include "../../sse2/asm/dot_sums.h"

/* Four rows at `at` times both factors. */
#define DOT_ROWS(row, at, x, y)                                                                    \
    "movdqa " at "(%[w]), " x "\n\t"                                                               \
    "movdqa " x ", " y "\n\t"                                                                      \
    "pmaddubsw %%xmm14, " x "\n\t"                                                                 \
    "pmaddubsw %%xmm15, " y "\n\t"                                                                 \
    "paddw " x ", %[s" row "]\n\t"                                                                 \
    "paddw " y ", %[t" row "]\n\t"

/* A step of 16 rows: the factors are a lane of 16 bytes of x and of y. */
#define DOT_STEP(z, lane)                                                                          \
    "pshufd $" lane ", (%[x]), %%xmm14\n\t"                                                        \
    "pshufd $" lane ", (%[y]), %%xmm15\n\t" DOT_ROWS("0", "64*" z, "%%xmm8", "%%xmm9")             \
        DOT_ROWS("1", "64*" z "+16", "%%xmm10", "%%xmm11")                                         \
            DOT_ROWS("2", "64*" z "+32", "%%xmm8", "%%xmm9")                                       \
                DOT_ROWS("3", "64*" z "+48", "%%xmm10", "%%xmm11")

KR_INLINE void dot_two(struct dot_sums *s, struct dot_sums *t, const uint8_t *w, const int8_t *x,
                       const int8_t *y)
{
    __m128i s0 = s->row[0], s1 = s->row[1], s2 = s->row[2], s3 = s->row[3];
    __m128i t0 = t->row[0], t1 = t->row[1], t2 = t->row[2], t3 = t->row[3];
    KR_UNROLL
    for (int i = 0; i < KERN_BLOCK; i += 16)
        __asm__(
            DOT_STEP("0", "0x00") DOT_STEP("1", "0x55") DOT_STEP("2", "0xAA") DOT_STEP("3", "0xFF")
            : [s0] "+x"(s0), [s1] "+x"(s1), [s2] "+x"(s2), [s3] "+x"(s3), [t0] "+x"(t0),
              [t1] "+x"(t1), [t2] "+x"(t2), [t3] "+x"(t3)
            : [w] "r"(w + 16 * i), [x] "r"(x + i), [y] "r"(y + i), "m"(*(const uint8_t(*)[512])w),
              "m"(*(const int8_t(*)[KERN_BLOCK])x), "m"(*(const int8_t(*)[KERN_BLOCK])y)
            : "xmm8", "xmm9", "xmm10", "xmm11", "xmm14", "xmm15");
    *s = (struct dot_sums){{s0, s1, s2, s3}};
    *t = (struct dot_sums){{t0, t1, t2, t3}};
}

/* Four rows at `at`: low nibbles times xmm14, high ones times xmm15. */
#define DOT_NIBBLE_ROWS(row, at, x, y)                                                             \
    "movdqa " at "(%[w]), " x "\n\t"                                                               \
    "movdqa " x ", " y "\n\t"                                                                      \
    "psrlw $4, " y "\n\t"                                                                          \
    "pand %[nibble], " x "\n\t"                                                                    \
    "pand %[nibble], " y "\n\t"                                                                    \
    "pmaddubsw %%xmm14, " x "\n\t"                                                                 \
    "pmaddubsw %%xmm15, " y "\n\t"                                                                 \
    "paddw " x ", %[s" row "]\n\t"                                                                 \
    "paddw " y ", %[s" row "]\n\t"

#define DOT_NIBBLE_QUAD(z, lane)                                                                   \
    "pshufd $" lane ", (%[x]), %%xmm14\n\t"                                                        \
    "pshufd $" lane ", 16(%[x]), %%xmm15\n\t" DOT_NIBBLE_ROWS("0", "64*" z, "%%xmm8", "%%xmm9")    \
        DOT_NIBBLE_ROWS("1", "64*" z "+16", "%%xmm10", "%%xmm11")                                  \
            DOT_NIBBLE_ROWS("2", "64*" z "+32", "%%xmm8", "%%xmm9")                                \
                DOT_NIBBLE_ROWS("3", "64*" z "+48", "%%xmm10", "%%xmm11")

KR_INLINE void dot_nibbles(struct dot_sums *s, const uint8_t *quads, const int8_t *x)
{
    const __m128i nibble = _mm_set1_epi8(15);
    __m128i s0 = s->row[0], s1 = s->row[1], s2 = s->row[2], s3 = s->row[3];
    __asm__(DOT_NIBBLE_QUAD("0", "0x00") DOT_NIBBLE_QUAD("1", "0x55") DOT_NIBBLE_QUAD("2", "0xAA")
                DOT_NIBBLE_QUAD("3", "0xFF")
            : [s0] "+&x"(s0), [s1] "+&x"(s1), [s2] "+&x"(s2), [s3] "+&x"(s3)
            : [w] "r"(quads), [x] "r"(x), [nibble] "x"(nibble), "m"(*(const uint8_t(*)[256])quads),
              "m"(*(const int8_t(*)[KERN_BLOCK])x)
            : "xmm8", "xmm9", "xmm10", "xmm11", "xmm14", "xmm15");
    *s = (struct dot_sums){{s0, s1, s2, s3}};
}

#undef DOT_ROWS
#undef DOT_STEP
#undef DOT_NIBBLE_ROWS
#undef DOT_NIBBLE_QUAD

#endif
