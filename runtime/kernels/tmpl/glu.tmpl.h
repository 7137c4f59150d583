/* tmpl/glu.tmpl.h - kern_add, the gated units and the soft cap over the including
 * ISA's vf.  Include once, from <isa>/elementwise.c.
 * SPDX-License-Identifier: MIT */
#include <vec.h>

#include "exp.h"
#include "kernels.h"

void kern_add(float *y, const float *x, size_t n)
{
    const size_t body = n - n % KERN_LANES;
    for (size_t i = 0; i < body; i += KERN_LANES)
        vf_store(y + i, vf_add(vf_load(y + i), vf_load(x + i)));
    const vf tail = vf_add(vf_load_n(y + body, n - body), vf_load_n(x + body, n - body));
    vf_store_n(y + body, tail, n - body);
}

static inline vf glu_silu(vf gate)
{
    return vf_gate(gate, gate);
}

/* 0.5*x*(1 + tanh(u)) = x / (1 + e^-2u) with 2u = 2*sqrt(2/pi) * (x + 0.044715*x^3). */
static inline vf glu_gelu(vf gate)
{
    const vf square = vf_mul(gate, gate);
    const vf cubic = vf_fma(vf_mul(square, vf_set1(0.044715f)), gate, gate);
    return vf_gate(gate, vf_mul(cubic, vf_set1(1.59576912f)));
}

void kern_silu_mul(float *y, const float *gate, const float *up, size_t n)
{
    const size_t body = n - n % KERN_LANES;
    for (size_t i = 0; i < body; i += KERN_LANES)
        vf_store(y + i, vf_mul(glu_silu(vf_load(gate + i)), vf_load(up + i)));
    const vf tail = glu_silu(vf_load_n(gate + body, n - body));
    vf_store_n(y + body, vf_mul(tail, vf_load_n(up + body, n - body)), n - body);
}

void kern_gelu_mul(float *y, const float *gate, const float *up, size_t n)
{
    const size_t body = n - n % KERN_LANES;
    for (size_t i = 0; i < body; i += KERN_LANES)
        vf_store(y + i, vf_mul(glu_gelu(vf_load(gate + i)), vf_load(up + i)));
    const vf tail = glu_gelu(vf_load_n(gate + body, n - body));
    vf_store_n(y + body, vf_mul(tail, vf_load_n(up + body, n - body)), n - body);
}

void kern_sigmoid_mul(float *y, const float *x, const float *gate, size_t n)
{
    const size_t body = n - n % KERN_LANES, rest = n - body;
    for (size_t i = 0; i < body; i += KERN_LANES)
        vf_store(y + i, vf_gate(vf_load(x + i), vf_load(gate + i)));
    vf_store_n(y + body, vf_gate(vf_load_n(x + body, rest), vf_load_n(gate + body, rest)), rest);
}

/* x - x is 0, but NaN where x is none of the numbers: the clamp inside of the cap would hide it. */
static inline vf glu_softcap(vf x, float cap)
{
    return vf_add(vf_softcap(x, cap), vf_sub(x, x));
}

void kern_softcap(float *x, size_t n, float cap)
{
    const size_t body = n - n % KERN_LANES;
    for (size_t i = 0; i < body; i += KERN_LANES)
        vf_store(x + i, glu_softcap(vf_load(x + i), cap));
    vf_store_n(x + body, glu_softcap(vf_load_n(x + body, n - body), cap), n - body);
}
