/* check_elementwise.c - embedding, fma, sums, gates, soft cap, rotation, floating-point state.
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include "check.h"
#include "ref/ref.h"

static const size_t lengths[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 96, 576, 1001};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static void check_add(struct check *c)
{
    for (size_t i = 0; i < LENGTHS; i++) {
        const size_t n = lengths[i];
        if (!check_case(c, "add n=%zu", n))
            continue;
        float *x = check_floats(c, n), *y = check_floats(c, n), *want = check_floats(c, n);
        check_fill_f32(c, x, n);
        check_fill_f32(c, y, n);
        for (size_t j = 0; j < n; j++)
            want[j] = y[j] + x[j];
        kern_add(y, x, n);
        check_bits(c, "sum", want, y, n * sizeof *y);
    }
}

/* Gates from closed (-120) to open, and near 0. */
static void check_glu(struct check *c, const char *name,
                      void (*kern)(float *, const float *, const float *, size_t),
                      void (*ref)(double *, double *, const float *, const float *, size_t),
                      double units)
{
    static const float tops[] = {1e-3f, 1.0f, 12.0f, 120.0f};
    for (size_t i = 0; i < LENGTHS; i++)
        for (size_t t = 0; t < 4; t++) {
            const size_t n = lengths[i];
            if (!check_case(c, "%s n=%zu top=%g", name, n, (double)tops[t]))
                continue;
            float *gate = check_floats(c, n), *up = check_floats(c, n), *got = check_floats(c, n);
            double *want = check_doubles(c, n), *mag = check_doubles(c, n);
            check_fill_small(c, gate, n, tops[t]);
            check_fill_f32(c, up, n);
            ref(want, mag, gate, up, n);
            kern(got, gate, up, n);
            check_f32(c, want, mag, got, n, units);
            kern(gate, gate, up, n);
            check_bits(c, "in place", got, gate, n * sizeof *gate);
        }
}

static void check_sigmoid_mul(struct check *c)
{
    for (size_t i = 0; i < LENGTHS; i++) {
        const size_t n = lengths[i];
        if (!check_case(c, "sigmoid_mul n=%zu", n))
            continue;
        float *x = check_floats(c, n), *gate = check_floats(c, n), *got = check_floats(c, n);
        double *want = check_doubles(c, n), *mag = check_doubles(c, n);
        check_fill_small(c, gate, n, i % 2 ? 120.0f : 10.0f);
        check_fill_f32(c, x, n);
        ref_sigmoid_mul(want, mag, x, gate, n);
        kern_sigmoid_mul(got, x, gate, n);
        check_f32(c, want, mag, got, n, 8.0); /* as silu_mul */
        kern_sigmoid_mul(x, x, gate, n);
        check_bits(c, "in place", got, x, n * sizeof *x);
    }
}

/* From far inside of the cap to far beyond it. */
static void check_softcap(struct check *c)
{
    static const float tops[] = {1e-3f, 1.0f, 30.0f, 1e3f, 1e30f};
    for (size_t i = 0; i < LENGTHS; i++)
        for (size_t t = 0; t < sizeof tops / sizeof *tops; t++) {
            const size_t n = lengths[i];
            const float cap = t % 2 ? 30.0f : 50.0f;
            if (!check_case(c, "softcap n=%zu top=%g", n, (double)tops[t]))
                continue;
            float *x = check_floats(c, n);
            double *want = check_doubles(c, n), *mag = check_doubles(c, n);
            check_fill_small(c, x, n, tops[t]);
            ref_softcap(want, x, n, cap);
            for (size_t j = 0; j < n; j++)
                mag[j] = cap; /* 1 - 2 / (1 + e) cancels for small x */
            kern_softcap(x, n, cap);
            check_f32(c, want, mag, x, n,
                      5.0); /* e^z 3 and 1.5 of z, halved; two sums, a quotient */
            x[n - 1] = i % 2 ? NAN : INFINITY;
            kern_softcap(x, n, cap);
            if (!isnan(x[n - 1]))
                check_fail(c, "what is no number became %g", (double)x[n - 1]);
        }
}

/* Angles near multiples of pi/2, where the reduction shows, up to 2^24. */
static void check_rope_angles(struct check *c)
{
    static const uint32_t positions[] = {0,      1,      2,       3,       11,       22,
                                         355,    710,    1000,    4095,    103993,   104348,
                                         208341, 312689, 5419351, 8388608, 16777215, 16777216};
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        const uint32_t pos = positions[i];
        const size_t n = 33;
        const float scale = i % 2 ? 1.0f : 1.3465735f;
        if (!check_case(c, "rope_angles pos=%u", pos))
            continue;
        float *freq = check_floats(c, n), *cs = check_floats(c, 2 * n),
              *sn = check_floats(c, 2 * n);
        double *want = check_doubles(c, 4 * n), *mag = check_doubles(c, 2 * n);
        freq[0] = 1.0f;
        freq[1] = 0.5f;
        for (size_t j = 2; j < n; j++)
            freq[j] = freq[j - 1] * 0.75f;
        ref_rope_angles(want, want + 2 * n, freq, n, pos, scale);
        kern_rope_angles(cs, sn, freq, n, pos, scale);
        for (size_t k = 0; k < 2; k++) {
            for (size_t j = 0; j < 2 * n; j++)
                mag[j] = fabs(want[k * 2 * n + j]) + 1e-7; /* rounding, 6e-15 of the angle */
            check_f32(c, want + k * 2 * n, mag, k ? sn : cs, 2 * n, 1.0);
        }
    }
}

static void check_rope(struct check *c)
{
    static const size_t shapes[][3] = {/* heads, head_dim, rotary */
                                       {1, 2, 2},    {3, 16, 16},  {2, 24, 24},   {9, 64, 64},
                                       {2, 80, 80},  {2, 128, 32}, {4, 256, 256}, {2, 64, 22},
                                       {1, 100, 50}, {2, 40, 8}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t heads = shapes[i][0], dim = shapes[i][1], rotary = shapes[i][2];
        const size_t n = heads * dim;
        if (!check_case(c, "rope heads=%zu head_dim=%zu rotary=%zu", heads, dim, rotary))
            continue;
        float *x = check_floats(c, n), *cs = check_floats(c, rotary), *sn = check_floats(c, rotary);
        double *want = check_doubles(c, n), *mag = check_doubles(c, n);
        check_fill_f32(c, x, n);
        check_fill_small(c, cs, rotary, 1.0f);
        check_fill_small(c, sn, rotary, 1.0f);
        ref_rope(want, mag, x, heads, dim, rotary, cs, sn);
        kern_rope(x, heads, dim, rotary, cs, sn);
        check_f32(c, want, mag, x, n, 2.0); /* two products and a sum: at most 2 of 2^-24 each */
    }
}

/* a*b + c as the class rounds it, seen through a rotation by (b, 1). */
static void check_fma_once(struct check *c, float a, float b, float add)
{
    float x[2] = {a, add};
    const float cs[2] = {b, 1.0f}, sn[2] = {1.0f, 0.0f}, product = a * b;
    const float want = c->fused ? fmaf(a, b, add) : add + product;
    kern_rope(x, 1, 2, 2, cs, sn);
    check_bits(c, "a*b + c", &want, x, sizeof want);
}

static void check_fma(struct check *c)
{
    if (!check_case(c, "fma"))
        return;
    /* a*b is 2^-24 less a little: with these c the sum is a hair beside the middle of two floats,
     * where rounding first to double and then to float goes wrong. */
    const float a = 0x1p-12f * (1.0f + 0x1p-20f), b = 0x1p-12f * (1.0f - 0x1p-20f);
    const float odd = 1.0f + 0x1p-23f, below = 1.0f - 0x1p-24f;
    for (size_t sign = 0; sign < 4; sign++) {
        const float s = sign & 1 ? -1.0f : 1.0f, t = sign & 2 ? -1.0f : 1.0f;
        check_fma_once(c, s * a, b, t * odd);
        check_fma_once(c, s * a, 0.5f * b, t * below);
        check_fma_once(c, s * a, b, t);
    }
    for (size_t i = 0; i < 20000; i++) {
        const float x = check_uniform(c), y = check_uniform(c), z = check_uniform(c);
        check_fma_once(c, x, y, i % 3 ? z : z * 0x1p-24f);
    }
}

static void check_embed(struct check *c)
{
    for (size_t w = 0; w < 2; w++)
        for (size_t s = 0; s < 2; s++) {
            const size_t rows = 37, k = 160;
            if (!check_case(c, "embed %s %s", w == KERN_Q8 ? "q8" : "q4", s ? "f32" : "f16"))
                continue;
            const struct kern_matrix file = check_matrix(c, w, s, rows, k);
            const struct kern_matrix packed = check_packed(c, &file);
            for (size_t r = 0; r < rows; r++) {
                float *want = check_floats(c, k), *got = check_floats(c, k);
                ref_embed(want, &file, r, 25.25f);
                kern_embed(got, &file, r, 25.25f);
                check_bits(c, "file layout", want, got, k * sizeof *got);
                kern_embed(got, &packed, r, 25.25f);
                check_bits(c, "packed", want, got, k * sizeof *got);
            }
        }
}

/* Called outside of any begin: denormals vanish after it and are back after the end. */
void check_fp_state(struct check *c)
{
    if (!check_case(c, "fp_begin, fp_end"))
        return;
    volatile float tiny = 0x1p-140f, sum[3];
    const float zero = 0.0f;
    float flushed = tiny;
    sum[0] = tiny + tiny;
    const uint32_t saved = kern_fp_begin();
    sum[1] = tiny + tiny;
    kern_add(&flushed, &zero, 1);
    kern_fp_end(saved);
    sum[2] = tiny + tiny;
    const float seen[4] = {sum[0], sum[1], flushed, sum[2]},
                want[4] = {0x1p-139f, 0.0f, 0.0f, 0x1p-139f};
    check_bits(c, "denormals before, in, in a kernel, after", want, seen, sizeof seen);
}

void check_elementwise(struct check *c)
{
    check_fma(c);
    check_add(c);
    /* e^-z 3, 1 + e 1, the division 1, times up 1 */
    check_glu(c, "silu_mul", kern_silu_mul, ref_silu_mul, 8.0);
    /* the same with 5 in 2t */
    check_glu(c, "gelu_mul", kern_gelu_mul, ref_gelu_mul, 10.0);
    check_sigmoid_mul(c);
    check_softcap(c);
    check_rope_angles(c);
    check_rope(c);
    check_embed(c);
}
