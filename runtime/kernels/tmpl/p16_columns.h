/* tmpl/p16_columns.h - panels of 16 rows and super-blocks of 2 blocks, the layout of most ISAs; how
 * many bytes of a row stand together, 1, 4 or 8, is in <isa.h>.
 *
 * It owns where things lie and the walk of several columns: panels, blocks in order, the one float
 * chain per output; and the rows of a file-layout matrix, which are gathered block by block into
 * the same shape, so that packed and not packed give the same bits.  One column is p16.h's.  The
 * integer dot products are <dot.h>'s:
 *
 *   struct dot_acts, dot_acts_view(acts, k, cols)
 *       where the parts of the activations lie, DOT_ACT_BYTES for a block and column;
 *       scales d[blocks][cols]
 *   void dot_block_cols(wtype, sums, quads, scale, a, at, n)
 *       sums[n][16] = fma(scale * d, dot, sums) for n columns, the first at = block * cols + column
 *   gather4()
 *       by including gather_x86.h or gather.h
 *
 * The types are constants wherever these are inlined (matmul_p16.tmpl.h), so every size is one too.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_P16_COLUMNS_H
#define TMPL_P16_COLUMNS_H

#include <string.h>

#include <dot.h>
#include <isa.h>
#include <vec.h>

#include "compiler.h"
#include "kernels.h"

/* Bytes of the weights of a block of one row, of a scale, and of a super-block. */
KR_INLINE size_t p16_row_data(enum kern_wtype w)
{
    return w == KERN_Q4 ? KERN_BLOCK / 2 : KERN_BLOCK;
}

KR_INLINE size_t p16_scale(enum kern_stype s)
{
    return s == KERN_F16 ? sizeof(uint16_t) : sizeof(float);
}

KR_INLINE size_t p16_super(enum kern_wtype w, enum kern_stype s)
{
    return PACK_BLOCKS * PACK_ROWS * (p16_scale(s) + p16_row_data(w));
}

/* 16 scales in a row. */
KR_INLINE vf p16_load_scales(enum kern_stype s, const void *scales)
{
    return s == KERN_F16 ? vf_load_f16(scales) : vf_load(scales);
}

/* Block i, 0 or 1, of the super-block at `super`: its scales and its quads. */
KR_INLINE const uint8_t *p16_scales(enum kern_stype s, const uint8_t *super, size_t i)
{
    return super + i * PACK_ROWS * p16_scale(s);
}

KR_INLINE const uint8_t *p16_quads(enum kern_wtype w, enum kern_stype s, const uint8_t *super,
                                   size_t i)
{
    return super + PACK_ROWS * (PACK_BLOCKS * p16_scale(s) + i * p16_row_data(w));
}

/* Bytes of a panel of `blocks` blocks; an odd number is padded. */
KR_INLINE size_t p16_panel(enum kern_wtype w, enum kern_stype s, size_t blocks)
{
    return (blocks + 1) / PACK_BLOCKS * p16_super(w, s);
}

/* dst[0..n) = v; a panel at the end of the matrix has n < 16 rows. */
KR_INLINE void p16_store(float *dst, vf v, size_t n)
{
    if (n == PACK_ROWS)
        vf_store(dst, v);
    else
        vf_store_n(dst, v, n);
}

/* Block b of rows r..r+15 of a file-layout matrix, in panel order; rows from the end of the matrix
 * on repeat the last one. */
KR_INLINE void p16_gather(enum kern_wtype w, enum kern_stype s, uint8_t *quads, uint8_t *scales,
                          const struct kern_matrix *m, size_t r, size_t b)
{
    const size_t bytes = p16_scale(s) + p16_row_data(w), row_bytes = m->k / KERN_BLOCK * bytes;
    const size_t kbytes = w == KERN_Q8 ? PACK_Q8_K : PACK_Q4_K;
    const uint8_t flip = w == KERN_Q8 ? PACK_Q8_XOR : PACK_Q4_XOR * 0x11;
    for (size_t i = 0; i < PACK_ROWS; i += 4) {
        const uint8_t *row[4];
        KR_UNROLL
        for (size_t j = 0; j < 4; j++) {
            const size_t at = r + i + j < m->rows ? r + i + j : m->rows - 1;
            row[j] = (const uint8_t *)m->data + at * row_bytes + b * bytes;
            memcpy(scales + (i + j) * p16_scale(s), row[j], p16_scale(s));
            row[j] += p16_scale(s);
        }
        gather4(kbytes, quads + kbytes * i, row, flip);
        if (w == KERN_Q8) {
            const uint8_t *const second[4] = {row[0] + 16, row[1] + 16, row[2] + 16, row[3] + 16};
            gather4(kbytes, quads + 16 * PACK_ROWS + kbytes * i, second, flip);
        }
    }
}

/* The sums [cols - col0][16] of columns [col0, cols) of the panel at row r. */
KR_INLINE void p16_sums(enum kern_wtype w, enum kern_stype s, float *sums,
                        const struct kern_matrix *m, const struct dot_acts *a, size_t cols,
                        size_t col0, size_t r)
{
    KR_ALIGNED(64) uint8_t gathered[PACK_ROWS * KERN_BLOCK];
    KR_ALIGNED(64) uint8_t gathered_scales[PACK_ROWS * sizeof(float)];
    const size_t n = cols - col0, blocks = m->k / KERN_BLOCK;
    const uint8_t *quads = gathered, *scales = gathered_scales;

    memset(sums, 0, n * PACK_ROWS * sizeof *sums);
    for (size_t b = 0; b < blocks; b++) {
        if (m->packed) {
            const uint8_t *super = (const uint8_t *)m->data +
                                   r / PACK_ROWS * p16_panel(w, s, blocks) +
                                   b / PACK_BLOCKS * p16_super(w, s);
            quads = p16_quads(w, s, super, b % PACK_BLOCKS);
            scales = p16_scales(s, super, b % PACK_BLOCKS);
        } else {
            p16_gather(w, s, gathered, gathered_scales, m, r, b);
        }
        dot_block_cols(w, sums, quads, p16_load_scales(s, scales), a, b * cols + col0, n);
    }
}

/* Columns [col0, cols) of rows [row0, row1). */
KR_INLINE void p16_columns(enum kern_wtype w, enum kern_stype s, float *dst, size_t dst_stride,
                           const struct kern_matrix *m, const struct dot_acts *a, size_t cols,
                           size_t col0, size_t row0, size_t row1)
{
    KR_ALIGNED(64) float sums[KERN_MAX_COLS * PACK_ROWS];
    for (size_t r = row0; r < row1; r += PACK_ROWS) {
        const size_t rows = row1 - r < PACK_ROWS ? row1 - r : PACK_ROWS;
        p16_sums(w, s, sums, m, a, cols, col0, r);
        for (size_t c = col0; c < cols; c++)
            p16_store(dst + c * dst_stride + (r - row0), vf_load(sums + (c - col0) * PACK_ROWS),
                      rows);
    }
}

#endif
