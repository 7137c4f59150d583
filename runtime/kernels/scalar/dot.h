/* scalar/dot.h - the exact integer dot of one block.
 * SPDX-License-Identifier: MIT */
#ifndef DOT_H
#define DOT_H

#include <stdint.h>

#include "kernels.h"

/* |sum| <= 32 * 128 * 127 < 2^24: exact as int32 and as float. */
static inline int32_t dot_block(const int8_t *w, const int8_t *x)
{
    int32_t sum = 0;
    for (int i = 0; i < KERN_BLOCK; i++)
        sum += w[i] * x[i];
    return sum;
}

#endif
