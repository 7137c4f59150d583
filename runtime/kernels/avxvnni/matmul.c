/* avxvnni/matmul.c - as with AVX2.
 * SPDX-License-Identifier: MIT */
#include "../avx2/matmul.c"
