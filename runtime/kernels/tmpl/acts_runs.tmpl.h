/* tmpl/acts_runs.tmpl.h - kern_quantize for block-major activations, up to 16
 * blocks that stand together at a time: a division makes the scales of all of them, and what is
 * stored fills cache lines.  Include once, at the end of <isa>/quantize.c, which defines
 *
 *   void acts_block(const struct dot_acts *a, size_t at, vf low, vf high)
 *       block at = block * cols + column gets its bytes, and its sums, from 32 integers as floats
 *
 * with the activations of <dot.h>.
 * SPDX-License-Identifier: MIT */
#include <dot.h>

#include "kernels.h"
#include "quantize.h"

enum { ACTS_RUN = 16 }; /* the lanes of a vf */

/* Blocks at .. at + n - 1, n <= ACTS_RUN, from x[n][32] with row stride `stride` floats. */
static void acts_run(const struct dot_acts *a, size_t at, size_t n, const float *x, size_t stride)
{
    float amax[ACTS_RUN] = {0}, d[ACTS_RUN], factor[ACTS_RUN];
    for (size_t i = 0; i < n; i++) {
        const float *block = x + i * stride;
        amax[i] = vf_amax(vf_max(vf_abs(vf_load(block)), vf_abs(vf_load(block + 16))));
    }
    quantize_factors(factor, d, amax);
    for (size_t i = 0; i < n; i++) {
        const float *block = x + i * stride;
        const vf f = vf_set1(factor[i]);
        a->d[at + i] = d[i];
        acts_block(a, at + i, vf_rint(vf_mul(vf_load(block), f)),
                   vf_rint(vf_mul(vf_load(block + 16), f)));
    }
}

void kern_quantize(void *acts, size_t k, size_t cols, size_t col0, size_t col1, size_t block0,
                   size_t block1, const float *x, size_t x_stride)
{
    const struct dot_acts a = dot_acts_view(acts, k, cols);
    if (cols == 1) { /* its blocks stand together */
        for (size_t b = block0; b < block1; b += ACTS_RUN, x += ACTS_RUN * KERN_BLOCK)
            acts_run(&a, b, block1 - b < ACTS_RUN ? block1 - b : ACTS_RUN, x, KERN_BLOCK);
        return;
    }
    for (size_t c = col0; c < col1; c += ACTS_RUN, x += ACTS_RUN * x_stride)
        for (size_t b = block0; b < block1; b++)
            acts_run(&a, b * cols + c, col1 - c < ACTS_RUN ? col1 - c : ACTS_RUN,
                     x + KERN_BLOCK * (b - block0), x_stride);
}
