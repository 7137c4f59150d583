/* scalar_fused/matmul.c - as scalar.  SPDX-License-Identifier: MIT */
#include "../scalar/matmul.c"
