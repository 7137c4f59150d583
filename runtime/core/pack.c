/* pack.c - panels of interleaved rows, made from the rows of a file.
 *
 * struct pack_layout (kernels.h) drives it; nothing here knows an instruction set.
 *
 * q4p16x4: a panel is 16 rows, a super-block 2 blocks of 32 k, 576 bytes with f16 scales
 *     | 16 scales of block 0 | 16 scales of block 1 |
 *     | block 0: k 0..3, 16..19 of row 0 | ... of row 15 | k 4..7, 20..23 of row 0 | ...
 *     | block 1 ...
 *
 * SPDX-License-Identifier: MIT */
#include "pack.h"

#include <string.h>

#include "compiler.h"
#include "error.h"

const struct pack_layout kern_layout_file[2] = {
    [KERN_Q8] = {"q8p1x32", 1, 32, 1, 0, 0},
    [KERN_Q4] = {"q4p1x16", 1, 16, 1, 0, 0},
};

/* Sizes of one block of one row: a type of the file format. */
struct block_type {
    size_t s_bytes, d_bytes;
    bool q8, f32;
};

static struct block_type block_type(enum kern_wtype w, enum kern_stype s)
{
    return (struct block_type){s == KERN_F32 ? 4 : 2, w == KERN_Q8 ? KERN_BLOCK : KERN_BLOCK / 2,
                               w == KERN_Q8, s == KERN_F32};
}

size_t kr_pack_bytes(const struct pack_layout *l, enum kern_wtype w, enum kern_stype s, size_t rows,
                     size_t k)
{
    const struct block_type t = block_type(w, s);
    const size_t blocks = k / KERN_BLOCK;
    const size_t panels = rows / l->rows + (rows % l->rows != 0);
    const size_t supers = blocks / l->blocks + (blocks % l->blocks != 0);
    size_t bytes = (size_t)l->rows * l->blocks * (t.s_bytes + t.d_bytes);
    if (!kr_size_mul(&bytes, bytes, supers) || !kr_size_mul(&bytes, bytes, panels))
        return 0;
    return bytes;
}

/* A scale that is a number, and no q8 weight of -128 (kernels rely on 127 as the bound). */
static bool block_valid(const uint8_t *block, struct block_type t)
{
    if (t.f32) {
        uint32_t bits;
        memcpy(&bits, block, sizeof bits);
        if ((bits & 0x7f800000) == 0x7f800000)
            return false;
    } else {
        uint16_t bits;
        memcpy(&bits, block, sizeof bits);
        if ((bits & 0x7c00) == 0x7c00)
            return false;
    }
    if (!t.q8)
        return true;
    const uint64_t ones = 0x0101010101010101u, high = 0x80 * ones;
    uint64_t bad = 0;
    for (size_t i = 0; i < KERN_BLOCK; i += sizeof bad) {
        uint64_t x;
        memcpy(&x, block + t.s_bytes + i, sizeof x);
        x ^= high;                     /* a byte of -128 becomes 0, */
        bad |= (x - ones) & ~x & high; /* and this is not 0 if a byte of x is */
    }
    return bad == 0;
}

bool kr_pack_check(const void *src, enum kern_wtype w, enum kern_stype s, size_t rows, size_t k)
{
    const struct block_type t = block_type(w, s);
    const size_t bytes = t.s_bytes + t.d_bytes, n = rows * (k / KERN_BLOCK);
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i++)
        if (!block_valid(block + i * bytes, t))
            return false;
    return true;
}

/* n bytes of one row, exclusive-ored with `flip`; every kbytes of them go `step` further in dst. */
KR_INLINE void scatter_by(const size_t kbytes, uint8_t *dst, size_t step, const uint8_t *src,
                          size_t n, uint8_t flip)
{
    for (size_t i = 0; i < n; i += kbytes, dst += step) {
        uint64_t x = 0; /* a constant kbytes makes this one load, xor and store */
        memcpy(&x, src + i, kbytes);
        x ^= 0x0101010101010101u * flip;
        memcpy(dst, &x, kbytes);
    }
}

static void scatter(size_t kbytes, uint8_t *dst, size_t step, const uint8_t *src, size_t n,
                    uint8_t flip)
{
    if (kbytes == 1)
        scatter_by(1, dst, step, src, n, flip);
    else if (kbytes == 4)
        scatter_by(4, dst, step, src, n, flip);
    else if (kbytes == 8)
        scatter_by(8, dst, step, src, n, flip);
    else
        for (size_t i = 0; i < n; i++)
            dst[i / kbytes * step + i % kbytes] = src[i] ^ flip;
}

/* What is exclusive-ored to a whole byte. */
static uint8_t layout_flip(const struct pack_layout *l, struct block_type t)
{
    return t.q8 ? l->xor8 : (uint8_t)(l->xor4 << 4 | l->xor4);
}

/* One block of a panel's rows: in is that of the first of `real` rows, the others are padding. */
static bool pack_block(uint8_t *scales, uint8_t *data, const struct pack_layout *l,
                       struct block_type t, const uint8_t *in, size_t row_bytes, size_t real)
{
    /* Padding: scale 0, weights 0 (nibbles hold q + 8). */
    static const uint8_t zero8[4 + KERN_BLOCK];
    static const uint8_t zero4[4 + KERN_BLOCK / 2] = {0,    0,    0,    0,    0x88, 0x88, 0x88,
                                                      0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88,
                                                      0x88, 0x88, 0x88, 0x88, 0x88, 0x88};
    const uint8_t *padding = (t.q8 ? zero8 : zero4) + (4 - t.s_bytes);
    const uint8_t flip = layout_flip(l, t);
    for (size_t r = 0; r < l->rows; r++) {
        const uint8_t *block = r < real ? in + r * row_bytes : padding;
        if (!block_valid(block, t))
            return false;
        memcpy(scales + r * t.s_bytes, block, t.s_bytes);
        scatter(l->kbytes, data + r * l->kbytes, (size_t)l->rows * l->kbytes, block + t.s_bytes,
                t.d_bytes, flip);
    }
    return true;
}

bool kr_pack(void *dst, const struct pack_layout *l, const void *src, enum kern_wtype w,
             enum kern_stype s, size_t rows, size_t k, size_t row0, size_t row1)
{
    const struct block_type t = block_type(w, s);
    const size_t blocks = k / KERN_BLOCK, bytes = t.s_bytes + t.d_bytes;
    const size_t blocks_end = (blocks + l->blocks - 1) / l->blocks * l->blocks;
    const uint8_t *in = src;
    uint8_t *out = dst;
    for (size_t panel = row0; panel < row1; panel += l->rows)
        for (size_t b = 0; b < blocks_end; b++) {
            const size_t real = b >= blocks ? 0 : rows - panel < l->rows ? rows - panel : l->rows;
            if (!pack_block(out + pack_scale_offset(l, t.s_bytes, t.d_bytes, k, panel, b),
                            out + pack_data_offset(l, t.s_bytes, t.d_bytes, k, panel, b), l, t,
                            in + (panel * blocks + b) * bytes, blocks * bytes, real))
                return false;
        }
    return true;
}

void kr_unpack(void *dst, const struct pack_layout *l, const void *src, enum kern_wtype w,
               enum kern_stype s, size_t rows, size_t k)
{
    const struct block_type t = block_type(w, s);
    const size_t blocks = k / KERN_BLOCK, bytes = t.s_bytes + t.d_bytes;
    const size_t step = (size_t)l->rows * l->kbytes;
    const uint8_t flip = layout_flip(l, t), *in = src;
    uint8_t *block = dst;
    for (size_t r = 0; r < rows; r++)
        for (size_t b = 0; b < blocks; b++, block += bytes) {
            memcpy(block, in + pack_scale_offset(l, t.s_bytes, t.d_bytes, k, r, b), t.s_bytes);
            const uint8_t *data = in + pack_data_offset(l, t.s_bytes, t.d_bytes, k, r, b);
            for (size_t i = 0; i < t.d_bytes; i++)
                block[t.s_bytes + i] = data[i / l->kbytes * step + i % l->kbytes] ^ flip;
        }
}
