/* tmpl/exp.h - exp and what is made of it, over the 16 lanes of <vec.h>.
 *
 * One fixed sequence of operations, so a class gives the same bits on every
 * ISA; libm is never asked.  Relative error of vf_exp below 1.3e-7.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_EXP_H
#define TMPL_EXP_H

#include <vec.h>

/* e^x, x clamped to [-87, 88]: the result is a normal float, never 0 or infinite.
 *
 * x = n*ln2 + r, |r| <= ln2/2; ln2 is split so that n * 0.693359375 is exact
 * (10 + 7 bits) with or without fma; degree-6 polynomial for e^r. */
static inline vf vf_exp(vf x)
{
    x = vf_min(vf_max(x, vf_set1(-87.0f)), vf_set1(88.0f));
    const vf n = vf_rint(vf_mul(x, vf_set1(1.44269504f)));
    vf r = vf_fnma(n, vf_set1(0.693359375f), x);
    r = vf_fnma(n, vf_set1(-2.12194440e-4f), r);
    vf p = vf_set1(1.9875691500e-4f);
    p = vf_fma(p, r, vf_set1(1.3981999507e-3f));
    p = vf_fma(p, r, vf_set1(8.3334519073e-3f));
    p = vf_fma(p, r, vf_set1(4.1665795894e-2f));
    p = vf_fma(p, r, vf_set1(1.6666665459e-1f));
    p = vf_fma(p, r, vf_set1(5.0000001201e-1f));
    p = vf_fma(vf_mul(r, r), p, vf_add(r, vf_set1(1.0f)));
    return vf_ldexp(p, n);
}

/* x / (1 + e^-z): x times the logistic function of z. */
static inline vf vf_gate(vf x, vf z)
{
    const vf e = vf_exp(vf_sub(vf_set1(0.0f), z));
    return vf_div(x, vf_add(vf_set1(1.0f), e));
}

/* cap * tanh(x / cap) as cap - 2*cap / (1 + e^(2x/cap)). */
static inline vf vf_softcap(vf x, float cap)
{
    const vf e = vf_exp(vf_mul(x, vf_set1(2.0f / cap)));
    return vf_sub(vf_set1(cap), vf_div(vf_set1(2.0f * cap), vf_add(vf_set1(1.0f), e)));
}

#endif
