/* neon_dotprod/attn.c - attention as with Advanced SIMD alone, but for an int8 cache.
 *
 * There an integer x is 256 h + l with signed bytes, and sdot multiplies four of them with four
 * bytes of 4 columns.  Keys lose their offset on the way, so their sums begin at 0.
 *
 *     a quad of integers: | h0 h1 h2 h3 | l0 l1 l2 l3 |
 * SPDX-License-Identifier: MIT */
#include <isa.h>
#include <vec.h>

#include "attn_dot.h"

enum {
    ATTN_DOT_ROWS = 3, /* 3 x 4 sums of h and of l, 3 quads, columns and their sign of 32 */
    ATTN_DOT_WIDTH = 1,
    ATTN_WIDEN_F16 = 0,
    ATTN_EXPS = 1, /* chains of four q registers */
};

/* Two quads. */
KR_INLINE void attn_dot_pack8(int16_t *p, int16x8_t x)
{
    const int8x8_t h = vshrn_n_s16(vaddq_s16(x, vdupq_n_s16(128)), 8), l = vmovn_s16(x);
    const int32x2x2_t quads = vzip_s32(vreinterpret_s32_s8(h), vreinterpret_s32_s8(l));
    vst1_s16(p, vreinterpret_s16_s32(quads.val[0]));
    vst1_s16(p + 4, vreinterpret_s16_s32(quads.val[1]));
}

KR_INLINE void attn_dot_pack(int16_t *p, vf v, enum attn_side side)
{
    (void)side;
    v = vf_rint(v);
    attn_dot_pack8(p, vf_to_s16(v.a, v.b));
    attn_dot_pack8(p + 8, vf_to_s16(v.c, v.d));
}

KR_INLINE void attn_dot_tile(const size_t rows, const size_t width, const enum attn_side side,
                             vf *dots, const struct attn_dot *a)
{
    (void)width;
    const uint8x16_t offset = vdupq_n_u8(side == ATTN_KEYS ? 128 : 0);
    int32x4_t hi[ATTN_DOT_ROWS][4], lo[ATTN_DOT_ROWS][4];
    KR_UNROLL
    for (size_t r = 0; r < rows; r++) {
        KR_UNROLL
        for (size_t i = 0; i < 4; i++)
            hi[r][i] = lo[r][i] = vdupq_n_s32(0);
    }
    const uint8_t *b = a->b;
    const int16_t *x = a->x;
    for (size_t z = 0; z < a->quads; z++, b += a->z_stride, x += 4) {
        int8x8_t quad[ATTN_DOT_ROWS];
        KR_UNROLL
        for (size_t r = 0; r < rows; r++)
            quad[r] = vreinterpret_s8_s16(vld1_s16(x + r * a->x_stride));
        KR_UNROLL
        for (size_t i = 0; i < 4; i++) {
            const int8x16_t columns = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(b + 16 * i), offset));
            KR_UNROLL
            for (size_t r = 0; r < rows; r++) {
                hi[r][i] = vdotq_lane_s32(hi[r][i], columns, quad[r], 0);
                lo[r][i] = vdotq_lane_s32(lo[r][i], columns, quad[r], 1);
            }
        }
    }
    KR_UNROLL
    for (size_t r = 0; r < rows; r++) {
        float32x4_t *const parts[4] = {&dots[r].a, &dots[r].b, &dots[r].c, &dots[r].d};
        KR_UNROLL
        for (size_t i = 0; i < 4; i++)
            *parts[i] = vcvtq_f32_s32(vaddq_s32(vshlq_n_s32(hi[r][i], 8), lo[r][i]));
    }
}

#include "attn.tmpl.h"
