/* deltanet.c - a linear layer between its projections.
 *
 * Tokens are convolved each by itself, from the step's own inputs and the
 * history; then each value head runs over all tokens in order.  So nothing
 * depends on how a prompt was cut into steps.
 * SPDX-License-Identifier: MIT */
#include "deltanet.h"

#include <math.h>
#include <string.h>

#include "forward.h"

static const float l2_eps = 1e-6f;

/* ---- where things lie ------------------------------------------------------------------------- */

/* Token t of the step: its row of products, [channels | values | v_heads | v_heads]. */
static float *products(const struct kr_forward *f, size_t t)
{
    return f->qkv + t * f->delta.stride;
}

static float *gates(const struct kr_forward *f, size_t t)
{
    return f->delta.gates + t * 2 * (size_t)f->m->linear.v_heads;
}

static float *layer_state(const struct kr_forward *f, const struct kr_layer *l)
{
    return f->delta.state + l->index * f->delta.layer_floats;
}

/* A row of the convolution's past inputs. */
static float *history(const struct kr_forward *f, const struct kr_layer *l, size_t row)
{
    const struct kr_linear *n = &f->m->linear;
    return layer_state(f, l) + (size_t)n->v_heads * f->delta.head_floats +
           row * (size_t)n->channels;
}

/* ---- by token ----------------------------------------------------------------------------------- */

void kr_delta_token(const struct kr_forward *f, const struct kr_step *s, const struct kr_layer *l,
                    size_t t)
{
    const struct kr_linear *n = &f->m->linear;
    const size_t before = (size_t)n->taps - 1, k_dim = (size_t)n->k_dim;
    const size_t channels = (size_t)n->channels, v_heads = (size_t)n->v_heads;
    float *conv = f->delta.conv + t * channels;

    const float *in[KR_MAX_TAPS]; /* of positions pos - before .. pos */
    for (size_t j = 0; j <= before; j++)
        in[j] = t + j >= before ? products(f, t + j - before)
                                : history(f, l, (s->pos + t + j) % before);
    kern_conv_silu(conv, in, l->conv, before + 1, channels);

    const float q_scale = (float)(1.0 / sqrt((double)k_dim));
    float *k = conv + n->keys;
    for (size_t h = 0; h < (size_t)n->k_heads; h++) {
        kern_l2norm(conv + h * k_dim, conv + h * k_dim, k_dim, l2_eps, q_scale);
        kern_l2norm(k + h * k_dim, k + h * k_dim, k_dim, l2_eps, 1.0f);
    }
    const float *b = products(f, t) + channels + n->values, *a = b + v_heads;
    kern_delta_gates(gates(f, t), gates(f, t) + v_heads, a, b, l->decay_rate, l->dt_bias, v_heads);
}

const float *kr_delta_output(const struct kr_forward *f, const struct kr_layer *l, size_t t)
{
    const struct kr_linear *n = &f->m->linear;
    const size_t v_dim = (size_t)n->v_dim, values = (size_t)n->values;
    float *out = f->att + t * values, *z = products(f, t) + n->channels;
    for (size_t h = 0; h < (size_t)n->v_heads; h++)
        kern_rmsnorm(out + h * v_dim, out + h * v_dim, l->delta_norm, v_dim, f->m->norm_eps);
    kern_silu_mul(z, z, out, values);
    return z;
}

/* ---- by value head -------------------------------------------------------------------------------- */

struct mix {
    const struct kr_forward *f;
    const struct kr_layer *layer;
    size_t tokens;
};

static void mix_head(void *arg, size_t head, size_t thread)
{
    (void)thread;
    const struct mix *x = arg;
    const struct kr_forward *f = x->f;
    const struct kr_linear *n = &f->m->linear;
    const size_t k_dim = (size_t)n->k_dim, v_dim = (size_t)n->v_dim;
    const size_t k_head = head / (size_t)(n->v_heads / n->k_heads);
    const float *q = f->delta.conv + k_head * k_dim;
    const struct kern_delta in = {.q = q,
                                  .k = q + n->keys,
                                  .v = f->delta.conv + 2 * (size_t)n->keys + head * v_dim,
                                  .decay = f->delta.gates + head,
                                  .beta = f->delta.gates + n->v_heads + head,
                                  .qkv_stride = (size_t)n->channels,
                                  .gate_stride = 2 * (size_t)n->v_heads,
                                  .k_dim = k_dim,
                                  .v_dim = v_dim,
                                  .tokens = x->tokens};
    kern_delta(f->att + head * v_dim, (size_t)n->values,
               layer_state(f, x->layer) + head * f->delta.head_floats, &in);
}

void kr_delta_mix(const struct kr_forward *f, const struct kr_step *s, const struct kr_layer *l)
{
    const struct kr_linear *n = &f->m->linear;
    const size_t before = (size_t)n->taps - 1, bytes = (size_t)n->channels * sizeof(float);
    for (size_t t = s->cols > before ? s->cols - before : 0; t < s->cols; t++)
        memcpy(history(f, l, (s->pos + t) % before), products(f, t), bytes);

    struct mix x = {.f = f, .layer = l, .tokens = s->cols};
    const uint64_t work = (uint64_t)s->cols * (uint64_t)n->values * (uint64_t)n->k_dim * 3;
    kr_pool_share(f->pool, mix_head, &x, (size_t)n->v_heads, work);
}

/* ---- memory --------------------------------------------------------------------------------------- */

void kr_delta_lay_out(struct kr_delta *d, const struct kr_mlb *m, struct kr_arena *a, size_t t)
{
    if (m->n_linear == 0)
        return;
    const struct kr_linear *n = &m->linear;
    const size_t channels = (size_t)n->channels, v_heads = (size_t)n->v_heads;
    d->stride = channels + (size_t)n->values + 2 * v_heads;

    /* A layer has less than 2^37 floats: too many for a 32-bit system. */
    const uint64_t head = (uint64_t)n->k_dim * kr_round_up((uint64_t)n->v_dim, KERN_LANES);
    const uint64_t layer =
        kr_round_up(v_heads * head + ((uint64_t)n->taps - 1) * channels, KERN_LANES);
    if (layer > SIZE_MAX / sizeof(float)) {
        a->overflow = true;
        return;
    }
    d->head_floats = (size_t)head;
    d->layer_floats = (size_t)layer;
    d->state_floats = d->layer_floats * (size_t)m->n_linear;
    d->state = kr_arena_take(a, (size_t)m->n_linear, d->layer_floats * sizeof(float));
    d->conv = kr_arena_take(a, channels, t * sizeof(float));
    d->gates = kr_arena_take(a, 2 * v_heads, t * sizeof(float));
}
