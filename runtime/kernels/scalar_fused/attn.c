/* scalar_fused/attn.c - as scalar.  SPDX-License-Identifier: MIT */
#include "../scalar/attn.c"
