/* scalar_fused/vec.h - as scalar.  SPDX-License-Identifier: MIT */
#include "../scalar/vec.h"
