/* scalar_fused/isa.h - scalar with the fused arithmetic class (KR_FUSED=1): the
 * golden answer of that class on any machine.
 * SPDX-License-Identifier: MIT */
#ifndef ISA_H
#define ISA_H

#define PACK_Q8_NAME "q8p16x4"
#define PACK_Q4_NAME "q4p16x4"
enum {
    PACK_ROWS = 16, /* as scalar/isa.h */
    PACK_Q8_K = 4,  /* bytes of one row kept together */
    PACK_Q4_K = 4,
    PACK_Q8_XOR = 0x80, /* weights as unsigned bytes */
    PACK_Q4_XOR = 0,    /* nibbles as in the file: q + 8 */
    PACK_BLOCKS = 2,    /* k-blocks of a super-block */
    ATTN_SUMS = 1,
    DELTA_VECS = 1, /* vectors of columns of the delta rule at once */
};

#endif
