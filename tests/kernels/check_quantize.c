/* check_quantize.c - the integers and scales of kern_quantize, seen through a matmul
 * with a unit matrix: its layout is the ISA's own business.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "check.h"
#include "ref/ref.h"

/* 32 rows, row r has its 1 at element r of block `block`; all scales are 1. */
static struct kern_matrix unit_matrix(struct check *c, size_t k, size_t block)
{
    const size_t bytes = 4 + KERN_BLOCK, blocks = k / KERN_BLOCK;
    uint8_t *data = check_buf(c, KERN_BLOCK * blocks * bytes, 1);
    memset(data, 0, KERN_BLOCK * blocks * bytes);
    for (size_t r = 0; r < KERN_BLOCK; r++)
        for (size_t b = 0; b < blocks; b++) {
            const float one = 1.0f;
            uint8_t *p = data + (r * blocks + b) * bytes;
            memcpy(p, &one, sizeof one);
            p[4 + r] = b == block;
        }
    return (struct kern_matrix){data, KERN_BLOCK, (uint32_t)k, KERN_Q8, KERN_F32, false};
}

static void check_block(struct check *c, const float *x, const void *acts, size_t k, size_t cols,
                        size_t block)
{
    const struct kern_matrix unit = unit_matrix(c, k, block);
    float *got = check_floats(c, cols * KERN_BLOCK), *want = check_floats(c, cols * KERN_BLOCK);
    int8_t *q = check_buf(c, cols * k, 1);
    float *d = check_floats(c, cols * (k / KERN_BLOCK));
    ref_quantize(q, d, x, k, cols);
    for (size_t i = 0; i < cols; i++)
        for (size_t r = 0; r < KERN_BLOCK; r++)
            want[i * KERN_BLOCK + r] =
                d[i * (k / KERN_BLOCK) + block] * (float)q[i * k + block * KERN_BLOCK + r] + 0.0f;
    kern_matmul(got, KERN_BLOCK, &unit, acts, cols, 0, KERN_BLOCK);
    check_bits(c, "integers times scale", want, got, cols * KERN_BLOCK * sizeof *got);
}

/* Where rounding can go wrong: halves to even, just below 127.5, amax at the threshold. */
static void fill_edges(struct check *c, float *x, size_t n)
{
    c->fill = "edges";
    for (size_t i = 0; i < n; i++) {
        const size_t b = i / KERN_BLOCK % 4, j = i % KERN_BLOCK;
        if (b == 0)
            x[i] = j == 0 ? 127.0f : (float)j - 16.5f;
        else if (b == 1)
            x[i] = check_uniform(c) < 0.0f ? -0x1.fffffep-20f : 0x1.fffffep-20f;
        else if (b == 2)
            x[i] = j % 2 ? 0.99e-30f : -0.99e-30f;
        else
            x[i] = j % 2 ? 1.01e-30f : -1e-38f;
    }
}

void check_quantize(struct check *c)
{
    static const size_t ks[] = {32, 64, 96, 128}, counts[] = {1, 2, 5, 13, 128};
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 5; j++)
            for (size_t edges = 0; edges < 2; edges++) {
                const size_t k = ks[i], cols = counts[j];
                if (!check_case(c, "quantize k=%zu cols=%zu%s", k, cols, edges ? " edges" : ""))
                    continue;
                float *x = check_floats(c, cols * k);
                void *acts = check_buf(c, kern_acts_bytes(k, cols), 64);
                if (edges)
                    fill_edges(c, x, cols * k);
                else
                    check_fill_f32(c, x, cols * k);
                kern_quantize(acts, k, cols, 0, cols, 0, k / KERN_BLOCK, x, k);
                for (size_t b = 0; b < k / KERN_BLOCK; b++)
                    check_block(c, x, acts, k, cols, b);
            }
}
