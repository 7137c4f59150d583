/* sve/matmul.c - the matrix product: one column with the sums of a panel in as many vectors as its
 * 16 rows take, and the walk of tmpl/p16_columns.h for several.
 * SPDX-License-Identifier: MIT */
#include "p16_columns.h"

KR_INLINE svfloat32_t load_scales(enum kern_stype s, svbool_t lanes, size_t first,
                                  const void *scales)
{
    if (s == KERN_F32)
        return svld1_f32(lanes, (const float *)scales + first);
    const svuint32_t halves = svld1uh_u32(lanes, (const uint16_t *)scales + first);
    return svcvt_f32_f16_x(svptrue_b32(), svreinterpret_f16_u32(halves));
}

/* One step of the float chains of the rows from `first` on: block i of a super-block, whose
 * activations are x, y and d. */
KR_INLINE svfloat32_t column_rows(enum kern_wtype w, enum kern_stype s, svfloat32_t sum,
                                  svbool_t lanes, size_t first, const uint8_t *super, size_t i,
                                  svint8_t x, svint8_t y, svfloat32_t d)
{
    const svbool_t all = svptrue_b32();
    const svfloat32_t scale = load_scales(s, lanes, first, p16_scales(s, super, i));
    const uint8_t *quads = p16_quads(w, s, super, i);
    const svfloat32_t dot = w == KERN_Q4 ? dot_group_q4(lanes, first, quads, x, y)
                                         : dot_group_q8(lanes, first, quads, x, y);
    return svmla_f32_x(all, sum, svmul_f32_x(all, scale, d), dot);
}

/* The float of each of the 16 rows is in one, two or four vectors. */
KR_INLINE void column_step(const size_t groups, enum kern_wtype w, enum kern_stype s,
                           svfloat32_t *sum0, svfloat32_t *sum1, svfloat32_t *sum2,
                           svfloat32_t *sum3, const uint8_t *super, size_t i,
                           const struct dot_acts *a, size_t b)
{
    const size_t n = svcntw();
    const svint8_t x = svld1rq_s8(svptrue_b8(), a->q + KERN_BLOCK * b);
    const svint8_t y = svld1rq_s8(svptrue_b8(), a->q + KERN_BLOCK * b + 16);
    const svfloat32_t d = svdup_n_f32(a->d[b]);
    *sum0 = column_rows(w, s, *sum0, dot_lanes(0, PACK_ROWS), 0, super, i, x, y, d);
    if (groups > 1)
        *sum1 = column_rows(w, s, *sum1, dot_lanes(n, PACK_ROWS), n, super, i, x, y, d);
    if (groups > 2) {
        *sum2 = column_rows(w, s, *sum2, dot_lanes(2 * n, PACK_ROWS), 2 * n, super, i, x, y, d);
        *sum3 = column_rows(w, s, *sum3, dot_lanes(3 * n, PACK_ROWS), 3 * n, super, i, x, y, d);
    }
}

/* `groups`, a constant, is how many vectors the 16 rows take. */
KR_INLINE void column(const size_t groups, enum kern_wtype w, enum kern_stype s, float *dst,
                      const struct kern_matrix *m, const struct dot_acts *a, size_t row0,
                      size_t row1)
{
    const size_t blocks = m->k / KERN_BLOCK, n = svcntw();
    const uint8_t *super = (const uint8_t *)m->data + row0 / PACK_ROWS * p16_panel(w, s, blocks);
    for (size_t r = row0; r < row1; r += PACK_ROWS) {
        svfloat32_t sum0 = svdup_n_f32(0.0f), sum1 = sum0, sum2 = sum0, sum3 = sum0;
        for (size_t b = 0; b + 1 < blocks; b += 2, super += p16_super(w, s)) {
            column_step(groups, w, s, &sum0, &sum1, &sum2, &sum3, super, 0, a, b);
            column_step(groups, w, s, &sum0, &sum1, &sum2, &sum3, super, 1, a, b + 1);
        }
        if (blocks % 2) { /* the other half is padding */
            column_step(groups, w, s, &sum0, &sum1, &sum2, &sum3, super, 0, a, blocks - 1);
            super += p16_super(w, s);
        }
        const size_t rows = row1 - r < PACK_ROWS ? row1 - r : PACK_ROWS;
        float *out = dst + (r - row0);
        svst1_f32(dot_lanes(0, rows), out, sum0);
        if (groups > 1)
            svst1_f32(dot_lanes(n, rows), out + n, sum1);
        if (groups > 2) {
            svst1_f32(dot_lanes(2 * n, rows), out + 2 * n, sum2);
            svst1_f32(dot_lanes(3 * n, rows), out + 3 * n, sum3);
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
