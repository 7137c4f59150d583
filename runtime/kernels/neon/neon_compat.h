/* neon/neon_compat.h - what AArch64 and ARMv7 do not share.
 *
 * Everything in this directory is written in the vocabulary of AArch64.  What ARMv7 lacks of it is
 * here and nowhere else: half the registers, no fused multiply-add (so it is of the unfused class),
 * no division, no second halves of registers as operands, no conversion of halves.
 * SPDX-License-Identifier: MIT */
#ifndef NEON_COMPAT_H
#define NEON_COMPAT_H

#include <arm_neon.h>
#include <stddef.h>
#include <string.h>

#include "compiler.h"
#include "f16.h"

/* 16 bytes, once: without the asm gcc loads halves and lanes of them again where it needs them. */
KR_INLINE int8x16_t neon_load_s8(const void *p)
{
    int8x16_t v = vld1q_s8(p);
    __asm__("" : "+w"(v));
    return v;
}

#if defined(__aarch64__)

enum { NEON_REGISTERS = 32 };

/* 16 bytes, each of which goes into all lanes in turn: out of a register, by one instruction.  A
 * load into all lanes would be two on most cores. */
typedef int8x16_t neon_bytes;

KR_INLINE neon_bytes neon_load_bytes(const int8_t *p)
{
    return vld1q_s8(p);
}

KR_INLINE int8x16_t neon_byte(neon_bytes b, size_t i)
{
    return vdupq_n_s8(b[i]);
}

/* The four quads of 16 bytes, each four times. */
KR_INLINE void neon_spread(int8x16_t quads[4], const int8_t *p)
{
    const int32x4_t v = vreinterpretq_s32_s8(neon_load_s8(p));
    for (int i = 0; i < 4; i++)
        quads[i] = vreinterpretq_s8_s32(vdupq_n_s32(v[i]));
}

KR_INLINE float32x4_t neon_fma(float32x4_t a, float32x4_t b, float32x4_t c)
{
    return vfmaq_f32(c, a, b);
}

KR_INLINE float32x4_t neon_fnma(float32x4_t a, float32x4_t b, float32x4_t c)
{
    return vfmsq_f32(c, a, b);
}

/* Conversions of halves ignore FPCR.FZ: subnormals stay. */
KR_INLINE float32x4x2_t neon_load_f16(const uint16_t *p)
{
    const float16x8_t h = vreinterpretq_f16_u16(vld1q_u16(p));
    return (float32x4x2_t){{vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h)}};
}

KR_INLINE void neon_store_f16(uint16_t *p, float32x4_t v)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
}

#else

enum { NEON_REGISTERS = 16 };

/* Out of memory: of a register gcc makes a table look-up. */
typedef const int8_t *neon_bytes;

KR_INLINE neon_bytes neon_load_bytes(const int8_t *p)
{
    return p;
}

KR_INLINE int8x16_t neon_byte(neon_bytes b, size_t i)
{
    return vld1q_dup_s8(b + i);
}

KR_INLINE void neon_spread(int8x16_t quads[4], const int8_t *p)
{
    for (int i = 0; i < 4; i++) {
        int32_t quad;
        memcpy(&quad, p + 4 * i, sizeof quad);
        quads[i] = vreinterpretq_s8_s32(vdupq_n_s32(quad));
    }
}

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
KR_INLINE float32x4_t neon_widen_f16(uint16x4_t halves)
{
    const uint32x4_t h = vmovl_u16(halves), a = vandq_u32(h, vdupq_n_u32(0x7fff));
    const uint32x4_t normal = vaddq_u32(vshlq_n_u32(a, 13), vdupq_n_u32((127 - 15) << 23));
    const float32x4_t small = vmulq_f32(vcvtq_f32_u32(a), vdupq_n_f32(0x1p-24f));
    const uint32x4_t special = vorrq_u32(normal, vdupq_n_u32(0x7f800000)); /* infinity, NaN */
    uint32x4_t bits = vbslq_u32(vcgeq_u32(a, vdupq_n_u32(0x7c00)), special, normal);
    bits = vbslq_u32(vcltq_u32(a, vdupq_n_u32(0x0400)), vreinterpretq_u32_f32(small), bits);
    const uint32x4_t sign = vshlq_n_u32(vandq_u32(h, vdupq_n_u32(0x8000)), 16);
    return vreinterpretq_f32_u32(vorrq_u32(bits, sign));
}

KR_INLINE float32x4x2_t neon_load_f16(const uint16_t *p)
{
    return (float32x4x2_t){{neon_widen_f16(vld1_u16(p)), neon_widen_f16(vld1_u16(p + 4))}};
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
