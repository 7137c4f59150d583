/* sve/peak.c - what the multipliers can do: sdot by index, as in the loops of dot.h, alone.
 * SPDX-License-Identifier: MIT */
#include "kernels.h"

#include <arm_sve.h>

#include "compiler.h"

enum { CHAINS = 16 }; /* independent sums: 2 pipes of at most 9 stages, nearly */

/* Vectors cannot be in an array. */
#define EACH(f)                                                                                    \
    f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15)
#define START(i) svint32_t sum##i = svdup_n_s32(0);
#define STEP(i)                                                                                    \
    KR_OPAQUE(sum##i);                                                                             \
    sum##i = svdot_lane_s32(sum##i, w, x, (i) % 4);
#define END(i) KR_OPAQUE(sum##i);

uint64_t kern_peak(enum kern_wtype w_type, size_t rounds, const char **name)
{
    (void)w_type; /* both are int8 when they are multiplied */
    svint8_t w = svdup_n_s8(1), x = w;
    KR_OPAQUE(w);
    KR_OPAQUE(x);
    EACH(START)
    for (size_t n = 0; n < rounds; n++) {
        EACH(STEP)
    }
    EACH(END)
    *name = "sdot";
    return (uint64_t)rounds * CHAINS * svcntb();
}
