/* neon/isa.h - Advanced SIMD of ARMv8.0 and ARMv7: 4 lanes, no int8 dot product.
 * SPDX-License-Identifier: MIT */
#ifndef ISA_H
#define ISA_H

#include "neon_compat.h"

#define PACK_Q8_NAME "q8p16x4s"
#define PACK_Q4_NAME "q4p16x1"

enum {
    PACK_ROWS = 16,  /* rows of a panel: the bytes of one register, 4 lanes each of four */
    PACK_Q8_K = 4,   /* a register is 4 rows of 4 k: two smull, two sadalp */
    PACK_Q4_K = 1,   /* a register is one k of 16 rows, so that a lane of int16 is a row */
    PACK_Q8_XOR = 0, /* signed */
    PACK_Q4_XOR = 0, /* nibbles as in the file: q + 8 */
    PACK_BLOCKS = 2, /* k-blocks of a super-block */

    /* Of 32 registers, or of the 16 of ARMv7: */
    PANELS_Q4 = NEON_REGISTERS / 16,   /* at once, for many columns */
    TILE_Q4_COLS = NEON_REGISTERS / 8, /* 2 panels x 4 x 2 sums + 4 activations + 4 x nibbles + 2 */
    GROUPS_Q8 = NEON_REGISTERS == 32 ? 4 : 1, /* of 4 rows: 2 sums each + 8 activations + weights */
    ATTN_SUMS = NEON_REGISTERS / 8,           /* 4 sums of four registers + K or V + a broadcast */
    DELTA_VECS = 1, /* vectors of columns of the delta rule: 2 x 4 sums + 4 of state */
};

#endif
