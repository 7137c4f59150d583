/* scalar/matmul.c - any layout through one reader of blocks; the chain of
 * kernels.h and nothing clever.
 * SPDX-License-Identifier: MIT */
#include <dot.h>
#include <isa.h>
#include <vec.h>

#include "block.h"
#include "kernels.h"

const struct pack_layout kern_layout[2] = {
    [KERN_Q8] = {PACK_Q8_NAME, PACK_ROWS, PACK_Q8_K, PACK_BLOCKS, PACK_Q8_XOR, 0},
    [KERN_Q4] = {PACK_Q4_NAME, PACK_ROWS, PACK_Q4_K, PACK_BLOCKS, 0, PACK_Q4_XOR},
};

/* Up to PACK_ROWS rows from row0 on, all columns.  sum[c][r] lives in L1. */
static void matmul_rows(float *dst, size_t dst_stride, const struct kern_matrix *w, const int8_t *q,
                        const float *d, size_t cols, size_t row0, size_t rows)
{
    float sum[KERN_MAX_COLS][PACK_ROWS] = {{0}};
    for (size_t b = 0; b < w->k / KERN_BLOCK; b++) {
        int8_t block[PACK_ROWS][KERN_BLOCK];
        float dw[PACK_ROWS];
        for (size_t r = 0; r < rows; r++)
            dw[r] = block_read(block[r], w, row0 + r, b);
        for (size_t c = 0; c < cols; c++) {
            const float da = d[b * cols + c];
            for (size_t r = 0; r < rows; r++) {
                const float dot = (float)dot_block(block[r], q + (b * cols + c) * KERN_BLOCK);
                sum[c][r] = fma_class(dw[r] * da, dot, sum[c][r]);
            }
        }
    }
    for (size_t c = 0; c < cols; c++)
        memcpy(dst + c * dst_stride, sum[c], rows * sizeof *dst);
}

void kern_matmul(float *dst, size_t dst_stride, const struct kern_matrix *w, const void *acts,
                 size_t cols, size_t row0, size_t row1)
{
    const int8_t *q = acts;
    const float *d = (const float *)(q + w->k * cols);
    for (size_t r = row0; r < row1; r += PACK_ROWS) {
        const size_t rows = row1 - r < PACK_ROWS ? row1 - r : PACK_ROWS;
        matmul_rows(dst + (r - row0), dst_stride, w, q, d, cols, r, rows);
    }
}
