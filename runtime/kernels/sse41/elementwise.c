/* sse41/elementwise.c - as sse2.
 * SPDX-License-Identifier: MIT */
#include "../sse2/elementwise.c"
