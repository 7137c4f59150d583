/* check_matmul.c - kern_matmul against the reference and against itself.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "check.h"
#include "ref/ref.h"

static const char *const wtypes[] = {"q8", "q4"}, *const stypes[] = {"f16", "f32"};

/* Activations of x[cols][k], quantized at once. */
static void *quantized(struct check *c, const float *x, size_t k, size_t cols)
{
    void *acts = check_buf(c, kern_acts_bytes(k, cols), 64);
    kern_quantize(acts, k, cols, 0, cols, 0, k / KERN_BLOCK, x, k);
    return acts;
}

static float *product(struct check *c, const struct kern_matrix *w, const void *acts, size_t cols)
{
    float *y = check_floats(c, cols * w->rows);
    kern_matmul(y, w->rows, w, acts, cols, 0, w->rows);
    return y;
}

static void check_values(struct check *c, const struct kern_matrix *w, const float *x,
                         const float *got, size_t cols)
{
    const size_t n = cols * w->rows, blocks = w->k / KERN_BLOCK;
    int8_t *q = check_buf(c, cols * w->k, 1);
    float *d = check_floats(c, cols * blocks), *bits = check_floats(c, n);
    double *want = check_doubles(c, n), *mag = check_doubles(c, n);
    ref_quantize(q, d, x, w->k, cols);
    ref_matmul(want, mag, w, q, d, cols);
    check_f32(c, want, mag, got, n, 3.0 + (double)blocks); /* scale, product, one sum per block */
    ref_matmul_bits(bits, w, q, d, cols, c->fused);
    check_bits(c, "the float chain", bits, got, n * sizeof *got);
}

/* Column c of a product of many is the product of column c alone. */
static void check_columns(struct check *c, const struct kern_matrix *w, const float *x,
                          const float *all, size_t cols)
{
    for (size_t i = 0; i < cols; i += 1 + cols / 4) {
        const float *one = product(c, w, quantized(c, x + i * w->k, w->k, 1), 1);
        check_bits(c, "one column alone", all + i * w->rows, one, w->rows * sizeof *one);
    }
}

/* Rows in parts, into a wide dst of which nothing else changes. */
static void check_parts(struct check *c, const struct kern_matrix *w, const void *acts,
                        const float *all, size_t cols)
{
    const size_t rows = w->rows, cut = (1 + check_below(c, rows / 16 + 1)) * 16;
    const size_t parts[] = {0, cut < rows ? cut : rows, rows};
    for (size_t p = 0; p < 2; p++) {
        const size_t n = parts[p + 1] - parts[p], stride = n + 5;
        if (n == 0)
            continue;
        float *want = check_floats(c, cols * stride - 5), *got = check_floats(c, cols * stride - 5);
        for (size_t i = 0; i < cols; i++)
            memcpy(want + i * stride, all + i * rows + parts[p], n * sizeof *want);
        kern_matmul(got, stride, w, acts, cols, parts[p], parts[p + 1]);
        check_bits(c, "rows in parts", want, got, (cols * stride - 5) * sizeof *got);
    }
}

/* Blocks and columns quantized in any order give the same activations. */
static void check_quantized_in_parts(struct check *c, const struct kern_matrix *w, const float *x,
                                     const float *all, size_t cols)
{
    const size_t k = w->k, blocks = k / KERN_BLOCK;
    const size_t col = check_below(c, cols), block = check_below(c, blocks);
    void *acts = check_buf(c, kern_acts_bytes(k, cols), 64);
    kern_quantize(acts, k, cols, 0, cols, block, blocks, x + block * KERN_BLOCK, k);
    kern_quantize(acts, k, cols, col, cols, 0, block, x + col * k, k);
    kern_quantize(acts, k, cols, 0, col, 0, block, x, k);
    const float *got = product(c, w, acts, cols);
    check_bits(c, "quantized in parts", all, got, cols * w->rows * sizeof *got);
}

static void check_shape(struct check *c, enum kern_wtype wtype, enum kern_stype stype, size_t rows,
                        size_t k, size_t cols)
{
    if (!check_case(c, "matmul %s %s rows=%zu k=%zu cols=%zu", wtypes[wtype], stypes[stype], rows,
                    k, cols))
        return;
    const struct kern_matrix file = check_matrix(c, wtype, stype, rows, k);
    const struct kern_matrix packed = check_packed(c, &file);
    const size_t bytes = cols * rows * sizeof(float);
    float *x = check_floats(c, cols * k);
    check_fill_f32(c, x, cols * k);
    const void *acts = quantized(c, x, k, cols);

    const float *got = product(c, &packed, acts, cols);
    check_values(c, &packed, x, got, cols);
    check_bits(c, "not packed", got, product(c, &file, acts, cols), bytes);
    check_bits(c, "a second time", got, product(c, &packed, acts, cols), bytes);
    check_columns(c, &packed, x, got, cols);
    check_parts(c, &packed, acts, got, cols);
    check_parts(c, &file, acts, got, cols);
    check_quantized_in_parts(c, &packed, x, got, cols);
    if (stype == KERN_F16) {
        const struct kern_matrix wide = check_wider(c, &file), wide_packed = check_packed(c, &wide);
        check_bits(c, "f32 scales", got, product(c, &wide_packed, acts, cols), bytes);
        check_bits(c, "f32 scales, not packed", got, product(c, &wide, acts, cols), bytes);
    }
}

/* Every integer at its end: the largest sums a block can have. */
static void check_extremes(struct check *c, enum kern_wtype wtype)
{
    for (size_t sign = 0; sign < 4; sign++) {
        if (!check_case(c, "matmul %s extremes %zu", wtypes[wtype], sign))
            continue;
        const size_t k = 96, rows = 32, cols = 13;
        struct kern_matrix file = check_matrix(c, wtype, KERN_F32, rows, k);
        uint8_t *p = (uint8_t *)file.data;
        const size_t d_bytes = wtype == KERN_Q8 ? 32 : 16;
        for (size_t b = 0; b < rows * k / KERN_BLOCK; b++, p += 4 + d_bytes) {
            const float one = 1.0f;
            memcpy(p, &one, sizeof one);
            memset(p + 4, wtype == KERN_Q8 ? (sign & 1 ? 0x81 : 127) : (sign & 1 ? 0x00 : 0xff),
                   d_bytes);
        }
        float *x = check_floats(c, cols * k);
        for (size_t i = 0; i < cols * k; i++)
            x[i] = sign & 2 ? -127.0f : 127.0f;
        const struct kern_matrix packed = check_packed(c, &file);
        const void *acts = quantized(c, x, k, cols);
        check_values(c, &packed, x, product(c, &packed, acts, cols), cols);
        check_values(c, &file, x, product(c, &file, acts, cols), cols);
    }
}

void check_matmul(struct check *c)
{
    static const size_t shapes[][3] = {
        /* rows, k, cols */
        {1, 32, 1},    {15, 64, 2},    {16, 32, 1},   {17, 96, 3},   {16, 64, 128}, {31, 160, 4},
        {32, 64, 5},   {33, 96, 7},    {48, 576, 8},  {48, 896, 1},  {48, 896, 11}, {48, 576, 12},
        {64, 96, 13},  {80, 128, 24},  {48, 896, 31}, {49, 288, 32}, {33, 576, 33}, {16, 4864, 1},
        {17, 4864, 6}, {100, 160, 64}, {33, 96, 127}, {48, 192, 128}};
    for (size_t w = 0; w < 2; w++) {
        for (size_t s = 0; s < 2; s++)
            for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
                check_shape(c, w, s, shapes[i][0], shapes[i][1], shapes[i][2]);
        check_extremes(c, w);
    }
}
