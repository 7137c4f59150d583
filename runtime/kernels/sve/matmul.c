/* sve/matmul.c - the matrix product: one column with the sums of a panel in as many vectors as its
 * 16 rows take, and the walk of tmpl/p16_columns.h for several.
 * SPDX-License-Identifier: MIT */
#include "p16_columns.h"

KR_INLINE svfloat32_t load_scales(enum kern_stype s, svbool_t rows, const void *scales)
{
    if (s == KERN_F32)
        return svld1_f32(rows, scales);
    const svfloat16_t halves = svreinterpret_f16_u32(svld1uh_u32(rows, scales));
    return svcvt_f32_f16_x(rows, halves);
}

/* Block i of a super-block: one step of the float chains of the rows from `first` on. */
KR_INLINE svfloat32_t column_step(enum kern_wtype w, enum kern_stype s, svfloat32_t sum,
                                  svbool_t rows, size_t first, const uint8_t *super, size_t i,
                                  const struct dot_acts *a, size_t b)
{
    const uint8_t *scales = p16_scales(s, super, i) + first * p16_scale(s);
    const uint8_t *quads = p16_quads(w, s, super, i) + first * 4;
    const svfloat32_t scale = svmul_n_f32_x(rows, load_scales(s, rows, scales), a->d[b]);
    return svmla_f32_x(rows, sum, scale, dot_block(w, rows, quads, a, b));
}

/* `groups`, a constant, is how many vectors hold a float of each of the 16 rows: 1, 2 or 4. */
KR_INLINE void column(const size_t groups, enum kern_wtype w, enum kern_stype s, float *dst,
                      const struct kern_matrix *m, const struct dot_acts *a, size_t row0,
                      size_t row1)
{
    const size_t blocks = m->k / KERN_BLOCK, lanes = svcntw();
    const svbool_t rows0 = dot_rows(0, PACK_ROWS), rows1 = dot_rows(lanes, PACK_ROWS);
    const svbool_t rows2 = dot_rows(2 * lanes, PACK_ROWS), rows3 = dot_rows(3 * lanes, PACK_ROWS);
    const uint8_t *super = (const uint8_t *)m->data + row0 / PACK_ROWS * p16_panel(w, s, blocks);
    for (size_t r = row0; r < row1; r += PACK_ROWS) {
        svfloat32_t sum0 = svdup_n_f32(0.0f), sum1 = sum0, sum2 = sum0, sum3 = sum0;
        for (size_t b = 0; b < blocks; b++) {
            const size_t i = b % PACK_BLOCKS;
            sum0 = column_step(w, s, sum0, rows0, 0, super, i, a, b);
            if (groups > 1)
                sum1 = column_step(w, s, sum1, rows1, lanes, super, i, a, b);
            if (groups > 2) {
                sum2 = column_step(w, s, sum2, rows2, 2 * lanes, super, i, a, b);
                sum3 = column_step(w, s, sum3, rows3, 3 * lanes, super, i, a, b);
            }
            super += i * p16_super(w, s);
        }
        super += blocks % PACK_BLOCKS * p16_super(w, s); /* the other half is padding */

        const size_t n = row1 - r < PACK_ROWS ? row1 - r : PACK_ROWS;
        float *out = dst + (r - row0);
        svst1_f32(dot_rows(0, n), out, sum0);
        if (groups > 1)
            svst1_f32(dot_rows(lanes, n), out + lanes, sum1);
        if (groups > 2) {
            svst1_f32(dot_rows(2 * lanes, n), out + 2 * lanes, sum2);
            svst1_f32(dot_rows(3 * lanes, n), out + 3 * lanes, sum3);
        }
    }
}

KR_INLINE void p16_matmul(enum kern_wtype w, enum kern_stype s, float *dst, size_t dst_stride,
                          const struct kern_matrix *m, const struct dot_acts *a, size_t cols,
                          size_t row0, size_t row1)
{
    if (!m->packed || cols > 1)
        p16_columns(w, s, dst, dst_stride, m, a, cols, 0, row0, row1);
    else if (svcntw() >= PACK_ROWS)
        column(1, w, s, dst, m, a, row0, row1);
    else if (svcntw() >= PACK_ROWS / 2)
        column(2, w, s, dst, m, a, row0, row1);
    else
        column(4, w, s, dst, m, a, row0, row1);
}

#include "matmul_p16.tmpl.h"
