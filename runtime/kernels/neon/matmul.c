/* neon/matmul.c - the matrix product: the walks of tmpl/p16.h, and one of two panels at a time for
 * nibbles and many columns.
 * SPDX-License-Identifier: MIT */
#include "p16.h"

/* Rows [row0, row1), whole pairs of panels.  Sums are in memory between blocks. */
KR_INLINE void pairs(enum kern_stype s, float *dst, size_t dst_stride, const struct kern_matrix *m,
                     const struct dot_acts *a, size_t cols, size_t row0, size_t row1)
{
    KR_ALIGNED(64) float low[KERN_MAX_COLS * PACK_ROWS], high[KERN_MAX_COLS * PACK_ROWS];
    float *const sums[2] = {low, high};
    const size_t blocks = m->k / KERN_BLOCK, panel = p16_panel(KERN_Q4, s, blocks);
    const uint8_t *super = (const uint8_t *)m->data + row0 / PACK_ROWS * panel;
    for (size_t r = row0; r < row1; r += 2 * PACK_ROWS, super += panel) {
        memset(low, 0, cols * PACK_ROWS * sizeof *low);
        memset(high, 0, cols * PACK_ROWS * sizeof *high);
        for (size_t b = 0; b < blocks; b++) {
            const size_t i = b % PACK_BLOCKS;
            const uint8_t *const quads[2] = {p16_quads(KERN_Q4, s, super, i),
                                             p16_quads(KERN_Q4, s, super + panel, i)};
            const vf scale[2] = {p16_load_scales(s, p16_scales(s, super, i)),
                                 p16_load_scales(s, p16_scales(s, super + panel, i))};
            dot_cols_q4(2, sums, quads, scale, a, b * cols, cols);
            super += i * p16_super(KERN_Q4, s);
        }
        super += blocks % PACK_BLOCKS * p16_super(KERN_Q4, s); /* the other half is padding */
        for (size_t c = 0; c < cols; c++) {
            float *out = dst + c * dst_stride + (r - row0);
            vf_store(out, vf_load(low + PACK_ROWS * c));
            vf_store(out + PACK_ROWS, vf_load(high + PACK_ROWS * c));
        }
    }
}

KR_INLINE void p16_matmul(enum kern_wtype w, enum kern_stype s, float *dst, size_t dst_stride,
                          const struct kern_matrix *m, const struct dot_acts *a, size_t cols,
                          size_t row0, size_t row1)
{
    if (m->packed && cols == 1) {
        p16_column(w, s, dst, m, a, row0, row1);
        return;
    }
    size_t paired = 0; /* rows */
    if (PANELS_Q4 == 2 && w == KERN_Q4 && m->packed && cols >= TILE_Q4_COLS) {
        paired = (row1 - row0) / (2 * PACK_ROWS) * (2 * PACK_ROWS);
        pairs(s, dst, dst_stride, m, a, cols, row0, row0 + paired);
    }
    if (row0 + paired < row1)
        p16_columns(w, s, dst + paired, dst_stride, m, a, cols, 0, row0 + paired, row1);
}

#include "matmul_p16.tmpl.h"
