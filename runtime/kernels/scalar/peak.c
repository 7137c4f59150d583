/* scalar/peak.c - the dots of the inner loop alone, on a block of 16 rows that stays in L1: plain C
 * has no registers to keep it in.
 * SPDX-License-Identifier: MIT */
#include <dot.h>
#include <isa.h>

#include "kernels.h"

uint64_t kern_peak(enum kern_wtype w, size_t rounds, const char **name)
{
    int8_t block[PACK_ROWS][KERN_BLOCK], x[2 * KERN_BLOCK];
    volatile int8_t unknown = 1; /* no value here can be computed before */
    for (size_t i = 0; i < sizeof block; i++)
        block[i / KERN_BLOCK][i % KERN_BLOCK] = (int8_t)(unknown + (int)(i % 15));
    for (size_t i = 0; i < sizeof x; i++)
        x[i] = (int8_t)(unknown + (int)(i % 127));

    int32_t sum[PACK_ROWS] = {0};
    for (size_t i = 0; i < rounds; i++)
        for (size_t r = 0; r < PACK_ROWS; r++)
            sum[r] ^= dot_block(block[r], x + i % KERN_BLOCK);
    for (size_t r = 0; r < PACK_ROWS; r++)
        unknown = (int8_t)sum[r];
    (void)w; /* q4 is unpacked to int8 once for all columns */
    *name = "int8 products in C";
    return (uint64_t)rounds * PACK_ROWS * KERN_BLOCK;
}
