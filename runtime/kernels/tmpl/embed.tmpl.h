/* tmpl/embed.tmpl.h - kern_embed: one row of a matrix back to floats.
 * Include once, from <isa>/elementwise.c.
 * SPDX-License-Identifier: MIT */
#include <vec.h>

#include "block.h"

void kern_embed(float *out, const struct kern_matrix *w, size_t row, float scale)
{
    for (size_t b = 0; b < w->k / KERN_BLOCK; b++) {
        int8_t q[KERN_BLOCK];
        const vf d = vf_set1(block_read(q, w, row, b));
        for (size_t i = 0; i < KERN_BLOCK; i += KERN_LANES) {
            const vf value = vf_mul(vf_load_i8(q + i), d);
            vf_store(out + b * KERN_BLOCK + i, vf_mul(value, vf_set1(scale)));
        }
    }
}
