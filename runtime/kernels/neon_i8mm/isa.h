/* neon_i8mm/isa.h - Advanced SIMD with the int8 matrix products of ARMv8.6: 32 registers, 4 lanes.
 * SPDX-License-Identifier: MIT */
#ifndef ISA_H
#define ISA_H

#define PACK_Q8_NAME "q8p16x8s"
#define PACK_Q4_NAME "q4p16x8s"

enum {
    PACK_ROWS = 16, /* rows of a panel: two in each of eight registers */
    PACK_Q8_K = 8,  /* bytes of one row kept together: one smmla step */
    PACK_Q4_K = 8,
    PACK_Q8_XOR = 0, /* signed */
    PACK_Q4_XOR = 8, /* nibbles in two's complement: in the upper half of a byte, 16 times q */
    PACK_BLOCKS = 2, /* k-blocks of a super-block */
    ATTN_SUMS = 4,   /* 4 sums of four registers + K or V + a broadcast, of 32 registers */
    DELTA_VECS = 1,  /* vectors of columns of the delta rule: 2 x 4 sums + 4 of state of 32 */
};

#endif
