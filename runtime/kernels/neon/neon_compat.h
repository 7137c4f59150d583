/* neon/neon_compat.h - what AArch64 and ARMv7 do not share.
 *
 * Everything in this directory is written in the vocabulary of AArch64.  What ARMv7 lacks of it is
 * here and nowhere else: half the registers, no fused multiply-add (so it is of the unfused class),
 * no division, no second halves of registers as operands, no conversion of halves.
 * SPDX-License-Identifier: MIT */
#ifndef NEON_COMPAT_H
#define NEON_COMPAT_H

#include <arm_neon.h>

#include "compiler.h"
#include "f16.h"

#if defined(__aarch64__)

enum { NEON_REGISTERS = 32 };

KR_INLINE float32x4_t neon_fma(float32x4_t a, float32x4_t b, float32x4_t c)
{
    return vfmaq_f32(c, a, b);
}

KR_INLINE float32x4_t neon_fnma(float32x4_t a, float32x4_t b, float32x4_t c)
{
    return vfmsq_f32(c, a, b);
}

/* Conversions of halves ignore FPCR.FZ: subnormals stay. */
KR_INLINE float32x4_t neon_load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

KR_INLINE void neon_store_f16(uint16_t *p, float32x4_t v)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
}

#else

enum { NEON_REGISTERS = 16 };

KR_INLINE float32x4_t neon_fma(float32x4_t a, float32x4_t b, float32x4_t c)
{
    return vaddq_f32(c, vmulq_f32(a, b));
}

KR_INLINE float32x4_t neon_fnma(float32x4_t a, float32x4_t b, float32x4_t c)
{
    return vsubq_f32(c, vmulq_f32(a, b));
}

/* Integers alone: NEON flushes subnormal floats, and not every ARMv7 converts halves.  Subnormal
 * halves are mantissa * 2^-24, a normal float. */
KR_INLINE float32x4_t neon_load_f16(const uint16_t *p)
{
    const uint32x4_t h = vmovl_u16(vld1_u16(p)), a = vandq_u32(h, vdupq_n_u32(0x7fff));
    const uint32x4_t normal = vaddq_u32(vshlq_n_u32(a, 13), vdupq_n_u32((127 - 15) << 23));
    const float32x4_t small = vmulq_f32(vcvtq_f32_u32(a), vdupq_n_f32(0x1p-24f));
    const uint32x4_t special = vorrq_u32(normal, vdupq_n_u32(0x7f800000)); /* infinity, NaN */
    uint32x4_t bits = vbslq_u32(vcgeq_u32(a, vdupq_n_u32(0x7c00)), special, normal);
    bits = vbslq_u32(vcltq_u32(a, vdupq_n_u32(0x0400)), vreinterpretq_u32_f32(small), bits);
    const uint32x4_t sign = vshlq_n_u32(vandq_u32(h, vdupq_n_u32(0x8000)), 16);
    return vreinterpretq_f32_u32(vorrq_u32(bits, sign));
}

KR_INLINE void neon_store_f16(uint16_t *p, float32x4_t v)
{
    float lane[4];
    vst1q_f32(lane, v);
    for (int i = 0; i < 4; i++)
        p[i] = f32_to_f16(lane[i]);
}

KR_INLINE float32x4_t vdivq_f32(float32x4_t a, float32x4_t b)
{
    float x[4], y[4];
    vst1q_f32(x, a);
    vst1q_f32(y, b);
    for (int i = 0; i < 4; i++)
        x[i] /= y[i];
    return vld1q_f32(x);
}

KR_INLINE int16x8_t vmull_high_s8(int8x16_t a, int8x16_t b)
{
    return vmull_s8(vget_high_s8(a), vget_high_s8(b));
}

KR_INLINE int16x8_t vmlal_high_s8(int16x8_t sum, int8x16_t a, int8x16_t b)
{
    return vmlal_s8(sum, vget_high_s8(a), vget_high_s8(b));
}

KR_INLINE int32x4_t vpaddq_s32(int32x4_t a, int32x4_t b)
{
    return vcombine_s32(vpadd_s32(vget_low_s32(a), vget_high_s32(a)),
                        vpadd_s32(vget_low_s32(b), vget_high_s32(b)));
}

#endif

#endif
