/* avx512vnni/matmul.c - the matrix product: tiles of 16 rows x 12 columns in registers, and the
 * walks of tmpl/p16.h for what is left.
 * SPDX-License-Identifier: MIT */
#include "p16.h"

/* Columns [col0, col0 + n) of one panel, n <= TILE_COLS a constant: the sums stay in registers over
 * all blocks. */
KR_INLINE void tile(enum kern_wtype w, enum kern_stype s, float *dst, size_t dst_stride,
                    const uint8_t *super, const struct dot_acts *a, size_t blocks, size_t cols,
                    size_t col0, size_t rows, const int n)
{
    vf sums[TILE_COLS];
    KR_UNROLL
    for (int c = 0; c < n; c++)
        sums[c] = vf_set1(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        const vf scale = p16_load_scales(s, p16_scales(s, super, b % PACK_BLOCKS));
        dot_tile(w, sums, p16_quads(w, s, super, b % PACK_BLOCKS), scale, a, b * cols + col0, n);
        super += b % PACK_BLOCKS * p16_super(w, s);
    }
    KR_UNROLL
    for (int c = 0; c < n; c++)
        vf_store_n(dst + (col0 + (size_t)c) * dst_stride, sums[c], rows); /* 16, too: a mask */
}

/* Columns [0, end): tiles of TILE_COLS, and one of TILE_REST if as many are left. */
KR_INLINE void tiles(enum kern_wtype w, enum kern_stype s, float *dst, size_t dst_stride,
                     const struct kern_matrix *m, const struct dot_acts *a, size_t cols, size_t end,
                     size_t row0, size_t row1)
{
    const size_t blocks = m->k / KERN_BLOCK;
    for (size_t r = row0; r < row1; r += PACK_ROWS) {
        const uint8_t *panel = (const uint8_t *)m->data + r / PACK_ROWS * p16_panel(w, s, blocks);
        const size_t rows = row1 - r < PACK_ROWS ? row1 - r : PACK_ROWS;
        size_t c = 0;
        for (; c + TILE_COLS <= end; c += TILE_COLS)
            tile(w, s, dst + (r - row0), dst_stride, panel, a, blocks, cols, c, rows, TILE_COLS);
        if (c < end)
            tile(w, s, dst + (r - row0), dst_stride, panel, a, blocks, cols, c, rows, TILE_REST);
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
    const size_t rest = cols % TILE_COLS;
    const size_t tiled = m->packed ? cols - rest + rest / TILE_REST * TILE_REST : 0;
    if (tiled > 0)
        tiles(w, s, dst, dst_stride, m, a, cols, tiled, row0, row1);
    if (tiled < cols)
        p16_columns(w, s, dst, dst_stride, m, a, cols, tiled, row0, row1);
}

#include "matmul_p16.tmpl.h"
