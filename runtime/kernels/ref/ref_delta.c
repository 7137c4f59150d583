/* ref_delta.c - the gated delta rule and its helpers, exact and bit by bit.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "ref.h"

static float fma_of(bool fused, float a, float b, float c)
{
    const float product = a * b;
    return fused ? fmaf(a, b, c) : c + product;
}

void ref_conv(double *want, double *mag, const float *const *x, const float *w, size_t taps,
              size_t n)
{
    for (size_t i = 0; i < n; i++) {
        want[i] = mag[i] = 0.0;
        for (size_t j = 0; j < taps; j++) {
            want[i] += (double)x[j][i] * w[j * n + i];
            mag[i] += fabs((double)x[j][i] * w[j * n + i]);
        }
    }
}

void ref_conv_bits(float *want, const float *const *x, const float *w, size_t taps, size_t n,
                   bool fused)
{
    for (size_t i = 0; i < n; i++) {
        want[i] = 0.0f;
        for (size_t j = 0; j < taps; j++)
            want[i] = fma_of(fused, x[j][i], w[j * n + i], want[i]);
    }
}

void ref_delta_gates(double *decay, double *beta, const float *a, const float *b, const float *rate,
                     const float *bias, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double x = (double)a[i] + bias[i];
        const double softplus = fmax(x, 0.0) + log1p(exp(-fabs(x)));
        decay[i] = exp(-rate[i] * softplus);
        beta[i] = 1.0 / (1.0 + exp(-(double)b[i]));
    }
}

size_t ref_delta_stride(size_t v_dim)
{
    return (v_dim + KERN_LANES - 1) / KERN_LANES * KERN_LANES;
}

void ref_delta(const struct ref_delta *want, const struct ref_delta *mag, const float *state,
               const struct kern_delta *in)
{
    const size_t stride = ref_delta_stride(in->v_dim);
    const double decay = *in->decay, beta = *in->beta, steps = (double)in->k_dim;
    for (size_t j = 0; j < in->v_dim; j++) {
        double m = 0.0, m_mag = 0.0;
        for (size_t i = 0; i < in->k_dim; i++) {
            m += decay * state[i * stride + j] * in->k[i];
            m_mag += fabs(decay * state[i * stride + j] * in->k[i]);
        }
        const double u = beta * (in->v[j] - m);
        /* a chain of k_dim products, times decay; the difference; times beta */
        const double u_mag = beta * ((steps + 3.0) * m_mag + 2.0 * fabs(in->v[j]));
        double out = 0.0, out_mag = 0.0;
        for (size_t i = 0; i < in->k_dim; i++) {
            const double s = decay * state[i * stride + j] + in->k[i] * u;
            /* the product with decay, and the sum; u's own error, a product and the sum */
            const double s_mag = 2.0 * fabs(decay * state[i * stride + j]) +
                                 fabs(in->k[i]) * (u_mag + 2.0 * fabs(u));
            want->state[i * stride + j] = s;
            mag->state[i * stride + j] = s_mag;
            out += s * in->q[i];
            out_mag += (s_mag + (steps + 1.0) * fabs(s)) * fabs(in->q[i]);
        }
        want->out[j] = out;
        mag->out[j] = out_mag;
    }
}

void ref_delta_bits(float *out, float *state, const struct kern_delta *in, bool fused)
{
    const size_t stride = ref_delta_stride(in->v_dim);
    const float decay = *in->decay, beta = *in->beta;
    for (size_t j = 0; j < in->v_dim; j++) {
        float m = 0.0f, o = 0.0f;
        for (size_t i = 0; i < in->k_dim; i++)
            m = fma_of(fused, state[i * stride + j], in->k[i], m);
        m = decay * m;
        const float difference = in->v[j] - m, u = beta * difference;
        for (size_t i = 0; i < in->k_dim; i++) {
            float *s = &state[i * stride + j];
            const float kept = decay * *s;
            *s = fma_of(fused, in->k[i], u, kept);
            o = fma_of(fused, *s, in->q[i], o);
        }
        out[j] = o;
    }
}
