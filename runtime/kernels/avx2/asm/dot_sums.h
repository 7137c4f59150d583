/* avx2/asm/dot_sums.h - the inner loops of avx2/dot_sums.h in assembly (ASM=1): same bits.
 *
 * gcc loads weights again at each use or keeps sums in memory; here each of the 16 registers has
 * its place.  dot_sums_q8 makes two products with one multiplication (S. Winograd, "A new algorithm
 * for inner product", 1968):
 *
 *     (w0 + a1) * (w1 + a0) = w0*a0 + w1*a1 + w0*w1 + a0*a1
 *
 * The last two terms belong to the row and to the column alone: the sums start at minus them.
 * Additions have twice as many ports as multiplications.
 * SPDX-License-Identifier: MIT */
#ifndef DOT_SUMS_H
#define DOT_SUMS_H

/* sum of column `c`: two halves of the rows, in ymm c and ymm 4 + c. */
#define DOT_SUMS                                                                                   \
    [lo0] "+x"(lo[0]), [lo1] "+x"(lo[1]), [lo2] "+x"(lo[2]), [lo3] "+x"(lo[3]), [hi0] "+x"(hi[0]), \
        [hi1] "+x"(hi[1]), [hi2] "+x"(hi[2]), [hi3] "+x"(hi[3])

/* One column times 4 bytes of k: weights in ymm8 (rows 0-7) and ymm9 (rows 8-15). */
#define DOT_Q4_COLUMN(c, at)                                                                       \
    "vpbroadcastd " at "(%[x]), %%ymm10\n\t"                                                       \
    "vpmaddubsw %%ymm10, %%ymm8, %%ymm11\n\t"                                                      \
    "vpmaddubsw %%ymm10, %%ymm9, %%ymm10\n\t"                                                      \
    "vpaddw %%ymm11, %[lo" c "], %[lo" c "]\n\t"                                                   \
    "vpaddw %%ymm10, %[hi" c "], %[hi" c "]\n\t"

#define DOT_Q4_STEP(z)                                                                             \
    "vmovdqa 64*" z "(%[w]), %%ymm8\n\t"                                                           \
    "vmovdqa 64*" z "+32(%[w]), %%ymm9\n\t" DOT_Q4_COLUMN("0", "4*" z)                             \
        DOT_Q4_COLUMN("1", "32+4*" z) DOT_Q4_COLUMN("2", "64+4*" z) DOT_Q4_COLUMN("3", "96+4*" z)

KR_INLINE void dot_sums_q4(__m256i lo[TILE_COLS], __m256i hi[TILE_COLS],
                           const struct dot_weights *u, const struct dot_acts *a, size_t at)
{
    for (int c = 0; c < TILE_COLS; c++)
        lo[c] = hi[c] = dot_broadcast(a->start + at + c);
    __asm__(DOT_Q4_STEP("0") DOT_Q4_STEP("1") DOT_Q4_STEP("2") DOT_Q4_STEP("3") DOT_Q4_STEP("4")
                DOT_Q4_STEP("5") DOT_Q4_STEP("6") DOT_Q4_STEP("7")
            : DOT_SUMS
            : [w] "r"(u->step), [x] "r"(a->q + KERN_BLOCK * at), "m"(*u)
            : "xmm8", "xmm9", "xmm10", "xmm11", "memory");
}

/* One column times 4 words of k: even weights in ymm8, ymm9, odd ones in ymm10, ymm11. */
#define DOT_Q8_COLUMN(c, at)                                                                       \
    "vpbroadcastd " at "(%[x]), %%ymm12\n\t"                                                       \
    "vpbroadcastd 4+" at "(%[x]), %%ymm13\n\t"                                                     \
    "vpaddw %%ymm13, %%ymm8, %%ymm14\n\t"                                                          \
    "vpaddw %%ymm12, %%ymm10, %%ymm15\n\t"                                                         \
    "vpaddw %%ymm13, %%ymm9, %%ymm13\n\t"                                                          \
    "vpaddw %%ymm12, %%ymm11, %%ymm12\n\t"                                                         \
    "vpmaddwd %%ymm14, %%ymm15, %%ymm14\n\t"                                                       \
    "vpmaddwd %%ymm13, %%ymm12, %%ymm12\n\t"                                                       \
    "vpaddd %%ymm14, %[lo" c "], %[lo" c "]\n\t"                                                   \
    "vpaddd %%ymm12, %[hi" c "], %[hi" c "]\n\t"

#define DOT_Q8_STEP(z)                                                                             \
    "vmovdqa 128*" z "(%[w]), %%ymm8\n\t"                                                          \
    "vmovdqa 128*" z "+32(%[w]), %%ymm9\n\t"                                                       \
    "vmovdqa 128*" z "+64(%[w]), %%ymm10\n\t"                                                      \
    "vmovdqa 128*" z "+96(%[w]), %%ymm11\n\t" DOT_Q8_COLUMN("0", "8*" z)                           \
        DOT_Q8_COLUMN("1", "64+8*" z) DOT_Q8_COLUMN("2", "128+8*" z)                               \
            DOT_Q8_COLUMN("3", "192+8*" z)

KR_INLINE void dot_sums_q8(__m256i lo[TILE_COLS], __m256i hi[TILE_COLS],
                           const struct dot_weights *u, const struct dot_acts *a, size_t at)
{
    const __m256i row_lo = dot_load(u->cross), row_hi = dot_load(u->cross + 8);
    for (int c = 0; c < TILE_COLS; c++) {
        const __m256i column = dot_broadcast(a->cross + at + c);
        lo[c] = _mm256_add_epi32(column, row_lo);
        hi[c] = _mm256_add_epi32(column, row_hi);
    }
    __asm__(DOT_Q8_STEP("0") DOT_Q8_STEP("1") DOT_Q8_STEP("2") DOT_Q8_STEP("3") DOT_Q8_STEP("4")
                DOT_Q8_STEP("5") DOT_Q8_STEP("6") DOT_Q8_STEP("7")
            : DOT_SUMS
            : [w] "r"(u->step), [x] "r"(a->wide + KERN_BLOCK * at), "m"(*u)
            : "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory");
}

#undef DOT_SUMS
#undef DOT_Q4_COLUMN
#undef DOT_Q4_STEP
#undef DOT_Q8_COLUMN
#undef DOT_Q8_STEP

#endif
