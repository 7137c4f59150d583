/* check_attn.c - the KV cache and attention over it.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "ref/ref.h"

static const char *const kv_names[] = {"f32", "f16", "q8"};
static size_t round16(size_t n)
{
    return (n + 15) / 16 * 16;
}

/* Bytes of k; of v, which an int8 cache pads to quads. */
static size_t k_bytes(const struct kern_kv *kv, size_t positions)
{
    const size_t dim = kv->type == KERN_KV_Q8 ? round16(kv->head_dim) : kv->head_dim;
    return round16(positions) * dim * ref_kv_bytes(kv->type);
}

static size_t v_bytes(const struct kern_kv *kv, size_t positions)
{
    const size_t n = kv->type == KERN_KV_Q8 ? (positions + 3) / 4 * 4 : positions;
    return n * round16(kv->head_dim) * ref_kv_bytes(kv->type);
}

/* An empty cache of `positions`. */
static struct kern_kv new_cache(struct check *c, enum kern_kvtype type, size_t dim,
                                size_t positions)
{
    const size_t n = round16(positions);
    struct kern_kv kv = {.head_dim = (uint32_t)dim, .type = type};
    kv.k = check_buf(c, k_bytes(&kv, positions), 64);
    kv.v = check_buf(c, v_bytes(&kv, positions), 64);
    memset(kv.k, 0, k_bytes(&kv, positions));
    memset(kv.v, 0, v_bytes(&kv, positions));
    if (type == KERN_KV_Q8) {
        kv.ks = check_floats(c, n);
        kv.vs = check_floats(c, n);
        memset(kv.ks, 0, n * sizeof *kv.ks);
        memset(kv.vs, 0, n * sizeof *kv.vs);
    }
    return kv;
}

/* What the cache should hold for x, element i; int8 plus `offset`. */
static void encode(void *p, enum kern_kvtype type, size_t i, float x, float factor, int offset)
{
    const uint16_t half = ref_f16_nearest(x);
    const uint8_t q = (uint8_t)((int)nearbyintf(x * factor) + offset);
    const void *const values[] = {&x, &half, &q};
    memcpy((char *)p + i * ref_kv_bytes(type), values[type], ref_kv_bytes(type));
}

static float amax(const float *x, size_t n)
{
    float top = 0.0f;
    for (size_t i = 0; i < n; i++)
        top = fmaxf(top, fabsf(x[i]));
    return top;
}

static void ref_store(const struct kern_kv *kv, size_t pos, const float *k, const float *v)
{
    const size_t dim = kv->head_dim;
    const float ka = amax(k, dim), va = amax(v, dim);
    if (kv->type == KERN_KV_Q8) {
        kv->ks[pos] = ka < 1e-30f ? 0.0f : ka / 127.0f;
        kv->vs[pos] = va < 1e-30f ? 0.0f : va / 127.0f;
    }
    for (size_t d = 0; d < dim; d++) {
        encode(kv->k, kv->type, ref_kv_key(kv, pos, d), k[d], ka < 1e-30f ? 0.0f : 127.0f / ka,
               128);
        encode(kv->v, kv->type, ref_kv_value(kv, pos, d), v[d], va < 1e-30f ? 0.0f : 127.0f / va,
               0);
    }
    for (size_t d = dim; d < round16(dim) && kv->type == KERN_KV_Q8; d++)
        encode(kv->k, kv->type, ref_kv_key(kv, pos, d), 0.0f, 0.0f, 128);
}

/* Same bytes as the reference, in the whole cache: neighbours and padding stay zero. */
static void check_store(struct check *c, enum kern_kvtype type, size_t dim)
{
    if (!check_case(c, "kv_store %s head_dim=%zu", kv_names[type], dim))
        return;
    const size_t positions = 37, n = round16(positions);
    const struct kern_kv want = new_cache(c, type, dim, positions);
    const struct kern_kv got = new_cache(c, type, dim, positions);
    float *k = check_floats(c, dim), *v = check_floats(c, dim);
    for (size_t i = 0; i < positions; i++) {
        const size_t pos = (i * 5) % positions;
        if (pos % 7 == 3)
            continue;
        check_fill_f32(c, k, dim);
        check_fill_f32(c, v, dim);
        ref_store(&want, pos, k, v);
        kern_kv_store(&got, pos, k, v);
    }
    check_bits(c, "k", want.k, got.k, k_bytes(&want, positions));
    check_bits(c, "v", want.v, got.v, v_bytes(&want, positions));
    if (type == KERN_KV_Q8) {
        check_bits(c, "ks", want.ks, got.ks, n * sizeof *want.ks);
        check_bits(c, "vs", want.vs, got.vs, n * sizeof *want.vs);
    }
}

/* Conversion to half: around every rounding limit of a spread of halves. */
static void check_f16_store(struct check *c)
{
    if (!check_case(c, "kv_store f16, rounding"))
        return;
    const struct kern_kv want = new_cache(c, KERN_KV_F16, 16, 16);
    const struct kern_kv got = new_cache(c, KERN_KV_F16, 16, 16);
    for (uint32_t h = 0; h < 0x7c00; h += 1 + h % 3) {
        float x[16];
        const double lo = ref_f16_value((uint16_t)h);
        const double hi = h == 0x7bff ? 65536.0 : ref_f16_value((uint16_t)(h + 1));
        const float middle = (float)((lo + hi) / 2); /* exact: 12 bits */
        for (size_t i = 0; i < 16; i += 4) {
            x[i] = middle;
            x[i + 1] = nextafterf(middle, 0.0f);
            x[i + 2] = nextafterf(middle, INFINITY);
            x[i + 3] = -(float)lo;
        }
        kern_kv_store(&got, 3, x, x);
        ref_store(&want, 3, x, x);
        if (memcmp(want.v, got.v, 16 * 16 * 2) != 0)
            check_fail(c, "half %#x: %.9g and its neighbours are rounded wrongly", (unsigned)h,
                       (double)middle);
    }
    check_bits(c, "last", want.v, got.v, 16 * 16 * 2);
}

/* A call: spans of all tokens, and what came out. */
struct attn_call {
    struct kern_queries in;
    struct kern_parts out;
};

static struct attn_call new_call(struct check *c, size_t tokens, size_t heads, size_t dim,
                                 float scale, float cap)
{
    const size_t rows = tokens * heads, gap = 5; /* strides need not be tight */
    struct attn_call a;
    a.in = (struct kern_queries){.q = check_floats(c, tokens * (heads * dim + gap)),
                                 .q_stride = heads * dim + gap,
                                 .tokens = tokens,
                                 .heads = heads,
                                 .spans = check_buf(c, tokens * sizeof(struct kern_span), 4),
                                 .scale = scale,
                                 .cap = cap};
    a.out = (struct kern_parts){.o = check_floats(c, rows * dim),
                                .m = check_floats(c, rows),
                                .l = check_floats(c, rows),
                                .o_stride = heads * dim,
                                .ml_stride = heads};
    return a;
}

static void attend(struct check *c, const struct attn_call *a, const struct kern_kv *kv)
{
    void *scratch = check_buf(c, kern_attend_bytes(kv->type, kv->head_dim), 64);
    kern_attend(&a->out, &a->in, kv, scratch);
}

/* One query alone over its span. */
static struct attn_call attend_one(struct check *c, const float *q, const struct kern_kv *kv,
                                   struct kern_span span, float scale, float cap)
{
    const struct attn_call one = new_call(c, 1, 1, kv->head_dim, scale, cap);
    memcpy((float *)one.in.q, q, kv->head_dim * sizeof *q);
    *(struct kern_span *)one.in.spans = span;
    attend(c, &one, kv);
    return one;
}

/* Conversion from half: the score of a unit query is the stored value, for all halves but NaN. */
static void check_f16_load(struct check *c)
{
    if (!check_case(c, "attend f16, all halves"))
        return;
    struct kern_kv kv = new_cache(c, KERN_KV_F16, 2, 16);
    const struct attn_call a = new_call(c, 1, 1, 2, 1.0f, 0.0f);
    void *scratch = check_buf(c, kern_attend_bytes(KERN_KV_F16, 2), 64);
    ((float *)a.in.q)[0] = 1.0f;
    ((float *)a.in.q)[1] = 0.0f;
    for (uint32_t h = 0; h < 0x10000; h++) {
        if ((h & 0x7fff) > 0x7c00)
            continue;
        ((uint16_t *)kv.k)[h % 16] = (uint16_t)h;
        *(struct kern_span *)a.in.spans = (struct kern_span){h % 16, h % 16 + 1};
        kern_attend(&a.out, &a.in, &kv, scratch);
        if ((double)*a.out.m != ref_f16_value((uint16_t)h))
            check_fail(c, "half %#x: want %.9g, got %.9g", (unsigned)h, ref_f16_value((uint16_t)h),
                       (double)*a.out.m);
    }
}

/* What lies in the cache outside of [pos0, pos1) becomes NaN, as far as a kernel may load it. */
static void poison_outside(const struct kern_kv *kv, size_t pos0, size_t pos1)
{
    for (size_t pos = pos0 / 16 * 16; pos < round16(pos1); pos++) {
        if (pos >= pos0 && pos < pos1)
            continue;
        for (size_t d = 0; d < kv->head_dim; d++)
            memset((char *)kv->k + ref_kv_key(kv, pos, d) * ref_kv_bytes(kv->type), 0x7f,
                   ref_kv_bytes(kv->type));
        if (kv->type == KERN_KV_Q8)
            kv->ks[pos] = kv->vs[pos] = NAN;
    }
}

/* Each row against the reference; and bitwise against the same row alone, with NaN outside of
 * what all rows see. */
static void check_rows(struct check *c, const struct attn_call *a, const struct kern_kv *kv,
                       size_t pos0, size_t pos1)
{
    const size_t dim = kv->head_dim, heads = a->in.heads;
    double *o = check_doubles(c, dim), *o_mag = check_doubles(c, dim);
    attend(c, a, kv);
    poison_outside(kv, pos0, pos1);
    for (size_t row = 0; row < a->in.tokens * heads; row++) {
        const struct kern_span s = a->in.spans[row / heads];
        const float *q = a->in.q + row / heads * a->in.q_stride + row % heads * dim;
        struct ref_head head;
        ref_attend(o, o_mag, &head, q, kv, s.pos0, s.pos1, a->in.scale, a->in.cap);
        check_f32(c, &head.m, &head.m_mag, a->out.m + row, 1, 1.0);
        check_f32(c, &head.l, &head.l_mag, a->out.l + row, 1, 1.0);
        check_f32(c, o, o_mag, a->out.o + row * dim, dim, 1.0);

        const struct attn_call one = attend_one(c, q, kv, s, a->in.scale, a->in.cap);
        check_bits(c, "o of one row", a->out.o + row * dim, one.out.o, dim * sizeof *one.out.o);
        check_bits(c, "m of one row", a->out.m + row, one.out.m, sizeof *one.out.m);
        check_bits(c, "l of one row", a->out.l + row, one.out.l, sizeof *one.out.l);
    }
}

static void fill_cache(struct check *c, const struct kern_kv *kv, size_t positions)
{
    const size_t dim = kv->head_dim;
    float *k = check_floats(c, dim), *v = check_floats(c, dim);
    for (size_t pos = 0; pos < positions; pos++) {
        check_fill_small(c, k, dim, 2.0f);
        check_fill_small(c, v, dim, 3.0f);
        kern_kv_store(kv, pos, k, v);
    }
}

struct shape {
    enum kern_kvtype type;
    size_t tokens, heads, dim, pos0, pos1, window;
    float cap;
};

/* The last token sees [pos0, pos1), the one before one position less, ...; with a window each sees
 * that many at most. */
static void check_shape(struct check *c, const struct shape *s)
{
    char name[96];
    snprintf(name, sizeof name, "attend %s %zux%zu head_dim=%zu pos=%zu..%zu%s cap=%g",
             kv_names[s->type], s->tokens, s->heads, s->dim, s->pos0, s->pos1,
             s->window ? " window" : "", (double)s->cap);
    if (!check_case(c, "%s", name))
        return;
    const struct kern_kv kv = new_cache(c, s->type, s->dim, s->pos1);
    const struct attn_call a = new_call(c, s->tokens, s->heads, s->dim, 0.125f, s->cap);
    const float spread = check_below(c, 2) ? 1.0f : 6.0f; /* flat or sharp softmax */
    check_fill_small(c, (float *)a.in.q, s->tokens * a.in.q_stride, spread);
    fill_cache(c, &kv, s->pos1);
    size_t first = s->pos1;
    for (size_t t = 0; t < s->tokens; t++) {
        const size_t to = s->pos1 - (s->tokens - 1 - t);
        const size_t from = s->window && to - s->pos0 > s->window ? to - s->window : s->pos0;
        ((struct kern_span *)a.in.spans)[t] = (struct kern_span){(uint32_t)from, (uint32_t)to};
        first = from < first ? from : first;
    }
    check_rows(c, &a, &kv, first, s->pos1);
}

/* ---- int8: the integers are exact ------------------------------------------------------------ */

/* Elements of one sign in both, or alternating: the largest sums. */
static void fill_extreme(float *x, size_t n, float top, bool alternate)
{
    for (size_t i = 0; i < n; i++)
        x[i] = alternate && i % 2 ? -top : top;
}

/* The maximum of a single position is its score. */
static void check_q8_scores(struct check *c, size_t dim)
{
    if (!check_case(c, "attend q8 head_dim=%zu, bits of scores", dim))
        return;
    const size_t positions = 48;
    const struct kern_kv kv = new_cache(c, KERN_KV_Q8, dim, positions);
    float *q = check_floats(c, dim), *k = check_floats(c, dim);
    fill_cache(c, &kv, positions);
    for (size_t pos = 0; pos < 4; pos++) {
        fill_extreme(k, dim, 2.0f, pos >= 2);
        kern_kv_store(&kv, 13 + pos, k, k);
    }
    for (size_t kind = 0; kind < 6; kind++) {
        check_fill_f32(c, q, dim);
        if (kind < 3)
            fill_extreme(q, dim, kind == 2 ? -3.0f : 3.0f, kind == 1);
        if (kind == 3)
            fill_extreme(q, dim, 1e-31f, false); /* counts as zero */
        for (uint32_t pos = 0; pos < positions; pos++) {
            const float want = ref_score_bits(q, &kv, pos, 0.125f);
            const struct attn_call one =
                attend_one(c, q, &kv, (struct kern_span){pos, pos + 1}, 0.125f, 0.0f);
            check_bits(c, "score", &want, one.out.m, sizeof want);
        }
    }
    /* No answer to compare, but no conversion that C does not define (sanitizers) either. */
    fill_extreme(q, dim, INFINITY, false);
    attend_one(c, q, &kv, (struct kern_span){0, 1}, 0.125f, 0.0f);
}

/* A query of zeros gives every position the weight 1 * vs. */
static void check_q8_values(struct check *c, size_t dim, uint32_t pos0, uint32_t pos1, float top)
{
    if (!check_case(c, "attend q8 head_dim=%zu pos=%u..%u top=%g, bits of values", dim,
                    (unsigned)pos0, (unsigned)pos1, (double)top))
        return;
    const struct kern_kv kv = new_cache(c, KERN_KV_Q8, dim, pos1);
    float *q = check_floats(c, dim), *v = check_floats(c, dim), *want = check_floats(c, dim);
    memset(q, 0, dim * sizeof *q);
    for (uint32_t pos = 0; pos < pos1; pos++) {
        check_fill_small(c, v, dim, top);
        if (pos % 3 || top > 2.0f)
            fill_extreme(v, dim, pos % 5 && top < 2.0f ? top : 3.0f, false);
        kern_kv_store(&kv, pos, v, v);
    }
    int32_t steps[KERN_SEGMENT];
    const float unit = ref_steps(steps, kv.vs + pos0, pos1 - pos0);
    for (size_t d = 0; d < dim; d++) {
        int32_t sum = 0;
        for (uint32_t pos = pos0; pos < pos1; pos++)
            sum += steps[pos - pos0] * ((const int8_t *)kv.v)[ref_kv_value(&kv, pos, d)];
        want[d] = (float)sum * unit;
    }
    const struct attn_call one =
        attend_one(c, q, &kv, (struct kern_span){pos0, pos1}, 0.125f, 0.0f);
    check_bits(c, "o", want, one.out.o, dim * sizeof *want);
}

static void check_merge(struct check *c)
{
    static const size_t counts[] = {1, 2, 3, 9}, dims[] = {2, 16, 24, 64, 128};
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 5; j++) {
            const size_t n = counts[i], dim = dims[j], stride = dim + 3, ml = 2;
            if (!check_case(c, "attend_merge segments=%zu head_dim=%zu", n, dim))
                continue;
            float *o = check_floats(c, n * stride), *m = check_floats(c, n * ml);
            float *l = check_floats(c, n * ml), *got = check_floats(c, dim);
            double *want = check_doubles(c, dim), *mag = check_doubles(c, dim);
            check_fill_small(c, o, n * stride, 100.0f);
            check_fill_small(c, m, n * ml, 30.0f);
            for (size_t s = 0; s < n * ml; s++)
                l[s] = 1.0f + 255.0f * (1.0f + check_uniform(c));
            ref_attend_merge(want, mag, o, stride, m, l, ml, n, dim);
            kern_attend_merge(got, o, stride, m, l, ml, n, dim);
            /* exp 3 and its argument 1 in numerator and denominator, two chains, a division */
            check_f32(c, want, mag, got, dim, 2.0 * (4.0 + 2.0 * (double)n) + 1.0);
            kern_attend_merge(o, o, stride, m, l, ml, n, dim);
            check_bits(c, "into o", got, o, dim * sizeof *got);
        }
}

static void check_type(struct check *c, enum kern_kvtype type)
{
    static const size_t dims[] = {2, 16, 24, 64, 80, 128, 256, 512};
    static const size_t ranges[][2] = {{0, 1},   {0, 16},  {0, 17},    {3, 4},     {5, 40},
                                       {0, 100}, {15, 33}, {512, 540}, {530, 1024}};
    for (size_t i = 0; i < 8; i++)
        check_store(c, type, dims[i]);
    for (size_t heads = 1; heads <= 9; heads++) /* every tile */
        check_shape(c, &(struct shape){type, 1, heads, 64, 7, 150, 0, 0.0f});
    for (size_t tokens = 2; tokens <= 6; tokens++)
        for (size_t heads = 1; heads <= 3; heads++) {
            check_shape(c, &(struct shape){type, tokens, heads, 64, 0, 10 + 11 * tokens, 0, 0.0f});
            check_shape(c, &(struct shape){type, tokens, heads, 40, 0, 77, 9, 30.0f});
        }
    check_shape(c, &(struct shape){type, 40, 2, 32, 512, 600, 0, 0.0f});
    check_shape(c, &(struct shape){type, 20, 3, 48, 100, 300, 33, 0.0f});
    check_shape(c, &(struct shape){type, 1, 17, 32, 0, 33, 0, 0.0f});
    for (size_t i = 0; i < 8; i++)
        for (size_t j = 0; j < 9; j++)
            check_shape(c, &(struct shape){type, 1, 1 + (i + j) % 4, dims[i], ranges[j][0],
                                           ranges[j][1], 0, (i + j) % 3 ? 0.0f : 50.0f});
}

void check_attn(struct check *c)
{
    check_f16_store(c);
    check_f16_load(c);
    for (size_t t = 0; t < 3; t++)
        check_type(c, t);
    for (size_t dim = 2; dim <= KERN_Q8_MAX_DIM; dim *= 2) {
        check_q8_scores(c, dim);
        check_q8_values(c, dim, 0, KERN_SEGMENT, 3.0f);
        check_q8_values(c, dim, 3, 50, 1.0f);
        check_q8_values(c, dim, 21, 23, 1e-31f);
    }
    check_merge(c);
}
