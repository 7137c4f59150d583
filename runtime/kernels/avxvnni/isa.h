/* avxvnni/isa.h - AVX-VNNI with AVX2, FMA and F16C: 16 registers of 8 lanes, int8 dots.
 * SPDX-License-Identifier: MIT */
#ifndef ISA_H
#define ISA_H

#define PACK_Q8_NAME "q8p16x4"
#define PACK_Q4_NAME "q4p16x4"

enum {
    PACK_ROWS = 16, /* rows of a panel: 8 lanes each of two ymm */
    PACK_Q8_K = 4,  /* bytes of one row kept together: one vpdpbusd step */
    PACK_Q4_K = 4,
    PACK_Q8_XOR = 0x80, /* weights as unsigned bytes */
    PACK_Q4_XOR = 0,    /* nibbles as in the file: q + 8 */
    PACK_BLOCKS = 2,    /* k-blocks of a super-block: 9 or 17 whole cache lines */
    TILE_COLS = 6,      /* columns per tile: 2 x 6 sums + 2 weights + activation of 16 ymm */
    TILE_REST = 4,      /* columns of the last tiles: 128 = 20 * 6 + 2 * 4 */
    ATTN_SUMS = 5,      /* attention sums in registers, beside K or V and a broadcast */
    DELTA_VECS = 2, /* vectors of columns of the delta rule: 2 x 4 ymm of sums + 4 of state of 16 */
};

#endif
