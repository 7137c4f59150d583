/* ref_elementwise.c - embedding, gates, soft cap, rotation.
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include "ref.h"

void ref_embed(float *want, const struct kern_matrix *w, size_t row, float scale)
{
    for (size_t b = 0; b < w->k / KERN_BLOCK; b++) {
        int q[KERN_BLOCK];
        const float d = (float)ref_block(q, w, row, b);
        for (int i = 0; i < KERN_BLOCK; i++) {
            const float value = (float)q[i] * d;
            *want++ = scale * value;
        }
    }
}

/* The kernels' exp ends at e^88 = 1.65e38, so a closed gate leaves 6.1e-39 of x: of 8 units of
 * 2^-24. */
static const double closed_gate = 1.3e-32;

void ref_silu_mul(double *want, double *mag, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double g = gate[i], u = up[i];
        want[i] = g / (1.0 + exp(-g)) * u;
        mag[i] = fabs(want[i]) + closed_gate * fabs(g * u);
    }
}

void ref_gelu_mul(double *want, double *mag, const float *gate, const float *up, size_t n)
{
    const double pi = 3.14159265358979323846;
    for (size_t i = 0; i < n; i++) {
        const double g = gate[i], u = up[i], t = sqrt(2.0 / pi) * (g + 0.044715 * g * g * g);
        /* 0.5 * (1 + tanh(t)) without the cancellation for t << 0 */
        want[i] = g / (1.0 + exp(-2.0 * t)) * u;
        /* a relative error of t is one of |2t| in e^-2t; beyond 88 the gate is closed anyway */
        mag[i] = fabs(want[i]) * (1.0 + fmin(fabs(2.0 * t), 88.0)) + closed_gate * fabs(g * u);
    }
}

void ref_sigmoid_mul(double *want, double *mag, const float *x, const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        want[i] = x[i] / (1.0 + exp(-(double)gate[i]));
        mag[i] = fabs(want[i]) + closed_gate * fabs(x[i]);
    }
}

void ref_softcap(double *want, const float *x, size_t n, float cap)
{
    for (size_t i = 0; i < n; i++)
        want[i] = cap * tanh((double)x[i] / cap);
}

void ref_rope_angles(double *cs, double *sn, const float *freq, size_t n, uint32_t pos, float scale)
{
    for (size_t i = 0; i < n; i++) {
        const double angle = (double)pos * freq[i];
        cs[2 * i] = cs[2 * i + 1] = scale * cos(angle);
        sn[2 * i] = -scale * sin(angle);
        sn[2 * i + 1] = scale * sin(angle);
    }
}

void ref_rope(double *want, double *mag, const float *x, size_t heads, size_t head_dim,
              size_t rotary, const float *cs, const float *sn)
{
    for (size_t h = 0; h < heads; h++)
        for (size_t i = 0; i < head_dim; i++) {
            const float *head = x + h * head_dim;
            const double a = i < rotary ? (double)head[i] * cs[i] : head[i];
            const double b = i < rotary ? (double)head[i ^ 1] * sn[i] : 0.0;
            want[h * head_dim + i] = a + b;
            mag[h * head_dim + i] = fabs(a) + fabs(b);
        }
}
