/* ref.h - what the kernels are meant to compute, in double precision and in the
 * order of a textbook.  Linked into checkkern only; never a fallback.
 *
 * `mag` is the size of a result's terms, so that |got - want| <= c * 2^-24 * mag
 * with a small c that each caller can justify; it also covers what is flushed
 * to zero below 2^-126.
 * SPDX-License-Identifier: MIT */
#ifndef REF_H
#define REF_H

#include <stdbool.h>

#include "kernels.h"

/* f16 by value, without bit tricks. */
double ref_f16_value(uint16_t h);
uint16_t ref_f16_nearest(float x);

/* Block `block` of row `row`, read through the layout: 32 integers, and the scale. */
double ref_block(int q[KERN_BLOCK], const struct kern_matrix *w, size_t row, size_t block);

/* q[cols][k], d[cols][k/32] of x[cols][k]: exact. */
void ref_quantize(int8_t *q, float *d, const float *x, size_t k, size_t cols);

/* want, mag [cols][rows] of all rows. */
void ref_matmul(double *want, double *mag, const struct kern_matrix *w, const int8_t *q,
                const float *d, size_t cols);

/* The float chain of the class: every bit of want[cols][rows]. */
void ref_matmul_bits(float *want, const struct kern_matrix *w, const int8_t *q, const float *d,
                     size_t cols, bool fused);

void ref_embed(float *want, const struct kern_matrix *w, size_t row, float scale); /* exact */
void ref_rmsnorm(double *want, double *mag, const float *x, const float *gain, size_t n, float eps);

void ref_l2norm(double *want, double *mag, const float *x, size_t n, float eps, float scale);

/* The sum over 16 lanes and their tree, rounded as the class does: every bit. */
void ref_rmsnorm_bits(float *want, const float *x, const float *gain, size_t n, float eps,
                      bool fused);

/* The same sum, y = (x * (1 / sqrt(sum + eps))) * scale: every bit. */
void ref_l2norm_bits(float *want, const float *x, size_t n, float eps, float scale, bool fused);

void ref_silu_mul(double *want, double *mag, const float *gate, const float *up, size_t n);
void ref_gelu_mul(double *want, double *mag, const float *gate, const float *up, size_t n);
void ref_sigmoid_mul(double *want, double *mag, const float *x, const float *gate, size_t n);
void ref_softcap(double *want, const float *x, size_t n, float cap);
void ref_rope_angles(double *cs, double *sn, const float *freq, size_t n, uint32_t pos,
                     float scale);
void ref_rope(double *want, double *mag, const float *x, size_t heads, size_t head_dim,
              size_t rotary, const float *cs, const float *sn);

/* The convolution before SiLU, with magnitudes, and as the class rounds it: every bit. */
void ref_conv(double *want, double *mag, const float *const *x, const float *w, size_t taps,
              size_t n);
void ref_conv_bits(float *want, const float *const *x, const float *w, size_t taps, size_t n,
                   bool fused);
void ref_delta_gates(double *decay, double *beta, const float *a, const float *b, const float *rate,
                     const float *bias, size_t n);

/* The first token of `in`, from state [k_dim][stride] to want: out[v_dim], and the same state after.
 * mag holds their error bounds in units of 2^-24; what lies behind v_dim is left alone. */
struct ref_delta {
    double *out, *state;
};
size_t ref_delta_stride(size_t v_dim);
void ref_delta(const struct ref_delta *want, const struct ref_delta *mag, const float *state,
               const struct kern_delta *in);

/* The same token as the class rounds it, state in place: every bit. */
void ref_delta_bits(float *out, float *state, const struct kern_delta *in, bool fused);

/* Bytes of a cache of this type per element; where it has element d of the key and value at pos. */
size_t ref_kv_bytes(enum kern_kvtype type);
size_t ref_kv_key(const struct kern_kv *kv, size_t pos, size_t d);
size_t ref_kv_value(const struct kern_kv *kv, size_t pos, size_t d);

/* n floats as integers of at most KERN_Q8_STEPS; returns their unit.  Every bit is defined. */
float ref_steps(int32_t *q, const float *x, size_t n);

/* The score of one position of an int8 cache, every bit; without soft cap. */
float ref_score_bits(const float *q, const struct kern_kv *kv, size_t pos, float scale);

/* One head over a cache: o, o_mag [head_dim]; *m, *l and their own magnitudes. */
struct ref_head {
    double m, m_mag, l, l_mag;
};
void ref_attend(double *o, double *o_mag, struct ref_head *head, const float *q,
                const struct kern_kv *kv, size_t pos0, size_t pos1, float scale, float cap);

void ref_attend_merge(double *want, double *mag, const float *o, size_t o_stride, const float *m,
                      const float *l, size_t ml_stride, size_t segments, size_t head_dim);

#endif
