/* avxvnni/quantize.c - activations as int8, with where the sums start (tmpl/acts_vnni.h).
 * SPDX-License-Identifier: MIT */
#include <dot.h>

KR_INLINE void acts_block(const struct dot_acts *a, size_t at, vf low, vf high)
{
    /* Exact: at most 32 * 127.  Of a NaN, which C does not convert, it is 2^31. */
    const uint32_t sum = (uint32_t)_mm_cvtss_si32(_mm_set_ss(vf_sum(vf_add(low, high))));
    vf_store_i8(a->q + KERN_BLOCK * at, low);
    vf_store_i8(a->q + KERN_BLOCK * at + 16, high);
    a->start[KERN_Q8][at] = (int32_t)(0 - 128 * sum);
    a->start[KERN_Q4][at] = (int32_t)(0 - 8 * sum);
}

#include "acts_runs.tmpl.h"
