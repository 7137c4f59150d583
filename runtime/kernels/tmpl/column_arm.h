/* tmpl/column_arm.h - the walk of one column for the AArch64 instruction sets with int8 dot
 * products: as p16_column(), with pointers that run through panel and activations, for loads that
 * advance them.  From <dot.h>:
 *
 *   vf dot_block(wtype, const uint8_t **quads, const int8_t **x)
 *       16 exact dots of one block with a column that stands alone, as floats; both go on to the
 *       next block
 *
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_COLUMN_ARM_H
#define TMPL_COLUMN_ARM_H

#include "p16_columns.h"

/* One step of the float chains.  It ends before the next begins: the dots need nearly all registers,
 * and compilers would have them of two blocks at once. */
KR_INLINE vf column_step(enum kern_wtype w, enum kern_stype s, vf sum, const uint8_t *scales,
                         const uint8_t **quads, const int8_t **x, float d)
{
    const vf dots = dot_block(w, quads, x);
    sum = vf_fma(vf_mul(p16_load_scales(s, scales), vf_set1(d)), dots, sum);
    KR_OPAQUE(sum.a);
    KR_OPAQUE(sum.b);
    KR_OPAQUE(sum.c);
    KR_OPAQUE(sum.d);
    return sum;
}

KR_INLINE void column(enum kern_wtype w, enum kern_stype s, float *dst, const struct kern_matrix *m,
                      const struct dot_acts *a, size_t row0, size_t row1)
{
    const size_t blocks = m->k / KERN_BLOCK, scales = PACK_ROWS * p16_scale(s);
    const uint8_t *p = (const uint8_t *)m->data + row0 / PACK_ROWS * p16_panel(w, s, blocks);
    for (size_t r = row0; r < row1; r += PACK_ROWS) {
        const int8_t *x = a->q, *const end = x + blocks / 2 * 2 * KERN_BLOCK;
        const float *d = a->d;
        vf sum = vf_set1(0.0f);
        for (; x < end; d += 2) {
            const uint8_t *quads = p + 2 * scales;
            sum = column_step(w, s, sum, p, &quads, &x, d[0]);
            sum = column_step(w, s, sum, p + scales, &quads, &x, d[1]);
            p = quads;
        }
        if (blocks % 2) { /* the other half is padding */
            const uint8_t *quads = p + 2 * scales;
            sum = column_step(w, s, sum, p, &quads, &x, *d);
            p += p16_super(w, s);
        }
        p16_store(dst + (r - row0), sum, row1 - r < PACK_ROWS ? row1 - r : PACK_ROWS);
    }
}

#endif
