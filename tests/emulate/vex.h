/* vex.h - the four dot-product instructions of AVX-VNNI: what one means, and its EVEX twin.
 *
 * vpdpbusd, vpdpbusds, vpdpwssd and vpdpwssds in their VEX encoding, with every
 * addressing mode.  Knows nothing of processes.
 * SPDX-License-Identifier: MIT */
#ifndef VEX_H
#define VEX_H

#include <stdbool.h>
#include <stdint.h>

enum {
    VEX_BYTES = 15,  /* the longest x86 instruction */
    EVEX_BYTES = 11, /* the longest twin: prefix 4, opcode, modrm, sib, displacement 4 */
    YMM_BYTES = 32,
};

struct vex_dot {
    uint8_t opcode;     /* 0x50 + (words ? 2 : 0) + (saturating ? 1 : 0) */
    bool ymm;           /* else xmm, and the upper half of dst becomes zero */
    bool memory;        /* b is in memory, else in register b */
    unsigned dst, a, b; /* vector registers: dst += a (unsigned bytes) * b (signed) */
    int base, index;    /* general registers in the encoding's order, -1: none */
    unsigned scale;     /* index times 1 << scale */
    bool relative;      /* to the end of the instruction */
    int32_t displacement;
    unsigned length; /* in bytes */
};

/* False if the bytes are none of the four instructions. */
bool vex_dot_decode(struct vex_dot *d, const uint8_t bytes[VEX_BYTES]);
/* acc[0..8) of int32: dst as the instruction leaves it. */
void vex_dot_run(const struct vex_dot *d, int32_t acc[8], const uint8_t a[YMM_BYTES],
                 const uint8_t b[YMM_BYTES]);
/* Write the twin that does at address `to` what `bytes` do at `from`; its length, or 0 if
 * the operand is out of its reach. */
unsigned vex_dot_to_evex(const struct vex_dot *d, const uint8_t bytes[VEX_BYTES], uint64_t from,
                         uint64_t to, uint8_t twin[EVEX_BYTES]);

#endif
