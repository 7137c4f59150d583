/* neon/neon_compat.h - the intrinsics of A64, and what a program for both ARMs must not name
 * directly.
 *
 * Everything in this directory is written in the vocabulary of AArch64.  An architecture that
 * lacks a part of it gets that part here and nowhere else.
 * SPDX-License-Identifier: MIT */
#ifndef NEON_COMPAT_H
#define NEON_COMPAT_H

#include <arm_neon.h>

#include "compiler.h"

/* One rounding: the fused class. */
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

#endif
