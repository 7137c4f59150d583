/* tmpl/block.h - one block of one row out of any layout, packed or as in the
 * file.  Not for inner loops: embedding lookups, and the scalar kernels.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_BLOCK_H
#define TMPL_BLOCK_H

#include "f16.h"
#include "kernels.h"

/* q = the 32 integers of block `block` of row `row`; returns their scale. */
static inline float block_read(int8_t q[KERN_BLOCK], const struct kern_matrix *w, size_t row,
                               size_t block)
{
    const struct pack_layout *l = w->packed ? &kern_layout[w->wtype] : &kern_layout_file[w->wtype];
    const size_t s_bytes = w->stype == KERN_F32 ? 4 : 2, d_bytes = w->wtype == KERN_Q8 ? 32 : 16;
    const uint8_t *base = w->data;
    const uint8_t *scale = base + pack_scale_offset(l, s_bytes, d_bytes, w->k, row, block);
    const uint8_t *data = base + pack_data_offset(l, s_bytes, d_bytes, w->k, row, block);

    for (size_t i = 0; i < d_bytes; i++) {
        const uint8_t byte = data[i / l->kbytes * l->rows * l->kbytes + i % l->kbytes];
        if (w->wtype == KERN_Q8) {
            q[i] = (int8_t)(byte ^ l->xor8);
        } else {
            q[i] = (int8_t)(((byte & 15) ^ l->xor4) - 8);
            q[16 + i] = (int8_t)((byte >> 4 ^ l->xor4) - 8);
        }
    }
    if (w->stype == KERN_F16) {
        uint16_t half;
        memcpy(&half, scale, sizeof half);
        return f16_to_f32(half);
    }
    float d;
    memcpy(&d, scale, sizeof d);
    return d;
}

#endif
