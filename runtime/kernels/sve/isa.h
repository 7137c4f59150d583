/* sve/isa.h - the Scalable Vector Extension at any vector length, beside the 32 registers of
 * Advanced SIMD, which every CPU with SVE has.
 * SPDX-License-Identifier: MIT */
#ifndef ISA_H
#define ISA_H

#include <arm_sve.h>

#include "../neon/neon_compat.h"

#define PACK_Q8_NAME "q8p16x4s"
#define PACK_Q4_NAME "q4p16x4s"

enum {
    PACK_ROWS = 16, /* rows of a panel: 64 bytes of 4 k, one vector of 512 bits or 4 of 128 */
    PACK_Q8_K = 4,  /* bytes of one row kept together: one sdot step */
    PACK_Q4_K = 4,
    PACK_Q8_XOR = 0, /* signed */
    PACK_Q4_XOR = 8, /* nibbles as two's complement, q */
    PACK_BLOCKS = 2, /* k-blocks of a super-block */
    TILE_COLS = 2,   /* columns at once: 8 weights + 2 x 2 activations + 2 x 2 sums of 32 */
    ATTN_SUMS = 4,   /* attention is NEON's: 4 sums of four registers */
    DELTA_VECS = 1,  /* vectors of columns of the delta rule: NEON's as well */
};

#endif
