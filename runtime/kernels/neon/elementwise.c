/* neon/elementwise.c - embedding, norms, RoPE, gates, the delta rule and the
 * floating-point state.
 * SPDX-License-Identifier: MIT */
#include "delta.tmpl.h"
#include "embed.tmpl.h"
#include "fp_arm.h"
#include "glu.tmpl.h"
#include "norm.tmpl.h"
#include "rope.tmpl.h"
