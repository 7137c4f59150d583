/* avx512vnni/quantize.c - as with AVX-VNNI.
 * SPDX-License-Identifier: MIT */
#include "../avxvnni/quantize.c"
