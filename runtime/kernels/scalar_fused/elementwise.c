/* scalar_fused/elementwise.c - as scalar.  SPDX-License-Identifier: MIT */
#include "../scalar/elementwise.c"
