/* ref_norm.c - RMSNorm.
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
