/* neon/vec.h - the vocabulary of tmpl/vf.h: 16 floats are four q registers.
 * SPDX-License-Identifier: MIT */
#ifndef VEC_H
#define VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "neon_compat.h"

typedef struct {
    float32x4_t a, b, c, d; /* lanes 0..3, 4..7, 8..11, 12..15 */
} vf;

/* The same operation on each register. */
#define VF_MAP1(op, x)                                                                             \
    (vf)                                                                                           \
    {                                                                                              \
        op((x).a), op((x).b), op((x).c), op((x).d)                                                 \
    }
#define VF_MAP2(op, x, y)                                                                          \
    (vf)                                                                                           \
    {                                                                                              \
        op((x).a, (y).a), op((x).b, (y).b), op((x).c, (y).c), op((x).d, (y).d)                     \
    }
#define VF_MAP3(op, x, y, z)                                                                       \
    (vf)                                                                                           \
    {                                                                                              \
        op((x).a, (y).a, (z).a), op((x).b, (y).b, (z).b), op((x).c, (y).c, (z).c),                 \
            op((x).d, (y).d, (z).d)                                                                \
    }

KR_INLINE vf vf_set1(float x)
{
    const float32x4_t v = vdupq_n_f32(x);
    return (vf){v, v, v, v};
}

KR_INLINE vf vf_load(const float *p)
{
    return (vf){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}

KR_INLINE void vf_store(float *p, vf v)
{
    vst1q_f32(p, v.a);
    vst1q_f32(p + 4, v.b);
    vst1q_f32(p + 8, v.c);
    vst1q_f32(p + 12, v.d);
}

KR_INLINE vf vf_load_n(const float *p, size_t n)
{
    float lanes[16] = {0};
    memcpy(lanes, p, n * sizeof *p);
    return vf_load(lanes);
}

KR_INLINE void vf_store_n(float *p, vf v, size_t n)
{
    float lanes[16];
    vf_store(lanes, v);
    memcpy(p, lanes, n * sizeof *p);
}

KR_INLINE vf vf_add(vf x, vf y)
{
    return VF_MAP2(vaddq_f32, x, y);
}

KR_INLINE vf vf_sub(vf x, vf y)
{
    return VF_MAP2(vsubq_f32, x, y);
}

KR_INLINE vf vf_mul(vf x, vf y)
{
    return VF_MAP2(vmulq_f32, x, y);
}

KR_INLINE vf vf_div(vf x, vf y)
{
    return VF_MAP2(vdivq_f32, x, y);
}

KR_INLINE vf vf_max(vf x, vf y)
{
    return VF_MAP2(vmaxq_f32, x, y);
}

KR_INLINE vf vf_min(vf x, vf y)
{
    return VF_MAP2(vminq_f32, x, y);
}

KR_INLINE vf vf_fma(vf x, vf y, vf z)
{
    return VF_MAP3(neon_fma, x, y, z);
}

KR_INLINE vf vf_fnma(vf x, vf y, vf z)
{
    return VF_MAP3(neon_fnma, x, y, z);
}

KR_INLINE vf vf_abs(vf v)
{
    return VF_MAP1(vabsq_f32, v);
}

/* Adding 1.5 * 2^23 leaves no fraction bits.  On every ISA alike, so that zero is always +0. */
KR_INLINE vf vf_rint(vf v)
{
    const vf magic = vf_set1(0x1.8p23f);
    return vf_sub(vf_add(v, magic), magic);
}

KR_INLINE float32x4_t vf_ldexp4(float32x4_t p, float32x4_t n)
{
    const int32x4_t up = vshlq_n_s32(vcvtq_s32_f32(n), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), up));
}

KR_INLINE vf vf_ldexp(vf p, vf n)
{
    return VF_MAP2(vf_ldexp4, p, n);
}

KR_INLINE vf vf_swap_pairs(vf v)
{
    return VF_MAP1(vrev64q_f32, v);
}

/* Lanes of register `part` between lo and hi. */
KR_INLINE float32x4_t vf_keep4(int part, float32x4_t v, size_t lo, size_t hi, float32x4_t other)
{
    static const int32_t lanes[4] = {0, 1, 2, 3};
    const int32x4_t lane = vaddq_s32(vld1q_s32(lanes), vdupq_n_s32(4 * part));
    const uint32x4_t keep = vandq_u32(vcgeq_s32(lane, vdupq_n_s32((int32_t)lo)),
                                      vcltq_s32(lane, vdupq_n_s32((int32_t)hi)));
    return vbslq_f32(keep, v, other);
}

KR_INLINE vf vf_keep(vf v, size_t lo, size_t hi, vf other)
{
    return (vf){vf_keep4(0, v.a, lo, hi, other.a), vf_keep4(1, v.b, lo, hi, other.b),
                vf_keep4(2, v.c, lo, hi, other.c), vf_keep4(3, v.d, lo, hi, other.d)};
}

KR_INLINE float vf_sum(vf v)
{
    const float32x4_t s4 = vaddq_f32(vaddq_f32(v.a, v.c), vaddq_f32(v.b, v.d));
    const float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
    return vget_lane_f32(vpadd_f32(s2, s2), 0);
}

KR_INLINE float vf_amax(vf v)
{
    const float32x4_t s4 = vmaxq_f32(vmaxq_f32(v.a, v.c), vmaxq_f32(v.b, v.d));
    const float32x2_t s2 = vmax_f32(vget_low_f32(s4), vget_high_f32(s4));
    return vget_lane_f32(vpmax_f32(s2, s2), 0);
}

KR_INLINE vf vf_load_f16(const uint16_t *p)
{
    const float32x4x2_t lo = neon_load_f16(p), hi = neon_load_f16(p + 8);
    return (vf){lo.val[0], lo.val[1], hi.val[0], hi.val[1]};
}

KR_INLINE void vf_store_f16(uint16_t *p, vf v)
{
    neon_store_f16(p, v.a);
    neon_store_f16(p + 4, v.b);
    neon_store_f16(p + 8, v.c);
    neon_store_f16(p + 12, v.d);
}

/* 16 integers as floats. */
KR_INLINE vf vf_from_s16(int16x8_t lo, int16x8_t hi)
{
    return (vf){
        vcvtq_f32_s32(vmovl_s16(vget_low_s16(lo))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(lo))),
        vcvtq_f32_s32(vmovl_s16(vget_low_s16(hi))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(hi)))};
}

KR_INLINE vf vf_load_i8(const int8_t *p)
{
    const int8x16_t v = vld1q_s8(p);
    return vf_from_s16(vmovl_s8(vget_low_s8(v)), vmovl_s8(vget_high_s8(v)));
}

KR_INLINE int16x8_t vf_to_s16(float32x4_t lo, float32x4_t hi)
{
    return vcombine_s16(vmovn_s32(vcvtq_s32_f32(lo)), vmovn_s32(vcvtq_s32_f32(hi)));
}

KR_INLINE void vf_store_i8(int8_t *p, vf v)
{
    vst1q_s8(p, vcombine_s8(vmovn_s16(vf_to_s16(v.a, v.b)), vmovn_s16(vf_to_s16(v.c, v.d))));
}

#endif
