/* scalar/elementwise.c - embedding, norms, RoPE, gates and the delta rule on 16 lanes.
 * SPDX-License-Identifier: MIT */
#include "delta.tmpl.h"
#include "embed.tmpl.h"
#include "glu.tmpl.h"
#include "norm.tmpl.h"
#include "rope.tmpl.h"
