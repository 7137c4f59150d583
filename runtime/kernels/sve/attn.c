/* sve/attn.c - as with Advanced SIMD alone.
 * SPDX-License-Identifier: MIT */
#include "../neon/attn.c"
