/* neon_dotprod/vec.h - as neon.  SPDX-License-Identifier: MIT */
#include "../neon/vec.h"
