/* sve/quantize.c - as neon_dotprod.  SPDX-License-Identifier: MIT */
#include "../neon_dotprod/quantize.c"
