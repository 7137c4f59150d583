/* tmpl/rope.tmpl.h - kern_rope over the including ISA's vf, and kern_rope_angles
 * with its own sine and cosine.  Include once, from <isa>/elementwise.c.
 *
 * The angles are plain double arithmetic without fma, so that both classes and
 * every compiler give the same bits (-ffp-contract=off).
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include <vec.h>

#include "kernels.h"

/* sin and cos of x, |x| <= 2^24, error below 1e-15.
 *
 * x = n*pi/2 + r.  pi/2 comes in three parts of which the first two have 28
 * bits: times n < 2^24 they are exact.  The Taylor series of r, |r| <= pi/4,
 * end after r^17 and r^16; the next terms are below 1e-17. */
static inline void rope_sincos(double x, double *sine, double *cosine)
{
    const double part1 = 0x1.921fb54p+0, part2 = 0x1.10b4610p-30, part3 = 0x1.a62633145c06ep-58;
    const double shift = 0x1.8p52; /* adding it leaves the nearest integer in the low bits */
    const double shifted = x * 0x1.45f306dc9c883p-1 + shift;
    uint64_t quadrant;
    memcpy(&quadrant, &shifted, sizeof quadrant);
    const double n = shifted - shift;
    const double r = ((x - n * part1) - n * part2) - n * part3, z = r * r;

    static const double s[] = {1.0 / 355687428096000,
                               -1.0 / 1307674368000,
                               1.0 / 6227020800,
                               -1.0 / 39916800,
                               1.0 / 362880,
                               -1.0 / 5040,
                               1.0 / 120,
                               -1.0 / 6}; /* 1/17! down to 1/3! */
    static const double c[] = {
        1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320,
        -1.0 / 720,           1.0 / 24,           -1.0 / 2}; /* 1/16! down to 1/2! */
    double ps = s[0], pc = c[0];
    for (int i = 1; i < 8; i++) {
        ps = ps * z + s[i];
        pc = pc * z + c[i];
    }
    const double sr = r + r * z * ps, cr = 1.0 + z * pc;
    const uint64_t odd = quadrant & 1;
    const double sx = odd ? cr : sr, cx = odd ? sr : cr;
    *sine = quadrant & 2 ? -sx : sx;
    *cosine = (quadrant + 1) & 2 ? -cx : cx;
}

void kern_rope_angles(float *cs, float *sn, const float *freq, size_t n, uint32_t pos, float scale)
{
    for (size_t i = 0; i < n; i++) {
        double sine, cosine;
        const double angle = (double)pos * (double)freq[i]; /* exact: 24 bits times 24 */
        rope_sincos(angle, &sine, &cosine);
        sine *= (double)scale;
        cosine *= (double)scale;
        cs[2 * i] = cs[2 * i + 1] = (float)cosine;
        sn[2 * i] = (float)-sine;
        sn[2 * i + 1] = (float)sine;
    }
}

/* Pairs (a, b) become (a*cos - b*sin, b*cos + a*sin): the signs are in sn. */
static inline vf rope_turn(vf x, vf cs, vf sn)
{
    return vf_fma(x, cs, vf_mul(vf_swap_pairs(x), sn));
}

void kern_rope(float *x, size_t heads, size_t head_dim, size_t rotary, const float *cs,
               const float *sn)
{
    const size_t body = rotary - rotary % KERN_LANES, rest = rotary - body;
    for (size_t h = 0; h < heads; h++) {
        float *head = x + h * head_dim;
        for (size_t i = 0; i < body; i += KERN_LANES)
            vf_store(head + i, rope_turn(vf_load(head + i), vf_load(cs + i), vf_load(sn + i)));
        const vf tail = rope_turn(vf_load_n(head + body, rest), vf_load_n(cs + body, rest),
                                  vf_load_n(sn + body, rest));
        vf_store_n(head + body, tail, rest);
    }
}
