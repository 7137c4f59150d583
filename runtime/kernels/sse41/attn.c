/* sse41/attn.c - as sse2.
 * SPDX-License-Identifier: MIT */
#include "../sse2/attn.c"
