/* scalar_fused/fp_x86.c - as scalar.  SPDX-License-Identifier: MIT */
#include "../scalar/fp_x86.c"
