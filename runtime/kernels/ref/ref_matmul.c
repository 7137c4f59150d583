/* ref_matmul.c - the product of quantized weights and activations, and the float
 * chain that a class has to reproduce.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>

#include "ref.h"

/* Dot of a block of weights and one of activations. */
static int dot(const int *w, const int8_t *x)
{
    int sum = 0;
    for (int i = 0; i < KERN_BLOCK; i++)
        sum += w[i] * x[i];
    return sum;
}

void ref_matmul(double *want, double *mag, const struct kern_matrix *w, const int8_t *q,
                const float *d, size_t cols)
{
    const size_t blocks = w->k / KERN_BLOCK, rows = w->rows;
    for (size_t i = 0; i < cols * rows; i++)
        want[i] = mag[i] = 0.0;
    for (size_t r = 0; r < rows; r++)
        for (size_t b = 0; b < blocks; b++) {
            int block[KERN_BLOCK];
            const double dw = ref_block(block, w, r, b);
            for (size_t c = 0; c < cols; c++) {
                const int sum = dot(block, q + c * w->k + b * KERN_BLOCK);
                const double term = dw * d[c * blocks + b] * sum;
                want[c * rows + r] += term;
                mag[c * rows + r] += fabs(term) + abs(sum) * 0x1p-102; /* dw * da may be flushed */
            }
        }
}

void ref_matmul_bits(float *want, const struct kern_matrix *w, const int8_t *q, const float *d,
                     size_t cols, bool fused)
{
    const size_t blocks = w->k / KERN_BLOCK, rows = w->rows;
    for (size_t i = 0; i < cols * rows; i++)
        want[i] = 0.0f;
    for (size_t r = 0; r < rows; r++)
        for (size_t b = 0; b < blocks; b++) {
            int block[KERN_BLOCK];
            const float dw = (float)ref_block(block, w, r, b);
            for (size_t c = 0; c < cols; c++) {
                const float sum = (float)dot(block, q + c * w->k + b * KERN_BLOCK);
                const float scale = dw * d[c * blocks + b];
                float *acc = &want[c * rows + r];
                *acc = fused ? fmaf(scale, sum, *acc) : *acc + scale * sum;
            }
        }
}
