/* avx2/dot_sums.h - the inner loops of many columns: exact dots of one unpacked block with
 * TILE_COLS columns.  asm/dot_sums.h is the same in assembly; the build chooses (ASM=1).
 * SPDX-License-Identifier: MIT */
#ifndef DOT_SUMS_H
#define DOT_SUMS_H

enum { DOT_CROSS = 0 }; /* no use for the cross sums */

/* lo[c], hi[c] (rows 0-7, 8-15) = dots of the block with column at + c, two words to a lane. */
KR_INLINE void dot_sums_q4(__m256i lo[TILE_COLS], __m256i hi[TILE_COLS],
                           const struct dot_weights *u, const struct dot_acts *a, size_t at)
{
    const int8_t *x = a->q + KERN_BLOCK * at;
    KR_UNROLL
    for (int c = 0; c < TILE_COLS; c++)
        lo[c] = hi[c] = dot_broadcast(a->start + at + c);
    KR_UNROLL_BY_2
    for (int z = 0; z < 8; z++) {
        const __m256i w_lo = dot_load(u->step[z]), w_hi = dot_load(u->step[z] + 32);
        KR_UNROLL
        for (int c = 0; c < TILE_COLS; c++) {
            const __m256i v = dot_broadcast(x + KERN_BLOCK * c + 4 * z);
            lo[c] = _mm256_add_epi16(lo[c], _mm256_maddubs_epi16(w_lo, v));
            hi[c] = _mm256_add_epi16(hi[c], _mm256_maddubs_epi16(w_hi, v));
        }
    }
}

/* The same for Q8, one number to a lane. */
KR_INLINE void dot_sums_q8(__m256i lo[TILE_COLS], __m256i hi[TILE_COLS],
                           const struct dot_weights *u, const struct dot_acts *a, size_t at)
{
    const int16_t *x = a->wide + KERN_BLOCK * at;
    KR_UNROLL
    for (int c = 0; c < TILE_COLS; c++)
        lo[c] = hi[c] = _mm256_setzero_si256();
    KR_UNROLL_BY_2
    for (int z = 0; z < 16; z++) {
        const __m256i w_lo = dot_load(u->step[z]), w_hi = dot_load(u->step[z] + 32);
        KR_UNROLL
        for (int c = 0; c < TILE_COLS; c++) {
            const __m256i v = dot_broadcast(x + KERN_BLOCK * c + 2 * z);
            lo[c] = _mm256_add_epi32(lo[c], _mm256_madd_epi16(w_lo, v));
            hi[c] = _mm256_add_epi32(hi[c], _mm256_madd_epi16(w_hi, v));
        }
    }
}

#endif
