/* avx512vnni/elementwise.c - embedding, norms, RoPE, gates, the delta rule and the
 * floating-point state.
 * SPDX-License-Identifier: MIT */
#include "delta.tmpl.h"
#include "embed.tmpl.h"
#include "fp_x86.h"
#include "glu.tmpl.h"
#include "norm.tmpl.h"
#include "rope.tmpl.h"
