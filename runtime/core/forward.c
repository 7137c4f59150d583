/* forward.c - the transformer, in the order of its equations, shapes on the right.
 *
 * T tokens at once; every matrix product is split into contiguous ranges of
 * row panels, everything else by token.  Which thread does what never changes
 * a bit: a result is computed whole by one kernel call.
 * SPDX-License-Identifier: MIT */
#include "forward.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"

enum {
    PANEL = KERN_LANES,    /* rows that a kernel call starts and ends at */
    CHUNK_WORK = 1 << 21,  /* multiplications, 1 MB of Q4: what a run may wait for in its end */
    FFN_ROWS = KERN_BLOCK, /* hidden rows per inner step of a batch: gate and up stay in cache */
    MANY_TOKENS = 8,       /* from here on norms and RoPE are worth the pool */
    MAX_PARTS = 4,         /* matrices of one dispatch */
};

/* ---- time ------------------------------------------------------------------------------- */

/* The time since the last call goes to this stage. */
static void end_stage(struct kr_forward *f, enum kr_stage stage)
{
    if (!f->profile)
        return;
    const double t = kr_clock_seconds();
    f->seconds[stage] += t - f->mark;
    f->mark = t;
}

/* ---- matrix products ---------------------------------------------------------------------- */

/* Some matrices of the same k applied to the same activations. */
struct products {
    const struct kern_matrix *w[MAX_PARTS];
    float *dst[MAX_PARTS]; /* [cols][dst_stride] */
    size_t parts;
    const void *acts;
    size_t dst_stride, cols;
    size_t panels, chunks; /* of all matrices together */
    float cap;             /* soft cap of the results, or 0 */
};

static size_t panels_of(const struct kern_matrix *w)
{
    return (w->rows + PANEL - 1) / PANEL;
}

static void product_chunk(void *arg, size_t chunk, size_t thread)
{
    (void)thread;
    const struct products *p = arg;
    const size_t from = p->panels * chunk / p->chunks, to = p->panels * (chunk + 1) / p->chunks;
    size_t base = 0; /* first panel of part i */
    for (size_t i = 0; i < p->parts; i++) {
        const struct kern_matrix *w = p->w[i];
        const size_t end = base + panels_of(w);
        const size_t first = from > base ? from : base, last = to < end ? to : end;
        if (first < last) {
            const size_t row0 = (first - base) * PANEL;
            const size_t row1 = last == end ? w->rows : (last - base) * PANEL;
            float *dst = p->dst[i] + row0;
            kern_matmul(dst, p->dst_stride, w, p->acts, p->cols, row0, row1);
            for (size_t c = 0; p->cap > 0.0f && c < p->cols; c++)
                kern_softcap(dst + c * p->dst_stride, row1 - row0, p->cap);
        }
        base = end;
    }
}

/* Into how many chunks to cut `work` multiplications, which could be cut into `most`. */
static size_t chunks_of(const struct kr_forward *f, uint64_t work, size_t most)
{
    if (!kr_pool_worth(f->pool, work))
        return 1;
    const uint64_t least = kr_pool_threads(f->pool) * KR_CHUNKS_PER_THREAD;
    const uint64_t wanted = work / CHUNK_WORK > least ? work / CHUNK_WORK : least;
    return wanted < most ? (size_t)wanted : most;
}

static void multiply(struct kr_forward *f, struct products *p)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < p->parts; i++) {
        p->panels += panels_of(p->w[i]);
        rows += p->w[i]->rows;
    }
    const uint64_t work = rows * p->w[0]->k * p->cols;
    p->chunks = chunks_of(f, work, p->panels);
    kr_pool_share(f->pool, product_chunk, p, p->chunks, work);
}

/* ---- by token ------------------------------------------------------------------------------- */

/* By bits, two at a time (n is even): adding one to an exponent of all ones, which infinities and NaNs
 * have, carries into the sign's place. */
static bool all_finite(const float *x, size_t n)
{
    const uint64_t exponents = UINT64_C(0x7f8000007f800000), ones = UINT64_C(0x0080000000800000);
    uint64_t carries = 0;
    for (size_t i = 0; i < n; i += 2) {
        uint64_t bits;
        memcpy(&bits, x + i, sizeof bits);
        carries |= (bits & exponents) + ones;
    }
    return (carries & UINT64_C(0x8000000080000000)) == 0;
}

/* What the functions of this section know about the step. */
struct by_token {
    struct kr_forward *f;
    const struct kr_step *s;
    const struct kr_layer *layer;
    size_t index; /* of the layer */
    size_t first; /* tokens [first, cols) are alive; the buffers' rows stay where they are */
    const float *post_norm; /* of the block that has just ended, or NULL */
    const float *next_norm; /* in front of the next block */
    bool *bad; /* [cols]: not finite any more.  Quantization may lose a NaN: nothing else may */
};

static void each_token(const struct by_token *b, kr_chunk_fn *fn)
{
    const size_t tokens = b->s->cols - b->first;
    kr_pool_share(b->f->pool, fn, (void *)b, tokens, tokens >= MANY_TOKENS ? KR_SMALL_WORK : 0);
}

/* acts_x[t] = quantize(rmsnorm(x[t])) among the tokens that are alive                  [dim] */
static void norm_token(const struct by_token *b, size_t t, size_t thread)
{
    struct kr_forward *f = b->f;
    const size_t dim = (size_t)f->m->dim, alive = b->s->cols - b->first;
    float *normed = f->norm + thread * dim;
    kern_rmsnorm(normed, f->x + t * dim, b->next_norm, dim, f->m->norm_eps);
    kern_quantize(f->acts_x, dim, alive, t - b->first, t - b->first + 1, 0, dim / KERN_BLOCK,
                  normed, dim);
}

static void embed_token(void *arg, size_t t, size_t thread)
{
    const struct by_token *b = arg;
    struct kr_forward *f = b->f;
    const size_t dim = (size_t)f->m->dim, rotary = (size_t)f->m->rotary_dim;
    const float scale[2] = {f->m->rope_scale, 1.0f};
    const uint32_t pos = (uint32_t)(b->s->pos + t);

    kern_embed(f->x + t * dim, &f->m->embed, (size_t)b->s->tokens[t], f->m->embed_scale);
    const float *const freq[2] = {f->m->rope_freq, f->m->rope_freq_local};
    for (size_t i = 0; i < 2 && freq[i]; i++)
        kern_rope_angles(f->cs[i] + t * rotary, f->sn[i] + t * rotary, freq[i], rotary / 2, pos,
                         scale[i]);
    b->bad[t] = !all_finite(f->x + t * dim, dim);
    norm_token(b, t, thread);
}

/* Add the biases, norm each head of q and k, turn them by the position, store k and v. */
static void store_token(void *arg, size_t t, size_t thread)
{
    (void)thread;
    const struct by_token *b = arg;
    struct kr_forward *f = b->f;
    const struct kr_layer *l = b->layer;
    const size_t head_dim = (size_t)f->m->head_dim, pos = b->s->pos + t;
    const size_t heads = (size_t)f->m->n_heads, kv_heads = (size_t)f->m->n_kv_heads;
    float *q = f->qkv + t * f->qkv_stride;                         /* [heads][head_dim] */
    float *k = q + heads * head_dim, *v = k + kv_heads * head_dim; /* [kv_heads][head_dim] */

    if (l->bq) {
        kern_add(q, l->bq, heads * head_dim);
        kern_add(k, l->bk, kv_heads * head_dim);
        kern_add(v, l->bv, kv_heads * head_dim);
    }
    for (size_t h = 0; l->q_norm && h < heads; h++)
        kern_rmsnorm(q + h * head_dim, q + h * head_dim, l->q_norm, head_dim, f->m->norm_eps);
    for (size_t h = 0; l->k_norm && h < kv_heads; h++)
        kern_rmsnorm(k + h * head_dim, k + h * head_dim, l->k_norm, head_dim, f->m->norm_eps);
    if (l->rope) {
        const size_t base = l->local && f->m->rope_freq_local, rotary = (size_t)f->m->rotary_dim;
        const float *cs = f->cs[base] + t * rotary, *sn = f->sn[base] + t * rotary;
        kern_rope(q, heads, head_dim, rotary, cs, sn);
        kern_rope(k, kv_heads, head_dim, rotary, cs, sn);
    }
    for (size_t h = 0; h < kv_heads; h++) {
        const struct kern_kv kv = kr_kvcache_at(f->kv, l->index, h, pos / KERN_SEGMENT);
        kern_kv_store(&kv, pos % KERN_SEGMENT, k + h * head_dim, v + h * head_dim);
    }
}

static void delta_token(void *arg, size_t t, size_t thread)
{
    (void)thread;
    const struct by_token *b = arg;
    kr_delta_token(b->f, b->s, b->layer, t);
}

/* acts_att[i] = quantize(gated output) of the i-th token alive                 [q_dim or values] */
static void mixed_token(void *arg, size_t i, size_t thread)
{
    (void)thread;
    const struct by_token *b = arg;
    struct kr_forward *f = b->f;
    const struct kr_layer *l = b->layer;
    const size_t t = b->first + i, width = l->wo.k;
    const float *out = f->att + t * width;
    if (l->linear) {
        out = kr_delta_output(f, l, t);
    } else if (l->wg.data) {
        const float *gate = f->qkv + (t + 1) * f->qkv_stride - width; /* the last of a row */
        b->bad[t] |= !all_finite(gate, width); /* a sigmoid of NaN is a number */
        kern_sigmoid_mul(f->att + t * width, out, gate, width);
    }
    b->bad[t] |= !all_finite(out, width); /* with what a linear layer's gate has made of it */
    kern_quantize(f->acts_att, width, b->s->cols - b->first, i, i + 1, 0, width / KERN_BLOCK, out,
                  width);
}

/* x += post_norm(y), then on to the next block's input. */
static void residual_token(void *arg, size_t i, size_t thread)
{
    const struct by_token *b = arg;
    struct kr_forward *f = b->f;
    const size_t dim = (size_t)f->m->dim, t = b->first + i;
    float *y = f->y + i * dim;
    if (b->post_norm)
        kern_rmsnorm(y, y, b->post_norm, dim, f->m->norm_eps);
    kern_add(f->x + t * dim, y, dim);
    b->bad[t] |= !all_finite(f->x + t * dim, dim);
    if (b->next_norm)
        norm_token(b, t, thread);
}

/* ---- the feed-forward block ----------------------------------------------------------------- */

struct ffn {
    struct kr_forward *f;
    const struct kr_layer *layer;
    size_t cols;
    size_t blocks, chunks; /* hidden rows in blocks of 32 */
};

/* Of x[0..n), n a multiple of 32: a block of infinities, whose scale is infinite, tells in y of what
 * quantization could lose. */
static void keep_nan(float *x, size_t n)
{
    if (!all_finite(x, n))
        for (size_t i = 0; i < KERN_BLOCK; i++)
            x[i] = INFINITY;
}

/* A range of hidden rows: both products, the gate, and quantized into acts_hidden. */
static void ffn_chunk(void *arg, size_t chunk, size_t thread)
{
    const struct ffn *n = arg;
    struct kr_forward *f = n->f;
    const size_t hidden = (size_t)f->m->hidden_dim;
    const size_t from = n->blocks * chunk / n->chunks * KERN_BLOCK;
    const size_t to = n->blocks * (chunk + 1) / n->chunks * KERN_BLOCK;
    const size_t step = n->cols == 1 ? to - from : FFN_ROWS;
    float *gate = f->ffn + thread * f->ffn_stride; /* [cols][step] */
    float *up = gate + n->cols * step;             /* [cols][step] */

    for (size_t row = from; row < to; row += step) {
        kern_matmul(gate, step, &n->layer->gate, f->acts_x, n->cols, row, row + step);
        kern_matmul(up, step, &n->layer->up, f->acts_x, n->cols, row, row + step);
        if (f->m->activation == KR_SILU)
            kern_silu_mul(gate, gate, up, n->cols * step);
        else
            kern_gelu_mul(gate, gate, up, n->cols * step);
        for (size_t c = 0; c < n->cols; c++)
            keep_nan(gate + c * step, step);
        kern_quantize(f->acts_hidden, hidden, n->cols, 0, n->cols, row / KERN_BLOCK,
                      (row + step) / KERN_BLOCK, gate, step);
    }
}

static void gate_and_up(struct kr_forward *f, const struct kr_layer *layer, size_t cols)
{
    struct ffn n = {.f = f, .layer = layer, .cols = cols};
    n.blocks = (size_t)f->m->hidden_dim / KERN_BLOCK;
    const uint64_t work = 2 * (uint64_t)f->m->hidden_dim * (uint64_t)f->m->dim * cols;
    n.chunks = chunks_of(f, work, n.blocks);
    kr_pool_share(f->pool, ffn_chunk, &n, n.chunks, work);
}

/* ---- a layer -------------------------------------------------------------------------------- */

/* Queries, keys and values; K and V stored. */
static void attention_inputs(struct by_token *b)
{
    struct kr_forward *f = b->f;
    const struct kr_layer *l = b->layer;
    float *q = f->qkv, *k = q + l->wq.rows, *v = k + l->wk.rows, *gate = v + l->wv.rows;
    struct products p = {.w = {&l->wq, &l->wk, &l->wv, &l->wg}, /* [rows][dim] */
                         .dst = {q, k, v, gate},
                         .parts = l->wg.data ? 4 : 3,
                         .acts = f->acts_x,
                         .dst_stride = f->qkv_stride,
                         .cols = b->s->cols};
    multiply(f, &p);
    each_token(b, store_token);
}

/* The same of a linear layer, which needs all tokens for its state. */
static void linear_inputs(struct by_token *b)
{
    struct kr_forward *f = b->f;
    const struct kr_layer *l = b->layer;
    float *in = f->qkv, *z = in + l->wqkv.rows, *strength = z + l->wz.rows;
    float *decay = strength + l->wb.rows;
    struct products p = {.w = {&l->wqkv, &l->wz, &l->wb, &l->wa}, /* [rows][dim] */
                         .dst = {in, z, strength, decay},
                         .parts = 4,
                         .acts = f->acts_x,
                         .dst_stride = f->delta.stride,
                         .cols = b->s->cols};
    multiply(f, &p);
    each_token(b, delta_token);
}

/* y[i] = w acts[i] for the tokens alive                                               [dim] */
static void project(struct by_token *b, const struct kern_matrix *w, const void *acts)
{
    struct products p = {.w = {w},
                         .dst = {b->f->y},
                         .parts = 1,
                         .acts = acts,
                         .dst_stride = (size_t)b->f->m->dim,
                         .cols = b->s->cols - b->first};
    multiply(b->f, &p);
}

/* x -> x + wo mix(norm(x)) -> x + down (act(gate norm(x)) * up norm(x)).  acts_x holds the
 * quantized attn_norm(x) before, and the next layer's after. */
static void layer_step(struct by_token *b, const float *next_layer_norm)
{
    struct kr_forward *f = b->f;
    const struct kr_layer *l = b->layer;

    if (l->linear)
        linear_inputs(b);
    else
        attention_inputs(b);
    end_stage(f, KR_STAGE_QKV);

    if (l->linear) {
        kr_delta_mix(f, b->s, l);
        /* Every element of the state is in the last token's output. */
        const size_t newest = b->s->cols - 1, width = l->wo.k;
        b->bad[newest] |= !all_finite(f->att + newest * width, width);
    }
    const bool last = b->index + 1 == (size_t)f->m->n_layers;
    if (last) /* nobody reads the other tokens any more */
        b->first = b->s->first_needed;
    if (b->first == b->s->cols)
        return;

    if (!l->linear)
        kr_attention(f, b->s, b->index, b->first);
    each_token(b, mixed_token);
    end_stage(f, KR_STAGE_ATTENTION);

    project(b, &l->wo, f->acts_att);
    b->post_norm = l->attn_post_norm;
    b->next_norm = l->ffn_norm;
    each_token(b, residual_token);
    end_stage(f, KR_STAGE_WO);

    gate_and_up(f, l, b->s->cols - b->first);
    project(b, &l->down, f->acts_hidden);
    b->post_norm = l->ffn_post_norm;
    b->next_norm = next_layer_norm;
    each_token(b, residual_token);
    end_stage(f, KR_STAGE_FFN);
}

/* ---- a step --------------------------------------------------------------------------------- */

/* After stage 0, the embedding; 1 to n_layers, a layer; or n_layers + 1, the output norm. */
static krafla_status check_finite(const struct by_token *b, size_t stage, krafla_error *err)
{
    const struct kr_step *s = b->s;
    size_t t = 0;
    while (t < s->cols && !b->bad[t])
        t++;
    if (t == s->cols)
        return KRAFLA_OK;
    char where[32] = "the embedding"; /* or "layer 65535" */
    if (stage > (size_t)b->f->m->n_layers)
        snprintf(where, sizeof where, "the output norm");
    else if (stage > 0)
        snprintf(where, sizeof where, "layer %zu", stage - 1);
    return kr_fail(err, KRAFLA_E_NUMERIC,
                   "%s computed infinity or NaN for the token at position %zu (id %d): the model's "
                   "weights are damaged or overflow; convert it again, and delete its pack cache "
                   "(.pk*) if it has one",
                   where, s->pos + t, s->tokens[t]);
}

krafla_status kr_forward_step(struct kr_forward *f, const struct kr_step *s, krafla_error *err)
{
    const struct kr_mlb *m = f->m;
    const size_t dim = (size_t)m->dim, layers = (size_t)m->n_layers;
    bool bad[KERN_MAX_COLS];
    struct by_token b = {.f = f, .s = s, .next_norm = m->layers[0].attn_norm, .bad = bad};
    f->mark = f->profile ? kr_clock_seconds() : 0;

    each_token(&b, embed_token);
    end_stage(f, KR_STAGE_OTHER);
    krafla_status st = check_finite(&b, 0, err);

    for (size_t i = 0; i < layers && st == KRAFLA_OK; i++) {
        b.layer = &m->layers[i];
        b.index = i;
        layer_step(&b, i + 1 < layers ? m->layers[i + 1].attn_norm : NULL);
        st = check_finite(&b, i + 1, err);
    }
    for (size_t i = 0; b.first + i < s->cols && st == KRAFLA_OK; i++) {
        kern_rmsnorm(f->y + i * dim, f->x + (b.first + i) * dim, m->out_norm, dim, m->norm_eps);
        bad[b.first + i] |= !all_finite(f->y + i * dim, dim);
    }
    end_stage(f, KR_STAGE_OTHER);
    return st == KRAFLA_OK ? check_finite(&b, layers + 1, err) : st;
}

void kr_forward_logits(struct kr_forward *f, size_t row, size_t n, float *logits)
{
    const size_t dim = (size_t)f->m->dim;
    f->mark = f->profile ? kr_clock_seconds() : 0;
    kern_quantize(f->acts_x, dim, n, 0, n, 0, dim / KERN_BLOCK, f->y + row * dim, dim);
    struct products p = {.w = {&f->m->classifier}, /* [vocab][dim] */
                         .dst = {logits},
                         .parts = 1,
                         .acts = f->acts_x,
                         .dst_stride = (size_t)f->m->vocab,
                         .cols = n,
                         .cap = f->m->logit_cap};
    multiply(f, &p);
    end_stage(f, KR_STAGE_CLASSIFIER);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

void kr_forward_lay_out(struct kr_forward *f, struct kr_arena *a, size_t n_ctx)
{
    const struct kr_mlb *m = f->m;
    const size_t dim = (size_t)m->dim, hidden = (size_t)m->hidden_dim, t = f->batch;
    const size_t head_dim = (size_t)m->head_dim, rotary = (size_t)m->rotary_dim;
    const size_t q_dim = (size_t)m->n_heads * head_dim, kv_dim = (size_t)m->n_kv_heads * head_dim;
    const size_t mixed = larger(q_dim, (size_t)m->linear.values);
    const size_t threads = kr_pool_threads(f->pool);
    f->segments = (n_ctx + KERN_SEGMENT - 1) / KERN_SEGMENT;
    f->ffn_stride = 2 * larger(hidden, FFN_ROWS * t);
    f->qkv_stride = q_dim + 2 * kv_dim + (m->attn_gate ? q_dim : 0);
    kr_delta_lay_out(&f->delta, m, a, t);

    /* The counts are the file's, the sizes are bounded: no product wraps unnoticed. */
    const size_t column = t * sizeof(float);
    f->x = kr_arena_take(a, dim, column);
    f->y = kr_arena_take(a, dim, column);
    f->qkv = kr_arena_take(a, larger(f->qkv_stride, f->delta.stride), column);
    f->att = kr_arena_take(a, mixed, column);
    for (size_t i = 0; i < 2; i++) {
        f->cs[i] = kr_arena_take(a, rotary, column);
        f->sn[i] = kr_arena_take(a, rotary, column);
    }
    f->acts_x = kr_arena_take(a, kern_acts_bytes(dim, t), 1);
    f->acts_att = kr_arena_take(a, kern_acts_bytes(mixed, t), 1);
    f->acts_hidden = kr_arena_take(a, kern_acts_bytes(hidden, t), 1);

    f->norm = kr_arena_take(a, dim, threads * sizeof(float));
    f->ffn = kr_arena_take(a, f->ffn_stride, threads * sizeof(float));
    kr_attention_lay_out(f, a);
}
