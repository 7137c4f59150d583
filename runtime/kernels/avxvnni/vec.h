/* avxvnni/vec.h - as with AVX2.
 * SPDX-License-Identifier: MIT */
#include "../avx2/vec.h"
