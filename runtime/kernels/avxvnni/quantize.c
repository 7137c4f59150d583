/* avxvnni/quantize.c - activations as int8, with where the sums start (tmpl/acts_vnni.h).
 * SPDX-License-Identifier: MIT */
#include <dot.h>

KR_INLINE void acts_block(const struct dot_acts *a, size_t at, vf low, vf high)
{
    const int32_t sum = (int32_t)vf_sum(vf_add(low, high)); /* exact: at most 32 * 127 */
    vf_store_i8(a->q + KERN_BLOCK * at, low);
    vf_store_i8(a->q + KERN_BLOCK * at + 16, high);
    a->start[KERN_Q8][at] = -128 * sum;
    a->start[KERN_Q4][at] = -8 * sum;
}

#include "acts_runs.tmpl.h"
