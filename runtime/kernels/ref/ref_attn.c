/* ref_attn.c - attention of one query head, straight from the formula.
 *
 * The magnitudes follow the error through the softmax: a score is a chain of
 * head_dim roundings, and its absolute error is the relative error of a weight.
 * Over an int8 cache the query is the one that the kernel rounds to integers, so
 * that only a few roundings are left; the integers of the weights are half a
 * step away from the weights.
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include "ref.h"

size_t ref_kv_bytes(enum kern_kvtype type)
{
    static const size_t bytes[] = {4, 2, 1};
    return bytes[type];
}

static size_t dim16(const struct kern_kv *kv)
{
    return (kv->head_dim + (size_t)15) / 16 * 16;
}

size_t ref_kv_key(const struct kern_kv *kv, size_t pos, size_t d)
{
    if (kv->type == KERN_KV_Q8)
        return ((pos / 16 * (dim16(kv) / 4) + d / 4) * 16 + pos % 16) * 4 + d % 4;
    return (pos / 16 * kv->head_dim + d) * 16 + pos % 16;
}

size_t ref_kv_value(const struct kern_kv *kv, size_t pos, size_t d)
{
    if (kv->type == KERN_KV_Q8)
        return (pos / 4 * dim16(kv) + d) * 4 + pos % 4;
    return pos * dim16(kv) + d;
}

static double element(const void *p, enum kern_kvtype type, size_t i)
{
    if (type == KERN_KV_F32)
        return ((const float *)p)[i];
    if (type == KERN_KV_F16)
        return ref_f16_value(((const uint16_t *)p)[i]);
    return ((const int8_t *)p)[i];
}

static double key(const struct kern_kv *kv, size_t pos, size_t d)
{
    const size_t i = ref_kv_key(kv, pos, d);
    return kv->type == KERN_KV_Q8 ? ((const uint8_t *)kv->k)[i] - 128.0
                                  : element(kv->k, kv->type, i);
}

float ref_steps(int32_t *q, const float *x, size_t n)
{
    float amax = 0.0f;
    for (size_t i = 0; i < n; i++)
        amax = fmaxf(amax, fabsf(x[i]));
    const float factor = amax < 1e-30f ? 0.0f : (float)KERN_Q8_STEPS / amax;
    for (size_t i = 0; i < n; i++)
        q[i] = (int32_t)nearbyintf(x[i] * factor);
    return amax < 1e-30f ? 0.0f : amax / (float)KERN_Q8_STEPS;
}

float ref_score_bits(const float *q, const struct kern_kv *kv, size_t pos, float scale)
{
    int32_t steps[KERN_Q8_MAX_DIM], sum = 0;
    const float unit = ref_steps(steps, q, kv->head_dim);
    for (size_t d = 0; d < kv->head_dim; d++)
        sum += steps[d] * (int32_t)key(kv, pos, d);
    const float factor = unit * scale * kv->ks[pos];
    return (float)sum * factor;
}

/* Score of one position; its error in units of 2^-24 goes to *error. */
static double score(const float *q, const struct kern_kv *kv, size_t pos, double scale, double cap,
                    double *error)
{
    const size_t dim = kv->head_dim;
    double dot = 0.0, terms = 0.0;
    if (kv->type == KERN_KV_Q8) {
        int32_t steps[KERN_Q8_MAX_DIM];
        const double unit = (double)ref_steps(steps, q, dim) * kv->ks[pos];
        for (size_t d = 0; d < dim; d++)
            dot += steps[d] * key(kv, pos, d) * unit;
        *error = 4.0 * fabs(dot * scale); /* to float, and three products */
    } else {
        for (size_t d = 0; d < dim; d++) {
            const double k = key(kv, pos, d);
            dot += q[d] * k;
            terms += fabs(q[d] * k);
        }
        *error =
            (2.0 * (double)dim + 1.0) * terms * fabs(scale); /* up to two per term, and scale */
    }
    /* the soft cap has slope at most 1, and cancels up to cap */
    *error += cap > 0.0 ? 10.0 * cap : 0.0;
    dot *= scale;
    return cap > 0.0 ? cap * tanh(dot / cap) : dot;
}

void ref_attend(double *o, double *o_mag, struct ref_head *head, const float *q,
                const struct kern_kv *kv, size_t pos0, size_t pos1, float scale, float cap)
{
    const bool q8 = kv->type == KERN_KV_Q8;
    const size_t dim = kv->head_dim;
    const double n = (double)(pos1 - pos0);
    double top = -INFINITY, worst = 0.0, most = 0.0;
    for (size_t pos = pos0; pos < pos1; pos++) {
        double error;
        top = fmax(top, score(q, kv, pos, scale, cap, &error));
        worst = fmax(worst, error);
    }
    for (size_t pos = pos0; pos < pos1 && q8; pos++) {
        double error;
        most = fmax(most, exp(score(q, kv, pos, scale, cap, &error) - top) * kv->vs[pos]);
    }
    *head = (struct ref_head){.m = top, .m_mag = worst};
    for (size_t d = 0; d < dim; d++)
        o[d] = o_mag[d] = 0.0;
    for (size_t pos = pos0; pos < pos1; pos++) {
        double error;
        const double x = score(q, kv, pos, scale, cap, &error) - top, weight = exp(x);
        const double vs = q8 ? kv->vs[pos] : 1.0;
        /* exp: 3 roundings and |x| for x = score - m, whose both sides have errors; then the
         * chain over the positions; exp does not fall below e^-87 = 1.7e-38 = 2.8e-31 * 2^-24 */
        const double size = weight * (error + worst + fabs(x) + 2.0 * n + 6.0) + 3e-31;
        /* int8: no chain, but half a step; unit and factor have errors of their own */
        const double step = q8 ? 0.5 * most / KERN_Q8_STEPS * 0x1p24 * 1.001 : 0.0;
        head->l += weight;
        head->l_mag += size;
        for (size_t d = 0; d < dim; d++) {
            const double v = element(kv->v, kv->type, ref_kv_value(kv, pos, d));
            o[d] += weight * vs * v;
            o_mag[d] += (size * vs + step) * fabs(v);
        }
    }
}

void ref_attend_merge(double *want, double *mag, const float *o, size_t o_stride, const float *m,
                      const float *l, size_t ml_stride, size_t segments, size_t head_dim)
{
    double top = -INFINITY, total = 0.0;
    for (size_t s = 0; s < segments; s++)
        top = fmax(top, m[s * ml_stride]);
    for (size_t s = 0; s < segments; s++)
        total += exp(m[s * ml_stride] - top) * l[s * ml_stride];
    for (size_t d = 0; d < head_dim; d++) {
        want[d] = mag[d] = 0.0;
        for (size_t s = 0; s < segments; s++) {
            const double x = m[s * ml_stride] - top, term = exp(x) * o[s * o_stride + d] / total;
            want[d] += term;
            mag[d] += fabs(term) * (1.0 + fabs(x)) + 3e-31 * fabs(o[s * o_stride + d] / total);
        }
    }
}
