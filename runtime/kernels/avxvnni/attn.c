/* avxvnni/attn.c - attention as with AVX2, but for an int8 cache.
 *
 * There an integer x is 256 h + l, and vpdpbusd multiplies its bytes h and l with four bytes of 8
 * columns.  It wants unsigned times signed bytes: keys are unsigned and both halves of a query
 * signed, values are signed and both halves of a weight unsigned.
 *
 *     a quad of integers: | h0 h1 h2 h3 | l0 l1 l2 l3 |
 * SPDX-License-Identifier: MIT */
#include <isa.h>
#include <vec.h>

#include "attn_dot.h"
#include "dot_ymm.h"

enum {
    ATTN_DOT_ROWS = 3, /* 3 x 2 sums of h and of l, 2 columns and 2 integers of 16 ymm */
    ATTN_DOT_WIDTH = 1,
    ATTN_WIDEN_F16 = 0,
    ATTN_EXPS = 2, /* chains of two ymm */
};

/* 16 words in order; packs works inside 128-bit halves. */
KR_INLINE __m256i attn_dot_words(vf v)
{
    const __m256i x = _mm256_packs_epi32(_mm256_cvtps_epi32(v.lo), _mm256_cvtps_epi32(v.hi));
    return _mm256_permute4x64_epi64(x, 0xD8);
}

/* Inside a half: quads of 8 bytes, l0 h0 l1 h1 ..., become h0..h3 l0..l3. */
KR_INLINE void attn_dot_pack(int16_t *p, vf v, enum attn_side side)
{
    const __m256i x = attn_dot_words(v), byte = _mm256_set1_epi16(0xFF);
    const __m256i up = _mm256_set1_epi16(side == ATTN_KEYS ? 128 : 0); /* for a signed l */
    const __m256i h = _mm256_andnot_si256(byte, _mm256_add_epi16(x, up));
    const __m256i halves = _mm256_or_si256(h, _mm256_and_si256(x, byte));
    const __m256i order = _mm256_setr_epi8(1, 3, 5, 7, 0, 2, 4, 6, 9, 11, 13, 15, 8, 10, 12, 14, 1,
                                           3, 5, 7, 0, 2, 4, 6, 9, 11, 13, 15, 8, 10, 12, 14);
    _mm256_storeu_si256((__m256i *)p, _mm256_shuffle_epi8(halves, order));
}

KR_INLINE __m256i attn_dot_add(enum attn_side side, __m256i sum, __m256i column, __m256i x)
{
    return side == ATTN_KEYS ? _mm256_dpbusd_epi32(sum, column, x)
                             : _mm256_dpbusd_epi32(sum, x, column);
}

KR_INLINE void attn_dot_tile(const size_t rows, const size_t width, const enum attn_side side,
                             vf *dots, const struct attn_dot *a)
{
    (void)width;
    __m256i hi[ATTN_DOT_ROWS][2], lo[ATTN_DOT_ROWS][2];
    KR_UNROLL
    for (size_t r = 0; r < rows; r++) {
        hi[r][0] = hi[r][1] = _mm256_setzero_si256();
        lo[r][0] = lo[r][1] = _mm256_set1_epi32(a->start[r]);
    }
    const uint8_t *b = a->b;
    const int16_t *x = a->x;
    for (size_t z = 0; z < a->quads; z++, b += a->z_stride, x += 4) {
        const __m256i column[2] = {_mm256_loadu_si256((const __m256i *)b),
                                   _mm256_loadu_si256((const __m256i *)(b + 32))};
        KR_UNROLL
        for (size_t r = 0; r < rows; r++) {
            const __m256i h = dot_broadcast(x + r * a->x_stride);
            const __m256i l = dot_broadcast(x + r * a->x_stride + 2);
            KR_UNROLL
            for (size_t i = 0; i < 2; i++) {
                hi[r][i] = attn_dot_add(side, hi[r][i], column[i], h);
                lo[r][i] = attn_dot_add(side, lo[r][i], column[i], l);
            }
        }
    }
    KR_UNROLL
    for (size_t r = 0; r < rows; r++) {
        __m256i sum[2];
        KR_UNROLL
        for (size_t i = 0; i < 2; i++)
            sum[i] = _mm256_add_epi32(_mm256_slli_epi32(hi[r][i], 8), lo[r][i]);
        dots[r] = dot_to_float(sum[0], sum[1]);
    }
}

#include "attn.tmpl.h"
