/* neon_dotprod/quantize.c - activations as int8; signed weights need no sums beside them.
 * SPDX-License-Identifier: MIT */
#include <dot.h>

#include "quantize.h"

static void acts_block(const struct dot_acts *a, size_t at, const float *x)
{
    a->d[at] = quantize_block(a->q + KERN_BLOCK * at, x);
}

#include "acts.tmpl.h"
