/* sse2/vec.h - the vocabulary of tmpl/vf.h: 16 floats are four xmm.
 *
 * Multiply and add round separately here: this is the unfused class.
 * SPDX-License-Identifier: MIT */
#ifndef VEC_H
#define VEC_H

#include <emmintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compiler.h"

typedef struct {
    __m128 a, b, c, d; /* lanes 0..3, 4..7, 8..11, 12..15 */
} vf;

/* The same operation on each quarter. */
#define VF_EACH1(op, x) ((vf){op((x).a), op((x).b), op((x).c), op((x).d)})
#define VF_EACH2(op, x, y)                                                                         \
    ((vf){op((x).a, (y).a), op((x).b, (y).b), op((x).c, (y).c), op((x).d, (y).d)})

KR_INLINE vf vf_set1(float x)
{
    const __m128 v = _mm_set1_ps(x);
    return (vf){v, v, v, v};
}

KR_INLINE vf vf_load(const float *p)
{
    return (vf){_mm_loadu_ps(p), _mm_loadu_ps(p + 4), _mm_loadu_ps(p + 8), _mm_loadu_ps(p + 12)};
}

KR_INLINE void vf_store(float *p, vf v)
{
    _mm_storeu_ps(p, v.a);
    _mm_storeu_ps(p + 4, v.b);
    _mm_storeu_ps(p + 8, v.c);
    _mm_storeu_ps(p + 12, v.d);
}

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

KR_INLINE vf vf_add(vf x, vf y)
{
    return VF_EACH2(_mm_add_ps, x, y);
}

KR_INLINE vf vf_sub(vf x, vf y)
{
    return VF_EACH2(_mm_sub_ps, x, y);
}

KR_INLINE vf vf_mul(vf x, vf y)
{
    return VF_EACH2(_mm_mul_ps, x, y);
}

KR_INLINE vf vf_div(vf x, vf y)
{
    return VF_EACH2(_mm_div_ps, x, y);
}

KR_INLINE vf vf_max(vf x, vf y)
{
    return VF_EACH2(_mm_max_ps, x, y);
}

KR_INLINE vf vf_min(vf x, vf y)
{
    return VF_EACH2(_mm_min_ps, x, y);
}

KR_INLINE vf vf_fma(vf x, vf y, vf c)
{
    return vf_add(c, vf_mul(x, y));
}

KR_INLINE vf vf_fnma(vf x, vf y, vf c)
{
    return vf_sub(c, vf_mul(x, y));
}

KR_INLINE vf vf_abs(vf v)
{
    const vf sign = vf_set1(-0.0f);
    return VF_EACH2(_mm_andnot_ps, sign, v);
}

/* Adding 1.5 * 2^23 leaves no fraction bits.  On every ISA alike, so that zero is always +0. */
KR_INLINE vf vf_rint(vf v)
{
    const vf magic = vf_set1(0x1.8p23f);
    return vf_sub(vf_add(v, magic), magic);
}

KR_INLINE __m128 vf_ldexp4(__m128 p, __m128 n)
{
    const __m128i up = _mm_slli_epi32(_mm_cvtps_epi32(n), 23);
    return _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(p), up));
}

KR_INLINE vf vf_ldexp(vf p, vf n)
{
    return VF_EACH2(vf_ldexp4, p, n);
}

KR_INLINE __m128 vf_swap_pairs4(__m128 v)
{
    return _mm_shuffle_ps(v, v, 0xB1);
}

KR_INLINE vf vf_swap_pairs(vf v)
{
    return VF_EACH1(vf_swap_pairs4, v);
}

/* Lane i of the four is v for lo <= i < hi, else other; lo and hi may lie outside 0..4. */
KR_INLINE __m128 vf_keep4(__m128 v, int lo, int hi, __m128 other)
{
    const __m128i lane = _mm_setr_epi32(0, 1, 2, 3);
    const __m128 keep = _mm_castsi128_ps(_mm_andnot_si128(
        _mm_cmpgt_epi32(_mm_set1_epi32(lo), lane), _mm_cmpgt_epi32(_mm_set1_epi32(hi), lane)));
    return _mm_or_ps(_mm_and_ps(keep, v), _mm_andnot_ps(keep, other));
}

KR_INLINE vf vf_keep(vf v, size_t lo, size_t hi, vf other)
{
    const int l = (int)lo, h = (int)hi;
    return (vf){vf_keep4(v.a, l, h, other.a), vf_keep4(v.b, l - 4, h - 4, other.b),
                vf_keep4(v.c, l - 8, h - 8, other.c), vf_keep4(v.d, l - 12, h - 12, other.d)};
}

KR_INLINE float vf_sum(vf v)
{
    const __m128 s4 = _mm_add_ps(_mm_add_ps(v.a, v.c), _mm_add_ps(v.b, v.d));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

KR_INLINE float vf_amax(vf v)
{
    const __m128 s4 = _mm_max_ps(_mm_max_ps(v.a, v.c), _mm_max_ps(v.b, v.d));
    const __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_max_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

/* Eight f16 as the high halves of f32: exponent and top of the mantissa moved into place and rebiased
 * by 112.  Exact, except that an exponent of 0 counts as -15 with an implicit one: 2^-15 (1 +
 * m/1024), where the value is 2^-14 m/1024; and one of 31 as 16: 2^16 (1 + m/1024), where it is
 * infinity or NaN. */
KR_INLINE __m128i vf_from_f16_high(__m128i h)
{
    const __m128i bits = _mm_and_si128(_mm_srai_epi16(h, 3), _mm_set1_epi16((short)0x8FFF));
    return _mm_add_epi16(bits, _mm_set1_epi16(112 << 7));
}

/* Those numbers put right.  For an exponent of 0 twice the number minus 2^-14: exact, and no f32
 * denormal on the way, which DAZ would turn into 0.  For one of 31 all bits of the exponent. */
KR_INLINE __m128 vf_from_f16_ends(__m128 v)
{
    const __m128 sign = _mm_and_ps(v, _mm_set1_ps(-0.0f)), magnitude = _mm_xor_ps(v, sign);
    const __m128 small = _mm_cmplt_ps(magnitude, _mm_set1_ps(0x1p-14f));
    const __m128 large = _mm_cmpge_ps(magnitude, _mm_set1_ps(0x1p16f));
    const __m128 one = _mm_or_ps(sign, _mm_set1_ps(0x1p-14f));
    const __m128 ones = _mm_castsi128_ps(_mm_set1_epi32(0xFF << 23));
    v = _mm_add_ps(v, _mm_and_ps(small, _mm_sub_ps(v, one)));
    return _mm_or_ps(v, _mm_and_ps(large, ones));
}

/* One more than the exponents of halves, at their place, except that 31 becomes 0. */
KR_INLINE __m128i vf_f16_exponents(__m128i h)
{
    return _mm_and_si128(_mm_add_epi16(h, _mm_set1_epi16(1 << 10)), _mm_set1_epi16(0x7C00));
}

KR_INLINE vf vf_load_f16(const uint16_t *p)
{
    const __m128i h0 = _mm_loadu_si128((const __m128i *)p);
    const __m128i h1 = _mm_loadu_si128((const __m128i *)(p + 8));
    const __m128i low0 = _mm_slli_epi16(h0, 13), high0 = vf_from_f16_high(h0);
    const __m128i low1 = _mm_slli_epi16(h1, 13), high1 = vf_from_f16_high(h1);
    const vf v = {_mm_castsi128_ps(_mm_unpacklo_epi16(low0, high0)),
                  _mm_castsi128_ps(_mm_unpackhi_epi16(low0, high0)),
                  _mm_castsi128_ps(_mm_unpacklo_epi16(low1, high1)),
                  _mm_castsi128_ps(_mm_unpackhi_epi16(low1, high1))};
    const __m128i least = _mm_min_epi16(vf_f16_exponents(h0), vf_f16_exponents(h1));
    if (KR_UNLIKELY(_mm_movemask_epi8(_mm_cmplt_epi16(least, _mm_set1_epi16(2 << 10)))))
        return VF_EACH1(vf_from_f16_ends, v);
    return v;
}

/* To nearest even in integers, result sign-extended to 32 bits.  Below 2^-14 the addition of 0.5
 * puts the rounding where f16 has its last bit; from 2^16 on the result is infinity. */
KR_INLINE __m128i vf_to_f16(__m128 v)
{
    const __m128 sign = _mm_and_ps(v, _mm_set1_ps(-0.0f)), mag = _mm_xor_ps(v, sign);
    const __m128i bits = _mm_castps_si128(mag);
    const __m128i odd = _mm_srai_epi32(_mm_slli_epi32(bits, 31 - 13), 31); /* -1 or 0 */
    const __m128i bias = _mm_set1_epi32(0xFFF - (112 << 23));
    const __m128i normal = _mm_srli_epi32(_mm_sub_epi32(_mm_add_epi32(bits, bias), odd), 13);
    const __m128 half = _mm_set1_ps(0.5f);
    const __m128i tiny =
        _mm_sub_epi32(_mm_castps_si128(_mm_add_ps(mag, half)), _mm_castps_si128(half));
    const __m128i is_tiny = _mm_cmpgt_epi32(_mm_set1_epi32(113 << 23), bits);
    const __m128i is_finite = _mm_cmpgt_epi32(_mm_set1_epi32(143 << 23), bits);
    const __m128i nan =
        _mm_and_si128(_mm_castps_si128(_mm_cmpunord_ps(v, v)), _mm_set1_epi32(0x200));
    const __m128i special = _mm_or_si128(nan, _mm_set1_epi32(0x7C00));
    const __m128i number =
        _mm_or_si128(_mm_and_si128(is_tiny, tiny), _mm_andnot_si128(is_tiny, normal));
    const __m128i all =
        _mm_or_si128(_mm_and_si128(is_finite, number), _mm_andnot_si128(is_finite, special));
    return _mm_or_si128(all, _mm_srai_epi32(_mm_castps_si128(sign), 16));
}

KR_INLINE void vf_store_f16(uint16_t *p, vf v)
{
    _mm_storeu_si128((__m128i *)p, _mm_packs_epi32(vf_to_f16(v.a), vf_to_f16(v.b)));
    _mm_storeu_si128((__m128i *)(p + 8), _mm_packs_epi32(vf_to_f16(v.c), vf_to_f16(v.d)));
}

/* Four int8, each in the high byte of a lane. */
KR_INLINE __m128 vf_from_i8(__m128i high)
{
    return _mm_cvtepi32_ps(_mm_srai_epi32(high, 24));
}

KR_INLINE vf vf_load_i8(const int8_t *p)
{
    const __m128i zero = _mm_setzero_si128(), v = _mm_loadu_si128((const __m128i *)p);
    const __m128i lo = _mm_unpacklo_epi8(zero, v), hi = _mm_unpackhi_epi8(zero, v);
    return (vf){vf_from_i8(_mm_unpacklo_epi16(zero, lo)), vf_from_i8(_mm_unpackhi_epi16(zero, lo)),
                vf_from_i8(_mm_unpacklo_epi16(zero, hi)), vf_from_i8(_mm_unpackhi_epi16(zero, hi))};
}

KR_INLINE void vf_store_i8(int8_t *p, vf v)
{
    const __m128i lo = _mm_packs_epi32(_mm_cvtps_epi32(v.a), _mm_cvtps_epi32(v.b));
    const __m128i hi = _mm_packs_epi32(_mm_cvtps_epi32(v.c), _mm_cvtps_epi32(v.d));
    _mm_storeu_si128((__m128i *)p, _mm_packs_epi16(lo, hi));
}

#endif
