/* tmpl/norm.tmpl.h - kern_rmsnorm and kern_l2norm over the including ISA's vf.
 * Include once, from <isa>/elementwise.c.
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include <vec.h>

#include "kernels.h"

static inline float norm_squares(const float *x, size_t n)
{
    const size_t body = n - n % KERN_LANES;
    vf sum = vf_set1(0.0f);
    for (size_t i = 0; i < body; i += KERN_LANES) {
        const vf v = vf_load(x + i);
        sum = vf_fma(v, v, sum);
    }
    const vf tail = vf_load_n(x + body, n - body); /* missing lanes are 0: they add nothing */
    return vf_sum(vf_fma(tail, tail, sum));
}

/* sqrtf is one correctly rounded instruction everywhere, unlike the rest of libm. */
static inline vf norm_factor(float square)
{
    return vf_set1(1.0f / sqrtf(square));
}

void kern_rmsnorm(float *y, const float *x, const float *gain, size_t n, float eps)
{
    const size_t body = n - n % KERN_LANES;
    const vf factor = norm_factor(norm_squares(x, n) / (float)n + eps);
    for (size_t i = 0; i < body; i += KERN_LANES)
        vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), factor), vf_load(gain + i)));
    const vf tail = vf_mul(vf_load_n(x + body, n - body), factor);
    vf_store_n(y + body, vf_mul(tail, vf_load_n(gain + body, n - body)), n - body);
}

void kern_l2norm(float *y, const float *x, size_t n, float eps, float scale)
{
    const size_t body = n - n % KERN_LANES;
    const vf factor = norm_factor(norm_squares(x, n) + eps), last = vf_set1(scale);
    for (size_t i = 0; i < body; i += KERN_LANES)
        vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), factor), last));
    const vf tail = vf_mul(vf_load_n(x + body, n - body), factor);
    vf_store_n(y + body, vf_mul(tail, last), n - body);
}
