/* scalar/fp_x86.c - the floating-point state of x86; the build takes it on x86 only.
 * SPDX-License-Identifier: MIT */
#include "fp_x86.h"
