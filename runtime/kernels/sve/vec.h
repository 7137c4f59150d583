/* sve/vec.h - the 16 floats are those of Advanced SIMD.
 * SPDX-License-Identifier: MIT */
#include "../neon/vec.h"
