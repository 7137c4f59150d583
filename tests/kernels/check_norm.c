/* check_norm.c - kern_rmsnorm.
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
}
