/* neon_dotprod/matmul.c - the matrix product: one column by the walk of tmpl/column_arm.h; several
 * meet a block while it is in L1, by that of tmpl/p16_columns.h.
 * SPDX-License-Identifier: MIT */
#include "column_arm.h"

KR_INLINE void p16_matmul(enum kern_wtype w, enum kern_stype s, float *dst, size_t dst_stride,
                          const struct kern_matrix *m, const struct dot_acts *a, size_t cols,
                          size_t row0, size_t row1)
{
    if (m->packed && cols == 1)
        column(w, s, dst, m, a, row0, row1);
    else
        p16_columns(w, s, dst, dst_stride, m, a, cols, 0, row0, row1);
}

#include "matmul_p16.tmpl.h"
