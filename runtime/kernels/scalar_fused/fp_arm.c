/* scalar_fused/fp_arm.c - as scalar.  SPDX-License-Identifier: MIT */
#include "../scalar/fp_arm.c"
