/* avx512vnni/attn.c - attention over 16 positions or dimensions at a time, one zmm.
 *
 * Over an int8 cache an integer x is 256 h + l, and vpdpbusd multiplies its bytes h and l with four
 * bytes of 16 columns.  It wants unsigned times signed bytes: keys are unsigned and both halves of
 * a query signed, values are signed and both halves of a weight unsigned.
 *
 *     a quad of integers: | h0 h1 h2 h3 | l0 l1 l2 l3 |
 *
 * The sums go through all h, are shifted, and then through all l.
 * SPDX-License-Identifier: MIT */
#include <dot.h>

#include "attn_dot.h"

enum {
    ATTN_DOT_ROWS = 7, /* 7 x 2 sums; with more than 16 gcc moves them around */
    ATTN_DOT_WIDTH = 2,
    ATTN_WIDEN_F16 = 0,
    ATTN_EXPS = 4, /* chains of one zmm */
};

KR_INLINE void attn_dot_pack(int16_t *p, vf v, enum attn_side side)
{
    const __m512i x = _mm512_cvtps_epi32(v);
    const __m512i up = _mm512_set1_epi32(side == ATTN_KEYS ? 128 : 0); /* for a signed l */
    const __m128i h = _mm512_cvtepi32_epi8(_mm512_srai_epi32(_mm512_add_epi32(x, up), 8));
    const __m128i l = _mm512_cvtepi32_epi8(x);
    _mm_storeu_si128((__m128i *)p, _mm_unpacklo_epi32(h, l));
    _mm_storeu_si128((__m128i *)(p + 8), _mm_unpackhi_epi32(h, l));
}

KR_INLINE __m512i attn_dot_add(enum attn_side side, __m512i sum, __m512i column, __m512i x)
{
    return side == ATTN_KEYS ? _mm512_dpbusd_epi32(sum, column, x)
                             : _mm512_dpbusd_epi32(sum, x, column);
}

/* sum += all quads of one half: bytes 0..3 (h) or 4..7 (l) of each. */
KR_INLINE void attn_dot_half(const size_t rows, const size_t width, const enum attn_side side,
                             __m512i sum[ATTN_DOT_ROWS][ATTN_DOT_WIDTH], const struct attn_dot *a,
                             const int16_t *x)
{
    const uint8_t *b = a->b;
    for (size_t z = 0; z < a->quads; z++, b += a->z_stride, x += 4) {
        __m512i column[ATTN_DOT_WIDTH];
        KR_UNROLL
        for (size_t j = 0; j < width; j++)
            column[j] = _mm512_loadu_si512(b + j * a->j_stride);
        KR_UNROLL
        for (size_t r = 0; r < rows; r++) {
            const __m512i bytes = dot_broadcast(x + r * a->x_stride);
            KR_UNROLL
            for (size_t j = 0; j < width; j++)
                sum[r][j] = attn_dot_add(side, sum[r][j], column[j], bytes);
        }
    }
}

KR_INLINE void attn_dot_tile(const size_t rows, const size_t width, const enum attn_side side,
                             vf *dots, const struct attn_dot *a)
{
    __m512i sum[ATTN_DOT_ROWS][ATTN_DOT_WIDTH];
    KR_UNROLL
    for (size_t r = 0; r < rows; r++) {
        KR_UNROLL
        for (size_t j = 0; j < width; j++)
            sum[r][j] = _mm512_setzero_si512();
    }
    attn_dot_half(rows, width, side, sum, a, a->x);
    KR_UNROLL
    for (size_t r = 0; r < rows; r++) {
        KR_UNROLL
        for (size_t j = 0; j < width; j++)
            sum[r][j] =
                _mm512_add_epi32(_mm512_slli_epi32(sum[r][j], 8), _mm512_set1_epi32(a->start[r]));
    }
    attn_dot_half(rows, width, side, sum, a, a->x + 2);
    KR_UNROLL
    for (size_t r = 0; r < rows; r++) {
        KR_UNROLL
        for (size_t j = 0; j < width; j++)
            dots[r * width + j] = _mm512_cvtepi32_ps(sum[r][j]);
    }
}

#include "attn.tmpl.h"
