/* avx2/asm/dot_sums.h - the inner loops of avx2/dot_sums.h in assembly (ASM=1): same bits.
 *
 * gcc loads weights again at each use or keeps sums in memory; here each of the 16 registers has
 * its place.  dot_sums_q8 makes two products with one multiplication (S. Winograd, "A new algorithm
 * for inner product", 1968):
 *
 *     (w0 + a1) * (w1 + a0) = w0*a0 + w1*a1 + w0*w1 + a0*a1
 *
 * The last two terms belong to the row and to the column alone: the sums start at minus them
 * (DOT_CROSS).  Additions have twice as many ports as multiplications.
 * SPDX-License-Identifier: MIT */
#ifndef DOT_SUMS_H
#define DOT_SUMS_H

enum { DOT_CROSS = 1 }; /* dot_sums_q8 uses the cross sums */

/* One column gains its products with the four bytes at x, two to a word. */
KR_INLINE void dot_step_q4(__m256i *lo, __m256i *hi, __m256i w_lo, __m256i w_hi, const int8_t *x)
{
    __m256i v, product;
    __asm__("vpbroadcastd %[x], %[v]\n\t"
            "vpmaddubsw %[v], %[w_lo], %[product]\n\t"
            "vpmaddubsw %[v], %[w_hi], %[v]\n\t"
            "vpaddw %[product], %[lo], %[lo]\n\t"
            "vpaddw %[v], %[hi], %[hi]"
            : [lo] "+x"(*lo), [hi] "+x"(*hi), [v] "=&x"(v), [product] "=&x"(product)
            : [w_lo] "x"(w_lo), [w_hi] "x"(w_hi), [x] "m"(*(const int8_t(*)[4])x));
}

KR_INLINE void dot_sums_q4(__m256i lo[TILE_COLS], __m256i hi[TILE_COLS],
                           const struct dot_weights *u, const struct dot_acts *a, size_t at)
{
    const int8_t *x = a->q + KERN_BLOCK * at;
    KR_UNROLL
    for (int c = 0; c < TILE_COLS; c++)
        lo[c] = hi[c] = dot_broadcast(a->start + at + c);
    KR_UNROLL
    for (int z = 0; z < 8; z++) {
        const __m256i w_lo = dot_load(u->step[z]), w_hi = dot_load(u->step[z] + 32);
        KR_UNROLL
        for (int c = 0; c < TILE_COLS; c++)
            dot_step_q4(lo + c, hi + c, w_lo, w_hi, x + KERN_BLOCK * c + 4 * z);
    }
}

/* Column c, whose words begin at x + at, times 4 words of k: even weights in ymm8, ymm9 (rows 0-7,
 * 8-15), odd ones in ymm10, ymm11. */
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

KR_INLINE void dot_sums_q8(__m256i lo[TILE_COLS], __m256i hi[TILE_COLS],
                           const struct dot_weights *u, const struct dot_acts *a, size_t at)
{
    const int16_t *x = a->wide + KERN_BLOCK * at;
    const __m256i row_lo = dot_load(u->cross), row_hi = dot_load(u->cross + 8);
    KR_UNROLL
    for (int c = 0; c < TILE_COLS; c++) {
        const __m256i column = dot_broadcast(a->cross + at + c);
        lo[c] = _mm256_add_epi32(column, row_lo);
        hi[c] = _mm256_add_epi32(column, row_hi);
    }
    KR_UNROLL
    for (int z = 0; z < 8; z++)
        __asm__("vmovdqa (%[w]), %%ymm8\n\t"
                "vmovdqa 32(%[w]), %%ymm9\n\t"
                "vmovdqa 64(%[w]), %%ymm10\n\t"
                "vmovdqa 96(%[w]), %%ymm11\n\t" DOT_Q8_COLUMN("0", "0") DOT_Q8_COLUMN("1", "64")
                    DOT_Q8_COLUMN("2", "128") DOT_Q8_COLUMN("3", "192")
                : [lo0] "+x"(lo[0]), [lo1] "+x"(lo[1]), [lo2] "+x"(lo[2]), [lo3] "+x"(lo[3]),
                  [hi0] "+x"(hi[0]), [hi1] "+x"(hi[1]), [hi2] "+x"(hi[2]), [hi3] "+x"(hi[3])
                : [w] "r"(u->step[2 * z]), [x] "r"(x + 4 * z), "m"(*u),
                  "m"(*(const int16_t(*)[TILE_COLS * KERN_BLOCK]) x)
                : "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

#undef DOT_Q8_COLUMN

#endif
