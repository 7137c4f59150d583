/* neon_i8mm/attn.c - as neon_dotprod.
 * SPDX-License-Identifier: MIT */
#include "../neon_dotprod/attn.c"
