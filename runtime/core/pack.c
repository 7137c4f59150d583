/* pack.c - panels of interleaved rows, made from the rows of a file.
 *
 * struct pack_layout (kernels.h) drives it; nothing here knows an instruction set.
 *
 * q4p16x4: a panel is 16 rows, a super-block 2 blocks of 32 k, 576 bytes with f16 scales
 *     | 16 scales of block 0 | 16 scales of block 1 |
 *     | block 0: k 0..3, 16..19 of row 0 | ... of row 15 | k 4..7, 20..23 of row 0 | ... of row 15
 * | block 1 ... |
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
    const uint64_t ones = 0x0101010101010101, high = 0x80 * ones;
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

/* Copy n bytes of one row, `kbytes` at a time, `step` apart in dst. */
KR_INLINE void scatter_by(const size_t kbytes, uint8_t *dst, size_t step, const uint8_t *src,
                          size_t n, uint64_t flip)
{
    for (size_t i = 0; i < n; i += kbytes, dst += step) {
        uint64_t x = 0;
        memcpy(&x, src + i, kbytes);
        x ^= flip;
        memcpy(dst, &x, kbytes);
    }
}

/* The same with every byte of src exclusive-ored with flip; kbytes is 1, 4, 8 or more than 8
 * and a multiple of it.  The constants make each copy one load, xor and store. */
static void scatter(size_t kbytes, uint8_t *dst, size_t step, const uint8_t *src, size_t n,
                    uint8_t flip)
{
    const uint64_t flips = 0x0101010101010101 * flip;
    if (kbytes == 1)
        scatter_by(1, dst, step, src, n, flips);
    else if (kbytes == 4)
        scatter_by(4, dst, step, src, n, flips);
    else if (kbytes == 8)
        scatter_by(8, dst, step, src, n, flips);
    else
        for (size_t i = 0; i < n; i += kbytes, dst += step)
            scatter_by(8, dst, 8, src + i, kbytes, flips);
}

/* What is exclusive-ored to a whole byte. */
static uint8_t layout_flip(const struct pack_layout *l, struct block_type t)
{
    return t.q8 ? l->xor8 : (uint8_t)(l->xor4 << 4 | l->xor4);
}

bool kr_pack(void *dst, const struct pack_layout *l, const void *src, enum kern_wtype w,
             enum kern_stype s, size_t rows, size_t k, size_t row0, size_t row1)
{
    /* A block of padding: scale 0, weights 0 (nibbles hold q + 8). */
    static const uint8_t zero8[4 + KERN_BLOCK];
    static const uint8_t zero4[4 + KERN_BLOCK / 2] = {0,    0,    0,    0,    0x88, 0x88, 0x88,
                                                      0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88,
                                                      0x88, 0x88, 0x88, 0x88, 0x88, 0x88};

    const struct block_type t = block_type(w, s);
    const size_t blocks = k / KERN_BLOCK, bytes = t.s_bytes + t.d_bytes;
    const size_t blocks_end = (blocks + l->blocks - 1) / l->blocks * l->blocks;
    const size_t rows_end = (row1 + l->rows - 1) / l->rows * l->rows;
    const uint8_t *padding = (t.q8 ? zero8 : zero4) + (4 - t.s_bytes), *in = src;
    const uint8_t flip = layout_flip(l, t);
    uint8_t *out = dst;

    for (size_t panel = row0; panel < rows_end; panel += l->rows)
        for (size_t b = 0; b < blocks_end; b++)
            for (size_t r = panel; r < panel + l->rows; r++) {
                const bool real = r < rows && b < blocks;
                const uint8_t *block = real ? in + (r * blocks + b) * bytes : padding;
                if (!block_valid(block, t))
                    return false;
                memcpy(out + pack_scale_offset(l, t.s_bytes, t.d_bytes, k, r, b), block, t.s_bytes);
                scatter(l->kbytes, out + pack_data_offset(l, t.s_bytes, t.d_bytes, k, r, b),
                        (size_t)l->rows * l->kbytes, block + t.s_bytes, t.d_bytes, flip);
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
