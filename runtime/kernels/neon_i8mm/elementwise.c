/* neon_i8mm/elementwise.c - as neon.  SPDX-License-Identifier: MIT */
#include "../neon/elementwise.c"
