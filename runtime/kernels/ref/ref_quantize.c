/* ref_quantize.c - halves, blocks of weights, and activations as int8.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "ref.h"

double ref_f16_value(uint16_t h)
{
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    const double sign = h >> 15 ? -1.0 : 1.0;
    if (exponent == 31)
        return mantissa ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24));
}

uint16_t ref_f16_nearest(float x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const double a = fabs((double)x);
    if (a >= 65520.0) /* halfway from the largest half to 2^16 */
        return sign | 0x7c00;
    if (a < 0x1p-14) /* subnormal: units of 2^-24; 1024 of them are the first normal half */
        return (uint16_t)(sign | (int)nearbyint(ldexp(a, 24)));
    int exponent;
    frexp(a, &exponent);
    const int mantissa = (int)nearbyint(ldexp(a, 11 - exponent)); /* 1024..2048 */
    return (uint16_t)(sign + ((exponent + 14) << 10) + mantissa - 1024);
}

double ref_block(int q[KERN_BLOCK], const struct kern_matrix *w, size_t row, size_t block)
{
    const struct pack_layout *l = w->packed ? &kern_layout[w->wtype] : &kern_layout_file[w->wtype];
    const bool q8 = w->wtype == KERN_Q8;
    const size_t scale_bytes = w->stype == KERN_F32 ? 4 : 2, row_bytes = q8 ? 32 : 16;
    const size_t blocks = w->k / KERN_BLOCK, supers = (blocks + l->blocks - 1) / l->blocks;
    const size_t super_bytes = l->blocks * l->rows * (scale_bytes + row_bytes);
    const size_t r = row % l->rows, b = block % l->blocks;

    const uint8_t *super = w->data;
    super += (row / l->rows * supers + block / l->blocks) * super_bytes;
    const uint8_t *scale = super + (b * l->rows + r) * scale_bytes;
    const uint8_t *data = super + l->blocks * l->rows * scale_bytes + b * l->rows * row_bytes;
    for (size_t i = 0; i < row_bytes; i++) {
        const size_t z = i / l->kbytes, j = i % l->kbytes;
        const int byte = data[(z * l->rows + r) * l->kbytes + j];
        if (q8) {
            const int bits = byte ^ l->xor8;
            q[i] = bits >= 128 ? bits - 256 : bits;
        } else {
            q[i] = (byte % 16 ^ l->xor4) - 8;
            q[16 + i] = (byte / 16 ^ l->xor4) - 8;
        }
    }
    if (w->stype == KERN_F32) {
        float d;
        memcpy(&d, scale, sizeof d);
        return d;
    }
    return ref_f16_value((uint16_t)(scale[0] | scale[1] << 8));
}

void ref_quantize(int8_t *q, float *d, const float *x, size_t k, size_t cols)
{
    for (size_t i = 0; i < cols * k; i += KERN_BLOCK, d++) {
        float amax = 0.0f;
        for (size_t j = i; j < i + KERN_BLOCK; j++)
            amax = fmaxf(amax, fabsf(x[j]));
        const bool nothing = amax < 1e-30f;
        *d = nothing ? 0.0f : amax / 127.0f;
        for (size_t j = i; j < i + KERN_BLOCK; j++)
            q[j] = nothing ? 0 : (int8_t)nearbyintf(x[j] * (127.0f / amax));
    }
}
