/* test_pack.c - the packer: every layout of isas.txt, odd shapes, refused weights.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdint.h>

#include "pack.h"
#include "unit.h"

/* The layouts that isas.txt names, with 1 or 2 blocks, and some that no ISA has. */
static const struct pack_layout layouts[2][7] = {
    {{"q8p16x4", 16, 4, 2, 0x80, 0},
     {"q8p16x4s", 16, 4, 2, 0, 0},
     {"q8p16x8s", 16, 8, 1, 0, 0},
     {"q8p8x4s", 8, 4, 1, 0, 0},
     {"q8p4x16s", 4, 16, 3, 0, 0},
     {"q8p3x2", 3, 2, 2, 0x55, 0},
     {"q8p1x32", 1, 32, 1, 0, 0}},
    {{"q4p16x4", 16, 4, 2, 0, 0},
     {"q4p16x1", 16, 1, 2, 0, 0},
     {"q4p16x4s", 16, 4, 2, 0, 8},
     {"q4p16x8s", 16, 8, 1, 0, 8},
     {"q4p8x4", 8, 4, 1, 0, 0},
     {"q4p3x2", 3, 2, 3, 0, 5},
     {"q4p1x16", 1, 16, 1, 0, 0}},
};

static uint32_t state = 12345;

static uint8_t random_byte(void)
{
    state = state * 1664525 + 1013904223;
    return (uint8_t)(state >> 24);
}

static size_t block_bytes(enum kern_wtype w, enum kern_stype s)
{
    return (s == KERN_F32 ? 4 : 2) + (w == KERN_Q8 ? 32 : 16);
}

/* A valid matrix in file layout: finite scales, no -128. */
static uint8_t *random_matrix(enum kern_wtype w, enum kern_stype s, size_t rows, size_t k)
{
    const size_t n = rows * (k / 32), bytes = block_bytes(w, s), s_bytes = s == KERN_F32 ? 4 : 2;
    uint8_t *m = malloc(n * bytes + 1);
    for (size_t i = 0; i < n * bytes; i++) {
        m[i] = random_byte();
        if (i % bytes == s_bytes - 1)
            m[i] &= 0xbb; /* two exponent bits are 0 */
        else if (i % bytes >= s_bytes && w == KERN_Q8 && m[i] == 0x80)
            m[i] = 0x81;
    }
    return m;
}

/* Element (row, k) of a packed matrix, straight from the comment in kernels.h. */
static int packed_byte(const struct pack_layout *l, const uint8_t *p, enum kern_wtype w,
                       enum kern_stype s, size_t k, size_t row, size_t block, size_t i)
{
    const size_t row_bytes = w == KERN_Q8 ? 32 : 16, bytes = block_bytes(w, s);
    const size_t supers = (k / 32 + l->blocks - 1) / l->blocks;
    p += (row / l->rows * supers + block / l->blocks) * (l->blocks * l->rows * bytes);
    p += l->blocks * l->rows * (bytes - row_bytes); /* all scales */
    p += block % l->blocks * l->rows * row_bytes;
    return p[(i / l->kbytes * l->rows + row % l->rows) * l->kbytes + i % l->kbytes];
}

static void test_shape(const struct pack_layout *l, enum kern_wtype w, enum kern_stype s,
                       size_t rows, size_t k)
{
    const size_t bytes = block_bytes(w, s), file_bytes = rows * (k / 32) * bytes;
    const size_t row_bytes = w == KERN_Q8 ? 32 : 16, packed_bytes = kr_pack_bytes(l, w, s, rows, k);
    uint8_t *file = random_matrix(w, s, rows, k), *back = malloc(file_bytes);
    uint8_t *packed = malloc(packed_bytes), *parts = malloc(packed_bytes);
    memset(packed, 0xa5, packed_bytes);
    memset(parts, 0x5a, packed_bytes);

    EXPECT(packed_bytes >= file_bytes);
    EXPECT(kr_pack_check(file, w, s, rows, k));
    EXPECT(kr_pack(packed, l, file, w, s, rows, k, 0, rows));
    kr_unpack(back, l, packed, w, s, rows, k);
    EXPECT(memcmp(file, back, file_bytes) == 0);

    const size_t cut = rows / l->rows / 2 * l->rows; /* any whole panels, in any order */
    EXPECT(kr_pack(parts, l, file, w, s, rows, k, cut, rows));
    EXPECT(kr_pack(parts, l, file, w, s, rows, k, 0, cut));
    EXPECT(memcmp(packed, parts, packed_bytes) == 0); /* padding included */

    const uint8_t flip = w == KERN_Q8 ? l->xor8 : l->xor4 * 0x11;
    int wrong = 0;
    for (size_t r = 0; r < rows; r++)
        for (size_t b = 0; b < k / 32; b++)
            for (size_t i = 0; i < row_bytes; i++)
                wrong += packed_byte(l, packed, w, s, k, r, b, i) !=
                         (file[(r * (k / 32) + b) * bytes + bytes - row_bytes + i] ^ flip);
    EXPECT(wrong == 0);
    free(file);
    free(back);
    free(packed);
    free(parts);
}

static void unpack_of_pack_is_the_matrix(void)
{
    static const size_t rows[] = {1, 3, 15, 16, 17, 33, 48}, ks[] = {32, 64, 96, 160};
    for (size_t w = 0; w < 2; w++)
        for (size_t s = 0; s < 2; s++)
            for (size_t l = 0; l < 7; l++)
                for (size_t i = 0; i < 7; i++)
                    for (size_t j = 0; j < 4; j++)
                        test_shape(&layouts[w][l], w, s, rows[i], ks[j]);
}

static void this_builds_layouts_are_among_the_tested(void)
{
    for (size_t w = 0; w < 2; w++) {
        int known = 0;
        for (size_t l = 0; l < 7; l++)
            known += strcmp(layouts[w][l].name, kern_layout[w].name) == 0 &&
                     layouts[w][l].rows == kern_layout[w].rows &&
                     layouts[w][l].kbytes == kern_layout[w].kbytes &&
                     layouts[w][l].xor8 == kern_layout[w].xor8 &&
                     layouts[w][l].xor4 == kern_layout[w].xor4;
        EXPECT(known == 1);
    }
}

/* A panel's padding has scale 0 and weight 0, so that it adds nothing wherever it is read. */
static void padding_is_zero(void)
{
    const struct pack_layout *l = &layouts[KERN_Q4][0];
    uint8_t *file = random_matrix(KERN_Q4, KERN_F16, 1, 32);
    uint8_t packed[576];
    EXPECT(kr_pack_bytes(l, KERN_Q4, KERN_F16, 1, 32) == sizeof packed);
    EXPECT(kr_pack(packed, l, file, KERN_Q4, KERN_F16, 1, 32, 0, 1));
    int wrong = 0;
    for (size_t i = 2; i < 64; i++)
        wrong += packed[i] != 0; /* scales of 15 rows and of the second block */
    for (size_t i = 0; i < 512; i++)
        wrong += (i % 64 >= 4 || i >= 256) && packed[64 + i] != 0x88;
    EXPECT(wrong == 0);
    free(file);
}

/* One bad value anywhere refuses the matrix, packed or only checked. */
static void refuses(enum kern_wtype w, enum kern_stype s, size_t at, const void *bad, size_t n)
{
    const size_t rows = 17, k = 96, blocks = rows * (k / 32), bytes = block_bytes(w, s);
    const struct pack_layout *l = &layouts[w][0];
    void *packed = malloc(kr_pack_bytes(l, w, s, rows, k));
    for (size_t b = 0; b < blocks; b += 7) {
        uint8_t *file = random_matrix(w, s, rows, k);
        memcpy(file + b * bytes + at, bad, n);
        EXPECT(!kr_pack_check(file, w, s, rows, k));
        EXPECT(!kr_pack(packed, l, file, w, s, rows, k, 0, rows));
        free(file);
    }
    free(packed);
}

static void infinite_scales_and_minus_128_are_refused(void)
{
    static const uint16_t halves[] = {0x7c00, 0xfc00, 0x7e01, 0xffff};
    const float floats[] = {INFINITY, -INFINITY, NAN};
    for (size_t w = 0; w < 2; w++) {
        for (size_t i = 0; i < 4; i++)
            refuses(w, KERN_F16, 0, &halves[i], 2);
        for (size_t i = 0; i < 3; i++)
            refuses(w, KERN_F32, 0, &floats[i], 4);
    }
    for (size_t i = 0; i < 32; i++) {
        refuses(KERN_Q8, KERN_F16, 2 + i, "\x80", 1);
        refuses(KERN_Q8, KERN_F32, 4 + i, "\x80", 1);
    }
}

static void sizes_that_do_not_fit_are_0(void)
{
    const struct pack_layout *l = &layouts[KERN_Q8][0];
    EXPECT(kr_pack_bytes(l, KERN_Q8, KERN_F16, SIZE_MAX, 32) == 0);
    EXPECT(kr_pack_bytes(l, KERN_Q8, KERN_F16, SIZE_MAX / 4, 64) == 0);
    EXPECT(kr_pack_bytes(l, KERN_Q8, KERN_F16, 16, SIZE_MAX / 32 * 32) == 0);
    EXPECT(kr_pack_bytes(l, KERN_Q8, KERN_F16, 17, 96) == 2 * 2 * 1088);
    EXPECT(kr_pack_bytes(l, KERN_Q8, KERN_F32, 16, 64) == 2 * 16 * 36);
    EXPECT(kr_pack_bytes(&layouts[KERN_Q4][1], KERN_Q4, KERN_F16, 16, 64) == 576);
}

int main(void)
{
    unpack_of_pack_is_the_matrix();
    this_builds_layouts_are_among_the_tested();
    padding_is_zero();
    infinite_scales_and_minus_128_are_refused();
    sizes_that_do_not_fit_are_0();
    return unit_done("test_pack");
}
