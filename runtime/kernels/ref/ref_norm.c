/* ref_norm.c - RMSNorm and L2 norm, exact and as the 16 lanes add it.
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include "ref.h"

void ref_rmsnorm(double *want, double *mag, const float *x, const float *gain, size_t n, float eps)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    const double scale = 1.0 / sqrt(sum / (double)n + eps);
    for (size_t i = 0; i < n; i++) {
        want[i] = x[i] * scale * gain[i];
        mag[i] = fabs(want[i]);
    }
}

void ref_l2norm(double *want, double *mag, const float *x, size_t n, float eps, float scale)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    for (size_t i = 0; i < n; i++) {
        want[i] = x[i] / sqrt(sum + eps) * scale;
        mag[i] = fabs(want[i]);
    }
}

static float sum_squares(const float *x, size_t n, bool fused)
{
    float lane[KERN_LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        float *sum = &lane[i % KERN_LANES];
        const float square = x[i] * x[i];
        *sum = fused ? fmaf(x[i], x[i], *sum) : *sum + square;
    }
    for (size_t half = KERN_LANES / 2; half; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

void ref_rmsnorm_bits(float *want, const float *x, const float *gain, size_t n, float eps,
                      bool fused)
{
    const float scale = 1.0f / sqrtf(sum_squares(x, n, fused) / (float)n + eps);
    for (size_t i = 0; i < n; i++) {
        const float y = x[i] * scale;
        want[i] = y * gain[i];
    }
}

void ref_l2norm_bits(float *want, const float *x, size_t n, float eps, float scale, bool fused)
{
    const float factor = 1.0f / sqrtf(sum_squares(x, n, fused) + eps);
    for (size_t i = 0; i < n; i++) {
        const float y = x[i] * factor;
        want[i] = y * scale;
    }
}
