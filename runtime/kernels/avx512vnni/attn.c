/* avx512vnni/attn.c - attention over 16 positions or dimensions at a time, one zmm.
 *
 * Over an int8 cache an integer x is 256 h + l, and vpdpbusd multiplies its bytes h and l with four
 * bytes of 16 columns.  It wants unsigned times signed bytes: keys are unsigned and both halves of
 * a query signed, values are signed and both halves of a weight unsigned.
 *
 *     a quad of integers: | h0 h1 h2 h3 | l0 l1 l2 l3 |
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include <isa.h>
#include <vec.h>

#include "attn_dot.h"

enum {
    ATTN_DOT_ROWS = 4, /* 4 x 2 sums of h and of l: with more, compilers move them around */
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

/* Four bytes, in every lane. */
KR_INLINE __m512i attn_dot_bytes(const int16_t *p)
{
    int32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return _mm512_set1_epi32(bytes);
}

KR_INLINE __m512i attn_dot_add(enum attn_side side, __m512i sum, __m512i column, __m512i x)
{
    return side == ATTN_KEYS ? _mm512_dpbusd_epi32(sum, column, x)
                             : _mm512_dpbusd_epi32(sum, x, column);
}

KR_INLINE void attn_dot_tile(const size_t rows, const size_t width, const enum attn_side side,
                             vf *dots, const struct attn_dot *a)
{
    __m512i hi[ATTN_DOT_ROWS * ATTN_DOT_WIDTH], lo[ATTN_DOT_ROWS * ATTN_DOT_WIDTH];
    KR_UNROLL
    for (size_t r = 0; r < rows; r++) {
        KR_UNROLL
        for (size_t j = 0; j < width; j++) {
            hi[r * width + j] = _mm512_setzero_si512();
            lo[r * width + j] = _mm512_set1_epi32(a->start[r]);
        }
    }
    const uint8_t *b = a->b;
    const int16_t *x = a->x;
    for (size_t z = 0; z < a->quads; z++, b += a->z_stride, x += 4) {
        __m512i column[ATTN_DOT_WIDTH];
        KR_UNROLL
        for (size_t j = 0; j < width; j++)
            column[j] = _mm512_loadu_si512(b + j * a->j_stride);
        KR_UNROLL
        for (size_t r = 0; r < rows; r++) {
            const __m512i h = attn_dot_bytes(x + r * a->x_stride);
            const __m512i l = attn_dot_bytes(x + r * a->x_stride + 2);
            KR_UNROLL
            for (size_t j = 0; j < width; j++) {
                hi[r * width + j] = attn_dot_add(side, hi[r * width + j], column[j], h);
                lo[r * width + j] = attn_dot_add(side, lo[r * width + j], column[j], l);
            }
        }
    }
    KR_UNROLL
    for (size_t i = 0; i < rows * width; i++)
        dots[i] = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(hi[i], 8), lo[i]));
}

#include "attn.tmpl.h"
