/* neon/elementwise.c - embedding, RMSNorm, RoPE, GLU and the floating-point state.
 * SPDX-License-Identifier: MIT */
#include "embed.tmpl.h"
#include "fp_arm.h"
#include "glu.tmpl.h"
#include "norm.tmpl.h"
#include "rope.tmpl.h"
