/* neon_i8mm/attn.c - as neon.  SPDX-License-Identifier: MIT */
#include "../neon/attn.c"
