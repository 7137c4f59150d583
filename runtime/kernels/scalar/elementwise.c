/* scalar/elementwise.c - embedding, RMSNorm, RoPE and GLU on 16 lanes.
 * SPDX-License-Identifier: MIT */
#include "embed.tmpl.h"
#include "glu.tmpl.h"
#include "norm.tmpl.h"
#include "rope.tmpl.h"
