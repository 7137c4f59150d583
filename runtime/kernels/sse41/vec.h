/* sse41/vec.h - the 16 floats of sse2: SSE4.1 adds nothing that would keep the bits and be faster.
 * SPDX-License-Identifier: MIT */
#include "../sse2/vec.h"
