/* scalar/attn.c - attention on 16 lanes; over an int8 cache a loop over its integers.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include <isa.h>
#include <vec.h>

#include "attn_dot.h"

enum {
    ATTN_DOT_ROWS = 1,
    ATTN_DOT_WIDTH = 1,
    ATTN_WIDEN_F16 = 1,
    ATTN_EXPS = 1,
};

/* The low half of the shifted bits: defined for any float, NaN included. */
static inline void attn_dot_pack(int16_t *p, vf v, enum attn_side side)
{
    (void)side;
    uint32_t bits[16];
    v = vf_add(v, vf_set1(0x1.8p23f));
    memcpy(bits, &v, sizeof v);
    VF_EACH(i) p[i] = (int16_t)(uint16_t)bits[i];
}

static inline void attn_dot_tile(size_t rows, size_t width, enum attn_side side, vf *dots,
                                 const struct attn_dot *a)
{
    (void)rows, (void)width;
    int32_t sum[16];
    VF_EACH(i) sum[i] = a->start[0];
    for (size_t z = 0; z < a->quads; z++) {
        const uint8_t *b = a->b + z * a->z_stride;
        const int16_t *x = a->x + 4 * z;
        for (size_t i = 0; i < 4; i++)
            VF_EACH(lane)
            {
                const int byte = b[4 * lane + i];
                sum[lane] += x[i] * (side == ATTN_KEYS ? byte : (int8_t)byte);
            }
    }
    VF_EACH(i) dots->l[i] = (float)sum[i];
}

#include "attn.tmpl.h"
