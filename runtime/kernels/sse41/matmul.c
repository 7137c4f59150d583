/* sse41/matmul.c - the walks of sse2 over this directory's dot.h.
 * SPDX-License-Identifier: MIT */
#include "../sse2/matmul.c"
