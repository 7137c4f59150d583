/* scalar_fused/isa.h - scalar with the fused arithmetic class (KR_FUSED=1): the
 * golden answer of that class on any machine.
 * SPDX-License-Identifier: MIT */
#ifndef ISA_H
#define ISA_H

#define ISA_NAME "scalar_fused"
enum {
    PACK_ROWS = 16, /* as scalar/isa.h */
    PACK_K = 4,
    ATTN_SUMS = 1,
};

#endif
