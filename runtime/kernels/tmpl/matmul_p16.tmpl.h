/* tmpl/matmul_p16.tmpl.h - kern_layout, kern_acts_bytes and kern_matmul for panels of 16 rows.  Include
 * once, at the end of <isa>/matmul.c, which says in p16_matmul() how it goes about rows and columns.
 * SPDX-License-Identifier: MIT */
#include "p16_columns.h"

const struct pack_layout kern_layout[2] = {
    [KERN_Q8] = {PACK_Q8_NAME, PACK_ROWS, PACK_Q8_K, PACK_BLOCKS, PACK_Q8_XOR, 0},
    [KERN_Q4] = {PACK_Q4_NAME, PACK_ROWS, PACK_Q4_K, PACK_BLOCKS, 0, PACK_Q4_XOR},
};

size_t kern_acts_bytes(size_t k, size_t cols)
{
    return k / KERN_BLOCK * cols * DOT_ACT_BYTES;
}

/* One instance per pair of types, so that each has its constants. */
#define P16_INSTANCE(name, w, s)                                                                   \
    static KR_NOINLINE void name(float *dst, size_t dst_stride, const struct kern_matrix *m,       \
                                 const struct dot_acts *a, size_t cols, size_t row0, size_t row1)  \
    {                                                                                              \
        p16_matmul(w, s, dst, dst_stride, m, a, cols, row0, row1);                                 \
    }
P16_INSTANCE(p16_q8_f16, KERN_Q8, KERN_F16)
P16_INSTANCE(p16_q8_f32, KERN_Q8, KERN_F32)
P16_INSTANCE(p16_q4_f16, KERN_Q4, KERN_F16)
P16_INSTANCE(p16_q4_f32, KERN_Q4, KERN_F32)
#undef P16_INSTANCE

void kern_matmul(float *dst, size_t dst_stride, const struct kern_matrix *w, const void *acts,
                 size_t cols, size_t row0, size_t row1)
{
    const struct dot_acts a = dot_acts_view(acts, w->k, cols);
    if (w->wtype == KERN_Q8 && w->stype == KERN_F16)
        p16_q8_f16(dst, dst_stride, w, &a, cols, row0, row1);
    else if (w->wtype == KERN_Q8)
        p16_q8_f32(dst, dst_stride, w, &a, cols, row0, row1);
    else if (w->stype == KERN_F16)
        p16_q4_f16(dst, dst_stride, w, &a, cols, row0, row1);
    else
        p16_q4_f32(dst, dst_stride, w, &a, cols, row0, row1);
}
