/* neon_dotprod/matmul.c - as neon.  SPDX-License-Identifier: MIT */
#include "../neon/matmul.c"
