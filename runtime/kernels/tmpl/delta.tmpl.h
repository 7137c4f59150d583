/* tmpl/delta.tmpl.h - the gated delta rule over the including ISA's vf: its
 * convolution, its gates, its state.  Include once, from <isa>/elementwise.c.
 *
 * The gates are plain double arithmetic without fma, so that both classes and
 * every compiler give the same bits (-ffp-contract=off).
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include <vec.h>

#include "exp.h"
#include "kernels.h"

/* ---- convolution --------------------------------------------------------- */

void kern_conv_silu(float *y, const float *const *x, const float *w, size_t taps, size_t n)
{
    const size_t body = n - n % KERN_LANES, rest = n - body;
    for (size_t i = 0; i < body; i += KERN_LANES) {
        vf sum = vf_set1(0.0f);
        for (size_t j = 0; j < taps; j++)
            sum = vf_fma(vf_load(x[j] + i), vf_load(w + j * n + i), sum);
        vf_store(y + i, vf_gate(sum, sum));
    }
    vf sum = vf_set1(0.0f);
    for (size_t j = 0; j < taps; j++)
        sum = vf_fma(vf_load_n(x[j] + body, rest), vf_load_n(w + j * n + body, rest), sum);
    vf_store_n(y + body, vf_gate(sum, sum), rest);
}

/* ---- gates ----------------------------------------------------------------- */

/* e^-x for x >= 0, relative error below 1e-15; from x = 700 on e^-700, 1e-304: no denormal.
 *
 * -x = n*ln2 + r, |r| <= ln2/2; ln2 is split so that n * high is exact (10 + 33 bits).  The Taylor
 * series of e^r ends after r^13; the next term is below 5e-18. */
static inline double delta_exp(double x)
{
    const double high = 0x1.62e42fefp-1, low = 0x1.473de6af278edp-34;
    const double shift = 0x1.8p52; /* adding it leaves the nearest integer in the low bits */
    static const double factors[] = {1.0 / 479001600,
                                     1.0 / 39916800,
                                     1.0 / 3628800,
                                     1.0 / 362880,
                                     1.0 / 40320,
                                     1.0 / 5040,
                                     1.0 / 720,
                                     1.0 / 120,
                                     1.0 / 24,
                                     1.0 / 6,
                                     1.0 / 2,
                                     1.0,
                                     1.0};        /* 1/12! down to 1/0! */
    const double least = x > 700.0 ? -700.0 : -x; /* NaN stays */
    const double shifted = least * 0x1.71547652b82fep+0 + shift, n = shifted - shift;
    const double r = (least - n * high) - n * low;
    double p = 1.0 / 6227020800; /* 1/13! */
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        p = p * r + factors[i];
    uint64_t bits;
    double power;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52; /* 2^n: the bias, and the sign of `shifted` pushed out */
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* log(1 + e) for 0 <= e <= 1, relative error below 1e-15: 2*atanh(s) with s = e / (2 + e) <= 1/3,
 * whose series ends after s^33; the next term is below 1e-17 of the first. */
static inline double delta_log1p(double e)
{
    const double s = e / (2.0 + e), z = s * s;
    double p = 1.0 / 33;
    for (int n = 31; n > 0; n -= 2)
        p = p * z + 1.0 / n;
    return 2.0 * s * p;
}

/* To float, what would be a denormal to 0: machines differ in when they flush. */
static inline float delta_round(double x)
{
    return x < 0x1p-126 ? 0.0f : (float)x;
}

void kern_delta_gates(float *decay, float *beta, const float *a, const float *b, const float *rate,
                      const float *bias, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double x = (double)a[i] + (double)bias[i], y = b[i];
        const double softplus = (x > 0.0 ? x : 0.0) + delta_log1p(delta_exp(x > 0.0 ? x : -x));
        decay[i] = delta_round(delta_exp((double)rate[i] * softplus));
        const double e = delta_exp(y > 0.0 ? y : -y);
        beta[i] = delta_round((y > 0.0 ? 1.0 : e) / (1.0 + e));
    }
}

/* ---- state ------------------------------------------------------------------ */

static inline void delta_column(float *out, size_t out_stride, float *state, size_t stride,
                                const struct kern_delta *in, const float *values, size_t lanes)
{
    for (size_t t = 0; t < in->tokens; t++) {
        const float *q = in->q + t * in->qkv_stride, *k = in->k + t * in->qkv_stride;
        const float *v = values + t * in->qkv_stride;
        const vf decay = vf_set1(in->decay[t * in->gate_stride]);
        const vf beta = vf_set1(in->beta[t * in->gate_stride]);
        vf m = vf_set1(0.0f), o = m;
        for (size_t i = 0; i < in->k_dim; i++)
            m = vf_fma(vf_load(state + i * stride), vf_set1(k[i]), m);
        const vf value = lanes == KERN_LANES ? vf_load(v) : vf_load_n(v, lanes);
        const vf u = vf_mul(beta, vf_sub(value, vf_mul(decay, m)));
        for (size_t i = 0; i < in->k_dim; i++) {
            const vf s = vf_mul(decay, vf_load(state + i * stride));
            const vf next = vf_fma(vf_set1(k[i]), u, s);
            vf_store(state + i * stride, next);
            o = vf_fma(next, vf_set1(q[i]), o);
        }
        if (lanes == KERN_LANES)
            vf_store(out + t * out_stride, o);
        else
            vf_store_n(out + t * out_stride, o, lanes);
    }
}

void kern_delta(float *out, size_t out_stride, float *state, const struct kern_delta *in)
{
    const size_t stride = (in->v_dim + KERN_LANES - 1) / KERN_LANES * KERN_LANES;
    for (size_t j = 0; j < in->v_dim; j += KERN_LANES) {
        const size_t left = in->v_dim - j;
        delta_column(out + j, out_stride, state + j, stride, in, in->v + j,
                     left < KERN_LANES ? left : KERN_LANES);
    }
}
