/* check_attn.c - the KV cache and attention over it.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "ref/ref.h"

static const char *const kv_names[] = {"f32", "f16", "q8"};
static const size_t kv_bytes[] = {4, 2, 1};

static size_t round16(size_t n)
{
    return (n + 15) / 16 * 16;
}

/* An empty cache of `positions`. */
static struct kern_kv new_cache(struct check *c, enum kern_kvtype type, size_t dim,
                                size_t positions)
{
    const size_t n = round16(positions);
    struct kern_kv kv = {.head_dim = (uint32_t)dim, .type = type};
    kv.k = check_buf(c, n * dim * kv_bytes[type], 64);
    kv.v = check_buf(c, positions * round16(dim) * kv_bytes[type], 64);
    memset(kv.k, 0, n * dim * kv_bytes[type]);
    memset(kv.v, 0, positions * round16(dim) * kv_bytes[type]);
    if (type == KERN_KV_Q8) {
        kv.ks = check_floats(c, n);
        kv.vs = check_floats(c, n);
        memset(kv.ks, 0, n * sizeof *kv.ks);
        memset(kv.vs, 0, n * sizeof *kv.vs);
    }
    return kv;
}

/* What the cache should hold for x, one element. */
static void encode(void *p, enum kern_kvtype type, size_t i, float x, float factor)
{
    const uint16_t half = ref_f16_nearest(x);
    const int8_t q = (int8_t)nearbyintf(x * factor);
    const void *const values[] = {&x, &half, &q};
    memcpy((char *)p + i * kv_bytes[type], values[type], kv_bytes[type]);
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
        encode(kv->k, kv->type, (pos / 16 * dim + d) * 16 + pos % 16, k[d],
               ka < 1e-30f ? 0.0f : 127.0f / ka);
        encode(kv->v, kv->type, pos * round16(dim) + d, v[d], va < 1e-30f ? 0.0f : 127.0f / va);
    }
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
    check_bits(c, "k", want.k, got.k, n * dim * kv_bytes[type]);
    check_bits(c, "v", want.v, got.v, positions * round16(dim) * kv_bytes[type]);
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

/* Conversion from half: the score of a unit query is the stored value, for all finite halves. */
static void check_f16_load(struct check *c)
{
    if (!check_case(c, "attend f16, all halves"))
        return;
    struct kern_kv kv = new_cache(c, KERN_KV_F16, 2, 16);
    const float q[2] = {1.0f, 0.0f};
    float *scratch = check_floats(c, KERN_SEGMENT), o[2], l, m = 0.0f;
    for (uint32_t h = 0; h < 0x10000; h++) {
        if ((h & 0x7c00) == 0x7c00)
            continue;
        ((uint16_t *)kv.k)[h % 16] = (uint16_t)h;
        const size_t pos = h % 16;
        kern_attend(o, &m, &l, q, 1, &kv, pos, pos + 1, 1.0f, 0.0f, scratch);
        if ((double)m != ref_f16_value((uint16_t)h))
            check_fail(c, "half %#x: want %.9g, got %.9g", (unsigned)h, ref_f16_value((uint16_t)h),
                       (double)m);
    }
}

struct attn_result {
    float *o, *m, *l;
};

static struct attn_result attend(struct check *c, const float *q, size_t heads,
                                 const struct kern_kv *kv, size_t pos0, size_t pos1, float scale,
                                 float cap)
{
    const struct attn_result r = {check_floats(c, heads * kv->head_dim), check_floats(c, heads),
                                  check_floats(c, heads)};
    float *scratch = check_floats(c, heads * KERN_SEGMENT);
    kern_attend(r.o, r.m, r.l, q, heads, kv, pos0, pos1, scale, cap, scratch);
    return r;
}

static void check_against_ref(struct check *c, const struct attn_result *r, const float *q,
                              size_t heads, const struct kern_kv *kv, size_t pos0, size_t pos1,
                              float scale, float cap)
{
    const size_t dim = kv->head_dim;
    double *o = check_doubles(c, dim), *o_mag = check_doubles(c, dim);
    for (size_t h = 0; h < heads; h++) {
        struct ref_head head;
        ref_attend(o, o_mag, &head, q + h * dim, kv, pos0, pos1, scale, cap);
        check_f32(c, &head.m, &head.m_mag, r->m + h, 1, 1.0);
        check_f32(c, &head.l, &head.l_mag, r->l + h, 1, 1.0);
        check_f32(c, o, o_mag, r->o + h * dim, dim, 1.0);
    }
}

/* Bitwise: one head alone gives what it gave among others; what lies in the cache outside
 * of [pos0, pos1), even a NaN, has no part in it. */
static void check_structure(struct check *c, const struct attn_result *all, const float *q,
                            size_t heads, const struct kern_kv *kv, size_t pos0, size_t pos1,
                            float scale, float cap)
{
    const size_t dim = kv->head_dim, end = round16(pos1);
    for (size_t pos = pos0 / 16 * 16; pos < end; pos++) {
        if (pos >= pos0 && pos < pos1)
            continue;
        for (size_t d = 0; d < dim; d++)
            memset((char *)kv->k + ((pos / 16 * dim + d) * 16 + pos % 16) * kv_bytes[kv->type],
                   0x7f, kv_bytes[kv->type]);
        if (kv->type == KERN_KV_Q8)
            kv->ks[pos] = kv->vs[pos] = NAN;
    }
    for (size_t h = 0; h < heads; h++) {
        const struct attn_result one = attend(c, q + h * dim, 1, kv, pos0, pos1, scale, cap);
        check_bits(c, "o of one head", all->o + h * dim, one.o, dim * sizeof *one.o);
        check_bits(c, "m of one head", all->m + h, one.m, sizeof *one.m);
        check_bits(c, "l of one head", all->l + h, one.l, sizeof *one.l);
    }
}

static void check_shape(struct check *c, enum kern_kvtype type, size_t heads, size_t dim,
                        size_t pos0, size_t pos1, float cap)
{
    char name[96];
    snprintf(name, sizeof name, "attend %s heads=%zu head_dim=%zu pos=%zu..%zu cap=%g",
             kv_names[type], heads, dim, pos0, pos1, (double)cap);
    if (!check_case(c, "%s", name))
        return;
    const struct kern_kv kv = new_cache(c, type, dim, pos1);
    const float scale = 0.125f;
    float *q = check_floats(c, heads * dim), *k = check_floats(c, dim), *v = check_floats(c, dim);
    const float spread = check_below(c, 2) ? 1.0f : 6.0f; /* flat or sharp softmax */
    check_fill_small(c, q, heads * dim, spread);
    for (size_t pos = 0; pos < pos1; pos++) {
        check_fill_small(c, k, dim, 2.0f);
        check_fill_small(c, v, dim, 3.0f);
        kern_kv_store(&kv, pos, k, v);
    }
    const struct attn_result r = attend(c, q, heads, &kv, pos0, pos1, scale, cap);
    check_against_ref(c, &r, q, heads, &kv, pos0, pos1, scale, cap);
    check_structure(c, &r, q, heads, &kv, pos0, pos1, scale, cap);
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

void check_attn(struct check *c)
{
    static const size_t dims[] = {2, 16, 24, 64, 80, 128, 256};
    static const size_t ranges[][2] = {{0, 1},   {0, 16},  {0, 17},    {3, 4},     {5, 40},
                                       {0, 100}, {15, 33}, {512, 540}, {530, 1024}};
    check_f16_store(c);
    check_f16_load(c);
    for (size_t t = 0; t < 3; t++) {
        for (size_t i = 0; i < 7; i++)
            check_store(c, t, dims[i]);
        for (size_t heads = 1; heads <= 9; heads++) /* every tile */
            check_shape(c, t, heads, 64, 7, 150, 0.0f);
        check_shape(c, t, 17, 32, 0, 33, 0.0f);
        for (size_t i = 0; i < 7; i++)
            for (size_t j = 0; j < 9; j++)
                check_shape(c, t, 1 + (i + j) % 4, dims[i], ranges[j][0], ranges[j][1],
                            (i + j) % 3 ? 0.0f : 50.0f);
    }
    check_merge(c);
}
