/* tmpl/asm_arm.h - loads and nibbles for the asm/dot_sums.h of AArch64: 64 bytes of weights in four
 * registers from v16 or v20 on.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_ASM_ARM_H
#define TMPL_ASM_ARM_H

/* The next 64 bytes at w. */
#define DOT_LOAD_A "ld1 {v16.16b - v19.16b}, [%[w]], #64\n\t"
#define DOT_LOAD_B "ld1 {v20.16b - v23.16b}, [%[w]], #64\n\t"

/* Of nibbles, the low ones move up to v24 .. v27, and are cleared below the high ones; high holds
 * 0xF0 in every byte. */
#define DOT_SPLIT(w0, w1, w2, w3)                                                                  \
    "shl v24.16b, " w0 ".16b, #4\n\t"                                                              \
    "shl v25.16b, " w1 ".16b, #4\n\t"                                                              \
    "shl v26.16b, " w2 ".16b, #4\n\t"                                                              \
    "shl v27.16b, " w3 ".16b, #4\n\t"                                                              \
    "and " w0 ".16b, " w0 ".16b, %[high].16b\n\t"                                                  \
    "and " w1 ".16b, " w1 ".16b, %[high].16b\n\t"                                                  \
    "and " w2 ".16b, " w2 ".16b, %[high].16b\n\t"                                                  \
    "and " w3 ".16b, " w3 ".16b, %[high].16b\n\t"

#endif
