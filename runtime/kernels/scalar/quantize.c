/* scalar/quantize.c - activations as int8: q[k/32][cols][32], then d[k/32][cols].
 * SPDX-License-Identifier: MIT */
#include "kernels.h"
#include "quantize.h"

size_t kern_acts_bytes(size_t k, size_t cols)
{
    return k / KERN_BLOCK * cols * (KERN_BLOCK + sizeof(float));
}

void kern_quantize(void *acts, size_t k, size_t cols, size_t col0, size_t col1, size_t block0,
                   size_t block1, const float *x, size_t x_stride)
{
    int8_t *q = acts;
    float *d = (float *)(q + k * cols);
    for (size_t c = col0; c < col1; c++) {
        const float *row = x + (c - col0) * x_stride;
        for (size_t b = block0; b < block1; b++, row += KERN_BLOCK)
            d[b * cols + c] = quantize_block(q + (b * cols + c) * KERN_BLOCK, row);
    }
}
