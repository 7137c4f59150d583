/* neon/quantize.c - activations as int8, with the sums that undo the nibbles' offset.
 * SPDX-License-Identifier: MIT */
#include <dot.h>

#include "quantize.h"

/* -8 times the sum of 32: at least -8 * 32 * 127 = -32512, it fits. */
static int16_t start_block(const int8_t *q)
{
    int16x8_t sums = vpaddlq_s8(vld1q_s8(q));
    sums = vpadalq_s8(sums, vld1q_s8(q + 16));
    const int32x4_t s4 = vpaddlq_s16(sums);
    const int32x2_t s2 = vadd_s32(vget_low_s32(s4), vget_high_s32(s4));
    return (int16_t)(-8 * vget_lane_s32(vpadd_s32(s2, s2), 0));
}

static void acts_block(const struct dot_acts *a, size_t at, const float *x)
{
    int8_t *q = a->q + KERN_BLOCK * at;
    a->d[at] = quantize_block(q, x);
    a->start[at] = start_block(q);
    const int8x8_t second = vld1_s8(q + 8), third = vld1_s8(q + 16);
    vst1_s8(q + 8, third);
    vst1_s8(q + 16, second);
}

#include "acts.tmpl.h"
