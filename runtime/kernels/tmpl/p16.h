/* tmpl/p16.h - the walk of one column over panels of 16 rows, whose sums stay in one vf; the layout
 * and the walk of several columns come with it (p16_columns.h).  From <dot.h>, beside what those
 * ask for:
 *
 *   vf dot_block(wtype, quads, a, at)
 *       16 exact dots of one block with column at = block * cols + column, as floats
 *
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_P16_H
#define TMPL_P16_H

#include "p16_columns.h"

KR_INLINE vf p16_column_step(enum kern_wtype w, enum kern_stype s, vf sum, const uint8_t *super,
                             size_t i, const struct dot_acts *a, size_t b)
{
    const vf scale = vf_mul(p16_load_scales(s, p16_scales(s, super, i)), vf_set1(a->d[b]));
    return vf_fma(scale, dot_block(w, p16_quads(w, s, super, i), a, b), sum);
}

KR_INLINE void p16_column(enum kern_wtype w, enum kern_stype s, float *dst,
                          const struct kern_matrix *m, const struct dot_acts *a, size_t row0,
                          size_t row1)
{
    const size_t blocks = m->k / KERN_BLOCK;
    const uint8_t *super = (const uint8_t *)m->data + row0 / PACK_ROWS * p16_panel(w, s, blocks);
    for (size_t r = row0; r < row1; r += PACK_ROWS) {
        vf sum = vf_set1(0.0f);
        for (size_t b = 0; b + 1 < blocks; b += 2, super += p16_super(w, s)) {
            sum = p16_column_step(w, s, sum, super, 0, a, b);
            sum = p16_column_step(w, s, sum, super, 1, a, b + 1);
        }
        if (blocks % 2) { /* the other half is padding */
            sum = p16_column_step(w, s, sum, super, 0, a, blocks - 1);
            super += p16_super(w, s);
        }
        p16_store(dst + (r - row0), sum, row1 - r < PACK_ROWS ? row1 - r : PACK_ROWS);
    }
}

#endif
