/* tmpl/acts.tmpl.h - kern_quantize: the walk over columns and blocks.  Include
 * once, at the end of <isa>/quantize.c, which defines
 *
 *   void acts_block(const struct dot_acts *a, size_t at, const float *x)
 *       block at = block * cols + column from 32 floats: its bytes, its scale and its sums
 *
 * with the activations of <dot.h>.
 * SPDX-License-Identifier: MIT */
#include <dot.h>

#include "kernels.h"

void kern_quantize(void *acts, size_t k, size_t cols, size_t col0, size_t col1, size_t block0,
                   size_t block1, const float *x, size_t x_stride)
{
    const struct dot_acts a = dot_acts_view(acts, k, cols);
    for (size_t c = col0; c < col1; c++, x += x_stride)
        for (size_t b = block0; b < block1; b++)
            acts_block(&a, b * cols + c, x + KERN_BLOCK * (b - block0));
}
