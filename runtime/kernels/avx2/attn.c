/* avx2/attn.c - attention over 16 positions or dimensions at a time, two ymm.
 *
 * Over an int8 cache vpmaddwd adds two products of 16-bit words to a lane.  The words of a quad of
 * bytes are its even and its odd ones, so integers stand as x0 x2 | x1 x3.
 * SPDX-License-Identifier: MIT */
#include <isa.h>
#include <vec.h>

#include "attn_dot.h"
#include "dot_ymm.h"

enum {
    ATTN_DOT_ROWS = 4, /* 4 x 2 sums, 2 x 2 columns, 2 pairs and 2 products of 16 ymm */
    ATTN_DOT_WIDTH = 1,
    ATTN_WIDEN_F16 = 0,
    ATTN_EXPS = 2, /* chains of two ymm */
};

/* packs works inside 128-bit halves: quads 0 2 | 1 3, whose order the last step restores. */
KR_INLINE void attn_dot_pack(int16_t *p, vf v, enum attn_side side)
{
    (void)side;
    const __m256i x = _mm256_packs_epi32(_mm256_cvtps_epi32(v.lo), _mm256_cvtps_epi32(v.hi));
    const __m256i pairs = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(x, 0xD8), 0xD8);
    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(pairs, 0xD8));
}

/* The even and odd bytes of 8 columns, as words. */
KR_INLINE __m256i attn_dot_even(enum attn_side side, __m256i b)
{
    return side == ATTN_KEYS ? _mm256_and_si256(b, _mm256_set1_epi16(0xFF))
                             : _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8);
}

KR_INLINE __m256i attn_dot_odd(enum attn_side side, __m256i b)
{
    return side == ATTN_KEYS ? _mm256_srli_epi16(b, 8) : _mm256_srai_epi16(b, 8);
}

KR_INLINE void attn_dot_tile(const size_t rows, const size_t width, const enum attn_side side,
                             vf *dots, const struct attn_dot *a)
{
    (void)width;
    __m256i sum[ATTN_DOT_ROWS][2];
    KR_UNROLL
    for (size_t r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = _mm256_set1_epi32(a->start[r]);
    const uint8_t *b = a->b;
    const int16_t *x = a->x;
    for (size_t z = 0; z < a->quads; z++, b += a->z_stride, x += 4) {
        const __m256i b0 = _mm256_loadu_si256((const __m256i *)b);
        const __m256i b1 = _mm256_loadu_si256((const __m256i *)(b + 32));
        const __m256i even[2] = {attn_dot_even(side, b0), attn_dot_even(side, b1)};
        const __m256i odd[2] = {attn_dot_odd(side, b0), attn_dot_odd(side, b1)};
        KR_UNROLL
        for (size_t r = 0; r < rows; r++) {
            const __m256i x02 = dot_broadcast(x + r * a->x_stride);
            const __m256i x13 = dot_broadcast(x + r * a->x_stride + 2);
            KR_UNROLL
            for (size_t i = 0; i < 2; i++) {
                sum[r][i] = _mm256_add_epi32(sum[r][i], _mm256_madd_epi16(even[i], x02));
                sum[r][i] = _mm256_add_epi32(sum[r][i], _mm256_madd_epi16(odd[i], x13));
            }
        }
    }
    KR_UNROLL
    for (size_t r = 0; r < rows; r++)
        dots[r] = dot_to_float(sum[r][0], sum[r][1]);
}

#include "attn.tmpl.h"
