/* sse2/dot_sums.h - the inner loop of many columns: exact dots of one unpacked block with a column.
 * asm/dot_sums.h is the same in assembly; the build chooses (ASM=1).
 *
 * One multiplication makes two products (S. Winograd, "A new algorithm for inner product", 1968):
 *
 *     (w0 + a1) * (w1 + a0) = w0*a0 + w1*a1 + w0*w1 + a0*a1
 *
 * The last two terms belong to the row and to the column alone: the sums start at minus them.
 * Additions have twice as many ports as multiplications.
 * SPDX-License-Identifier: MIT */
#ifndef SSE2_DOT_SUMS_H
#define SSE2_DOT_SUMS_H

/* One quad of 16 rows and a column. */
KR_INLINE void dot_words_quad(struct dot_sums *s, const int16_t *w_even, const int16_t *w_odd,
                              __m128i even, __m128i odd)
{
    KR_UNROLL
    for (int i = 0; i < 4; i++) {
        const __m128i x = _mm_add_epi16(odd, dot_load(w_even + 8 * i));
        const __m128i y = _mm_add_epi16(even, dot_load(w_odd + 8 * i));
        s->row[i] = _mm_add_epi32(s->row[i], _mm_madd_epi16(x, y));
    }
}

/* Dots of the block with the column x[32], whose part is cross (words_from_bytes). */
KR_INLINE struct dot_sums dot_sums_words(const struct dot_words *u, const int16_t *x,
                                         const int32_t *cross)
{
    struct dot_sums s;
    KR_UNROLL
    for (int i = 0; i < 4; i++)
        s.row[i] = _mm_add_epi32(_mm_set1_epi32(*cross), dot_load(u->cross + 4 * i));
    KR_UNROLL_BY_2
    for (int z = 0; z < 8; z += 2) {
        const __m128i v = dot_load(x + 4 * z);
        dot_words_quad(&s, u->even[z], u->odd[z], _mm_shuffle_epi32(v, 0x00),
                       _mm_shuffle_epi32(v, 0x55));
        dot_words_quad(&s, u->even[z + 1], u->odd[z + 1], _mm_shuffle_epi32(v, 0xAA),
                       _mm_shuffle_epi32(v, 0xFF));
    }
    return s;
}

#endif
