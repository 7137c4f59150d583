/* vex.c - decode, compute and encode anew.
 *
 *   VEX   c4 | R'X'B' map | W vvvv' L pp        | opcode | modrm [sib] [disp8 | disp32]
 *   EVEX  62 | R'X'B' 1 0 0 map | W vvvv' 1 pp | 0 0 L 0 1 000 | opcode | modrm [sib] [disp32]
 *
 * A mark ' means stored inverted.  EVEX counts an 8-bit displacement in operands,
 * so the twin always has 32 bits.
 * SPDX-License-Identifier: MIT */
#include "vex.h"

#include <string.h>

enum {
    VEX3 = 0xc4,
    EVEX = 0x62,
    MAP_0F38 = 2,
    PREFIX_66 = 1,
    MOD_REGISTER = 3,
    RM_SIB = 4,      /* in modrm: a sib byte follows; as sib index: none */
    RM_RELATIVE = 5, /* with mod 0: in modrm relative to rip, as sib base: none */
};

static int32_t take32(const uint8_t *bytes, unsigned *at)
{
    int32_t value;
    memcpy(&value, bytes + *at, sizeof value);
    *at += sizeof value;
    return value;
}

/* The operand in memory; the extension bits x and b are 0 or 8. */
static void decode_memory(struct vex_dot *d, const uint8_t *bytes, int x, int b)
{
    const unsigned mod = bytes[4] >> 6, rm = bytes[4] & 7;
    unsigned at = 5;
    d->memory = true;
    d->base = (int)rm | b;
    bool no_base = mod == 0 && rm == RM_RELATIVE;
    d->relative = no_base;
    if (rm == RM_SIB) {
        const unsigned sib = bytes[at++];
        const int index = (int)(sib >> 3 & 7) | x;
        d->index = index == RM_SIB ? -1 : index;
        d->scale = sib >> 6;
        d->base = (int)(sib & 7) | b;
        no_base = mod == 0 && (sib & 7) == RM_RELATIVE;
    }
    if (no_base)
        d->base = -1;
    if (mod == 1)
        d->displacement = (int8_t)bytes[at++];
    else if (mod == 2 || no_base)
        d->displacement = take32(bytes, &at);
    d->length = at;
}

bool vex_dot_decode(struct vex_dot *d, const uint8_t bytes[VEX_BYTES])
{
    const bool dot = bytes[0] == VEX3 && (bytes[1] & 0x1f) == MAP_0F38 &&
                     (bytes[2] & 0x83) == PREFIX_66 && bytes[3] >= 0x50 && bytes[3] <= 0x53;
    if (!dot)
        return false;
    const int r = bytes[1] & 0x80 ? 0 : 8, x = bytes[1] & 0x40 ? 0 : 8, b = bytes[1] & 0x20 ? 0 : 8;
    *d = (struct vex_dot){
        .opcode = bytes[3],
        .ymm = bytes[2] >> 2 & 1,
        .dst = (bytes[4] >> 3 & 7) | (unsigned)r,
        .a = ~(unsigned)bytes[2] >> 3 & 15,
        .b = (bytes[4] & 7) | (unsigned)b,
        .base = -1,
        .index = -1,
        .length = 5,
    };
    if (bytes[4] >> 6 != MOD_REGISTER)
        decode_memory(d, bytes, x, b);
    return true;
}

static int64_t dot4(const uint8_t *a, const uint8_t *b)
{
    int64_t sum = 0;
    for (int i = 0; i < 4; i++)
        sum += a[i] * (int8_t)b[i];
    return sum;
}

static int64_t dot2(const uint8_t *a, const uint8_t *b)
{
    int16_t x[2], y[2];
    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    return (int64_t)x[0] * y[0] + (int64_t)x[1] * y[1];
}

static int32_t saturated(int64_t v)
{
    return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
}

void vex_dot_run(const struct vex_dot *d, int32_t acc[8], const uint8_t a[YMM_BYTES],
                 const uint8_t b[YMM_BYTES])
{
    const bool words = d->opcode & 2, saturating = d->opcode & 1;
    for (int i = 0; i < 8; i++) {
        const int64_t sum = acc[i] + (words ? dot2 : dot4)(a + 4 * i, b + 4 * i);
        acc[i] = saturating ? saturated(sum) : (int32_t)(uint32_t)(uint64_t)sum;
        if (i >= 4 && !d->ymm)
            acc[i] = 0;
    }
}

unsigned vex_dot_to_evex(const struct vex_dot *d, const uint8_t bytes[VEX_BYTES], uint64_t from,
                         uint64_t to, uint8_t twin[EVEX_BYTES])
{
    /* Registers past 15 are what X' and the fifth bits are for when there is no memory operand. */
    const uint8_t modrm = bytes[4], no_high_register = d->memory ? 0 : 0x40;
    unsigned n = 0;
    twin[n++] = EVEX;
    twin[n++] = (uint8_t)((bytes[1] & 0xe0) | 0x10 | MAP_0F38 | no_high_register);
    twin[n++] = (uint8_t)((bytes[2] & 0x78) | 0x04 | PREFIX_66);
    twin[n++] = (uint8_t)(0x08 | (d->ymm ? 0x20 : 0));
    twin[n++] = d->opcode;
    if (!d->memory) {
        twin[n++] = modrm;
        return n;
    }
    const bool keep_mod = d->base < 0; /* it has 32 bits already */
    twin[n++] = (uint8_t)((keep_mod ? 0 : 0x80) | (modrm & 0x3f));
    if ((modrm & 7) == RM_SIB)
        twin[n++] = bytes[5];
    int64_t displacement = d->displacement;
    if (d->relative)
        displacement += (int64_t)(from + d->length) - (int64_t)(to + n + 4);
    const int32_t stored = (int32_t)displacement;
    memcpy(twin + n, &stored, sizeof stored);
    return stored == displacement ? n + 4 : 0;
}
