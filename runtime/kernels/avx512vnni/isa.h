/* avx512vnni/isa.h - AVX-512 (F, BW, DQ, VL) with VNNI: 32 registers of 16 lanes, int8 dots.
 * SPDX-License-Identifier: MIT */
#ifndef ISA_H
#define ISA_H

#define PACK_Q8_NAME "q8p16x4"
#define PACK_Q4_NAME "q4p16x4"

enum {
    PACK_ROWS = 16, /* rows of a panel: the 16 lanes of one zmm */
    PACK_Q8_K = 4,  /* bytes of one row kept together: one vpdpbusd step */
    PACK_Q4_K = 4,
    PACK_Q8_XOR = 0x80, /* weights as unsigned bytes */
    PACK_Q4_XOR = 0,    /* nibbles as in the file: q + 8 */
    PACK_BLOCKS = 2,    /* k-blocks of a super-block: 9 or 17 whole cache lines */
    TILE_COLS = 12, /* columns per register tile: 12 sums + 12 dots + weights + scale of 32 zmm */
    TILE_REST = 8,  /* columns of the last tile: 128 = 10 * 12 + 8 */
    ATTN_SUMS = 28, /* attention sums in registers, beside K or V and a broadcast */
    DELTA_VECS = 4, /* vectors of columns of the delta rule: 8 sums + 4 updates + 4 of state */
};

#endif
