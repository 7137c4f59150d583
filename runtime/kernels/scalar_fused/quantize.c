/* scalar_fused/quantize.c - as scalar.  SPDX-License-Identifier: MIT */
#include "../scalar/quantize.c"
