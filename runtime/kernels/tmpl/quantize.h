/* tmpl/quantize.h - floats to int8 with one scale, the same rule everywhere:
 * d = amax / 127, q = round-to-even(x * (127 / amax)).
 *
 * How the activations of a matmul lie in memory is each ISA's quantize.c.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_QUANTIZE_H
#define TMPL_QUANTIZE_H

#include <vec.h>

static const float quantize_nothing = 1e-30f; /* below this a block is all zero */

/* Factor from floats to integers of at most `steps`, and their scale in *d; both 0 for (nearly)
 * nothing.  |x| <= amax gives |x * factor| <= steps * (1 + 2^-23), which rounds to steps: of 127 never
 * to -128. */
static inline vf quantize_factor(float amax, float steps, float *d)
{
    if (amax < quantize_nothing) {
        *d = 0.0f;
        return vf_set1(0.0f);
    }
    *d = amax / steps;
    return vf_set1(steps / amax);
}

/* The same of 16 blocks, to int8. */
static inline void quantize_factors(float factor[16], float d[16], const float amax[16])
{
    const vf most = vf_set1(127.0f), m = vf_max(vf_load(amax), vf_set1(quantize_nothing));
    vf_store(d, vf_div(m, most));
    vf_store(factor, vf_div(most, m));
    for (size_t i = 0; i < 16; i++)
        if (amax[i] < quantize_nothing)
            d[i] = factor[i] = 0.0f;
}

/* q[0..31] of one block of 32 floats in their order; returns the scale. */
static inline float quantize_block(int8_t *q, const float *x)
{
    const vf a = vf_load(x), b = vf_load(x + 16);
    float d;
    const vf factor = quantize_factor(vf_amax(vf_max(vf_abs(a), vf_abs(b))), 127.0f, &d);
    vf_store_i8(q, vf_rint(vf_mul(a, factor)));
    vf_store_i8(q + 16, vf_rint(vf_mul(b, factor)));
    return d;
}

#endif
