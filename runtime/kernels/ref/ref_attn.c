/* ref_attn.c - attention of one query head, straight from the formula.
 *
 * The magnitudes follow the error through the softmax: a score is a chain of
 * head_dim roundings, and its absolute error is the relative error of a weight.
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include "ref.h"

static double kv_value(const void *p, enum kern_kvtype type, size_t i)
{
    switch (type) {
    case KERN_KV_F32:
        return ((const float *)p)[i];
    case KERN_KV_F16:
        return ref_f16_value(((const uint16_t *)p)[i]);
    case KERN_KV_Q8:
        break;
    }
    return ((const int8_t *)p)[i];
}

/* Score of one position; its error in units of 2^-24 goes to *error. */
static double score(const float *q, const struct kern_kv *kv, size_t pos, double scale, double cap,
                    double *error)
{
    const size_t dim = kv->head_dim;
    const double ks = kv->type == KERN_KV_Q8 ? kv->ks[pos] : 1.0;
    double dot = 0.0, terms = 0.0;
    for (size_t d = 0; d < dim; d++) {
        const double k = kv_value(kv->k, kv->type, (pos / 16 * dim + d) * 16 + pos % 16);
        dot += q[d] * k * ks;
        terms += fabs(q[d] * k * ks);
    }
    /* up to two roundings per term, then times ks and scale; the soft cap has slope
     * at most 1, and cancels up to cap */
    *error = (2.0 * (double)dim + 3.0) * terms * fabs(scale) + (cap > 0.0 ? 10.0 * cap : 0.0);
    dot *= scale;
    return cap > 0.0 ? cap * tanh(dot / cap) : dot;
}

void ref_attend(double *o, double *o_mag, struct ref_head *head, const float *q,
                const struct kern_kv *kv, size_t pos0, size_t pos1, float scale, float cap)
{
    const size_t dim = kv->head_dim, stride = (dim + 15) / 16 * 16;
    const double n = (double)(pos1 - pos0);
    double top = -INFINITY, worst = 0.0;
    for (size_t pos = pos0; pos < pos1; pos++) {
        double error;
        top = fmax(top, score(q, kv, pos, scale, cap, &error));
        worst = fmax(worst, error);
    }
    *head = (struct ref_head){.m = top, .m_mag = worst};
    for (size_t d = 0; d < dim; d++)
        o[d] = o_mag[d] = 0.0;
    for (size_t pos = pos0; pos < pos1; pos++) {
        double error;
        const double x = score(q, kv, pos, scale, cap, &error) - top, weight = exp(x);
        const double vs = kv->type == KERN_KV_Q8 ? kv->vs[pos] : 1.0;
        /* exp: 3 roundings and |x| for x = score - m, whose both sides have errors; then the
         * chain over the positions; exp does not fall below e^-87 = 1.7e-38 = 2.8e-31 * 2^-24 */
        const double size = weight * (error + worst + fabs(x) + 2.0 * n + 6.0) + 3e-31;
        head->l += weight;
        head->l_mag += size;
        for (size_t d = 0; d < dim; d++) {
            const double v = kv_value(kv->v, kv->type, pos * stride + d) * vs;
            o[d] += weight * v;
            o_mag[d] += size * fabs(v);
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
