/* sse2/asm/dot_sums.h - the inner loop of sse2/dot_sums.h in assembly (ASM=1): same bits.
 *
 * Each register has its place, and a broadcast is given up to its last use instead of copied.
 * SPDX-License-Identifier: MIT */
#ifndef SSE2_DOT_SUMS_H
#define SSE2_DOT_SUMS_H

/* Four rows: the even words of their weights at `at`, the odd ones 512 bytes on, times the even and
 * odd activations in xmm13 and xmm14. */
#define DOT_ROWS(row, at, x, y)                                                                    \
    "movdqa %%xmm14, " x "\n\t"                                                                    \
    "movdqa %%xmm13, " y "\n\t" DOT_LAST_ROWS(row, at, x, y)

/* The same where x, y are the activations themselves. */
#define DOT_LAST_ROWS(row, at, x, y)                                                               \
    "paddw " at "(%[w]), " x "\n\t"                                                                \
    "paddw 512+" at "(%[w]), " y "\n\t"                                                            \
    "pmaddwd " x ", " y "\n\t"                                                                     \
    "paddd " y ", %[" row "]\n\t"

/* Quad z, 0 or 1, of two. */
#define DOT_QUAD(z, even, odd)                                                                     \
    "pshufd $" even ", %%xmm15, %%xmm13\n\t"                                                       \
    "pshufd $" odd ", %%xmm15, %%xmm14\n\t" DOT_ROWS("row0", "64*" z, "%%xmm9", "%%xmm10")         \
        DOT_ROWS("row1", "64*" z "+16", "%%xmm11", "%%xmm12")                                      \
            DOT_ROWS("row2", "64*" z "+32", "%%xmm9", "%%xmm10")                                   \
                DOT_LAST_ROWS("row3", "64*" z "+48", "%%xmm14", "%%xmm13")

KR_INLINE struct dot_sums dot_sums_words(const struct dot_words *u, const int16_t *x,
                                         const int32_t *cross)
{
    struct dot_sums s;
    KR_UNROLL
    for (int i = 0; i < 4; i++)
        s.row[i] = _mm_add_epi32(_mm_set1_epi32(*cross), dot_load(u->cross + 4 * i));
    KR_UNROLL
    for (int z = 0; z < 8; z += 2)
        __asm__("movdqa (%[x]), %%xmm15\n\t" DOT_QUAD("0", "0x00", "0x55")
                    DOT_QUAD("1", "0xAA", "0xFF")
                : [row0] "+x"(s.row[0]), [row1] "+x"(s.row[1]), [row2] "+x"(s.row[2]),
                  [row3] "+x"(s.row[3])
                : [w] "r"(u->even[z]), [x] "r"(x + 4 * z), "m"(*u),
                  "m"(*(const int16_t(*)[KERN_BLOCK])x)
                : "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    return s;
}

#undef DOT_ROWS
#undef DOT_LAST_ROWS
#undef DOT_QUAD

#endif
