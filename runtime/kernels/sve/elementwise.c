/* sve/elementwise.c - as with Advanced SIMD alone.
 * SPDX-License-Identifier: MIT */
#include "../neon/elementwise.c"
