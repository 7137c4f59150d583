/* tmpl/dot_scale.h - one step of the float chain of a column whose sums are in memory.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_DOT_SCALE_H
#define TMPL_DOT_SCALE_H

#include <vec.h>

#include "compiler.h"

/* sums[16] of a column gain the dots of a block, times its scales and that of the activations. */
KR_INLINE void dot_scale(float *sums, vf dot, vf scale, float d)
{
    vf_store(sums, vf_fma(vf_mul(scale, vf_set1(d)), dot, vf_load(sums)));
}

#endif
