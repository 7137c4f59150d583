/* sse41/dot_sums.h - the inner loops of many columns: exact dots of one unpacked block with two
 * columns (Q4, bytes) or one (Q8, the words of sse2).  asm/dot_sums.h is the same in assembly; the
 * build chooses (ASM=1).
 * SPDX-License-Identifier: MIT */
#ifndef DOT_SUMS_H
#define DOT_SUMS_H

#include "../sse2/dot_sums.h"

/* A step of 16 rows and two columns, whose bytes are in every lane of x and y. */
KR_INLINE void dot_bytes_step(struct dot_sums s[2], const uint8_t *step, __m128i x, __m128i y)
{
    KR_UNROLL
    for (int i = 0; i < 4; i++) {
        const __m128i w = dot_load(step + 16 * i);
        s[0].row[i] = _mm_add_epi16(s[0].row[i], _mm_maddubs_epi16(w, x));
        s[1].row[i] = _mm_add_epi16(s[1].row[i], _mm_maddubs_epi16(w, y));
    }
}

/* Dots of the block with columns x[32] and x[32..64), which start at start[0], start[1]. */
KR_INLINE void dot_sums_bytes(struct dot_sums s[2], const struct dot_bytes *u, const int8_t *x,
                              const int32_t *start)
{
    KR_UNROLL
    for (int c = 0; c < 2; c++)
        s[c].row[0] = s[c].row[1] = s[c].row[2] = s[c].row[3] = _mm_set1_epi32(start[c]);
    for (int z = 0; z < 8; z += 4) {
        const __m128i v = dot_load(x + 4 * z), w = dot_load(x + KERN_BLOCK + 4 * z);
        dot_bytes_step(s, u->step[z], _mm_shuffle_epi32(v, 0x00), _mm_shuffle_epi32(w, 0x00));
        dot_bytes_step(s, u->step[z + 1], _mm_shuffle_epi32(v, 0x55), _mm_shuffle_epi32(w, 0x55));
        dot_bytes_step(s, u->step[z + 2], _mm_shuffle_epi32(v, 0xAA), _mm_shuffle_epi32(w, 0xAA));
        dot_bytes_step(s, u->step[z + 3], _mm_shuffle_epi32(v, 0xFF), _mm_shuffle_epi32(w, 0xFF));
    }
    const __m128i one = _mm_set1_epi16(1);
    KR_UNROLL
    for (int i = 0; i < 4; i++) {
        s[0].row[i] = _mm_madd_epi16(s[0].row[i], one);
        s[1].row[i] = _mm_madd_epi16(s[1].row[i], one);
    }
}

#endif
