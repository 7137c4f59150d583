/* tmpl/gather_x86.h - rows of a file-layout matrix into panel order, with SSE2.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_GATHER_X86_H
#define TMPL_GATHER_X86_H

#include <emmintrin.h>

#include "compiler.h"

/* 16 bytes of each of four rows, exclusive-ored with flip, into their lanes of quads 0..3: a
 * transpose of dwords; kbytes is 4, panels have 16 rows. */
KR_INLINE void gather4(size_t kbytes, uint8_t *quads, const uint8_t *const row[4], uint8_t flip)
{
    __m128i r[4];
    (void)kbytes;
    KR_UNROLL
    for (int i = 0; i < 4; i++)
        r[i] = _mm_xor_si128(_mm_loadu_si128((const __m128i *)row[i]), _mm_set1_epi8((char)flip));
    const __m128i low01 = _mm_unpacklo_epi32(r[0], r[1]), low23 = _mm_unpacklo_epi32(r[2], r[3]);
    const __m128i high01 = _mm_unpackhi_epi32(r[0], r[1]), high23 = _mm_unpackhi_epi32(r[2], r[3]);
    __m128i *const quad = (__m128i *)quads; /* 64 bytes apart */
    _mm_store_si128(quad, _mm_unpacklo_epi64(low01, low23));
    _mm_store_si128(quad + 4, _mm_unpackhi_epi64(low01, low23));
    _mm_store_si128(quad + 8, _mm_unpacklo_epi64(high01, high23));
    _mm_store_si128(quad + 12, _mm_unpackhi_epi64(high01, high23));
}

#endif
