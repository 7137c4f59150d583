/* neon_dotprod/attn.c - as neon.  SPDX-License-Identifier: MIT */
#include "../neon/attn.c"
