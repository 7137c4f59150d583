/* avx2/vec.h - the vocabulary of tmpl/vf.h: 16 floats are two ymm.
 * SPDX-License-Identifier: MIT */
#ifndef VEC_H
#define VEC_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compiler.h"

typedef struct {
    __m256 lo, hi; /* lanes 0..7, 8..15 */
} vf;

KR_INLINE vf vf_set1(float x)
{
    return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

KR_INLINE vf vf_load(const float *p)
{
    return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

KR_INLINE void vf_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v.lo);
    _mm256_storeu_ps(p + 8, v.hi);
}

/* By way of memory: rare, and masked moves are slow on some cores and not exact in emulators. */
KR_INLINE vf vf_load_n(const float *p, size_t n)
{
    float whole[16] = {0};
    memcpy(whole, p, n * sizeof *p);
    return vf_load(whole);
}

KR_INLINE void vf_store_n(float *p, vf v, size_t n)
{
    float whole[16];
    vf_store(whole, v);
    memcpy(p, whole, n * sizeof *p);
}

KR_INLINE vf vf_add(vf a, vf b)
{
    return (vf){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}

KR_INLINE vf vf_sub(vf a, vf b)
{
    return (vf){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}

KR_INLINE vf vf_mul(vf a, vf b)
{
    return (vf){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}

KR_INLINE vf vf_div(vf a, vf b)
{
    return (vf){_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}

KR_INLINE vf vf_max(vf a, vf b)
{
    return (vf){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}

KR_INLINE vf vf_min(vf a, vf b)
{
    return (vf){_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}

KR_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return (vf){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

KR_INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return (vf){_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}

KR_INLINE vf vf_abs(vf v)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (vf){_mm256_andnot_ps(sign, v.lo), _mm256_andnot_ps(sign, v.hi)};
}

/* Adding 1.5 * 2^23 leaves no fraction bits.  On every ISA alike, so that zero is always +0. */
KR_INLINE vf vf_rint(vf v)
{
    const vf magic = vf_set1(0x1.8p23f);
    return vf_sub(vf_add(v, magic), magic);
}

KR_INLINE __m256 vf_ldexp8(__m256 p, __m256 n)
{
    const __m256i up = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), up));
}

KR_INLINE vf vf_ldexp(vf p, vf n)
{
    return (vf){vf_ldexp8(p.lo, n.lo), vf_ldexp8(p.hi, n.hi)};
}

KR_INLINE vf vf_swap_pairs(vf v)
{
    return (vf){_mm256_permute_ps(v.lo, 0xB1), _mm256_permute_ps(v.hi, 0xB1)};
}

/* Eight lanes of a mask whose first n lanes are set; n may be negative or above 8. */
KR_INLINE __m256i vf_first8(int n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);
}

KR_INLINE __m256 vf_keep8(__m256 v, int lo, int hi, __m256 other)
{
    const __m256i keep = _mm256_andnot_si256(vf_first8(lo), vf_first8(hi));
    return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(keep));
}

KR_INLINE vf vf_keep(vf v, size_t lo, size_t hi, vf other)
{
    return (vf){vf_keep8(v.lo, (int)lo, (int)hi, other.lo),
                vf_keep8(v.hi, (int)lo - 8, (int)hi - 8, other.hi)};
}

KR_INLINE float vf_sum(vf v)
{
    const __m256 s8 = _mm256_add_ps(v.lo, v.hi);
    const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

KR_INLINE float vf_amax(vf v)
{
    const __m256 s8 = _mm256_max_ps(v.lo, v.hi);
    const __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    const __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_max_ss(s2, _mm_movehdup_ps(s2)));
}

/* F16C keeps f16 subnormals whatever MXCSR says; QEMU 7.2 flushes them. */
KR_INLINE vf vf_load_f16(const uint16_t *p)
{
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}

KR_INLINE void vf_store_f16(uint16_t *p, vf v)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(v.hi, _MM_FROUND_TO_NEAREST_INT));
}

KR_INLINE vf vf_load_i8(const int8_t *p)
{
    const __m128i v = _mm_loadu_si128((const __m128i *)p);
    return (vf){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(v, v)))};
}

/* packs works inside 128-bit halves: l0-3 h0-3 | l4-7 h4-7, put right before the last step. */
KR_INLINE void vf_store_i8(int8_t *p, vf v)
{
    const __m256i w = _mm256_packs_epi32(_mm256_cvtps_epi32(v.lo), _mm256_cvtps_epi32(v.hi));
    const __m256i s = _mm256_permute4x64_epi64(w, 0xD8);
    _mm_storeu_si128((__m128i *)p,
                     _mm_packs_epi16(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1)));
}

#endif
