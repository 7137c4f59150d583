/* avx512vnni/vec.h - the vocabulary of tmpl/vf.h: 16 floats are one zmm.
 * SPDX-License-Identifier: MIT */
#ifndef VEC_H
#define VEC_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler.h"

typedef __m512 vf;

KR_INLINE vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}

KR_INLINE vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

KR_INLINE void vf_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}

/* Lanes below n, which may be above 16. */
KR_INLINE __mmask16 vf_first(size_t n)
{
    return (__mmask16)((1u << (n < 16 ? n : 16)) - 1);
}

/* Without any lane nothing is accessed: a masked access to a page that is not there costs a
 * microcode assist. */
KR_INLINE vf vf_load_n(const float *p, size_t n)
{
    return n == 0 ? vf_set1(0.0f) : _mm512_maskz_loadu_ps(vf_first(n), p);
}

KR_INLINE void vf_store_n(float *p, vf v, size_t n)
{
    if (n > 0)
        _mm512_mask_storeu_ps(p, vf_first(n), v);
}

KR_INLINE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

KR_INLINE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

KR_INLINE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

KR_INLINE vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

KR_INLINE vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

KR_INLINE vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

KR_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

KR_INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

KR_INLINE vf vf_abs(vf v)
{
    return _mm512_abs_ps(v);
}

/* Adding 1.5 * 2^23 leaves no fraction bits.  On every ISA alike, so that zero is always +0. */
KR_INLINE vf vf_rint(vf v)
{
    const vf magic = _mm512_set1_ps(0x1.8p23f);
    return _mm512_sub_ps(_mm512_add_ps(v, magic), magic);
}

KR_INLINE vf vf_ldexp(vf p, vf n)
{
    const __m512i up = _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), up));
}

KR_INLINE vf vf_swap_pairs(vf v)
{
    return _mm512_permute_ps(v, 0xB1);
}

KR_INLINE vf vf_keep(vf v, size_t lo, size_t hi, vf other)
{
    return _mm512_mask_blend_ps((__mmask16)(vf_first(hi) & ~vf_first(lo)), other, v);
}

KR_INLINE float vf_sum(vf v)
{
    const __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

KR_INLINE float vf_amax(vf v)
{
    const __m256 s8 = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    const __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_max_ss(s2, _mm_movehdup_ps(s2)));
}

/* The conversions of F16C and AVX-512 keep f16 subnormals whatever MXCSR says. */
KR_INLINE vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

KR_INLINE void vf_store_f16(uint16_t *p, vf v)
{
    _mm256_storeu_si256((__m256i *)p,
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

KR_INLINE vf vf_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

KR_INLINE void vf_store_i8(int8_t *p, vf v)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

#endif
