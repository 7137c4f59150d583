/* avxvnni/attn.c - as with AVX2.
 * SPDX-License-Identifier: MIT */
#include "../avx2/attn.c"
