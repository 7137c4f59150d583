/* check_norm.c - kern_rmsnorm, kern_l2norm.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "check.h"
#include "ref/ref.h"

/* One wrong tree in eight gives other bits: ask often. */
static void check_lanes(struct check *c)
{
    if (!check_case(c, "rmsnorm lanes"))
        return;
    const size_t n = 100;
    float *x = check_floats(c, n), *gain = check_floats(c, n), *got = check_floats(c, n);
    float *bits = check_floats(c, n);
    check_fill_small(c, gain, n, 3.0f);
    for (size_t i = 0; i < 100; i++) {
        check_fill_small(c, x, n, 2.0f);
        ref_rmsnorm_bits(bits, x, gain, n, 1e-6f, c->fused);
        kern_rmsnorm(got, x, gain, n, 1e-6f);
        check_bits(c, "the tree of 16 lanes", bits, got, n * sizeof *got);
    }
}

/* Heads of zeros and of any size; the sum is the one of RMSNorm. */
static void check_l2norm(struct check *c)
{
    static const size_t lengths[] = {1, 3, 8, 16, 24, 64, 100, 128, 256};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t round = 0; round < 4; round++) {
            const size_t n = lengths[i];
            if (!check_case(c, "l2norm n=%zu %zu", n, round))
                continue;
            const float scale = round % 2 ? 1.0f : 0.08838834764f;
            float *x = check_floats(c, n), *got = check_floats(c, n), *bits = check_floats(c, n);
            double *want = check_doubles(c, n), *mag = check_doubles(c, n);
            check_fill_f32(c, x, n);
            ref_l2norm(want, mag, x, n, 1e-6f, scale);
            kern_l2norm(got, x, n, 1e-6f, scale);
            /* as RMSNorm, without the mean */
            check_f32(c, want, mag, got, n, 0.5 * (2.0 * (double)n / 16.0 + 7.0) + 5.0);
            ref_l2norm_bits(bits, x, n, 1e-6f, scale, c->fused);
            check_bits(c, "the tree of 16 lanes", bits, got, n * sizeof *got);
            kern_l2norm(x, x, n, 1e-6f, scale);
            check_bits(c, "in place", got, x, n * sizeof *x);
        }
}

void check_norm(struct check *c)
{
    static const size_t lengths[] = {1,  2,  7,  8,   9,   15,  16,  17,  31,
                                     32, 33, 64, 100, 576, 640, 896, 4096};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t round = 0; round < 4; round++) {
            const size_t n = lengths[i];
            if (!check_case(c, "rmsnorm n=%zu %zu", n, round))
                continue;
            float *x = check_floats(c, n), *gain = check_floats(c, n), *got = check_floats(c, n);
            double *want = check_doubles(c, n), *mag = check_doubles(c, n);
            check_fill_f32(c, x, n);
            check_fill_small(c, gain, n, 3.0f);

            ref_rmsnorm(want, mag, x, gain, n, 1e-6f);
            kern_rmsnorm(got, x, gain, n, 1e-6f);
            /* half of: a chain of n/16 squares, 4 sums of lanes, mean and eps; then sqrt, 1/x, 2
             * products */
            check_f32(c, want, mag, got, n, 0.5 * (2.0 * (double)n / 16.0 + 8.0) + 5.0);
            kern_rmsnorm(x, x, gain, n, 1e-6f);
            check_bits(c, "in place", got, x, n * sizeof *x);
        }
    check_lanes(c);
    check_l2norm(c);
}
