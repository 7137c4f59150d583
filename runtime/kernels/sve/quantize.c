/* sve/quantize.c - activations as int8 in their order; signed weights need nothing else.
 * SPDX-License-Identifier: MIT */
#include <dot.h>

#include "quantize.h"

size_t kern_acts_bytes(size_t k, size_t cols)
{
    return k / KERN_BLOCK * cols * DOT_ACT_BYTES;
}

void kern_quantize(void *acts, size_t k, size_t cols, size_t col0, size_t col1, size_t block0,
                   size_t block1, const float *x, size_t x_stride)
{
    const struct dot_acts a = dot_acts_view(acts, k, cols);
    for (size_t c = col0; c < col1; c++, x += x_stride) {
        for (size_t b = block0; b < block1; b++) {
            const size_t at = b * cols + c;
            a.d[at] = quantize_block(a.q + KERN_BLOCK * at, x + KERN_BLOCK * (b - block0));
        }
    }
}
