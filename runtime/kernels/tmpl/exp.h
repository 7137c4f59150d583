/* tmpl/exp.h - exp and what is made of it, over the 16 lanes of <vec.h>.
 *
 * One fixed sequence of operations, so a class gives the same bits on every
 * ISA; libm is never asked.  Relative error of vf_exp below 1.3e-7.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_EXP_H
#define TMPL_EXP_H

#include <vec.h>

#include "compiler.h"

enum { EXP_MOST = 4 }; /* vectors side by side */

/* e^x of n <= EXP_MOST vectors, n a constant; x clamped to [-87, 88]: the result is a normal float, never 0 or infinite.
 * Every step is done for all n before the next: a core sees as many chains side by side.
 *
 * x = k*ln2 + r, |r| <= ln2/2; ln2 is split so that k * 0.693359375 is exact
 * (10 + 7 bits) with or without fma; degree-6 polynomial for e^r. */
KR_INLINE void vf_exp_each(const size_t n, vf *x)
{
    static const float factors[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                                    1.6666665459e-1f, 5.0000001201e-1f};
    vf k[EXP_MOST], r[EXP_MOST], p[EXP_MOST];
#define EACH                                                                                       \
    KR_UNROLL                                                                                      \
    for (size_t i = 0; i < n; i++)
    EACH r[i] = vf_min(vf_max(x[i], vf_set1(-87.0f)), vf_set1(88.0f));
    EACH k[i] = vf_rint(vf_mul(r[i], vf_set1(1.44269504f)));
    EACH r[i] = vf_fnma(k[i], vf_set1(0.693359375f), r[i]);
    EACH r[i] = vf_fnma(k[i], vf_set1(-2.12194440e-4f), r[i]);
    EACH p[i] = vf_set1(1.9875691500e-4f);
    KR_UNROLL
    for (size_t j = 0; j < sizeof factors / sizeof *factors; j++)
        EACH p[i] = vf_fma(p[i], r[i], vf_set1(factors[j]));
    EACH p[i] = vf_fma(vf_mul(r[i], r[i]), p[i], vf_add(r[i], vf_set1(1.0f)));
    EACH x[i] = vf_ldexp(p[i], k[i]);
#undef EACH
}

static inline vf vf_exp(vf x)
{
    vf_exp_each(1, &x);
    return x;
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
