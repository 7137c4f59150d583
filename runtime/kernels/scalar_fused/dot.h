/* scalar_fused/dot.h - as scalar.  SPDX-License-Identifier: MIT */
#include "../scalar/dot.h"
