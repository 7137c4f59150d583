/* neon_i8mm/vec.h - as neon.  SPDX-License-Identifier: MIT */
#include "../neon/vec.h"
