/* neon/matmul.c - the matrix product: the walks of tmpl/p16.h.  Many columns meet a block while it
 * is in L1; their sums are in memory between blocks.
 * SPDX-License-Identifier: MIT */
#include "p16.h"

KR_INLINE void p16_matmul(enum kern_wtype w, enum kern_stype s, float *dst, size_t dst_stride,
                          const struct kern_matrix *m, const struct dot_acts *a, size_t cols,
                          size_t row0, size_t row1)
{
    if (m->packed && cols == 1)
        p16_column(w, s, dst, m, a, row0, row1);
    else
        p16_columns(w, s, dst, dst_stride, m, a, cols, 0, row0, row1);
}

#include "matmul_p16.tmpl.h"
