/* scalar/vec.h - the vocabulary of tmpl/vf.h as a struct of 16 floats.
 *
 * KR_FUSED (the Makefile's, by the class in isas.txt) says whether vf_fma rounds
 * once or twice; the fused form needs no instruction and no libm.
 * SPDX-License-Identifier: MIT */
#ifndef VEC_H
#define VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "f16.h"

typedef struct {
    float l[16];
} vf;

#define VF_EACH(i) for (size_t i = 0; i < 16; i++)

static inline vf vf_set1(float x)
{
    vf r;
    VF_EACH(i) r.l[i] = x;
    return r;
}

static inline vf vf_load(const float *p)
{
    vf r;
    memcpy(&r, p, sizeof r);
    return r;
}

static inline void vf_store(float *p, vf v)
{
    memcpy(p, &v, sizeof v);
}

static inline vf vf_load_n(const float *p, size_t n)
{
    vf r = vf_set1(0.0f);
    for (size_t i = 0; i < n; i++)
        r.l[i] = p[i];
    return r;
}

static inline void vf_store_n(float *p, vf v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = v.l[i];
}

static inline vf vf_add(vf a, vf b)
{
    VF_EACH(i) a.l[i] += b.l[i];
    return a;
}

static inline vf vf_sub(vf a, vf b)
{
    VF_EACH(i) a.l[i] -= b.l[i];
    return a;
}

static inline vf vf_mul(vf a, vf b)
{
    VF_EACH(i) a.l[i] *= b.l[i];
    return a;
}

static inline vf vf_div(vf a, vf b)
{
    VF_EACH(i) a.l[i] /= b.l[i];
    return a;
}

static inline vf vf_max(vf a, vf b)
{
    VF_EACH(i) a.l[i] = a.l[i] > b.l[i] ? a.l[i] : b.l[i];
    return a;
}

static inline vf vf_min(vf a, vf b)
{
    VF_EACH(i) a.l[i] = a.l[i] < b.l[i] ? a.l[i] : b.l[i];
    return a;
}

/* a*b + c rounded once.  The product is exact in double (48 of 53 bits); the sum
 * is rounded to odd, which a second rounding to 24 bits does not spoil. */
static inline float fma_once(float a, float b, float c)
{
    const double p = (double)a * (double)b, z = c, s = p + z;
    const double t = s - p, error = (p - (s - t)) + (z - t); /* Knuth: p + z = s + error */
    uint64_t bits;
    memcpy(&bits, &s, sizeof bits);
    if ((error > 0.0 || error < 0.0) && !(bits & 1))
        bits += (error > 0.0) == (s > 0.0) ? 1 : UINT64_MAX; /* one step towards the exact sum */
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return (float)odd;
}

static inline float fma_class(float a, float b, float c)
{
    return KR_FUSED ? fma_once(a, b, c) : c + a * b;
}

static inline vf vf_fma(vf a, vf b, vf c)
{
    VF_EACH(i) c.l[i] = fma_class(a.l[i], b.l[i], c.l[i]);
    return c;
}

static inline vf vf_fnma(vf a, vf b, vf c)
{
    VF_EACH(i) c.l[i] = fma_class(-a.l[i], b.l[i], c.l[i]);
    return c;
}

static inline vf vf_abs(vf v)
{
    uint32_t bits[16];
    memcpy(bits, &v, sizeof v);
    VF_EACH(i) bits[i] &= 0x7fffffff;
    memcpy(&v, bits, sizeof v);
    return v;
}

/* Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the mantissa. */
static inline vf vf_rint(vf v)
{
    const vf shift = vf_set1(0x1.8p23f);
    return vf_sub(vf_add(v, shift), shift);
}

static inline vf vf_ldexp(vf p, vf n)
{
    uint32_t bits[16];
    memcpy(bits, &p, sizeof p);
    VF_EACH(i) bits[i] += (uint32_t)(int32_t)n.l[i] << 23;
    memcpy(&p, bits, sizeof p);
    return p;
}

static inline vf vf_swap_pairs(vf v)
{
    vf r;
    VF_EACH(i) r.l[i] = v.l[i ^ 1];
    return r;
}

static inline vf vf_keep(vf v, size_t lo, size_t hi, vf other)
{
    VF_EACH(i) other.l[i] = lo <= i && i < hi ? v.l[i] : other.l[i];
    return other;
}

static inline float vf_sum(vf v)
{
    for (size_t half = 8; half; half /= 2)
        for (size_t i = 0; i < half; i++)
            v.l[i] += v.l[i + half];
    return v.l[0];
}

static inline float vf_amax(vf v)
{
    float top = v.l[0];
    VF_EACH(i) top = v.l[i] > top ? v.l[i] : top;
    return top;
}

static inline vf vf_load_f16(const uint16_t *p)
{
    vf r;
    VF_EACH(i) r.l[i] = f16_to_f32(p[i]);
    return r;
}

static inline void vf_store_f16(uint16_t *p, vf v)
{
    VF_EACH(i) p[i] = f32_to_f16(v.l[i]);
}

static inline vf vf_load_i8(const int8_t *p)
{
    vf r;
    VF_EACH(i) r.l[i] = (float)p[i];
    return r;
}

/* The low byte of the shifted bits: defined for any float, NaN included. */
static inline void vf_store_i8(int8_t *p, vf v)
{
    uint32_t bits[16];
    v = vf_add(v, vf_set1(0x1.8p23f));
    memcpy(bits, &v, sizeof v);
    VF_EACH(i) p[i] = (int8_t)(uint8_t)bits[i];
}

#endif
