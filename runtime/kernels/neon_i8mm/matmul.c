/* neon_i8mm/matmul.c - the matrix product: one column by the walk of tmpl/column_arm.h; several by
 * that of tmpl/p16_columns.h, with the sums of two columns side by side.
 * SPDX-License-Identifier: MIT */
#include "column_arm.h"

/* dst[0..n) and the same of the next column: a pair of sums[16][2]. */
KR_INLINE void store_pair(float *dst, size_t dst_stride, const float *sums, size_t n)
{
    const float32x4x2_t a = vld2q_f32(sums), b = vld2q_f32(sums + 8), c = vld2q_f32(sums + 16),
                        d = vld2q_f32(sums + 24);
    p16_store(dst, (vf){a.val[0], b.val[0], c.val[0], d.val[0]}, n);
    p16_store(dst + dst_stride, (vf){a.val[1], b.val[1], c.val[1], d.val[1]}, n);
}

KR_INLINE void columns(enum kern_wtype w, enum kern_stype s, float *dst, size_t dst_stride,
                       const struct kern_matrix *m, const struct dot_acts *a, size_t cols,
                       size_t row0, size_t row1)
{
    KR_ALIGNED(64) float sums[KERN_MAX_COLS * PACK_ROWS];
    for (size_t r = row0; r < row1; r += PACK_ROWS, dst += PACK_ROWS) {
        const size_t rows = row1 - r < PACK_ROWS ? row1 - r : PACK_ROWS;
        size_t c = 0;
        p16_sums(w, s, sums, m, a, cols, 0, r);
        for (; c + 2 <= cols; c += 2)
            store_pair(dst + c * dst_stride, dst_stride, sums + c * PACK_ROWS, rows);
        if (c < cols)
            p16_store(dst + c * dst_stride, vf_load(sums + c * PACK_ROWS), rows);
    }
}

KR_INLINE void p16_matmul(enum kern_wtype w, enum kern_stype s, float *dst, size_t dst_stride,
                          const struct kern_matrix *m, const struct dot_acts *a, size_t cols,
                          size_t row0, size_t row1)
{
    if (m->packed && cols == 1)
        column(w, s, dst, m, a, row0, row1);
    else
        columns(w, s, dst, dst_stride, m, a, cols, row0, row1);
}

#include "matmul_p16.tmpl.h"
