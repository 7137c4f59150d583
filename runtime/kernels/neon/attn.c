/* neon/attn.c - attention over 16 positions or dimensions at a time, four q registers.
 * SPDX-License-Identifier: MIT */
#include "attn.tmpl.h"
