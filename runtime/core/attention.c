/* attention.c - every query head of every token over its own positions.
 *
 * Always by segments of KERN_SEGMENT absolute positions that are merged in
 * order, so that it does not matter who computed which.  Work is split by
 * (KV head, group of tokens): a segment's keys and values stay in the core's
 * cache for the whole group.  A single token, whose heads are few, is split by
 * (KV head, segment).
 * SPDX-License-Identifier: MIT */
#include "forward.h"

enum {
    TOKENS = 16,        /* of a group at most: each has parts of all segments */
    SCRATCH_ALIGN = 64, /* kern_attend's */
};

struct attention {
    struct kr_forward *f;
    const struct kr_step *s;
    size_t layer;
    size_t first;           /* first token that needs its output */
    size_t head_dim, group; /* query heads per KV head */
    size_t q_dim;
    size_t groups;   /* of tokens */
    size_t segments; /* when split by segments: how many */
    size_t segment0; /* and the first */
};

/* Positions that token t sees. */
static struct kern_span span(const struct attention *a, size_t t)
{
    const struct kr_mlb *m = a->f->m;
    const size_t to = a->s->pos + t + 1;
    const size_t window = m->layers[a->layer].local ? (size_t)m->window : 0;
    return (struct kern_span){(uint32_t)(window > 0 && to > window ? to - window : 0),
                              (uint32_t)to};
}

/* Parts of one token: o [segments][group][head_dim], m and l [segments][2][group]. */
static size_t o_stride(const struct attention *a)
{
    return a->f->segments * a->group * a->head_dim;
}

static size_t ml_stride(const struct attention *a)
{
    return a->f->segments * 2 * a->group;
}

static struct kern_parts part(const struct attention *a, size_t slot, size_t at)
{
    float *ml = a->f->part_ml + slot * ml_stride(a) + at * 2 * a->group;
    return (struct kern_parts){.o = a->f->part_o + slot * o_stride(a) + at * a->group * a->head_dim,
                               .m = ml,
                               .l = ml + a->group,
                               .o_stride = o_stride(a),
                               .ml_stride = ml_stride(a)};
}

/* Segment `segment` of those of the tokens [t0, t1) that see it, into part segment - segment0 of
 * slot, slot + 1, ... */
static void attend(const struct attention *a, size_t t0, size_t t1, size_t head, size_t segment,
                   size_t segment0, size_t slot, size_t thread)
{
    const struct kr_forward *f = a->f;
    const uint32_t base = (uint32_t)(segment * KERN_SEGMENT);
    struct kern_span spans[TOKENS];
    size_t first = t1, n = 0;
    for (size_t t = t0; t < t1; t++) {
        const struct kern_span s = span(a, t);
        if (s.pos1 <= base || s.pos0 >= base + KERN_SEGMENT)
            continue;
        first = n == 0 ? t : first;
        spans[n].pos0 = s.pos0 > base ? s.pos0 - base : 0;
        spans[n++].pos1 = s.pos1 - base < KERN_SEGMENT ? s.pos1 - base : KERN_SEGMENT;
    }
    const size_t stride = f->qkv_stride;
    const struct kern_queries in = {.q = f->qkv + first * stride + head * a->group * a->head_dim,
                                    .q_stride = stride,
                                    .tokens = n,
                                    .heads = a->group,
                                    .spans = spans,
                                    .scale = f->m->attn_scale,
                                    .cap = f->m->attn_cap};
    const struct kern_parts out = part(a, slot + (first - t0), segment - segment0);
    const struct kern_kv kv = kr_kvcache_at(f->kv, f->m->layers[a->layer].index, head, segment);
    kern_attend(&out, &in, &kv, f->attend + thread * f->attend_stride);
}

/* Token t's parts [from, to) in the slot, into f->att. */
static void merge(const struct attention *a, size_t t, size_t head, size_t slot, size_t from,
                  size_t to)
{
    float *out = a->f->att + t * a->q_dim + head * a->group * a->head_dim;
    const struct kern_parts p = part(a, slot, from);
    for (size_t h = 0; h < a->group; h++)
        kern_attend_merge(out + h * a->head_dim, p.o + h * a->head_dim, a->group * a->head_dim,
                          p.m + h, p.l + h, 2 * a->group, to - from, a->head_dim);
}

/* Chunk = (KV head, group of tokens), heads outermost: a thread's share stays with few heads. */
static void tokens_chunk(void *arg, size_t chunk, size_t thread)
{
    const struct attention *a = arg;
    const size_t head = chunk / a->groups, i = chunk % a->groups, tokens = a->s->cols - a->first;
    const size_t t0 = a->first + tokens * i / a->groups;
    const size_t t1 = a->first + tokens * (i + 1) / a->groups, slot = thread * a->f->group_tokens;
    const size_t from = span(a, t0).pos0 / KERN_SEGMENT;
    for (size_t segment = from; segment * KERN_SEGMENT < span(a, t1 - 1).pos1; segment++)
        attend(a, t0, t1, head, segment, from, slot, thread);
    for (size_t t = t0; t < t1; t++) {
        const struct kern_span s = span(a, t);
        merge(a, t, head, slot + (t - t0), s.pos0 / KERN_SEGMENT - from,
              (s.pos1 - 1) / KERN_SEGMENT + 1 - from);
    }
}

/* Chunk = (KV head, segment) of the only token. */
static void segment_chunk(void *arg, size_t chunk, size_t thread)
{
    const struct attention *a = arg;
    const size_t head = chunk / a->segments, segment = a->segment0 + chunk % a->segments;
    attend(a, a->first, a->first + 1, head, segment, a->segment0, head, thread);
}

/* Groups of tokens: no larger than there is room for, and enough of them for the threads. */
static size_t groups_of(const struct attention *a, size_t heads, uint64_t work)
{
    const size_t tokens = a->s->cols - a->first, most = a->f->group_tokens;
    const size_t least = (tokens + most - 1) / most;
    if (!kr_pool_worth(a->f->pool, work))
        return least;
    const size_t wanted = (kr_pool_threads(a->f->pool) * KR_CHUNKS_PER_THREAD + heads - 1) / heads;
    return wanted < least ? least : wanted < tokens ? wanted : tokens;
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
    };
    const size_t tokens = s->cols - first;
    const struct kern_span last = span(&a, s->cols - 1);
    const uint64_t work = (uint64_t)tokens * (last.pos1 - last.pos0) * a.q_dim * 2;

    a.segment0 = last.pos0 / KERN_SEGMENT;
    a.segments = (last.pos1 - 1) / KERN_SEGMENT + 1 - a.segment0;
    if (tokens > 1 || a.segments == 1 || !kr_pool_worth(f->pool, work)) {
        a.groups = groups_of(&a, heads, work);
        kr_pool_share(f->pool, tokens_chunk, &a, heads * a.groups, work);
        return;
    }
    kr_pool_share(f->pool, segment_chunk, &a, heads * a.segments, work);
    for (size_t head = 0; head < heads; head++)
        merge(&a, first, head, head, 0, a.segments);
}

void kr_attention_lay_out(struct kr_forward *f, struct kr_arena *a)
{
    const struct kr_mlb *m = f->m;
    const size_t head_dim = (size_t)m->head_dim, heads = (size_t)m->n_kv_heads;
    const size_t group = (size_t)m->n_heads / heads, threads = kr_pool_threads(f->pool);
    const size_t chunks = threads * KR_CHUNKS_PER_THREAD;
    const size_t share = (f->batch * heads + chunks - 1) / chunks; /* of a full batch */
    f->group_tokens = share < TOKENS ? share : TOKENS;
    const size_t in_flight = threads * f->group_tokens,
                 slots = in_flight > heads ? in_flight : heads;

    f->attend_stride = kern_attend_bytes(f->kv->type, head_dim) + SCRATCH_ALIGN - 1;
    f->attend_stride -= f->attend_stride % SCRATCH_ALIGN;
    f->attend = kr_arena_take(a, threads, f->attend_stride);
    f->part_o = kr_arena_take(a, slots * f->segments, group * head_dim * sizeof(float));
    f->part_ml = kr_arena_take(a, slots * f->segments, 2 * group * sizeof(float));
}
