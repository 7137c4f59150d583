/* neon_dotprod/elementwise.c - as neon.  SPDX-License-Identifier: MIT */
#include "../neon/elementwise.c"
