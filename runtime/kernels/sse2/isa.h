/* sse2/isa.h - plain SSE2: 16 registers of 4 lanes, every x86-64 CPU has it.
 * SPDX-License-Identifier: MIT */
#ifndef ISA_H
#define ISA_H

#define PACK_Q8_NAME "q8p16x4"
#define PACK_Q4_NAME "q4p16x4"

enum {
    PACK_ROWS = 16, /* rows of a panel: 4 lanes each of four xmm */
    PACK_Q8_K = 4,  /* bytes of one row kept together: two pmaddwd words */
    PACK_Q4_K = 4,
    PACK_Q8_XOR = 0x80, /* weights as unsigned bytes */
    PACK_Q4_XOR = 0,    /* nibbles as in the file: q + 8 */
    PACK_BLOCKS = 2,    /* k-blocks of a super-block: 9 or 17 whole cache lines */
    WIDEN_COLS = 4,     /* from here on it pays to widen a block for all columns */
    ATTN_SUMS = 3,      /* attention sums in registers, beside K or V and a broadcast */
    DELTA_VECS = 1, /* vectors of columns of the delta rule: 2 x 4 xmm of sums + 4 of state of 16 */
};

#endif
