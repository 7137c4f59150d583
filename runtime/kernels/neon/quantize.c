/* neon/quantize.c - activations as int8, with the sums that undo the nibbles' offset.
 * SPDX-License-Identifier: MIT */
#include <dot.h>

#include "quantize.h"

size_t kern_acts_bytes(size_t k, size_t cols)
{
    return k / KERN_BLOCK * cols * DOT_ACT_BYTES;
}

/* -8 times the sum of 32: at least -8 * 32 * 127 = -32512, it fits. */
static int16_t start_block(const int8_t *q)
{
    int16x8_t sums = vpaddlq_s8(vld1q_s8(q));
    sums = vpadalq_s8(sums, vld1q_s8(q + 16));
    const int32x4_t s4 = vpaddlq_s16(sums);
    const int32x2_t s2 = vadd_s32(vget_low_s32(s4), vget_high_s32(s4));
    return (int16_t)(-8 * vget_lane_s32(vpadd_s32(s2, s2), 0));
}

void kern_quantize(void *acts, size_t k, size_t cols, size_t col0, size_t col1, size_t block0,
                   size_t block1, const float *x, size_t x_stride)
{
    const struct dot_acts a = dot_acts_view(acts, k, cols);
    for (size_t c = col0; c < col1; c++, x += x_stride) {
        for (size_t b = block0; b < block1; b++) {
            const size_t at = b * cols + c;
            int8_t *q = a.q + KERN_BLOCK * at;
            a.d[at] = quantize_block(q, x + KERN_BLOCK * (b - block0));
            a.start[at] = start_block(q);
        }
    }
}
