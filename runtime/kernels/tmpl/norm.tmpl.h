/* tmpl/norm.tmpl.h - kern_rmsnorm over the including ISA's vf.
 * Include once, from <isa>/elementwise.c.
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include <vec.h>

#include "kernels.h"

void kern_rmsnorm(float *y, const float *x, const float *gain, size_t n, float eps)
{
    const size_t body = n - n % KERN_LANES;
    vf sum = vf_set1(0.0f);
    for (size_t i = 0; i < body; i += KERN_LANES) {
        const vf v = vf_load(x + i);
        sum = vf_fma(v, v, sum);
    }
    const vf tail = vf_load_n(x + body, n - body); /* missing lanes are 0: they add nothing */
    sum = vf_fma(tail, tail, sum);

    /* sqrtf is one correctly rounded instruction everywhere, unlike the rest of libm. */
    const vf scale = vf_set1(1.0f / sqrtf(vf_sum(sum) / (float)n + eps));
    for (size_t i = 0; i < body; i += KERN_LANES)
        vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), scale), vf_load(gain + i)));
    const vf last = vf_mul(vf_mul(tail, scale), vf_load_n(gain + body, n - body));
    vf_store_n(y + body, last, n - body);
}
