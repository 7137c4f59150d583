/* neon/isa.h - Advanced SIMD of ARMv8.0: 32 registers of 4 lanes, no int8 dot product.
 * SPDX-License-Identifier: MIT */
#ifndef ISA_H
#define ISA_H

#define ISA_NAME "neon"
#define PACK_Q8_NAME "q8p16x4s"
#define PACK_Q4_NAME "q4p16x1"

enum {
    PACK_ROWS = 16,   /* rows of a panel: the bytes of one register, 4 lanes each of four */
    PACK_Q8_K = 4,    /* a register is 4 rows of 4 k: two smull, two sadalp */
    PACK_Q4_K = 1,    /* a register is one k of 16 rows, so that a lane of int16 is a row */
    PACK_Q8_XOR = 0,  /* signed */
    PACK_Q4_XOR = 0,  /* nibbles as in the file: q + 8 */
    PACK_BLOCKS = 2,  /* k-blocks of a super-block */
    TILE_Q8_COLS = 2, /* columns per tile: 2 x 8 sums + 2 activations + weights and products */
    TILE_Q4_COLS = 4, /* 4 x 2 sums + 2 x 4 activations + weights */
    ATTN_SUMS = 4,    /* attention sums of four registers, beside K or V and a broadcast */
};

#endif
