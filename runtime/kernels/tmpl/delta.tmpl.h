/* tmpl/delta.tmpl.h - the gated delta rule over the including ISA's vf: its
 * convolution, its gates, its state.  Include once, from <isa>/elementwise.c.
 *
 * The gates are plain double arithmetic without fma, so that both classes and
 * every compiler give the same bits (-ffp-contract=off).
 * SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <string.h>

#include <vec.h>

#include "compiler.h"
#include "exp.h"
#include "isa.h"
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

/* The columns of n <= DELTA_VECS vectors side by side, n a constant: a core sees as many chains. */
struct delta_sums {
    vf m[DELTA_VECS]; /* sum of state[i] * k[i] */
    vf o[DELTA_VECS]; /* sum of state[i] * q[i] */
};

#define EACH                                                                                       \
    KR_UNROLL                                                                                      \
    for (size_t c = 0; c < n; c++)

/* Before the first token. */
KR_INLINE void delta_recall(const size_t n, struct delta_sums *sums, const float *state,
                            size_t stride, const float *k, size_t k_dim)
{
    vf m[DELTA_VECS];
    EACH m[c] = vf_set1(0.0f);
    for (size_t i = 0; i < k_dim; i++, state += stride) {
        const vf ki = vf_set1(k[i]);
        EACH m[c] = vf_fma(vf_load(state + c * KERN_LANES), ki, m[c]);
    }
    EACH sums->m[c] = m[c];
}

/* The state after token t, and its sums: over q, and if there are more tokens over the next one's k,
 * so that a token reads the state once. */
KR_INLINE void delta_update(const size_t n, const bool more, struct delta_sums *sums, float *state,
                            size_t stride, const struct kern_delta *in, size_t t, const vf *update)
{
    const float *q = in->q + t * in->qkv_stride, *k = in->k + t * in->qkv_stride;
    const float *next_k = more ? k + in->qkv_stride : k;
    const vf decay = vf_set1(in->decay[t * in->gate_stride]);
    vf u[DELTA_VECS], m[DELTA_VECS], o[DELTA_VECS];
    EACH u[c] = update[c], m[c] = o[c] = vf_set1(0.0f);
    for (size_t i = 0; i < in->k_dim; i++, state += stride) {
        const vf ki = vf_set1(k[i]), qi = vf_set1(q[i]), next_ki = vf_set1(next_k[i]);
        vf s[DELTA_VECS];
        EACH s[c] = vf_fma(ki, u[c], vf_mul(decay, vf_load(state + c * KERN_LANES)));
        EACH vf_store(state + c * KERN_LANES, s[c]);
        EACH o[c] = vf_fma(s[c], qi, o[c]);
        if (more)
            EACH m[c] = vf_fma(s[c], next_ki, m[c]);
    }
    EACH sums->m[c] = m[c], sums->o[c] = o[c];
}

/* n vectors of columns over all tokens, or a single one with only `lanes`; out, state and v begin at
 * the first. */
KR_INLINE void delta_columns(const size_t n, size_t lanes, float *out, size_t out_stride,
                             float *state, size_t stride, const struct kern_delta *in,
                             const float *v)
{
    const bool whole = lanes == KERN_LANES;
    struct delta_sums sums;
    vf x[DELTA_VECS], u[DELTA_VECS];
    delta_recall(n, &sums, state, stride, in->k, in->k_dim);
    for (size_t t = 0; t < in->tokens; t++, v += in->qkv_stride, out += out_stride) {
        const vf decay = vf_set1(in->decay[t * in->gate_stride]);
        const vf beta = vf_set1(in->beta[t * in->gate_stride]);
        EACH x[c] = whole ? vf_load(v + c * KERN_LANES) : vf_load_n(v, lanes);
        EACH u[c] = vf_mul(beta, vf_sub(x[c], vf_mul(decay, sums.m[c])));
        if (t + 1 < in->tokens)
            delta_update(n, true, &sums, state, stride, in, t, u);
        else
            delta_update(n, false, &sums, state, stride, in, t, u);
        if (whole)
            EACH vf_store(out + c * KERN_LANES, sums.o[c]);
        else
            vf_store_n(out, sums.o[0], lanes);
    }
}
#undef EACH

void kern_delta(float *out, size_t out_stride, float *state, const struct kern_delta *in)
{
    enum { GROUP = DELTA_VECS * KERN_LANES };
    const size_t v_dim = in->v_dim, stride = (v_dim + KERN_LANES - 1) / KERN_LANES * KERN_LANES;
    /* Each group of columns walks through memory in steps, which no hardware runs ahead of. */
    for (size_t i = 0; i < in->k_dim * stride; i += KERN_LANES)
        KR_PREFETCH(state + i);
    size_t j = 0;
    for (; j + GROUP <= v_dim; j += GROUP)
        delta_columns(DELTA_VECS, KERN_LANES, out + j, out_stride, state + j, stride, in,
                      in->v + j);
    for (; j < v_dim; j += KERN_LANES) {
        const size_t lanes = v_dim - j < KERN_LANES ? v_dim - j : KERN_LANES;
        delta_columns(1, lanes, out + j, out_stride, state + j, stride, in, in->v + j);
    }
}
