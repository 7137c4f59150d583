/* tmpl/f16.h - one IEEE half to float and back, by integers: exact, subnormals
 * too, and blind to flush-to-zero.  ISAs with a conversion instruction use it
 * in vec.h for vectors and this only for a lone scale.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_F16_H
#define TMPL_F16_H

#include <stdint.h>
#include <string.h>

/* The value of a half; exact. */
static inline float f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31,
                   mantissa = h & 1023;
    uint32_t bits;
    if (exponent == 0) {
        const float f = (float)(int32_t)mantissa * 0x1p-24f; /* normal: nothing flushes */
        memcpy(&bits, &f, sizeof bits);
    } else {
        bits = (exponent == 31 ? 255u : exponent + (127 - 15)) << 23 | mantissa << 13;
    }
    bits |= sign;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* To nearest even; overflow gives infinity, NaN stays NaN. */
static inline uint16_t f32_to_f16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000, a = bits & 0x7fffffff;
    if (a > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (a >= 0x47800000) /* 65536 and above */
        return (uint16_t)(sign | 0x7c00);
    const uint32_t exponent = a >> 23;
    if (exponent < 102) /* below half of the smallest subnormal, 2^-25 */
        return (uint16_t)sign;
    /* Drop 13 bits of a normal half, more of a subnormal one; a carry out of
     * the mantissa moves into the exponent, up to infinity, as it should. */
    const uint32_t drop = exponent >= 113 ? 13 : 126 - exponent;
    const uint32_t m = exponent >= 113 ? a - (112u << 23) : (a & 0x7fffff) | 0x800000;
    const uint32_t half = 1u << (drop - 1), rest = m & (2 * half - 1);
    uint32_t h = m >> drop;
    h += rest > half || (rest == half && (h & 1));
    return (uint16_t)(sign | h);
}

#endif
