/* attention.c - every query head of every token over its own positions.
 *
 * Always by segments of KERN_SEGMENT absolute positions that are merged in
 * order, so that it does not matter who computed which.  Work is split by
 * (KV head, token); for a single token, whose heads are few, by (KV head,
 * segment).
 * SPDX-License-Identifier: MIT */
#include "forward.h"

struct attention {
    struct kr_forward *f;
    const struct kr_step *s;
    size_t layer;
    size_t first;           /* first token that needs its output */
    size_t head_dim, group; /* query heads per KV head */
    size_t q_dim, kv_dim;
    size_t segments; /* when split by segments: how many */
    size_t segment0; /* and the first */
};

/* Positions [*from, *to) that token t sees. */
static void span(const struct attention *a, size_t t, size_t *from, size_t *to)
{
    const struct kr_mlb *m = a->f->m;
    *to = a->s->pos + t + 1;
    const size_t window = m->layers[a->layer].local ? (size_t)m->window : 0;
    *from = window > 0 && *to > window ? *to - window : 0;
}

static float *part_o(const struct attention *a, size_t slot)
{
    return a->f->part_o + slot * a->f->segments * a->group * a->head_dim;
}

static float *part_ml(const struct attention *a, size_t slot)
{
    return a->f->part_ml + slot * a->f->segments * 2 * a->group;
}

/* Segment `segment` of token t and KV head `head` into part `at` of the slot. */
static void attend(const struct attention *a, size_t t, size_t head, size_t segment, size_t slot,
                   size_t at, size_t thread)
{
    const struct kr_forward *f = a->f;
    size_t from, to;
    span(a, t, &from, &to);
    const size_t base = segment * KERN_SEGMENT;
    const size_t pos0 = from > base ? from - base : 0;
    const size_t pos1 = to - base < KERN_SEGMENT ? to - base : KERN_SEGMENT;

    const struct kern_kv kv = kr_kvcache_at(f->kv, a->layer, head, segment);
    const float *q = f->qkv + t * (a->q_dim + 2 * a->kv_dim) + head * a->group * a->head_dim;
    float *ml = part_ml(a, slot) + at * 2 * a->group;
    kern_attend(part_o(a, slot) + at * a->group * a->head_dim, ml, ml + a->group, q, a->group, &kv,
                pos0, pos1, f->m->attn_scale, f->m->attn_cap,
                f->scores + thread * a->group * KERN_SEGMENT);
}

/* The slot's first `segments` parts into f->att. */
static void merge(const struct attention *a, size_t t, size_t head, size_t slot, size_t segments)
{
    float *out = a->f->att + t * a->q_dim + head * a->group * a->head_dim;
    for (size_t h = 0; h < a->group; h++) {
        const float *ml = part_ml(a, slot) + h;
        kern_attend_merge(out + h * a->head_dim, part_o(a, slot) + h * a->head_dim,
                          a->group * a->head_dim, ml, ml + a->group, 2 * a->group, segments,
                          a->head_dim);
    }
}

/* Chunk = (KV head, token), heads outermost: a thread's share stays with few heads. */
static void whole_chunk(void *arg, size_t chunk, size_t thread)
{
    const struct attention *a = arg;
    const size_t tokens = a->s->cols - a->first;
    const size_t head = chunk / tokens, t = a->first + chunk % tokens;
    size_t from, to, n = 0;
    span(a, t, &from, &to);
    for (size_t segment = from / KERN_SEGMENT; segment * KERN_SEGMENT < to; segment++)
        attend(a, t, head, segment, thread, n++, thread);
    merge(a, t, head, thread, n);
}

/* Chunk = (KV head, segment) of the only token. */
static void segment_chunk(void *arg, size_t chunk, size_t thread)
{
    const struct attention *a = arg;
    const size_t head = chunk / a->segments, at = chunk % a->segments;
    attend(a, a->first, head, a->segment0 + at, head, at, thread);
}

void kr_attention(struct kr_forward *f, const struct kr_step *s, size_t layer, size_t first)
{
    const struct kr_mlb *m = f->m;
    const size_t heads = (size_t)m->n_kv_heads, head_dim = (size_t)m->head_dim;
    struct attention a = {
        .f = f,
        .s = s,
        .layer = layer,
        .first = first,
        .head_dim = head_dim,
        .group = (size_t)(m->n_heads / m->n_kv_heads),
        .q_dim = (size_t)m->n_heads * head_dim,
        .kv_dim = heads * head_dim,
    };
    const size_t tokens = s->cols - first;
    size_t from, to;
    span(&a, s->cols - 1, &from, &to);
    const uint64_t work = (uint64_t)tokens * (to - from) * a.q_dim * 2; /* scores and values */

    a.segment0 = from / KERN_SEGMENT;
    a.segments = (to - 1) / KERN_SEGMENT + 1 - a.segment0;
    if (tokens > 1 || a.segments == 1 || !kr_pool_worth(f->pool, work)) {
        kr_pool_share(f->pool, whole_chunk, &a, heads * tokens, work);
        return;
    }
    kr_pool_share(f->pool, segment_chunk, &a, heads * a.segments, work);
    for (size_t head = 0; head < heads; head++)
        merge(&a, first, head, head, a.segments);
}
