/* avxvnni/elementwise.c - as with AVX2.
 * SPDX-License-Identifier: MIT */
#include "../avx2/elementwise.c"
