/* scalar/isa.h - plain C, for any CPU: no intrinsics, no assumption beyond C11.
 * SPDX-License-Identifier: MIT */
#ifndef ISA_H
#define ISA_H

#define ISA_NAME "scalar"
enum {
    PACK_ROWS = 16, /* rows interleaved in a panel */
    PACK_K = 4,     /* bytes of one row kept together */
    ATTN_SUMS = 1,  /* one vf of 16 floats is all that most compilers keep in registers */
};

#endif
