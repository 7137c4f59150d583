/* check_fill.c - inputs of checkkern: random, but with the values that hurt.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "check.h"
#include "pack.h"
#include "ref/ref.h"

/* SplitMix64: integers only, so every machine draws the same inputs. */
uint64_t check_random(struct check *c)
{
    uint64_t z = c->rng += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

size_t check_below(struct check *c, size_t n)
{
    return (size_t)(check_random(c) >> 32) % n;
}

float check_uniform(struct check *c)
{
    return (float)(int32_t)(check_random(c) >> 40) * 0x1p-23f - 1.0f; /* 24 bits: exact */
}

/* Bell-shaped enough: -3..3.  (One call per statement: a compiler may order the operands of +.) */
static float bell(struct check *c)
{
    float sum = check_uniform(c);
    sum += check_uniform(c);
    sum += check_uniform(c);
    return sum;
}

void check_fill_f32(struct check *c, float *p, size_t n)
{
    static const char *const kinds[] = {"normal",  "normal", "zero", "alternating",
                                        "one hot", "tiny",   "huge", "mixed"};
    const size_t kind = check_below(c, 8), hot = n ? check_below(c, n) : 0;
    c->fill = kinds[kind];
    for (size_t i = 0; i < n; i++) {
        const float x = bell(c);
        const float values[] = {x,
                                x,
                                0.0f,
                                i % 2 ? -1.0f : 1.0f,
                                i == hot ? 100.0f : 0.0f,
                                x * 0x1p-60f,
                                x * 0x1p38f,
                                i % 37 ? x : x * 1000.0f};
        p[i] = values[kind];
    }
}

void check_fill_small(struct check *c, float *p, size_t n, float top)
{
    for (size_t i = 0; i < n; i++)
        p[i] = check_uniform(c) * top;
}

static float scale_value(struct check *c, size_t kind)
{
    switch (kind) {
    case 0:
        return bell(c) * 0x1p-7f;
    case 1:
        return bell(c) * 0x1p-15f; /* subnormal as a half */
    case 2:
        return check_below(c, 4) ? bell(c) : 0.0f;
    default:
        return check_uniform(c) * 60000.0f;
    }
}

/* One weight byte of a kind: random, or at the ends of its range. */
static uint8_t weight_byte(struct check *c, enum kern_wtype w, size_t kind, size_t i)
{
    static const uint8_t ends8[] = {127, 0x81, 0}, ends4[] = {0x00, 0xff, 0x0f, 0xf0, 0x88};
    const uint8_t any = (uint8_t)check_random(c);
    if (w == KERN_Q4)
        return kind == 0 ? any : kind == 1 ? ends4[check_below(c, 5)] : kind == 2 ? 0x00 : 0xff;
    if (kind == 0)
        return any == 0x80 ? 0x81 : any; /* -128 does not occur */
    return kind == 1 ? ends8[check_below(c, 3)] : kind == 2 ? 127 : i % 2 ? 127 : 0x81;
}

struct kern_matrix check_matrix(struct check *c, enum kern_wtype w, enum kern_stype s, size_t rows,
                                size_t k)
{
    const size_t s_bytes = s == KERN_F32 ? 4 : 2, d_bytes = w == KERN_Q8 ? 32 : 16;
    const size_t blocks = rows * (k / KERN_BLOCK);
    uint8_t *data = check_buf(c, blocks * (s_bytes + d_bytes), 1), *p = data;
    const size_t scales = check_below(c, 4);
    for (size_t b = 0; b < blocks; b++, p += s_bytes + d_bytes) {
        const size_t kind = check_below(c, 8) < 5 ? 0 : 1 + check_below(c, 3);
        const float d = scale_value(c, scales);
        const uint16_t half = ref_f16_nearest(d);
        memcpy(p, s == KERN_F32 ? (const void *)&d : &half, s_bytes);
        for (size_t i = 0; i < d_bytes; i++)
            p[s_bytes + i] = weight_byte(c, w, kind, i);
    }
    return (struct kern_matrix){data, (uint32_t)rows, (uint32_t)k, w, s, false};
}

struct kern_matrix check_packed(struct check *c, const struct kern_matrix *file)
{
    const struct pack_layout *l = &kern_layout[file->wtype];
    struct kern_matrix m = *file;
    void *data = check_buf(c, kr_pack_bytes(l, file->wtype, file->stype, file->rows, file->k), 64);
    if (!kr_pack(data, l, file->data, file->wtype, file->stype, file->rows, file->k, 0, file->rows))
        check_fail(c, "kr_pack refuses a valid matrix");
    m.data = data;
    m.packed = true;
    return m;
}

struct kern_matrix check_wider(struct check *c, const struct kern_matrix *file)
{
    const size_t d_bytes = file->wtype == KERN_Q8 ? 32 : 16;
    const size_t blocks = (size_t)file->rows * (file->k / KERN_BLOCK);
    uint8_t *out = check_buf(c, blocks * (4 + d_bytes), 1);
    const uint8_t *in = file->data;
    struct kern_matrix m = *file;
    m.data = out;
    m.stype = KERN_F32;
    for (size_t b = 0; b < blocks; b++, in += 2 + d_bytes, out += 4 + d_bytes) {
        const float d = (float)ref_f16_value((uint16_t)(in[0] | in[1] << 8));
        memcpy(out, &d, sizeof d);
        memcpy(out + 4, in + 2, d_bytes);
    }
    return m;
}
