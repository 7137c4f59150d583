/* scalar/isa.h - plain C, for any CPU: no intrinsics, no assumption beyond C11.
 * SPDX-License-Identifier: MIT */
#ifndef ISA_H
#define ISA_H

#define PACK_Q8_NAME "q8p16x4"
#define PACK_Q4_NAME "q4p16x4"
enum {
    PACK_ROWS = 16, /* rows interleaved in a panel */
    PACK_Q8_K = 4,  /* bytes of one row kept together */
    PACK_Q4_K = 4,
    PACK_Q8_XOR = 0x80, /* weights as unsigned bytes */
    PACK_Q4_XOR = 0,    /* nibbles as in the file: q + 8 */
    PACK_BLOCKS = 2,    /* k-blocks of a super-block */
    ATTN_SUMS = 1,      /* one vf of 16 floats is all that most compilers keep in registers */
    DELTA_VECS = 1,     /* vectors of columns of the delta rule at once */
};

#endif
