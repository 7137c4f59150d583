/* neon_dotprod/peak.c - how fast the inner loop of many columns could be: sdot and nothing else.
 * SPDX-License-Identifier: MIT */
#include "kernels.h"
#include <isa.h>
#include <vec.h>

enum { PEAK_CHAINS = 16 }; /* four a cycle, four cycles each, on the widest cores */

typedef int8x16_t peak_ints;

KR_INLINE peak_ints peak_ones(void)
{
    return vdupq_n_s8(1);
}

KR_INLINE peak_ints peak_step(enum kern_wtype w, peak_ints sum, peak_ints weights, peak_ints acts)
{
    (void)w; /* nibbles are unpacked before the loop */
    return vreinterpretq_s8_s32(vdotq_laneq_s32(vreinterpretq_s32_s8(sum), weights, acts, 0));
}

static const char *peak_name(enum kern_wtype w)
{
    (void)w;
    return "sdot";
}

#include "peak.tmpl.h"
