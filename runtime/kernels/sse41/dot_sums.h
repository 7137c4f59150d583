/* sse41/dot_sums.h - the inner loops: sums of products of bytes, two 16-bit halves to a row.
 * asm/dot_sums.h is the same in assembly; the build chooses (ASM=1).  Q8 with many columns is sse2's.
 * SPDX-License-Identifier: MIT */
#ifndef DOT_SUMS_H
#define DOT_SUMS_H

#include <string.h>

#include "../sse2/dot_sums.h"

KR_INLINE __m128i dot_broadcast(const int8_t *p)
{
    int32_t quad;
    memcpy(&quad, p, sizeof quad);
    return _mm_set1_epi32(quad);
}

/* s and t gain the dots of the 8 quads of w, 16 rows of unsigned bytes, with x[32] and with y[32]:
 * two columns, or two parts of one. */
KR_INLINE void dot_two(struct dot_sums *s, struct dot_sums *t, const uint8_t *w, const int8_t *x,
                       const int8_t *y)
{
    KR_UNROLL_BY_2
    for (int z = 0; z < 8; z++) {
        const __m128i xs = dot_broadcast(x + 4 * z), ys = dot_broadcast(y + 4 * z);
        for (int i = 0; i < 4; i++) {
            const __m128i rows = dot_load(w + 64 * z + 16 * i);
            s->row[i] = _mm_add_epi16(s->row[i], _mm_maddubs_epi16(rows, xs));
            t->row[i] = _mm_add_epi16(t->row[i], _mm_maddubs_epi16(rows, ys));
        }
    }
}

/* s gains the dots of 4 quads of nibbles with x[32]. */
KR_INLINE void dot_nibbles(struct dot_sums *s, const uint8_t *quads, const int8_t *x)
{
    const __m128i nibble = _mm_set1_epi8(15);
    KR_UNROLL_BY_2
    for (int z = 0; z < 4; z++) {
        const __m128i low = dot_broadcast(x + 4 * z), high = dot_broadcast(x + 16 + 4 * z);
        for (int i = 0; i < 4; i++) {
            const __m128i w = dot_load(quads + 64 * z + 16 * i);
            const __m128i l = _mm_and_si128(w, nibble);
            const __m128i h = _mm_and_si128(_mm_srli_epi16(w, 4), nibble);
            s->row[i] = _mm_add_epi16(s->row[i], _mm_maddubs_epi16(l, low));
            s->row[i] = _mm_add_epi16(s->row[i], _mm_maddubs_epi16(h, high));
        }
    }
}

#endif
