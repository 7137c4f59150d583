/* neon/attn.c - attention over 16 positions or dimensions at a time, four q registers.
 *
 * Over an int8 cache smlal adds products of 16-bit words to 32 bits.  The words of a quad of bytes
 * are its even and its odd ones, so integers stand as x0 x2 | x1 x3, and a column is the sum of two
 * neighbouring lanes.
 * SPDX-License-Identifier: MIT */
#include <isa.h>
#include <vec.h>

#include "attn_dot.h"

enum {
    ATTN_DOT_ROWS =
        NEON_REGISTERS == 32 ? 3 : 1, /* 8 sums each, columns and pairs of q registers */
    ATTN_DOT_WIDTH = 1,
    ATTN_WIDEN_F16 = NEON_REGISTERS == 16, /* ARMv7 converts halves by hand */
    ATTN_EXPS = 1,                         /* chains of four q registers */
};

/* Elements 0 2 1 3 of each half. */
KR_INLINE int16x8_t attn_dot_pairs(float32x4_t lo, float32x4_t hi)
{
    const int16x8_t x = vf_to_s16(lo, hi);
    const int16x8x2_t t = vuzpq_s16(x, x); /* 0 2 4 6 .., 1 3 5 7 .. */
    const int32x2x2_t z = vzip_s32(vreinterpret_s32_s16(vget_low_s16(t.val[0])),
                                   vreinterpret_s32_s16(vget_low_s16(t.val[1])));
    return vcombine_s16(vreinterpret_s16_s32(z.val[0]), vreinterpret_s16_s32(z.val[1]));
}

KR_INLINE void attn_dot_pack(int16_t *p, vf v, enum attn_side side)
{
    (void)side;
    v = vf_rint(v);
    vst1q_s16(p, attn_dot_pairs(v.a, v.b));
    vst1q_s16(p + 8, attn_dot_pairs(v.c, v.d));
}

/* The even and odd bytes of 4 columns, as words. */
KR_INLINE int16x8_t attn_dot_even(enum attn_side side, int16x8_t b)
{
    return side == ATTN_KEYS ? vandq_s16(b, vdupq_n_s16(0xFF)) : vshrq_n_s16(vshlq_n_s16(b, 8), 8);
}

KR_INLINE int16x8_t attn_dot_odd(enum attn_side side, int16x8_t b)
{
    return side == ATTN_KEYS ? vreinterpretq_s16_u16(vshrq_n_u16(vreinterpretq_u16_s16(b), 8))
                             : vshrq_n_s16(b, 8);
}

/* Two integers, twice. */
KR_INLINE int16x4_t attn_dot_pair(const int16_t *p)
{
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return vreinterpret_s16_s32(vdup_n_s32(pair));
}

KR_INLINE void attn_dot_tile(const size_t rows, const size_t width, const enum attn_side side,
                             vf *dots, const struct attn_dot *a)
{
    (void)width;
    int32x4_t sum[ATTN_DOT_ROWS][8]; /* two columns each */
    KR_UNROLL
    for (size_t r = 0; r < rows; r++) {
        KR_UNROLL
        for (size_t i = 0; i < 8; i++)
            sum[r][i] = vdupq_n_s32(0);
    }
    const uint8_t *b = a->b;
    const int16_t *x = a->x;
    for (size_t z = 0; z < a->quads; z++, b += a->z_stride, x += 4) {
        int16x4_t x02[ATTN_DOT_ROWS], x13[ATTN_DOT_ROWS];
        KR_UNROLL
        for (size_t r = 0; r < rows; r++) {
            x02[r] = attn_dot_pair(x + r * a->x_stride);
            x13[r] = attn_dot_pair(x + r * a->x_stride + 2);
        }
        KR_UNROLL
        for (size_t i = 0; i < 4; i++) {
            const int16x8_t columns = vreinterpretq_s16_u8(vld1q_u8(b + 16 * i));
            const int16x8_t even = attn_dot_even(side, columns), odd = attn_dot_odd(side, columns);
            KR_UNROLL
            for (size_t r = 0; r < rows; r++) {
                int32x4_t *s = &sum[r][2 * i];
                s[0] = vmlal_s16(s[0], vget_low_s16(even), x02[r]);
                s[1] = vmlal_s16(s[1], vget_high_s16(even), x02[r]);
                s[0] = vmlal_s16(s[0], vget_low_s16(odd), x13[r]);
                s[1] = vmlal_s16(s[1], vget_high_s16(odd), x13[r]);
            }
        }
    }
    KR_UNROLL
    for (size_t r = 0; r < rows; r++) {
        const int32x4_t start = vdupq_n_s32(a->start[r]);
        float32x4_t *const parts[4] = {&dots[r].a, &dots[r].b, &dots[r].c, &dots[r].d};
        KR_UNROLL
        for (size_t i = 0; i < 4; i++)
            *parts[i] =
                vcvtq_f32_s32(vaddq_s32(start, vpaddq_s32(sum[r][2 * i], sum[r][2 * i + 1])));
    }
}

#include "attn.tmpl.h"
