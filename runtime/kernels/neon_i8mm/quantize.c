/* neon_i8mm/quantize.c - activations as int8, columns in pairs.
 * SPDX-License-Identifier: MIT */
#include <dot.h>

#include "quantize.h"

void kern_quantize(void *acts, size_t k, size_t cols, size_t col0, size_t col1, size_t block0,
                   size_t block1, const float *x, size_t x_stride)
{
    const struct dot_acts a = dot_acts_view(acts, k, cols);
    for (size_t c = col0; c < col1; c++, x += x_stride) {
        const size_t step = c == cols - 1 && c % 2 == 0 ? 8 : 16; /* alone, or in a pair */
        for (size_t b = block0; b < block1; b++) {
            int8_t bytes[KERN_BLOCK], *q = a.q + KERN_BLOCK * (b * cols + c - c % 2) + 8 * (c % 2);
            a.d[b * cols + c] = quantize_block(bytes, x + KERN_BLOCK * (b - block0));
            for (size_t z = 0; z < KERN_BLOCK / 8; z++)
                memcpy(q + step * z, bytes + 8 * z, 8);
        }
    }
}
