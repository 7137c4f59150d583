/* tmpl/acts_vnni.h - the activations of the ISAs with vpdpbusd, which multiplies unsigned weights
 * (q + 8 or q + 128) with signed activations: the offset is undone by where a sum starts, at -8 or
 * -128 times the sum of the block's activations.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_ACTS_VNNI_H
#define TMPL_ACTS_VNNI_H

#include "compiler.h"
#include "kernels.h"

/* Activations of [blocks][cols] blocks, block-major. */
struct dot_acts {
    int8_t *q;         /* [blocks][cols][32] */
    float *d;          /* [blocks][cols] */
    int32_t *start[2]; /* [blocks][cols], by wtype: -128 or -8 times the sum of q */
};

enum { DOT_ACT_BYTES = 32 + 3 * 4 }; /* per block and column */

KR_INLINE struct dot_acts dot_acts_view(const void *acts, size_t k, size_t cols)
{
    const size_t n = k / KERN_BLOCK * cols;
    int8_t *q = (int8_t *)acts;
    float *d = (float *)(q + KERN_BLOCK * n);
    int32_t *start = (int32_t *)(d + n);
    return (struct dot_acts){q, d, {[KERN_Q8] = start, [KERN_Q4] = start + n}};
}

#endif
