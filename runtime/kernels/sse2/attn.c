/* sse2/attn.c - attention over 16 positions or dimensions at a time, four xmm.
 *
 * Over an int8 cache pmaddwd adds two products of 16-bit words to a lane.  The words of a quad of
 * bytes are its even and its odd ones, so integers stand as x0 x2 | x1 x3.
 * SPDX-License-Identifier: MIT */
#include <isa.h>
#include <vec.h>

#include "attn_dot.h"

enum {
    ATTN_DOT_ROWS = 2, /* 2 x 4 sums, 2 columns, 2 x 2 pairs and a product of 16 xmm */
    ATTN_DOT_WIDTH = 1,
    ATTN_WIDEN_F16 = 1,
    ATTN_EXPS = 1, /* chains of four xmm */
};

KR_INLINE __m128i attn_dot_pairs(__m128 lo, __m128 hi)
{
    const __m128i x = _mm_packs_epi32(_mm_cvtps_epi32(lo), _mm_cvtps_epi32(hi));
    return _mm_shufflehi_epi16(_mm_shufflelo_epi16(x, 0xD8), 0xD8);
}

KR_INLINE void attn_dot_pack(int16_t *p, vf v, enum attn_side side)
{
    (void)side;
    _mm_storeu_si128((__m128i *)p, attn_dot_pairs(v.a, v.b));
    _mm_storeu_si128((__m128i *)(p + 8), attn_dot_pairs(v.c, v.d));
}

/* The even and odd bytes of 4 columns, as words. */
KR_INLINE __m128i attn_dot_even(enum attn_side side, __m128i b)
{
    return side == ATTN_KEYS ? _mm_and_si128(b, _mm_set1_epi16(0xFF))
                             : _mm_srai_epi16(_mm_slli_epi16(b, 8), 8);
}

KR_INLINE __m128i attn_dot_odd(enum attn_side side, __m128i b)
{
    return side == ATTN_KEYS ? _mm_srli_epi16(b, 8) : _mm_srai_epi16(b, 8);
}

KR_INLINE void attn_dot_tile(const size_t rows, const size_t width, const enum attn_side side,
                             vf *dots, const struct attn_dot *a)
{
    (void)width;
    __m128i sum[ATTN_DOT_ROWS][4];
    KR_UNROLL
    for (size_t r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = sum[r][2] = sum[r][3] = _mm_set1_epi32(a->start[r]);
    const uint8_t *b = a->b;
    const int16_t *x = a->x;
    for (size_t z = 0; z < a->quads; z++, b += a->z_stride, x += 4) {
        __m128i x02[ATTN_DOT_ROWS], x13[ATTN_DOT_ROWS];
        KR_UNROLL
        for (size_t r = 0; r < rows; r++) {
            const __m128i quad = _mm_loadl_epi64((const __m128i *)(x + r * a->x_stride));
            x02[r] = _mm_shuffle_epi32(quad, 0x00);
            x13[r] = _mm_shuffle_epi32(quad, 0x55);
        }
        KR_UNROLL
        for (size_t i = 0; i < 4; i++) {
            const __m128i columns = _mm_loadu_si128((const __m128i *)(b + 16 * i));
            const __m128i even = attn_dot_even(side, columns), odd = attn_dot_odd(side, columns);
            KR_UNROLL
            for (size_t r = 0; r < rows; r++) {
                sum[r][i] = _mm_add_epi32(sum[r][i], _mm_madd_epi16(even, x02[r]));
                sum[r][i] = _mm_add_epi32(sum[r][i], _mm_madd_epi16(odd, x13[r]));
            }
        }
    }
    KR_UNROLL
    for (size_t r = 0; r < rows; r++)
        dots[r] = (vf){_mm_cvtepi32_ps(sum[r][0]), _mm_cvtepi32_ps(sum[r][1]),
                       _mm_cvtepi32_ps(sum[r][2]), _mm_cvtepi32_ps(sum[r][3])};
}

#include "attn.tmpl.h"
