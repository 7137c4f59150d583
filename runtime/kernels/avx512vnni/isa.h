/* avx512vnni/isa.h - AVX-512 (F, BW, DQ, VL) with VNNI: 32 registers of 16 lanes, int8 dot
 * products. SPDX-License-Identifier: MIT */
#ifndef ISA_H
#define ISA_H

#define ISA_NAME "avx512vnni"

enum {
    PACK_ROWS = 16,  /* rows of a panel: the 16 lanes of one zmm */
    PACK_K = 4,      /* bytes of one row kept together: one vpdpbusd step */
    PACK_BLOCKS = 2, /* k-blocks of a super-block: 9 or 17 whole cache lines */
    TILE_COLS = 12,  /* columns per register tile: 12 sums + 8 weights + scale + work of 32 zmm */
    ATTN_SUMS = 24,  /* attention sums in registers, beside 4 of K or V and a broadcast */
};

#endif
