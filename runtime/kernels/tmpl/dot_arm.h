/* tmpl/dot_arm.h - what the AArch64 instruction sets with int8 dot products share: activations
 * without sums, and signed weights.
 *
 * Nibbles in two's complement are moved to the upper half of a byte, where they are 16 * q: no
 * offset has to be undone, and the conversion to float divides by 16 for nothing, exactly, as
 * |16 * sum| <= 16 * 32 * 8 * 127 < 2^24.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_DOT_ARM_H
#define TMPL_DOT_ARM_H

#include <isa.h>
#include <vec.h>

#include "kernels.h"

/* Activations of [blocks][cols] blocks, block-major. */
struct dot_acts {
    int8_t *q; /* [blocks][cols][32], or as <dot.h> says */
    float *d;  /* [blocks][cols] */
};

enum { DOT_ACT_BYTES = 32 + 4 }; /* per block and column */

KR_INLINE struct dot_acts dot_acts_view(const void *acts, size_t k, size_t cols)
{
    int8_t *q = (int8_t *)acts;
    return (struct dot_acts){q, (float *)(q + k * cols)};
}

/* Four sums of a block as floats. */
KR_INLINE float32x4_t dot_float(enum kern_wtype wtype, int32x4_t sums)
{
    return wtype == KERN_Q4 ? vcvtq_n_f32_s32(sums, 4) : vcvtq_f32_s32(sums);
}

/* A register of weights holds DOT_K bytes of as many rows as there is room for. */
enum { DOT_K = PACK_Q8_K, DOT_REGISTERS = KERN_BLOCK / DOT_K };

/* w[z] = the block of the rows whose first 16 bytes are at `quads`, as bytes; of nibbles, 16 times
 * them. */
KR_INLINE void dot_unpack(enum kern_wtype wtype, int8x16_t w[DOT_REGISTERS], const uint8_t *quads)
{
    const size_t step = DOT_K * PACK_ROWS;
    if (wtype == KERN_Q8) {
        KR_UNROLL
        for (size_t z = 0; z < DOT_REGISTERS; z++)
            w[z] = vreinterpretq_s8_u8(vld1q_u8(quads + step * z));
        return;
    }
    KR_UNROLL
    for (size_t z = 0; z < DOT_REGISTERS / 2; z++) {
        const uint8x16_t pairs = vld1q_u8(quads + step * z);
        w[z] = vreinterpretq_s8_u8(vshlq_n_u8(pairs, 4));
        w[DOT_REGISTERS / 2 + z] = vreinterpretq_s8_u8(vandq_u8(pairs, vdupq_n_u8(0xF0)));
    }
}

#endif
