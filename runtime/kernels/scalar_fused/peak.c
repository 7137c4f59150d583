/* scalar_fused/peak.c - as scalar.  SPDX-License-Identifier: MIT */
#include "../scalar/peak.c"
