/* tmpl/attn_dot.h - what an integer dot over an int8 cache is given (attn_q8.h).
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_ATTN_DOT_H
#define TMPL_ATTN_DOT_H

#include <stddef.h>
#include <stdint.h>

enum attn_side {
    ATTN_KEYS,   /* bytes are unsigned, integers signed */
    ATTN_VALUES, /* bytes are signed, integers not negative */
};

struct attn_dot {
    const int16_t *x; /* [rows][x_stride] packed integers, from the first quad on */
    size_t x_stride;
    const int32_t *start; /* [rows] */
    const uint8_t *b;
    size_t z_stride, j_stride; /* bytes from quad to quad, from 16 columns to the next 16 */
    size_t quads;
};

#endif
